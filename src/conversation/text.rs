//! [`Text`]: a text of a request, read only if somebody needs it.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    mem,
    ops::Deref,
    sync::OnceLock,
};

use memchr::memchr;

use crate::wire::json::{Encoder, Json};

/// A text. One that was received as a JSON string keeps that form: it is decoded when it is first read, and written again as it
/// was received, escapes included.
///
/// Most of a long request is text that nobody reads on its way to the upstream. To decode it and to escape it again would take
/// several times as long as everything else that happens to it.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    /// The text itself.
    Own(String),
    /// The body of a JSON string without escapes, which is also the text.
    Plain(Box<str>),
    /// The body of a JSON string with escapes, and the text once it was read.
    Escaped(Box<str>, OnceLock<String>),
}

impl Text {
    /// The text of a JSON string; `None` for another kind of value.
    pub(crate) fn received(json: Json<'_>) -> Option<Self> {
        let body = json.string_body()?;
        let has_escapes = memchr(b'\\', body.as_bytes()).is_some();
        let body = body.into();
        Some(Self(if has_escapes { Form::Escaped(body, OnceLock::new()) } else { Form::Plain(body) }))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Own(text) => text,
            Form::Plain(text) => text,
            Form::Escaped(body, text) => text.get_or_init(|| Json::decoded(body).into_owned()),
        }
    }

    /// Changes the text.
    pub fn change(&mut self, change: impl FnOnce(&mut String)) {
        let mut text = String::from(mem::take(self));
        change(&mut text);
        *self = text.into();
    }

    /// Whether there is no character.
    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// The text in the form that is there without decoding: about as long as the text.
    pub(crate) fn held(&self) -> &str {
        match &self.0 {
            Form::Own(text) => text,
            Form::Plain(body) | Form::Escaped(body, _) => body,
        }
    }

    /// Writes it as a JSON string.
    pub(crate) fn put(&self, out: &mut Encoder) {
        match &self.0 {
            Form::Own(text) => out.string(text),
            Form::Plain(body) | Form::Escaped(body, _) => out.string_body(body),
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self(Form::Own(String::new()))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Form::Own(text))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        text.into_owned().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text.0 {
            Form::Own(text) => text,
            Form::Plain(text) => text.into(),
            Form::Escaped(body, text) => {
                text.into_inner().unwrap_or_else(|| Json::decoded(&body).into_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &Text) -> String {
        let mut out = Encoder::default();
        text.put(&mut out);
        out.finish_text()
    }

    #[test]
    fn a_received_text_is_read_decoded_and_written_as_it_was_received() {
        for (json, read) in [
            (r#""""#, ""),
            (r#""plain é""#, "plain é"),
            (r#""\u00e9\/\"\n\\""#, "é/\"\n\\"),
            (r#""\ud83d\ude00""#, "😀"),
        ] {
            let text = Text::received(Json::parse(json).unwrap()).unwrap();
            assert_eq!(text.is_empty(), read.is_empty());
            assert_eq!(written(&text), json);
            assert_eq!(text.as_str(), read);
            assert_eq!(written(&text), json, "also after it was read");
            assert_eq!(text, Text::from(read));
            assert_eq!(String::from(text), read);
        }
        assert!(Text::received(Json::parse("1").unwrap()).is_none());
    }

    #[test]
    fn a_changed_text_is_written_as_it_is_now() {
        let mut text = Text::received(Json::parse(r#""a\u0062""#).unwrap()).unwrap();
        text.change(|text| text.push('"'));
        assert_eq!((text.as_str(), written(&text).as_str()), ("ab\"", r#""ab\"""#));
    }
}

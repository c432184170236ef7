//! [`Text`]: text in a request, which is decoded only when it is read.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    mem,
    ops::Deref,
    sync::OnceLock,
};

use bytes::Bytes;

use crate::wire::json::{Encoder, Json};

/// Text in a request. If it was received as a JSON string, it is decoded when it is first read, and written as it was
/// received, including its escapes.
///
/// Most of a long request is text that nothing reads on its way to the upstream. Decoding and escaping it
/// would take several times as long as all other processing.
///
/// The received string is a slice of the request's body, so it keeps the complete body in memory.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    /// Text that was not received as a JSON string.
    Own(String),
    /// The UTF-8 body of a JSON string, and its decoded text once that has been read.
    Received(Bytes, OnceLock<String>),
}

impl Text {
    /// The text in a JSON string. `None` for any other value.
    pub fn received(json: Json<'_>) -> Option<Self> {
        Some(Self(Form::Received(json.kept_body()?, OnceLock::new())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Own(text) => text,
            Form::Received(body, text) => text.get_or_init(|| decoded(body)),
        }
    }

    /// Applies `change` to the text.
    pub fn change(&mut self, change: impl FnOnce(&mut String)) {
        let mut text = String::from(mem::take(self));
        change(&mut text);
        *self = text.into();
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Whether the text is empty or consists of white space. It is decoded only if it may begin with white space
    /// outside ASCII.
    pub fn is_blank(&self) -> bool {
        match self.without_space() {
            [] => true,
            [b'!'..=b'[' | b']'..=b'~', ..] => false,
            _ => self.as_str().trim().is_empty(),
        }
    }

    /// Whether the text starts with `plain`, ignoring leading white space and case. `plain` must not need
    /// escapes in JSON. Nothing is decoded, so the result is false if the received text contains escapes
    /// there.
    pub(crate) fn begins_with(&self, plain: &str) -> bool {
        let body = self.without_space();
        body.get(..plain.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(plain.as_bytes()))
    }

    /// The bytes before decoding, without ASCII's white space at the beginning.
    fn without_space(&self) -> &[u8] {
        let mut body: &[u8] = match &self.0 {
            Form::Own(text) => return text.as_bytes().trim_ascii_start(),
            Form::Received(body, _) => body,
        };
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] | [b'\\', b'n' | b'r' | b't', rest @ ..] = body {
            body = rest;
        }
        body
    }

    /// Size in bytes before decoding, which is about the size of the text.
    pub fn size(&self) -> usize {
        match &self.0 {
            Form::Own(text) => text.len(),
            Form::Received(body, _) => body.len(),
        }
    }

    /// Writes the text as a JSON string.
    pub fn put(&self, out: &mut Encoder) {
        match &self.0 {
            Form::Own(text) => out.string(text),
            Form::Received(body, _) => out.string_body(body),
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
            Form::Received(body, text) => text.into_inner().unwrap_or_else(|| decoded(&body)),
        }
    }
}

fn decoded(body: &[u8]) -> String {
    // The body was checked to be UTF-8 when it was received.
    str::from_utf8(body).map(|body| Json::decoded(body).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Index;

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
    fn a_text_is_a_part_of_the_body_that_it_was_read_from() {
        let body = Bytes::from_static(br#"["a\u0062"]"#);
        let of = |written: &str| {
            let mut index = Index::default();
            index.read(written).unwrap();
            Text::received(index.view_of(written, &body).elements().next().unwrap()).unwrap()
        };
        let is_part = |text: Text| match text.0 {
            Form::Received(part, _) => body.as_ptr_range().contains(&part.as_ptr()),
            Form::Own(_) => false,
        };
        let written = str::from_utf8(&body).unwrap();
        let (shared, copied) = (of(written), of(&String::from(written)));
        assert_eq!((&*shared, &*copied), ("ab", "ab"));
        assert!(is_part(shared));
        assert!(!is_part(copied), "what was read is another text");
    }

    #[test]
    fn white_space_is_found_in_both_forms() {
        for (text, is_blank) in [
            ("", true),
            (" \n\r\t", true),
            (" \u{b}\u{c} ", true),
            ("\n\u{a0}\u{3000}\u{2028} ", true),
            ("\u{a0}x", false),
            ("\n\u{e9}", false),
            ("\\n", false),
            ("  \"", false),
            ("\u{1}", false),
            (" n", false),
        ] {
            let json = serde_json::to_string(text).unwrap();
            let received = Text::received(Json::parse(&json).unwrap()).unwrap();
            assert_eq!((received.is_blank(), Text::from(text).is_blank()), (is_blank, is_blank), "{json}");
        }
        let escaped = Text::received(Json::parse(r#""\u0020\u00a0""#).unwrap()).unwrap();
        assert!(escaped.is_blank());
    }

    #[test]
    fn a_changed_text_is_written_as_it_is_now() {
        let mut text = Text::received(Json::parse(r#""a\u0062""#).unwrap()).unwrap();
        text.change(|text| text.push('"'));
        assert_eq!((text.as_str(), written(&text).as_str()), ("ab\"", r#""ab\"""#));
    }
}

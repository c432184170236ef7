//! [`Arguments`]: writes the arguments of a past call as the object that upstreams require.

use std::borrow::Cow;

use crate::wire::json::{Encoder, Json, Kind};

/// The arguments of a past call. They are always written as an object: servers reject a request with anything
/// else. Since clients repeat past calls, every later request of the conversation would be rejected as well.
#[derive(Debug, Clone, Copy)]
pub enum Arguments<'c> {
    /// An object.
    Object {
        /// The JSON text of the object.
        text: &'c str,
        /// The parsed object.
        object: Json<'c>,
    },
    /// Nothing, or `null`.
    Empty,
    /// Text that is not an object.
    Text(&'c str),
}

impl<'c> Arguments<'c> {
    /// Classifies `text`.
    pub fn of(text: &'c str) -> Self {
        match Json::parse(text) {
            Ok(object) if object.kind() == Kind::Object => Self::Object { text, object },
            Ok(json) if json.is_null() => Self::Empty,
            Err(_) if text.trim_ascii().is_empty() => Self::Empty,
            _ => Self::Text(text),
        }
    }

    /// Whether the arguments already are an object.
    pub fn is_object(self) -> bool {
        matches!(self, Self::Object { .. })
    }

    /// Writes the arguments as an object. Text that is not an object becomes the member `key` of an object,
    /// so that the model still sees what it wrote.
    pub fn put(self, body: &mut Encoder, key: &str) {
        match self {
            Self::Object { object, .. } => body.raw(object),
            Self::Empty => body.object(|_| {}),
            Self::Text(text) => body.object(|body| body.key(key).string(text)),
        }
    }

    /// Returns the object that [`Arguments::put`] writes, as text. If the arguments already are an object,
    /// its text is unchanged.
    pub fn into_text(self, key: &str) -> Cow<'c, str> {
        if let Self::Object { text, .. } = self {
            return Cow::Borrowed(text);
        }
        let mut object = Encoder::default();
        self.put(&mut object, key);
        Cow::Owned(object.finish_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_whatever_they_were() {
        for (written, text, put) in [
            (r#"{"n":1.50}"#, r#"{"n":1.50}"#, r#"{"n":1.50}"#),
            (" {\"a\": [ ]}\n", " {\"a\": [ ]}\n", "{\"a\": [ ]}"),
            ("", "{}", "{}"),
            (" \n", "{}", "{}"),
            ("null", "{}", "{}"),
            (r#"{"n":1"#, r#"{"k":"{\"n\":1"}"#, r#"{"k":"{\"n\":1"}"#),
            (r#"{"n":1}{"n":2}"#, r#"{"k":"{\"n\":1}{\"n\":2}"}"#, r#"{"k":"{\"n\":1}{\"n\":2}"}"#),
            ("[1]", r#"{"k":"[1]"}"#, r#"{"k":"[1]"}"#),
            ("7", r#"{"k":"7"}"#, r#"{"k":"7"}"#),
        ] {
            let mut body = Encoder::default();
            Arguments::of(written).put(&mut body, "k");
            assert_eq!((&*Arguments::of(written).into_text("k"), &*body.finish_text()), (text, put));
        }
    }
}

//! [`Encoder`]: writes JSON from start to end.

use bytes::Bytes;
use serde::Serialize;

use super::{Json, escape_into, string_end};

/// Writes JSON without building a tree. Values are written one after another, and commas are inserted automatically.
///
/// The caller must write a key before each member of an object, and no keys in arrays.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder with an initial capacity of this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes) }
    }

    /// Writes an object. `members` must write keys and values alternately.
    pub fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.begin();
        self.out.push(b'{');
        members(self);
        self.out.push(b'}');
    }

    /// Writes an array. `elements` writes its elements.
    pub fn array(&mut self, elements: impl FnOnce(&mut Self)) {
        self.begin();
        self.out.push(b'[');
        elements(self);
        self.out.push(b']');
    }

    /// Writes the key of a member. The value must follow.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.string(key);
        self.out.push(b':');
        self
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.begin();
        self.out.push(b'"');
        escape_into(&mut self.out, text);
        self.out.push(b'"');
    }

    /// Writes a string whose body is already escaped.
    pub fn string_body(&mut self, body: &[u8]) {
        self.begin();
        self.out.push(b'"');
        self.out.extend_from_slice(body);
        self.out.push(b'"');
    }

    /// Writes a value unchanged.
    pub fn raw(&mut self, json: Json<'_>) {
        self.begin();
        self.out.extend_from_slice(json.raw().as_bytes());
    }

    /// Writes JSON that is known to be valid.
    pub fn written(&mut self, json: &str) {
        self.begin();
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes a value without white space between its tokens, but otherwise unchanged.
    pub fn compact(&mut self, json: Json<'_>) {
        self.begin();
        let mut rest = json.raw();
        while let Some((before, string)) = rest.split_once('"') {
            let length = string_end(string.as_bytes());
            self.pack(before);
            self.out.push(b'"');
            let (string, behind) = string.split_at_checked(length).unwrap_or((string, ""));
            self.out.extend_from_slice(string.as_bytes());
            rest = behind;
        }
        self.pack(rest);
    }

    fn pack(&mut self, text: &str) {
        text.split_ascii_whitespace().for_each(|text| self.out.extend_from_slice(text.as_bytes()));
    }

    /// Writes any value that serializes to JSON. If serialization fails, which it does not for toolwire's types,
    /// writes `null`.
    pub fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        self.begin();
        let before = self.out.len();
        if serde_json::to_writer(&mut self.out, value).is_err() {
            self.out.truncate(before);
            self.out.extend_from_slice(b"null");
        }
    }

    /// Returns the bytes written.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }

    /// Returns the text written.
    pub fn finish_text(self) -> String {
        // Only valid UTF-8 is ever written.
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// Begins a value or a key. Writes a comma first if another value precedes it, which the last byte shows:
    /// strings end with a quote, so a final `{`, `[` or `:` is never part of a string.
    fn begin(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_value_keeps_its_strings_unchanged() {
        let mut json = Encoder::default();
        let value = "{ \"a b\" :\n[ 1 , 2.0 ,\t\"c \\\" d\\\\\" , {} , true ] }";
        json.compact(Json::parse(value).unwrap());
        assert_eq!(json.finish_text(), r#"{"a b":[1,2.0,"c \" d\\",{},true]}"#);
    }

    #[test]
    fn values_are_separated_by_commas() {
        let mut json = Encoder::default();
        json.object(|json| {
            json.key("a").array(|json| {
                json.value(&1);
                json.string("[{:");
                json.object(|_| {});
                json.array(|_| {});
                json.raw(Json::parse(" {\"x\": 1.50} ").unwrap());
            });
            json.key("b\n").object(|json| json.key("c").value(&None::<u8>));
            json.key("d").string("");
        });
        assert_eq!(json.finish(), r#"{"a":[1,"[{:",{},[],{"x": 1.50}],"b\n":{"c":null},"d":""}"#);
    }
}

//! [`Encoder`]: writes a JSON text from its first byte to its last.

use bytes::Bytes;
use serde::Serialize;

use super::{Json, escape_into, string_end};

/// Writes a JSON text without a tree of it. Values are said one after the other; commas come by themselves.
///
/// That an object has members with keys, and an array none, is up to who writes.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    /// Room for so many bytes at first.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes) }
    }

    /// An object; `members` writes a key and a value in turns.
    pub(crate) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.begin();
        self.out.push(b'{');
        members(self);
        self.out.push(b'}');
    }

    /// An array; `elements` writes its values.
    pub(crate) fn array(&mut self, elements: impl FnOnce(&mut Self)) {
        self.begin();
        self.out.push(b'[');
        elements(self);
        self.out.push(b']');
    }

    /// A member's key. Its value comes next.
    pub(crate) fn key(&mut self, key: &str) -> &mut Self {
        self.string(key);
        self.out.push(b':');
        self
    }

    /// A string.
    pub(crate) fn string(&mut self, text: &str) {
        self.begin();
        self.out.push(b'"');
        escape_into(&mut self.out, text);
        self.out.push(b'"');
    }

    /// A value as it was written.
    pub(crate) fn raw(&mut self, json: Json<'_>) {
        self.begin();
        self.out.extend_from_slice(json.raw().as_bytes());
    }

    /// A value as it was written, but on one line and without white space between its parts.
    pub(crate) fn compact(&mut self, json: Json<'_>) {
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

    /// What stands between strings.
    fn pack(&mut self, text: &str) {
        text.split_ascii_whitespace().for_each(|text| self.out.extend_from_slice(text.as_bytes()));
    }

    /// Any value whose keys are strings. One that fails on the way, as no value of ours does, is null.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        self.begin();
        let before = self.out.len();
        if serde_json::to_writer(&mut self.out, value).is_err() {
            self.out.truncate(before);
            self.out.extend_from_slice(b"null");
        }
    }

    /// What was written.
    pub(crate) fn finish(self) -> Bytes {
        self.out.into()
    }

    /// What was written, as text.
    pub(crate) fn finish_text(self) -> String {
        // All that is put in is text.
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// A value or key begins: behind another one there is a comma. A string ends with its quote, so that the last byte
    /// tells.
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
    fn a_compact_value_keeps_what_its_strings_say() {
        let mut json = Encoder::default();
        let value = "{ \"a b\" :\n[ 1 , 2.0 ,\t\"c \\\" d\\\\\" , {} , true ] }";
        json.compact(Json::parse(value).unwrap());
        assert_eq!(json.finish_text(), r#"{"a b":[1,2.0,"c \" d\\",{},true]}"#);
    }

    #[test]
    fn commas_stand_between_values() {
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

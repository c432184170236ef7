//! Converts values that are written as plain text to JSON, according to the parameter's schema.
//!
//! [`TypedValue`] writes one value of the [`Types`] that a schema allows. A value that can only be a string is
//! streamed. Any other value is held until its end and then converted to the first of these that fits: null,
//! number, boolean, container, string. Numbers keep their spelling. Without a schema, a parameter is a string,
//! since types are never guessed. `null` is null wherever a string is not allowed.

use super::{
    body::{Fed, JsonBody, is_number},
    text::{is_blank, tail},
    walk::{CallRules, Out, Piece},
};
use crate::{tools::Types, wire::json::escape_str};

/// Converts `text` to JSON of one of these types, or returns `None` if it is a string.
fn convert(types: Types, text: &str, mend: Mend) -> Option<String> {
    let text = text.trim();
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    // `null` is not a string if a string is not allowed, whatever else the schema says.
    let is_null =
        if types.has(Types::STRING) { is("null") || text == "None" } else { is("null") || is("none") };
    if is_null && (types.has(Types::NULL) || !types.has(Types::STRING)) {
        return Some("null".to_owned());
    }
    if types.has(Types::NUMBER) && is_number(text) {
        return Some(text.to_owned());
    }
    if types.has(Types::BOOLEAN) && (is("true") || text == "1" || is("false") || text == "0") {
        return Some((is("true") || text == "1").to_string());
    }
    let container = (types.has(Types::OBJECT) && text.starts_with('{'))
        || (types.has(Types::ARRAY) && text.starts_with('['))
        || types.has(Types::JSON);
    container.then(|| json(text, mend)).flatten()
}

/// Returns `text` if it is one JSON value, after repair if that is enabled.
pub(super) fn json(text: &str, mend: Mend) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut body = JsonBody::new(mend.repair, mend.max_depth);
    // A number or word only ends with the character after it.
    let mut put = |text: &str| value.push_str(text);
    match body.feed(text, &mut put) {
        Fed::Done(len) if tail(text, len).trim().is_empty() => Some(value),
        Fed::More if matches!(body.feed(" ", &mut put), Fed::Done(_)) => Some(value),
        _ => None,
    }
}

/// How to read JSON in a value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mend {
    pub(super) repair: bool,
    pub(super) max_depth: usize,
    /// The maximum size of a value that is held until its end, in bytes. A longer value is a string.
    pub(super) max_hold: usize,
}

impl Mend {
    pub(super) fn new(rules: &CallRules<'_>) -> Self {
        Self { repair: rules.repair, max_depth: rules.max_depth, max_hold: rules.max_hold }
    }
}

/// Tracks whether a value written as JSON is inside a JSON string. There, only the value's own closer ends the
/// value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quotes {
    /// Whether the first visible byte opens a container.
    container: Option<bool>,
    open: bool,
    escaped: bool,
}

impl Quotes {
    pub(super) fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match self.container {
                None if is_blank(byte) => {}
                None => self.container = Some(matches!(byte, b'{' | b'[')),
                Some(false) => return,
                Some(true) if self.escaped => self.escaped = false,
                Some(true) => {
                    self.escaped = self.open && byte == b'\\';
                    self.open ^= byte == b'"';
                }
            }
        }
    }

    pub(super) fn are_open(self) -> bool {
        self.open
    }
}

/// Converts one value from text to JSON.
#[derive(Debug, Default)]
pub(super) struct TypedValue {
    types: Types,
    mend: Mend,
    /// Whether the value is a string whose opening quote has been sent.
    streams: bool,
    /// The length up to which a string waits before it streams, because it may be the first element of a list.
    waits: usize,
    /// The text so far, as long as the value may still be something other than a string.
    text: String,
    /// The length of the white space before the first visible character of the text, in bytes.
    blank: usize,
    quotes: Quotes,
    escaped: String,
}

impl TypedValue {
    /// Creates a value of these types. An empty set means a string.
    pub(super) fn new(types: Types, mend: Mend) -> Self {
        let types = if types == Types::default() { Types::STRING } else { types };
        Self { types, mend, ..Self::default() }
    }

    /// Sets the length up to which a string waits before it streams.
    pub(super) fn waiting(self, waits: usize) -> Self {
        Self { waits, ..self }
    }

    /// Writes a complete value of these types.
    pub(super) fn write(types: Types, text: &str, mend: Mend, out: &mut Out<'_>) {
        let mut value = Self::new(types, mend);
        value.begin(out);
        value.push(text, out);
        value.end(out);
    }

    /// At the end of a value that waited, returns its text, none of which has been sent.
    pub(super) fn waited(&mut self) -> Option<String> {
        (self.waits > 0 && !self.streams).then(|| std::mem::take(&mut self.text))
    }

    /// Whether the value is a string that is sent as it arrives.
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    pub(super) fn kept(&self) -> usize {
        self.text.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.streams && self.text.trim().is_empty()
    }

    /// Whether the text so far ends inside a JSON string. A value that may itself be a string is not read as JSON.
    pub(super) fn quotes(&self) -> Quotes {
        if self.types.has(Types::STRING) {
            Quotes { container: Some(false), ..Quotes::default() }
        } else {
            self.quotes
        }
    }

    /// Begins the value. Sends the opening quote if the value can only be a string.
    pub(super) fn begin(&mut self, out: &mut Out<'_>) {
        if self.types == Types::STRING && self.waits == 0 {
            self.streams = true;
            out(Piece::Arguments("\""));
        }
    }

    pub(super) fn push(&mut self, text: &str, out: &mut Out<'_>) {
        if text.is_empty() {
            return;
        }
        if self.streams {
            return self.string(text, out);
        }
        if self.blank == self.text.len() {
            self.blank += text.len() - text.trim_start().len();
        }
        self.text.push_str(text);
        let is_string = if self.types.is_string() {
            self.text.len() > self.waits
        } else {
            self.types == Types::STRING | Types::NULL && !may_be_null(tail(&self.text, self.blank))
        };
        self.quotes.read(text);
        if is_string || self.text.len() > self.mend.max_hold {
            self.streams = true;
            out(Piece::Arguments("\""));
            let text = std::mem::take(&mut self.text);
            self.string(&text, out);
        }
    }

    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        if self.streams {
            return out(Piece::Arguments("\""));
        }
        let text = std::mem::take(&mut self.text);
        if let Some(json) = convert(self.types, &text, self.mend) {
            return out(Piece::Arguments(&json));
        }
        out(Piece::Arguments("\""));
        self.string(&text, out);
        out(Piece::Arguments("\""));
    }

    fn string(&mut self, text: &str, out: &mut Out<'_>) {
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if !text.bytes().any(special) {
            if !text.is_empty() {
                out(Piece::Arguments(text));
            }
            return;
        }
        self.escaped.clear();
        escape_str(&mut self.escaped, text);
        out(Piece::Arguments(&self.escaped));
    }
}

/// Whether `text`, which begins with its first visible character, may be `null` or `None` followed by white space.
fn may_be_null(text: &str) -> bool {
    if text.len() > 64 {
        return false;
    }
    let word = text.trim_end();
    let begins = "None".starts_with(word)
        || "null"
            .as_bytes()
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    begins && (word.len() == 4 || word.len() == text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        conversation::{Conversation, Tool},
        tools::DeclaredTools,
        wire::json::Raw,
    };

    fn written(schema: &Value, text: &str, step: usize) -> String {
        let parameters = json!({"properties": {"x": schema}});
        let (name, description) = ("f".to_owned(), String::new());
        let parameters = Some(Raw::from(parameters));
        let tool = Tool { name, description, parameters, strict: None, declared: None };
        let tools = DeclaredTools::new(&Conversation { tools: vec![tool], ..Conversation::default() }, "");
        let rules = CallRules::lenient(&tools);
        let mut value = TypedValue::new(tools.types("f", "x").unwrap_or_default(), Mend::new(&rules));
        let mut json = String::new();
        let mut out = |piece: Piece<'_>| {
            if let Piece::Arguments(text) = piece {
                json.push_str(text);
            }
        };
        value.begin(&mut out);
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(step.max(1)) {
            value.push(&piece.iter().collect::<String>(), &mut out);
        }
        value.end(&mut out);
        json
    }

    #[test]
    fn values_are_converted_by_schema_and_never_guessed() {
        for (schema, text, wanted) in [
            (json!({"type": "string"}), "7", r#""7""#),
            (json!({}), "true", r#""true""#),
            (json!({"type": "integer"}), " 12345678901234567890\n", "12345678901234567890"),
            (json!({"type": "number"}), "2.50", "2.50"),
            (json!({"type": "number"}), "NaN", r#""NaN""#),
            (json!({"type": "boolean"}), "True", "true"),
            (json!({"type": "boolean"}), "0", "false"),
            (json!({"type": "boolean"}), "yes", r#""yes""#),
            (json!({"type": ["string", "null"]}), "NULL", "null"),
            (json!({"type": ["string", "null"]}), "nullify", r#""nullify""#),
            (json!({"type": ["string", "null"]}), "", r#""""#),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "5", "5"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "5a\n", r#""5a\n""#),
            (json!({"enum": [1, 2]}), "2", "2"),
            (json!({"type": "integer"}), "null", "null"),
            (json!({"type": "boolean", "default": null}), "None", "null"),
            (json!({"type": "array"}), "NULL", "null"),
            (json!({"type": "string", "default": null}), "null", "null"),
            (json!({"type": "string", "default": null}), "None", "null"),
            (json!({"type": "string", "default": null}), "Nobody", r#""Nobody""#),
            (json!({"type": "string", "default": null}), "none", r#""none""#),
            (json!({"type": "string"}), "null", r#""null""#),
            (json!({"type": ["string", "integer"]}), "null", r#""null""#),
            (json!({}), "null", r#""null""#),
            (json!({"type": "array"}), "[1, 'a', True]", r#"[1, "a", true]"#),
            (json!({"type": "object"}), "{\"a\": 1.0}", "{\"a\": 1.0}"),
            (json!({"type": "object"}), "{\"a\": ", r#""{\"a\": ""#),
            (json!({"type": "object"}), "[1]", r#""[1]""#),
            (json!({"type": "integer"}), &"1".repeat(100), &"1".repeat(100)),
            // Too long to be held until its end.
            (json!({"type": "integer"}), &"1".repeat(101), &format!("\"{}\"", "1".repeat(101))),
        ] {
            for step in [1, 2, 99] {
                assert_eq!(written(&schema, text, step), wanted, "{schema} {text}");
            }
        }
    }
}

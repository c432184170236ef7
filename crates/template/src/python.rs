//! Converts values like Python does: parses JSON, and writes values like `json.dumps`.

use std::{fmt, fmt::Write as _, sync::Arc};

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, Object, ObjectRepr, ValueKind},
};

use crate::wire::json::{Json, Kind};

/// An integer that does not fit into 128 bits, as its digits.
#[derive(Debug)]
struct LongInteger(String);

impl Object for LongInteger {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts JSON like Python's `json.loads`: keys keep their order, the last of several members with the same key
/// wins, and numbers are either integers or floats.
pub(super) fn from_json(json: Json<'_>) -> Value {
    match json.kind() {
        Kind::Null => Value::from(()),
        Kind::String => Value::from(json.as_str().unwrap_or_default().into_owned()),
        Kind::Number => number(json.raw()),
        Kind::Array => json.elements().map(from_json).collect(),
        Kind::Object => {
            Value::from_pairs(json.members().map(|(key, value)| (key.into_owned(), from_json(value))))
        }
        _ => Value::from(json.as_bool().unwrap_or_default()),
    }
}

fn number(digits: &str) -> Value {
    if digits.contains(['.', 'e', 'E']) {
        return digits.parse::<f64>().map_or(Value::UNDEFINED, Value::from);
    }
    match (digits.parse::<i64>(), digits.parse::<i128>()) {
        (Ok(number), _) => Value::from(number),
        (_, Ok(number)) => Value::from(number),
        _ => Value::from_object(LongInteger(digits.to_owned())),
    }
}

/// The filter `tojson` with transformers' options. The result is at most slightly larger than `limit` bytes.
pub(super) fn tojson(
    value: &Value,
    (indent, options): (Option<Value>, Kwargs),
    limit: usize,
) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent = match indent.filter(|indent| !indent.is_none() && !indent.is_undefined()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(indent)?).unwrap_or(0).min(MAX_INDENT)),
        }),
    };
    let separators = options.get::<Option<Value>>("separators")?.filter(|pair| !pair.is_none());
    let (mut item, mut key) = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(pair) = separators {
        let mut pair = pair.try_iter()?.map(|text| text.as_str().unwrap_or_default().to_owned());
        (item, key) = (pair.next().unwrap_or_default(), pair.next().unwrap_or_default());
    }
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut dump = Dump { out: String::new(), indent, item, key, ascii, sort, limit };
    dump.value(value, 0)?;
    Ok(dump.out)
}

const MAX_INDENT: usize = 32;

/// The maximum nesting depth, which exceeds that of values from clients.
const MAX_DEPTH: usize = 200;

/// The state of `json.dumps`, with its options.
struct Dump {
    out: String,
    indent: Option<String>,
    item: String,
    key: String,
    ascii: bool,
    sort: bool,
    limit: usize,
}

impl Dump {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH || self.out.len() > self.limit {
            return Err(Error::new(ErrorKind::BadSerialization, "the value is too large for `tojson`"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Number => self.number(value),
            ValueKind::Map => self.map(value, depth)?,
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item));
                self.list(['[', ']'], items, depth)?;
            }
            ValueKind::Plain if value.downcast_object_ref::<LongInteger>().is_some() => {
                self.out.push_str(&value.to_string());
            }
            kind => {
                let message = format!("`tojson` cannot write a value of the type {kind}");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort {
            keys.sort();
        }
        let members = keys.into_iter().map(|key| {
            let member = value.get_item(&key).unwrap_or_default();
            (Some(key), member)
        });
        self.list(['{', '}'], members, depth)
    }

    fn list(
        &mut self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = (Option<Value>, Value)>,
        depth: usize,
    ) -> Result<(), Error> {
        self.out.push(open);
        let mut is_empty = true;
        for (key, item) in items {
            if !is_empty {
                self.out.push_str(&self.item);
            }
            is_empty = false;
            self.line(depth + 1);
            if let Some(key) = key {
                self.member_key(&key);
                self.out.push_str(&self.key);
            }
            self.value(&item, depth + 1)?;
        }
        if !is_empty {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    /// Converts keys that are not strings to strings, like Python does.
    fn member_key(&mut self, key: &Value) {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None => self.string("null"),
            ValueKind::Bool => self.string(if key.is_true() { "true" } else { "false" }),
            _ => {
                let text = key.to_string();
                self.string(&text);
            }
        }
    }

    fn number(&mut self, value: &Value) {
        if value.is_integer() {
            self.out.push_str(&value.to_string());
            return;
        }
        match f64::try_from(value.clone()) {
            Ok(number) => self.out.push_str(&float(number)),
            Err(_) => self.out.push_str(&value.to_string()),
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for char in text.chars() {
            match char {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                char if char < ' ' || (self.ascii && !(' '..='~').contains(&char)) => {
                    let mut units = [0; 2];
                    for unit in char.encode_utf16(&mut units) {
                        // Writing to a string cannot fail.
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                char => self.out.push(char),
            }
        }
        self.out.push('"');
    }
}

/// Formats a float like Python's `repr`: with the fewest digits that identify it, and with an exponent below 1e-4
/// and from 1e16 on.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = number.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

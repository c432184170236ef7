//! Writes calls in the notation of a [`Shape`].

use serde_json::{Map, Value};

use crate::shapes::Shape;

#[derive(Debug, Clone)]
pub struct Wanted {
    pub name: &'static str,
    pub arguments: Map<String, Value>,
}

/// Model output, and the ranges that are single tokens for models with dedicated marker tokens.
#[derive(Debug, Clone, Default)]
pub struct Written {
    pub text: String,
    pub markers: Vec<std::ops::Range<usize>>,
}

impl Written {
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), markers: Vec::new() }
    }

    pub fn push(&mut self, value: &str) {
        self.text.push_str(value);
    }

    /// Appends text that belongs to the format. Text in angle brackets, and capitals in square brackets, are
    /// markers.
    fn push_own(&mut self, own: &str) {
        let base = self.text.len();
        let mut at = 0;
        while let Some(open) = own[at..].find(['<', '[']).map(|open| at + open) {
            let close = if own[open..].starts_with('<') { '>' } else { ']' };
            let end = own[open..].find(close).map(|close| open + close + 1);
            let capitals = |end: &usize| {
                let inner = &own[open + 1..end - 1];
                close == '>'
                    || (!inner.is_empty() && inner.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
            };
            let Some(end) = end.filter(capitals) else {
                at = open + 1;
                continue;
            };
            self.markers.push(base + open..base + end);
            at = end;
        }
        self.text.push_str(own);
    }
}

pub fn calls(shape: &Shape, calls: &[Wanted], out: &mut Written) {
    let first = calls.first().map_or("", |call| call.name);
    fill(shape.section.0, out, &mut |key, out| {
        assert_eq!(key, "name", "a section knows its first call's name");
        out.push(first);
    });
    for (n, call) in calls.iter().enumerate() {
        if n > 0 {
            out.push_own(shape.between);
        }
        fill(shape.call, out, &mut |key, out| one(shape, n, call, key, out));
    }
    out.push_own(shape.section.1);
}

fn one(shape: &Shape, n: usize, call: &Wanted, key: &str, out: &mut Written) {
    let json = || Value::Object(call.arguments.clone()).to_string();
    match key {
        "name" => out.push(call.name),
        "n" => out.push(&n.to_string()),
        "args" => out.push(&json()),
        "quoted" => out.push(&Value::String(json()).to_string()),
        "literal" => out.push(&literal(&Value::Object(call.arguments.clone()))),
        "params" => params(shape, call, out),
        "python" => {
            let pairs = call.arguments.iter().map(|(key, value)| format!("{key}={}", literal(value)));
            out.push(&pairs.collect::<Vec<_>>().join(", "));
        }
        "gemma" => {
            let pairs =
                call.arguments.iter().map(|(key, value)| format!("{key}:{}", gemma(value, shape.quote)));
            out.push(&pairs.collect::<Vec<_>>().join(","));
        }
        other => panic!("{other} in the template of {}", shape.label),
    }
}

fn params(shape: &Shape, call: &Wanted, out: &mut Written) {
    for (at, (name, value)) in call.arguments.iter().enumerate() {
        if at > 0 {
            out.push_own(shape.comma);
        }
        fill(shape.param, out, &mut |key, out| match key {
            "key" => out.push(name),
            "value" => out.push(&raw(shape, value)),
            "string" => out.push(if value.is_string() { "true" } else { "false" }),
            "type" => out.push(kind(value)),
            other => panic!("{other} in the template of {}", shape.label),
        });
    }
}

fn fill(template: &str, out: &mut Written, value: &mut dyn FnMut(&str, &mut Written)) {
    let mut parts = template.split('$');
    out.push_own(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(part.len());
        let (key, own) = part.split_at(end);
        value(key, out);
        out.push_own(own);
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => "null",
    }
}

/// Writes a value as it appears between a parameter's tags.
fn raw(shape: &Shape, value: &Value) -> String {
    match (value, shape.elements) {
        (Value::String(text), _) => text.clone(),
        (Value::Array(items), Some(before)) => {
            let item = |item| format!("{before}<item>{}{before}</item>", raw(shape, item));
            items.iter().map(item).collect()
        }
        (Value::Object(members), Some(before)) => {
            let member = |(key, value)| format!("{before}<{key}>{}{before}</{key}>", raw(shape, value));
            members.iter().map(member).collect()
        }
        (other, _) => other.to_string(),
    }
}

/// Writes a value in Python notation. JSON's escapes are also valid in Python's double quotes.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("'{key}': {}", literal(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn gemma(value: &Value, quote: &str) -> String {
    match value {
        Value::String(text) => format!("{quote}{text}{quote}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| gemma(item, quote)).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{key}:{}", gemma(value, quote));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

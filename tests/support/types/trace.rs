//! [`Seen`]: what became of an instance, found by its texts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::claim::{Becomes, Claim};

/// What became of an instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The request was refused with this message.
    Refused(String),
    /// The other side got what it gets without the instance.
    Nothing,
    /// The other side got something else. The texts of these members of the instance are not in it.
    Something { missing: BTreeSet<String> },
}

impl Seen {
    /// Compares what the other side got with and without the instance.
    pub(crate) fn of(instance: &Value, with: Result<Value, String>, without: &Value) -> Self {
        let with = match with {
            Ok(with) => with,
            Err(message) => return Self::Refused(message),
        };
        if with == *without {
            return Self::Nothing;
        }
        let mut all = String::new();
        collect(&with, &mut all);
        let missing = texts(instance).into_iter().filter(|(_, text)| !all.contains(text.as_str()));
        Self::Something { missing: missing.map(|(key, _)| key).collect() }
    }

    /// What contradicts `claim`.
    pub(crate) fn contradicts(&self, claim: &Claim) -> Option<String> {
        let is_so = match (claim.becomes, self) {
            (Becomes::Refused, Self::Refused(_)) | (Becomes::Ignored, Self::Nothing) => true,
            (Becomes::Mapped | Becomes::Said, Self::Something { missing }) => {
                missing.iter().eq(claim.without.iter().collect::<BTreeSet<_>>())
            }
            _ => false,
        };
        (!is_so).then(|| format!("is {claim:?}, but it was {self:?}"))
    }
}

/// Whether `whole` contains a value that is `part`, or an object or array with more elements. Members named in `without`
/// may be absent.
pub(crate) fn carries(whole: &Value, part: &Value, without: &[String]) -> bool {
    is_like(whole, part, without)
        || match whole {
            Value::Array(list) => list.iter().any(|inner| carries(inner, part, without)),
            Value::Object(members) => members.values().any(|inner| carries(inner, part, without)),
            _ => false,
        }
}

fn is_like(whole: &Value, part: &Value, without: &[String]) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, value)| {
            without.contains(key) || whole.get(key).is_some_and(|inner| is_like(inner, value, without))
        }),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole.iter().zip(part).all(|(whole, part)| is_like(whole, part, without))
        }
        (whole, part) => whole == part,
    }
}

/// The texts of an instance that occur nowhere else, with the names of their members.
fn texts(instance: &Value) -> Vec<(String, String)> {
    fn visit(key: &str, value: &Value, out: &mut Vec<(String, String)>) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| visit(key, value, out)),
            Value::Object(members) => members.iter().for_each(|(inner, value)| {
                visit(if inner == "key" { key } else { inner }, value, out);
            }),
            Value::String(text) if text.starts_with('{') => {
                visit(key, &serde_json::from_str(text).unwrap(), out);
            }
            Value::String(text) => {
                let data = text.split_once("base64,").map_or(text.as_str(), |(_, data)| data);
                let is_data = ["iVBORw0KGgo", "JVBERi0x"].into_iter().any(|start| data.starts_with(start));
                if is_data || text.contains("_text_") || text.starts_with("https://example.com/") {
                    out.push((key.to_owned(), data.to_owned()));
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    visit("", instance, &mut out);
    out
}

/// Appends all strings and names of members in `value`, each on a line.
fn collect(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, out)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            out.push_str(key);
            out.push('\n');
            collect(value, out);
        }),
        _ => {}
    }
}

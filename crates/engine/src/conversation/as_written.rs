//! What the model wrote in a turn with calls as text, which later prompts repeat byte for byte.
//!
//! It is state of the turn's first call (see [`TurnState`](super::TurnState)), and begins with a hash of what the
//! client received. It takes the place of the turn only if the client sends back the same: the hash of the turn's
//! text and of its calls, whose arguments are compared as JSON values.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Part, Turn};
use crate::{
    event::Opaque,
    wire::json::{Json, Kind},
};

/// Stands for the dialect of such state.
pub const AS_WRITTEN: &str = "text";

/// The length of the hash.
const HASH: usize = 16;

/// The state of a turn that the model wrote as `text`, of which the client received `content` and `calls`, each with
/// its name and arguments.
pub fn written_state<'c>(
    text: &str,
    content: &str,
    calls: impl Iterator<Item = (&'c str, &'c str)>,
) -> Opaque<'static> {
    Opaque::new(AS_WRITTEN, hash(content, calls) + text)
}

impl Turn {
    /// What the model wrote, if that is known and the turn is as the client received it.
    pub(crate) fn as_written(&self) -> Option<&str> {
        let state = self.parts.iter().find_map(|part| match part {
            Part::Call(call) => Some(call.signature.as_ref()?.from_dialect(AS_WRITTEN)),
            _ => None,
        })??;
        let is_other = |part: &Part| matches!(part, Part::Image { .. } | Part::Result(_) | Part::Other(_));
        if self.rest.contains("content") || self.parts.iter().any(is_other) {
            return None;
        }
        let content: String = self.parts.iter().filter_map(text_of).collect();
        let calls = self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some((call.name.as_str(), call.arguments.as_str())),
            _ => None,
        });
        state.strip_prefix(&hash(&content, calls))
    }
}

fn text_of(part: &Part) -> Option<&str> {
    if let Part::Text(text) = part { Some(text.as_str()) } else { None }
}

/// A hash of a turn's text and calls. It is the same in every process.
fn hash<'c>(content: &str, calls: impl Iterator<Item = (&'c str, &'c str)>) -> String {
    let mut hasher = DefaultHasher::new();
    content.trim().hash(&mut hasher);
    for (name, arguments) in calls {
        name.hash(&mut hasher);
        match Json::parse(arguments) {
            Ok(value) => hash_value(value, &mut hasher),
            Err(_) => arguments.trim().hash(&mut hasher),
        }
    }
    format!("{:0HASH$x}", hasher.finish())
}

/// Hashes what a JSON value means. Clients change blanks, escapes, the order of members, and how numbers are written.
fn hash_value(value: Json<'_>, hasher: &mut impl Hasher) {
    match value.kind() {
        Kind::Object => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            (b'{', members.len()).hash(hasher);
            for (key, value) in members {
                key.hash(hasher);
                hash_value(value, hasher);
            }
        }
        Kind::Array => {
            b'['.hash(hasher);
            value.elements().for_each(|element| hash_value(element, hasher));
            b']'.hash(hasher);
        }
        Kind::String => (b'"', value.as_str()).hash(hasher),
        Kind::Number => match value.raw().parse::<f64>() {
            // Beyond this, different integers may be the same floating-point number.
            Ok(number) if number.abs() < 9e15 => (b'0', (number + 0.0).to_bits()).hash(hasher),
            _ => (b'1', value.raw()).hash(hasher),
        },
        Kind::Bool | Kind::Null => value.raw().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Call, Role};

    fn turn(content: &str, calls: &[(&str, &str)], state: &Opaque<'static>) -> Turn {
        let mut calls: Vec<_> =
            calls.iter().map(|(name, arguments)| Call::new("c", *name, *arguments)).collect();
        if let Some(first) = calls.first_mut() {
            first.signature = Some(state.clone());
        }
        let content = (!content.is_empty()).then(|| Part::Text(content.to_owned().into()));
        Turn::of(Role::Assistant, content.into_iter().chain(calls.into_iter().map(Part::Call)).collect())
    }

    #[test]
    fn a_turn_is_as_written_if_it_means_the_same() {
        let given = r#"{"a": 2.50, "b": ["é", {"c": null}], "d": 12345678901234567890, "e": -0}"#;
        let state = written_state("RAW", "Hi.", [("f", given), ("g", "{}")].into_iter());
        let same = r#"{"e":0,"d":12345678901234567890,"b":["\u00e9",{"c":null}],"a":2.5}"#;
        for content in ["Hi.", " Hi.\n"] {
            assert_eq!(turn(content, &[("f", same), ("g", "{ }")], &state).as_written(), Some("RAW"));
        }
        let changed = [
            ("Hi", vec![("f", given), ("g", "{}")]),
            ("Hi.", vec![("f", given)]),
            ("Hi.", vec![("g", "{}"), ("f", given)]),
            ("Hi.", vec![("h", given), ("g", "{}")]),
            ("Hi.", vec![("f", given), ("g", r#"{"x": 1}"#)]),
            ("Hi.", vec![("f", r#"{"a": "2.50"}"#), ("g", "{}")]),
            ("Hi.", vec![("f", "{"), ("g", "{}")]),
        ];
        for (content, calls) in changed {
            assert_eq!(turn(content, &calls, &state).as_written(), None, "{content} {calls:?}");
        }
        assert_eq!(turn("", &[], &state).as_written(), None);
        let foreign = Opaque::new("gemini", state.text.clone());
        assert_eq!(turn("Hi.", &[("f", given), ("g", "{}")], &foreign).as_written(), None);
    }

    #[test]
    fn what_is_nested_differs_from_what_is_not() {
        let hash = |arguments: &'static str| hash("", [("f", arguments)].into_iter());
        let all = [
            "{}",
            "[]",
            "[[]]",
            "[[],[]]",
            "[[[]]]",
            "null",
            "0",
            "1",
            "\"\"",
            "\"null\"",
            "true",
            "",
            r#"{"a":{}}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{},"b":1}"#,
            "9007199254740993000",
            "9007199254740992000",
        ];
        let hashes: std::collections::HashSet<_> = all.iter().map(|arguments| hash(arguments)).collect();
        assert_eq!(hashes.len(), all.len());
    }
}

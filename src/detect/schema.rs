//! [`SchemaGuard`]: tells a tool's definition from a call to it.
//!
//! Models quote definitions: `{"name":"get_weather","parameters":{"type":"object","properties":{…}}}` has the shape
//! of a call. The guard looks at the first keys of the would-be arguments. As long as they are words of JSON Schema
//! that the tool does not declare as arguments, the call is in doubt; `properties` with an object decides against it,
//! any other key for it. Most calls are decided by the first letter of their first key.

use super::body::JsonBody;

const WORDS: [&str; 12] = [
    "type",
    "properties",
    "required",
    "$schema",
    "$defs",
    "$id",
    "additionalProperties",
    "description",
    "title",
    "strict",
    "definitions",
    "items",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Doubtful,
    Arguments,
    /// There is a `properties` object.
    Schema,
}

/// The doubt about one call's arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaGuard {
    verdict: Verdict,
    /// The outermost key being read, or read last.
    key: String,
}

impl SchemaGuard {
    /// Takes one character that led the body from `before` to `after`.
    pub(super) fn feed(&mut self, before: &JsonBody, after: &JsonBody, character: &str) {
        if self.verdict != Verdict::Doubtful {
            return;
        }
        let outermost = before.depth() == 1;
        if outermost && after.in_key() {
            if before.in_key() {
                self.key.push_str(character);
            } else {
                self.key.clear();
                self.key.push_str(character.trim_start_matches(['"', '\'']));
            }
            let may_be_word = WORDS.iter().any(|word| word.starts_with(&self.key));
            if !may_be_word {
                self.verdict = Verdict::Arguments;
            }
        } else if outermost && before.in_key() {
            if !WORDS.contains(&self.key.as_str()) {
                self.verdict = Verdict::Arguments;
            }
        } else if outermost && self.key == "properties" && before.expects_value() {
            match character {
                "{" => self.verdict = Verdict::Schema,
                _ if character.trim().is_empty() => {}
                _ => self.verdict = Verdict::Arguments,
            }
        } else if after.is_done() {
            self.verdict = Verdict::Arguments;
        }
    }

    /// These are a schema, unless the tool has such an argument.
    pub(super) fn refuses(&self, declared: impl Fn(&str) -> bool) -> bool {
        self.verdict == Verdict::Schema && !declared("properties")
    }

    /// These are arguments.
    pub(super) fn is_passed(&self, declared: impl Fn(&str) -> bool) -> bool {
        match self.verdict {
            Verdict::Arguments => true,
            Verdict::Schema => declared("properties"),
            Verdict::Doubtful => !self.key.is_empty() && declared(&self.key),
        }
    }
}

//! [`SchemaGuard`]: distinguishes a tool's definition from a call to it.
//!
//! Models quote definitions: `{"name":"get_weather","parameters":{"type":"object","properties":{…}}}` has the
//! form of a call. The guard checks the first keys of the possible arguments. The call is in doubt as long as
//! all keys are keywords of JSON Schema that the tool does not declare as arguments. `properties` with an
//! object means a definition, and so does the end of the object after the type `object`; any other key means
//! a call. Most calls are decided by the first letter of their first key.

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

const OBJECT: &str = "object";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Doubtful,
    Arguments,
    /// This key's value is as in a schema; the key is an argument only if the tool declares it.
    Schema(&'static str),
}

/// The state of the check for one call's arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaGuard {
    verdict: Verdict,
    /// The outermost key that is being read, or that was read last.
    key: String,
    /// The beginning of the value of `type`.
    kind: String,
}

impl SchemaGuard {
    /// Reads one character. The body was in the state `before` and is now in the state `after`.
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
                "{" => self.verdict = Verdict::Schema("properties"),
                _ if character.trim().is_empty() => {}
                _ => self.verdict = Verdict::Arguments,
            }
        } else if after.is_done() {
            let schema = self.kind == OBJECT;
            self.verdict = if schema { Verdict::Schema("type") } else { Verdict::Arguments };
        } else if outermost && self.key == "type" && self.kind.len() <= OBJECT.len() {
            self.kind.push_str(character.trim_matches([' ', ':', ',', '"', '\'', '\t', '\n', '\r']));
        }
    }

    /// Whether the arguments are a schema, because the tool does not declare such an argument.
    pub(super) fn refuses(&self, declared: impl Fn(&str) -> bool) -> bool {
        matches!(self.verdict, Verdict::Schema(key) if !declared(key))
    }

    /// Whether these are certainly arguments.
    pub(super) fn is_passed(&self, declared: impl Fn(&str) -> bool) -> bool {
        match self.verdict {
            Verdict::Arguments => true,
            Verdict::Schema(key) => declared(key),
            Verdict::Doubtful if self.key == "type" && OBJECT.starts_with(&self.kind) => false,
            Verdict::Doubtful => !self.key.is_empty() && declared(&self.key),
        }
    }
}

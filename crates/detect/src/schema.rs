//! [`SchemaGuard`]: distinguishes the definition of a tool from a call to it.
//!
//! Models quote definitions such as `{"name":"get_weather","parameters":{"type":"object","properties":{…}}}`, which
//! look like calls. The guard checks the first keys of what may be arguments. The call is in doubt as long as all
//! of them are keywords of JSON Schema that the tool does not declare as parameters. An object under `properties`
//! shows that it is a definition, and so does an object that ends after the type `object`. Any other key shows that
//! it is a call. Most calls are decided by the first letter of their first key.

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
    /// The value of this key looks like part of a schema, so the key is an argument only if the tool declares it.
    Schema(&'static str),
}

/// The state of the check for the arguments of one call.
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaGuard {
    verdict: Verdict,
    /// The current or last outermost key.
    key: String,
    /// The start of the value of `type`.
    kind: String,
}

impl SchemaGuard {
    /// Reads one character, which took the body from the state `before` to the state `after`.
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

    /// Whether the arguments are a schema, given which keys the tool declares.
    pub(super) fn refuses(&self, declared: impl Fn(&str) -> bool) -> bool {
        matches!(self.verdict, Verdict::Schema(key) if !declared(key))
    }

    pub(super) fn is_passed(&self, declared: impl Fn(&str) -> bool) -> bool {
        match self.verdict {
            Verdict::Arguments => true,
            Verdict::Schema(key) => declared(key),
            Verdict::Doubtful if self.key == "type" && OBJECT.starts_with(&self.kind) => false,
            Verdict::Doubtful => !self.key.is_empty() && declared(&self.key),
        }
    }
}

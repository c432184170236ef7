//! Saves tokens in the descriptions of tools: [`estimated_tokens`] counts tokens without a tokenizer, and
//! [`Detail`] shortens schemas.

use std::borrow::Cow;

use super::guess::words;
use crate::{
    tools::References,
    wire::json::{Encoder, Json, Kind},
};

/// Maximum depth to which a shortened schema is written. Deeper schemas become `{}`.
const MAX_DEPTH: usize = 24;

/// Maximum number of references per tool that are replaced with their targets.
const MAX_REFERENCES: usize = 64;

/// Maximum length of a shortened description, in characters.
const SHORT: usize = 80;

/// The level of detail in the description of a tool, from the most detailed to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::VariantArray)]
pub(super) enum Detail {
    /// As declared.
    Whole,
    /// Without titles, identifiers, and descriptions that only repeat the name. References are resolved.
    Compact,
    /// Like `Compact`, but with descriptions shortened to their first sentence.
    Short,
    /// Like `Compact`, but with a short description of the tool, and without descriptions of its arguments.
    Names,
}

impl Detail {
    /// The description of a tool at this level.
    pub(super) fn of_tool(self, description: &str) -> Cow<'_, str> {
        if self < Self::Short { description.into() } else { shortened(description) }
    }

    /// The description of the argument `key` at this level, if it is written.
    pub(super) fn of_argument(self, key: &str, description: &str) -> Option<String> {
        let said = match self {
            Self::Whole | Self::Compact => description.into(),
            Self::Short => shortened(description),
            Self::Names => return None,
        };
        (!is_obvious(key, &said)).then(|| said.into_owned())
    }
}

/// Estimates the number of tokens in `text` without a tokenizer. Each short word and each run of punctuation
/// counts as one token; long words, digits and other scripts count as more. For English and JSON, the
/// estimate is between 25 % below and 35 % above the counts of common tokenizers.
pub fn estimated_tokens(text: &str) -> usize {
    tokens_upto(text, usize::MAX)
}

/// Like [`estimated_tokens`], but stops counting once the result exceeds `most`.
pub(super) fn tokens_upto(text: &str, most: usize) -> usize {
    let (mut tokens, mut run, mut kind) = (0, 0, CharKind::Space);
    for character in text.chars() {
        let next = CharKind::of(character);
        if next != kind {
            tokens += kind.tokens(run);
            if tokens > most {
                return tokens;
            }
            (run, kind) = (0, next);
        }
        run += 1;
    }
    tokens + kind.tokens(run)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Space,
    Letter,
    Digit,
    Sign,
    Other,
}

impl CharKind {
    fn of(character: char) -> Self {
        match character {
            character if character.is_ascii_whitespace() => Self::Space,
            character if character.is_ascii_alphabetic() => Self::Letter,
            character if character.is_ascii_digit() => Self::Digit,
            character if character.is_ascii() => Self::Sign,
            _ => Self::Other,
        }
    }

    fn tokens(self, run: usize) -> usize {
        match self {
            // A single blank belongs to the next word.
            Self::Space => usize::from(run > 1),
            Self::Letter => run.div_ceil(9),
            Self::Digit => run.div_ceil(3),
            Self::Sign => run.div_ceil(3),
            Self::Other => run,
        }
    }
}

/// Writes the schema of a tool's arguments at this level of detail.
pub(super) fn schema(references: &References<'_>, detail: Detail, json: &mut Encoder) {
    let root = references.root();
    if detail == Detail::Whole {
        json.compact(root);
        return;
    }
    Shortening { references, detail, left: MAX_REFERENCES }.schema(root, "", 0, json);
}

struct Shortening<'r, 'a> {
    references: &'r References<'a>,
    detail: Detail,
    left: usize,
}

impl<'a> Shortening<'_, 'a> {
    fn schema(&mut self, schema: Json<'a>, key: &str, depth: usize, json: &mut Encoder) {
        if schema.kind() != Kind::Object {
            json.compact(schema);
            return;
        }
        let Some(target) = self.resolve(schema).filter(|_| depth < MAX_DEPTH) else {
            json.object(|_| {});
            return;
        };
        json.object(|json| {
            for (keyword, value) in target.members() {
                // What stands beside a reference is closer to the argument than its target.
                if !is_same(schema, target) && schema.get(&keyword).is_some() {
                    continue;
                }
                self.keyword(&keyword, value, key, depth, json);
            }
            if is_same(schema, target) {
                return;
            }
            for (keyword, value) in schema.members().filter(|(keyword, _)| !is_reference(keyword)) {
                self.keyword(&keyword, value, key, depth, json);
            }
        });
    }

    /// The target of a reference. `None` if there is no such target, or too many references were replaced.
    fn resolve(&mut self, schema: Json<'a>) -> Option<Json<'a>> {
        if !schema.members().any(|(keyword, _)| is_reference(&keyword)) {
            return Some(schema);
        }
        let target = self.references.resolved(schema)?;
        if !is_same(schema, target) {
            self.left = self.left.checked_sub(1)?;
        }
        Some(target)
    }

    fn keyword(&mut self, keyword: &str, value: Json<'a>, key: &str, depth: usize, json: &mut Encoder) {
        match keyword {
            "title"
            | "$schema"
            | "$id"
            | "id"
            | "$comment"
            | "$defs"
            | "definitions"
            | "examples"
            | "example"
            | "additionalProperties"
            | "deprecated"
            | "readOnly"
            | "writeOnly" => {}
            "description" => {
                let said = value.as_str().and_then(|said| self.detail.of_argument(key, &said));
                if let Some(said) = said {
                    json.key("description").string(&said);
                }
            }
            "properties" | "patternProperties" if value.kind() == Kind::Object => {
                json.key(keyword).object(|json| {
                    for (key, schema) in value.members() {
                        let json = json.key(&key);
                        self.schema(schema, &key, depth + 1, json);
                    }
                });
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" if value.kind() == Kind::Array => {
                json.key(keyword).array(|json| {
                    value.elements().for_each(|branch| self.schema(branch, key, depth + 1, json));
                });
            }
            "items" | "not" => {
                let json = json.key(keyword);
                self.schema(value, key, depth + 1, json);
            }
            _ => json.key(keyword).compact(value),
        }
    }
}

/// Whether the keyword may lead to another schema; see [`References::resolved`].
fn is_reference(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "allOf")
}

fn is_same(one: Json<'_>, other: Json<'_>) -> bool {
    std::ptr::eq(one.raw(), other.raw())
}

/// The first sentence, cut between words so that it has at most [`SHORT`] characters.
fn shortened(description: &str) -> Cow<'_, str> {
    let line = description.trim().lines().next().unwrap_or_default();
    let sentence = line.find(". ").and_then(|end| line.get(..=end)).unwrap_or(line);
    let Some((end, _)) = sentence.char_indices().nth(SHORT) else { return sentence.into() };
    let head = sentence.get(..end).unwrap_or(sentence);
    let cut = head.rfind(' ').and_then(|end| head.get(..end)).unwrap_or(head);
    format!("{}…", cut.trim_end()).into()
}

/// Whether a description only repeats the argument's name.
fn is_obvious(key: &str, description: &str) -> bool {
    const FILLERS: [&str; 16] = [
        "the", "a", "an", "of", "to", "for", "in", "is", "this", "name", "value", "string", "number", "list",
        "optional", "be",
    ];
    let known = words(key);
    description.len() <= SHORT
        && words(description).iter().all(|word| {
            FILLERS.contains(&word.as_str())
                || known.iter().any(|known| word.strip_suffix('s').unwrap_or(word) == known || word == known)
        })
}

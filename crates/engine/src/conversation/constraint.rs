//! [`Constraint`]: the constraint that an upstream is asked to enforce while the model writes.

use serde_json::Value;

/// A constraint on the response. The upstream's dialect decides how to request it.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// The whole response is JSON that matches this schema.
    Schema(Value),
    /// The text is free up to a trigger; from the trigger on, it must be one of the tags.
    Tags(StructuralTags),
    /// The whole response matches this grammar in GBNF, llama.cpp's notation, which xgrammar reads as well.
    Grammar(String),
    /// The response continues this text, which begins the assistant's turn.
    Prefill(String),
}

impl Constraint {
    /// Whether the constraint applies from the first token on, so that no text or reasoning can precede the
    /// call.
    #[must_use]
    pub fn applies_at_once(&self) -> bool {
        !matches!(self, Self::Tags(StructuralTags { at_least_one: false, .. }))
    }
}

/// The text with which a request has begun the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefill {
    /// The text.
    pub text: String,
    /// Whether the server's responses repeat the text at their beginning.
    pub is_repeated: bool,
}

/// Constrained calls between fixed texts, as servers with xgrammar enforce them.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuralTags {
    /// The texts with which a tag begins. Each [`Tag::begin`] begins with exactly one of them.
    pub triggers: Vec<String>,
    /// What may follow a trigger.
    pub tags: Vec<Tag>,
    /// The response begins with a tag.
    pub at_least_one: bool,
    /// The response ends after the first tag.
    pub only_one: bool,
}

/// A piece of JSON between two fixed texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    /// The text before the JSON, including the trigger.
    pub begin: String,
    /// The schema of the JSON.
    pub schema: Value,
    /// The text after the JSON.
    pub end: String,
}

//! [`Constraint`]: what an upstream should enforce while the model generates text.

use serde_json::Value;

/// A constraint on the response. The upstream's dialect determines how to request it.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// The complete response is JSON that matches this schema.
    Schema(Value),
    /// Text is free up to a trigger, which must be followed by the rest of one of the tags.
    Tags(StructuralTags),
    /// The complete response matches this grammar.
    Grammar(Gbnf),
    /// The response continues this text, which is the start of the assistant's turn.
    Prefill(String),
}

impl Constraint {
    /// Whether the constraint applies from the first token on, so that no text or reasoning can precede a
    /// call.
    #[must_use]
    pub fn applies_at_once(&self) -> bool {
        match self {
            Self::Tags(tags) => tags.at_least_one,
            Self::Grammar(grammar) => !grammar.allows_text,
            Self::Schema(_) | Self::Prefill(_) => true,
        }
    }

    /// Whether every response is a call in the right form, so that the model need not be shown the form.
    #[must_use]
    pub fn enforces_form(&self) -> bool {
        self.applies_at_once() && !matches!(self, Self::Prefill(_))
    }
}

/// A grammar in llama.cpp's GBNF notation, which xgrammar also reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gbnf {
    /// The rules, one per line. The first is `root`.
    pub rules: String,
    /// Whether the response may be text, and calls may follow text.
    pub allows_text: bool,
}

/// The text with which a request starts the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefill {
    /// The text.
    pub text: String,
    /// Whether the server repeats the text at the start of its response.
    pub is_repeated: bool,
}

/// Constrained calls between fixed strings, as enforced by servers with xgrammar.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuralTags {
    /// The strings that trigger a tag. Each [`Tag::begin`] starts with exactly one of them.
    pub triggers: Vec<String>,
    /// The tags that a trigger may start.
    pub tags: Vec<Tag>,
    /// Whether the response must start with a tag.
    pub at_least_one: bool,
    /// Whether the response ends after the first tag.
    pub only_one: bool,
}

/// JSON between two fixed strings.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    /// The text before the JSON, including the trigger.
    pub begin: String,
    /// The schema of the JSON.
    pub schema: Value,
    /// The text after the JSON.
    pub end: String,
}

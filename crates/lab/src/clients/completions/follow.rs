//! Text completions: docs/protocols/completions.md#clients.

use serde::Deserialize;

use crate::follow::{
    DONE, EventReader, failure,
    field::{Field, SmallList, decoded},
    notes::Notes,
    parse,
    sample::TokenKind,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    object: Field<'a>,
    created: Field<'a>,
    model: Field<'a>,
    choices: Option<SmallList<Choice<'a>>>,
    usage: Field<'a>,
    error: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Field<'a>,
    text: Field<'a>,
    reasoning_content: Field<'a>,
    finish_reason: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    completion_tokens: Field<'a>,
}

/// The state of a stream.
#[derive(Debug, Default)]
pub(super) struct Completions {
    id: Option<String>,
    is_finished: bool,
    is_failed: bool,
    is_over: bool,
    scratch: String,
}

impl EventReader for Completions {
    fn event(&mut self, _name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if self.is_over {
            return notes.breaks("data follows [DONE]");
        }
        if data == DONE {
            self.is_over = true;
            notes.holds(self.is_finished || self.is_failed, "a stream has no finish_reason");
            return notes.ends();
        }
        notes.holds(!self.is_failed, "data follows an error");
        if let Some(chunk) = parse::<Chunk<'_>>(data, notes) {
            self.chunk(&chunk, notes);
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without [DONE]"
    }
}

impl Completions {
    fn chunk(&mut self, chunk: &Chunk<'_>, notes: &mut Notes<'_>) {
        if chunk.error.has_value() {
            self.is_failed = true;
            return failure(chunk.error, "an error has no message", notes);
        }
        notes.holds(chunk.object.is("text_completion"), "a chunk is not a text_completion");
        notes.holds(chunk.created.number().is_some(), "a chunk has no created");
        notes.holds(chunk.model.word().is_some(), "a chunk has no model");
        let id = chunk.id.word().unwrap_or_default();
        let is_same = self.id.get_or_insert_with(|| id.to_owned()) == id && !id.is_empty();
        notes.holds(is_same, "a chunk has no id, or another one");
        notes.holds(chunk.choices.is_some(), "a chunk has no choices");
        for choice in chunk.choices.iter().flat_map(SmallList::iter) {
            self.choice(choice, notes);
        }
        if chunk.usage.has_value() {
            notes.sample.usage = chunk.usage.read::<Usage<'_>>().completion_tokens.number();
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, notes: &mut Notes<'_>) {
        notes.holds(choice.index.number().is_some(), "a choice has no index");
        notes.holds(choice.text.text().is_some(), "a choice has no text");
        if choice.index.number() != Some(0) {
            return;
        }
        let pieces = [(TokenKind::Reasoning, choice.reasoning_content), (TokenKind::Text, choice.text)];
        for (kind, field) in pieces {
            let text = decoded(field.text().unwrap_or_default(), &mut self.scratch);
            notes.holds(text.is_empty() || !self.is_finished, "content follows the finish_reason");
            notes.token(kind, text);
        }
        if choice.finish_reason.has_value() {
            notes.holds(!self.is_finished, "there are two finish reasons");
            let is_known =
                ["stop", "length", "content_filter"].iter().any(|word| choice.finish_reason.is(word));
            notes.holds(is_known, "a finish_reason is unknown");
            self.is_finished = true;
        }
    }
}

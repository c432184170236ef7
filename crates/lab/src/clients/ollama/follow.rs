//! Ollama's JSON Lines: docs/protocols/ollama.md#clients.

use serde::Deserialize;

use crate::follow::{
    EventReader,
    field::{Field, SmallList},
    notes::Notes,
    parse,
    sample::TokenKind,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    model: Field<'a>,
    created_at: Field<'a>,
    message: Option<Message<'a>>,
    response: Field<'a>,
    thinking: Field<'a>,
    done: Field<'a>,
    done_reason: Field<'a>,
    eval_count: Field<'a>,
    error: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    role: Field<'a>,
    content: Field<'a>,
    thinking: Field<'a>,
    tool_calls: Option<SmallList<Call<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Field<'a>,
    arguments: Field<'a>,
}

/// The state of a stream.
#[derive(Debug, Default)]
pub(super) struct Ollama {
    is_over: bool,
    scratch: String,
}

impl EventReader for Ollama {
    fn event(&mut self, _name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if self.is_over {
            return notes.breaks("a line follows the last one");
        }
        if let Some(line) = parse::<Line<'_>>(data, notes) {
            self.line(&line, notes);
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without a line with done: true"
    }
}

impl Ollama {
    fn line(&mut self, line: &Line<'_>, notes: &mut Notes<'_>) {
        if line.error.has_value() {
            self.is_over = true;
            notes.holds(line.error.word().is_some(), "an error is not a text");
            return notes.fails(line.error.told());
        }
        notes.holds(line.model.word().is_some(), "a line has no model");
        notes.holds(line.created_at.word().is_some(), "a line has no created_at");
        let has_content = line.message.is_some() || line.response.text().is_some();
        notes.holds(has_content, "a line has neither message nor response");
        if let Some(message) = &line.message {
            notes.holds(message.role.is("assistant"), "a message does not have the role assistant");
            notes.content(TokenKind::Reasoning, message.thinking, &mut self.scratch);
            notes.content(TokenKind::Text, message.content, &mut self.scratch);
            for call in message.tool_calls.iter().flat_map(SmallList::iter) {
                call_of(call, notes);
            }
        }
        notes.content(TokenKind::Reasoning, line.thinking, &mut self.scratch);
        notes.content(TokenKind::Text, line.response, &mut self.scratch);
        if line.done.raw() == "true" {
            self.is_over = true;
            notes.holds(line.done_reason.word().is_some(), "the last line has no done_reason");
            notes.sample.usage = line.eval_count.number();
            notes.ends();
        } else {
            notes.holds(line.done.raw() == "false", "a line does not say whether it is the last");
        }
    }
}

/// Checks a call, which is whole.
fn call_of(call: &Call<'_>, notes: &mut Notes<'_>) {
    let function = call.function.as_ref();
    notes.holds(function.is_some_and(|function| function.name.word().is_some()), "a call has no name");
    notes.holds(
        function.is_some_and(|function| function.arguments.is_object()),
        "a call's arguments are not an object",
    );
    notes.call_begins();
    if let Some(function) = function {
        notes.call_goes_on(function.arguments.raw());
    }
}

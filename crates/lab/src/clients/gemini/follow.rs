//! Gemini's API: docs/protocols/gemini.md#stream.

use serde::Deserialize;

use crate::follow::{
    DONE, EventReader,
    field::{Field, SmallList, decoded},
    notes::Notes,
    parse,
    sample::TokenKind,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<SmallList<Candidate<'a>>>,
    usage_metadata: Field<'a>,
    model_version: Field<'a>,
    response_id: Field<'a>,
    error: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    role: Field<'a>,
    parts: Option<SmallList<Part<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Field<'a>,
    thought: Field<'a>,
    function_call: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    name: Field<'a>,
    args: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Usage<'a> {
    #[serde(borrow)]
    candidates_token_count: Field<'a>,
    thoughts_token_count: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure<'a> {
    #[serde(borrow)]
    code: Field<'a>,
    message: Field<'a>,
    status: Field<'a>,
}

/// The state of a stream.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    head: Option<(String, String)>,
    ids: Vec<String>,
    ended: bool,
    scratch: String,
}

impl EventReader for Gemini {
    fn event(&mut self, _name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if data == DONE {
            return notes.holds(self.ended, "[DONE] precedes the end of the stream");
        }
        notes.holds(!self.ended, "an event follows the end of the stream");
        let Some(response) = parse::<Response<'_>>(data, notes) else { return };
        if response.error.has_value() {
            return self.fail(response.error, notes);
        }
        self.head(&response, notes);
        let usage: Usage<'_> = response.usage_metadata.read();
        if let Some(tokens) = usage.candidates_token_count.number() {
            notes.sample.usage = Some(tokens + usage.thoughts_token_count.number().unwrap_or(0));
        }
        let mut candidates = response.candidates.iter().flat_map(SmallList::iter);
        let Some(candidate) = candidates.next() else { return };
        notes.holds(candidates.next().is_none(), "there is more than one candidate");
        if let Some(content) = &candidate.content {
            notes.holds(content.role.is("model"), "a content's role is not model");
            content.parts.iter().flat_map(SmallList::iter).for_each(|part| self.part(part, notes));
        }
        if candidate.finish_reason.word().is_some() {
            self.ended = true;
            notes.ends();
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without a finishReason"
    }
}

impl Gemini {
    fn head(&mut self, response: &Response<'_>, notes: &mut Notes<'_>) {
        let (id, model) = (response.response_id.word(), response.model_version.word());
        let (Some(id), Some(model)) = (id, model) else {
            return notes.breaks("a response lacks responseId or modelVersion");
        };
        match &self.head {
            Some((known, of)) => {
                notes.holds(known == id && of == model, "responseId or modelVersion changes within a stream");
            }
            None => self.head = Some((id.to_owned(), model.to_owned())),
        }
    }

    fn part(&mut self, part: &Part<'_>, notes: &mut Notes<'_>) {
        if let Some(text) = part.text.text() {
            let kind = if part.thought.raw() == "true" { TokenKind::Reasoning } else { TokenKind::Text };
            return notes.token(kind, decoded(text, &mut self.scratch));
        }
        if part.function_call.has_value() {
            let call: Call<'_> = part.function_call.read();
            let id = call.id.word().unwrap_or_default();
            notes.holds(!id.is_empty(), "a functionCall has no id");
            notes.holds(call.name.word().is_some(), "a functionCall has no name");
            notes.holds(call.args.is_object(), "a functionCall's args are not an object");
            notes.holds(!self.ids.iter().any(|known| known == id), "two functionCalls have the same id");
            self.ids.push(id.to_owned());
            notes.call_begins();
            notes.call_goes_on(call.args.raw());
        }
    }

    fn fail(&mut self, error: Field<'_>, notes: &mut Notes<'_>) {
        self.ended = true;
        let failure: Failure<'_> = error.read();
        let is_whole = failure.code.number().is_some()
            && failure.message.word().is_some()
            && failure.status.word().is_some();
        notes.holds(is_whole, "an error is not an object with code, message and status");
        notes.fails(if failure.message.word().is_some() { failure.message } else { error }.told());
    }
}

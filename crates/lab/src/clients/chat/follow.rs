//! Chat Completions: docs/protocols/chat.md#stream and docs/protocols/chat.md#errors-and-keep-alives.

use serde::Deserialize;

use crate::follow::{
    DONE, EventReader,
    calls::{Call, CallDelta},
    failure,
    field::{Field, SmallList},
    notes::Notes,
    parse,
    sample::TokenKind,
};

/// Maximum number of choices, and of calls per choice. More are a violation.
const MAX_CHOICES: usize = 16;
const MAX_CALLS: usize = 256;

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
    delta: Option<Delta<'a>>,
    finish_reason: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    role: Field<'a>,
    content: Field<'a>,
    reasoning_content: Field<'a>,
    reasoning: Field<'a>,
    refusal: Field<'a>,
    tool_calls: Option<SmallList<CallDelta<'a>>>,
    /// toolwire's extension for calls that have already run, with their results.
    tool_results: Option<SmallList<Answered<'a>>>,
    /// The format used before November 2023.
    #[serde(rename = "function_call")]
    legacy: Option<Legacy<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Legacy<'a> {
    #[serde(borrow)]
    name: Field<'a>,
    arguments: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answered<'a> {
    #[serde(borrow)]
    index: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    completion_tokens: Field<'a>,
}

/// The state of a chat stream.
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// `id` and `created` of the first chunk.
    id: Option<String>,
    created: Option<String>,
    choices: Vec<Progress>,
    told_usage: bool,
    failed: bool,
    done: bool,
    scratch: String,
}

/// The state of a choice.
#[derive(Debug, Default)]
struct Progress {
    begun: bool,
    calls: Vec<Call>,
    legacy: Option<Call>,
    finish: Option<Finish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Stop,
    Calls,
    LegacyCall,
    /// `length` or `content_filter`, which allow truncated calls.
    Cut,
    Unknown,
}

impl Finish {
    fn read(word: &str) -> Self {
        match word {
            "stop" => Self::Stop,
            "tool_calls" => Self::Calls,
            "function_call" => Self::LegacyCall,
            "length" | "content_filter" => Self::Cut,
            _ => Self::Unknown,
        }
    }
}

impl EventReader for Chat {
    fn event(&mut self, _name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if self.done {
            return notes.breaks("data follows [DONE]");
        }
        if data == DONE {
            self.done = true;
            self.close(notes);
            return notes.ends();
        }
        if self.failed {
            notes.breaks("data follows an error");
        }
        if let Some(chunk) = parse::<Chunk<'_>>(data, notes) {
            self.chunk(&chunk, notes);
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without [DONE]"
    }
}

impl Chat {
    fn chunk(&mut self, chunk: &Chunk<'_>, notes: &mut Notes<'_>) {
        if chunk.error.has_value() {
            self.failed = true;
            notes.holds(chunk.choices.is_none(), "an error stands beside choices");
            return failure(chunk.error, "an error is not an object with message and type", notes);
        }
        self.head(chunk, notes);
        notes.holds(!self.told_usage, "a chunk follows the usage");
        match &chunk.choices {
            None => notes.breaks("a chunk has no choices"),
            Some(choices) => choices.iter().for_each(|choice| self.choice(choice, notes)),
        }
        if chunk.usage.has_value() {
            self.usage(chunk, notes);
        }
    }

    fn head(&mut self, chunk: &Chunk<'_>, notes: &mut Notes<'_>) {
        notes
            .holds(chunk.object.is("chat.completion.chunk"), "a chunk's object is not chat.completion.chunk");
        notes.holds(chunk.model.word().is_some(), "a chunk has no model");
        match (chunk.id.word(), &self.id) {
            (None, _) => notes.breaks("a chunk has no id"),
            (Some(id), None) => self.id = Some(id.to_owned()),
            (Some(id), Some(first)) => notes.holds(id == first, "the id changes"),
        }
        match (chunk.created.number(), &self.created) {
            (None, _) => notes.breaks("a chunk has no created, an integer"),
            (Some(_), None) => self.created = Some(chunk.created.raw().to_owned()),
            (Some(_), Some(first)) => notes.holds(chunk.created.raw() == first, "created changes"),
        }
    }

    fn usage(&mut self, chunk: &Chunk<'_>, notes: &mut Notes<'_>) {
        self.told_usage = true;
        let alone = chunk.choices.as_ref().is_none_or(SmallList::is_empty);
        notes.holds(alone, "the usage is in a chunk with choices");
        let finished = !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some());
        notes.holds(finished, "the usage comes before the finish_reason");
        let usage: Usage<'_> = chunk.usage.read();
        match usage.completion_tokens.number() {
            None => notes.breaks("the usage has no completion_tokens"),
            tokens => notes.sample.usage = tokens,
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, notes: &mut Notes<'_>) {
        let known = self.choices.len();
        let index = choice.index.number();
        notes.holds(index.is_some(), "a choice has no index");
        let index = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
        if index >= known {
            notes.holds(index == known, "a choice's index is not the next one");
            if known == MAX_CHOICES {
                return notes.breaks("there are more than 16 choices; the others are not checked");
            }
            self.choices.push(Progress::default());
        }
        if let Some(progress) = self.choices.get_mut(index.min(known)) {
            progress.choice(choice, &mut self.scratch, notes);
        }
    }

    /// Checks at `[DONE]` that nothing is missing.
    fn close(&mut self, notes: &mut Notes<'_>) {
        if self.failed {
            return;
        }
        notes.holds(!self.choices.is_empty(), "there is no choice");
        for choice in &self.choices {
            notes.holds(choice.finish.is_some(), "there is no finish_reason");
            if choice.finish != Some(Finish::Cut) {
                choice.calls.iter().chain(&choice.legacy).for_each(|call| call.close(notes));
            }
        }
    }
}

impl Progress {
    fn choice(&mut self, choice: &Choice<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let nothing = Delta::default();
        notes.holds(choice.delta.is_some(), "a choice has no delta");
        let delta = choice.delta.as_ref().unwrap_or(&nothing);
        self.role(delta, notes);
        let before = notes.sample.tokens.len();
        let reasoning =
            if delta.reasoning_content.has_value() { delta.reasoning_content } else { delta.reasoning };
        notes.content(TokenKind::Reasoning, reasoning, scratch);
        notes.content(TokenKind::Text, delta.content, scratch);
        notes.content(TokenKind::Text, delta.refusal, scratch);
        for call in delta.tool_calls.iter().flat_map(SmallList::iter) {
            self.call(call, scratch, notes);
        }
        for answered in delta.tool_results.iter().flat_map(SmallList::iter) {
            let index = answered.index.number().and_then(|index| usize::try_from(index).ok());
            if let Some(call) = index.and_then(|index| self.calls.get_mut(index)) {
                call.is_answered = true;
            }
        }
        if let Some(legacy) = &delta.legacy {
            self.legacy(legacy, scratch, notes);
        }
        let silent =
            notes.sample.tokens.len() == before && delta.tool_calls.as_ref().is_none_or(SmallList::is_empty);
        notes.holds(silent || self.finish.is_none(), "a choice continues after its finish_reason");
        if choice.finish_reason.has_value() {
            self.finish(choice.finish_reason, notes);
        }
    }

    fn role(&mut self, delta: &Delta<'_>, notes: &mut Notes<'_>) {
        if self.begun {
            return notes.holds(delta.role.word().is_none(), "the role is repeated");
        }
        self.begun = true;
        notes.holds(delta.role.is("assistant"), "a choice's first chunk does not have the role assistant");
        let both = delta.role.word().is_some() && delta.content.word().is_some();
        notes.holds(!both, "the chunk with the role has content");
    }

    fn call(&mut self, delta: &CallDelta<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let known = self.calls.len();
        let index = delta.index.number().and_then(|index| usize::try_from(index).ok());
        notes.holds(index.is_some(), "a tool-call delta has no index");
        // If there is no index, tolerant clients start a new call when the id changes.
        let index = index.unwrap_or(if delta.begins() { known } else { known.saturating_sub(1) });
        if index < known {
            if let Some(call) = self.calls.get_mut(index) {
                call.go_on(delta, scratch, notes);
            }
            return;
        }
        notes.holds(index == known, "a new call's index is not the next one");
        if known == MAX_CALLS {
            return notes.breaks("there are more than 256 calls; the others are not checked");
        }
        let call = Call::begin(delta, scratch, notes);
        notes.holds(!self.calls.iter().any(|other| other.has_id_of(&call)), "two calls have the same id");
        self.calls.push(call);
    }

    fn legacy(&mut self, delta: &Legacy<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let call = self.legacy.get_or_insert_with(|| {
            notes.holds(delta.name.word().is_some(), "a call begins without its name");
            Call::default()
        });
        if delta.name.word().is_some() {
            notes.call_begins();
        }
        if delta.arguments.has_value() {
            call.arguments(delta.arguments, scratch, notes);
        }
    }

    fn finish(&mut self, reason: Field<'_>, notes: &mut Notes<'_>) {
        notes.holds(self.finish.is_none(), "there is more than one finish_reason");
        let word = reason.text().unwrap_or_default();
        let finish = Finish::read(word);
        if finish == Finish::Unknown {
            notes.breaks_by("the finish_reason is not one of the API's", word);
        }
        let expected = if self.calls.iter().any(|call| !call.is_answered) {
            Some(Finish::Calls)
        } else {
            self.legacy.is_some().then_some(Finish::LegacyCall)
        };
        match expected {
            None => notes.holds(
                !matches!(finish, Finish::Calls | Finish::LegacyCall),
                "the finish_reason says calls, but there are none",
            ),
            Some(expected) if finish != expected && finish != Finish::Cut => {
                notes.breaks_by("there are calls, but the finish_reason does not say so", word);
            }
            Some(_) => {}
        }
        self.finish = self.finish.or(Some(finish));
    }
}

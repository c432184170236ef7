//! Google's Interactions API: docs/protocols/interactions.md#stream.

use serde::Deserialize;

use crate::follow::{
    DONE, EventReader,
    field::{Document, Field, decoded},
    notes::Notes,
    parse,
    sample::TokenKind,
};

/// Maximum number of steps. More are a violation.
const MAX_STEPS: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow)]
    event_type: Field<'a>,
    interaction: Field<'a>,
    index: Field<'a>,
    step: Field<'a>,
    delta: Option<Delta<'a>>,
    error: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interaction<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    object: Field<'a>,
    status: Field<'a>,
    model: Field<'a>,
    usage: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    total_output_tokens: Field<'a>,
    total_thought_tokens: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Step<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    id: Field<'a>,
    name: Field<'a>,
    arguments: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    text: Field<'a>,
    arguments: Field<'a>,
    content: Option<Content<'a>>,
    signature: Field<'a>,
    data: Field<'a>,
    annotations: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    text: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure<'a> {
    #[serde(borrow)]
    code: Field<'a>,
    message: Field<'a>,
}

/// The state of a stream.
#[derive(Debug, Default)]
pub(super) struct Interactions {
    id: Option<String>,
    steps: Vec<Begun>,
    ended: bool,
    scratch: String,
}

/// A step that has started.
#[derive(Debug)]
struct Begun {
    kind: Kind,
    id: String,
    open: bool,
    arguments: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Output,
    Thought,
    Call,
    /// What Google's servers do, and kinds that the API may add later.
    Other,
}

impl EventReader for Interactions {
    fn event(&mut self, name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if data == DONE {
            return notes.holds(self.ended, "[DONE] precedes the end of the stream");
        }
        notes.holds(!self.ended, "an event follows the end of the stream");
        let Some(event) = parse::<Event<'_>>(data, notes) else { return };
        let kind = event.event_type.text().unwrap_or_default();
        notes.holds(kind.as_bytes() == name, "an event's `event:` line differs from its event_type");
        if kind != "interaction.created" {
            notes.holds(self.id.is_some(), "the first event is not interaction.created");
        }
        match kind {
            "step.delta" => self.delta(&event, notes),
            "step.start" => self.start(&event, notes),
            "step.stop" => self.stop(&event, notes),
            "interaction.created" => self.begin(event.interaction, notes),
            "interaction.status_update" => {}
            "interaction.completed" => self.end(event.interaction, notes),
            "error" => {
                self.ended = true;
                let failure: Failure<'_> = event.error.read();
                let is_whole = failure.code.word().is_some() && failure.message.word().is_some();
                notes.holds(is_whole, "an error is not an object with code and message");
                notes.fails(failure.message.told());
            }
            _ => notes.breaks_by("an event has an unknown type", kind),
        }
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without interaction.completed"
    }
}

impl Interactions {
    fn begin(&mut self, interaction: Field<'_>, notes: &mut Notes<'_>) {
        notes.holds(self.id.is_none(), "interaction.created is repeated");
        let interaction: Interaction<'_> = interaction.read();
        let id = interaction.id.word().unwrap_or_default();
        let is_whole = !id.is_empty()
            && interaction.object.is("interaction")
            && interaction.status.is("in_progress")
            && interaction.model.word().is_some();
        notes.holds(is_whole, "interaction.created has no interaction with id, object, status and model");
        self.id = Some(id.to_owned());
    }

    fn start(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let known = self.steps.len();
        let next = event.index.number() == u64::try_from(known).ok();
        notes.holds(next, "a new step's index is not the next one");
        if known == MAX_STEPS {
            return notes.breaks("there are more than 1024 steps; the others are not checked");
        }
        let step: Step<'_> = event.step.read();
        let kind = match step.kind.text().unwrap_or_default() {
            "model_output" => Kind::Output,
            "thought" => Kind::Thought,
            "function_call" => Kind::Call,
            other => {
                notes.holds(!other.is_empty(), "a step has no type");
                Kind::Other
            }
        };
        let id = step.id.word().unwrap_or_default();
        if kind == Kind::Call {
            notes.holds(!id.is_empty(), "a function_call has no id");
            notes.holds(step.name.word().is_some(), "a function_call has no name");
            notes.holds(step.arguments.is_object(), "a function_call's arguments are not an object");
            let is_new = !self.steps.iter().any(|other| !id.is_empty() && other.id == id);
            notes.holds(is_new, "two function_calls have the same id");
            if step.name.word().is_some() {
                notes.call_begins();
            }
            if step.arguments.is_object() && !step.arguments.is_empty() {
                notes.call_goes_on(step.arguments.raw());
            }
        }
        self.steps.push(Begun { kind, id: id.to_owned(), open: true, arguments: Document::default() });
    }

    fn delta(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let nothing = Delta::default();
        notes.holds(event.delta.is_some(), "a step.delta has no delta");
        let delta = event.delta.as_ref().unwrap_or(&nothing);
        let step = open(&mut self.steps, event.index);
        let kind = step.as_ref().map(|step| step.kind);
        notes.holds(kind.is_some(), "a delta belongs to a step that is not open");
        let (wanted, field) = match delta.kind.text().unwrap_or_default() {
            "text" => (Kind::Output, delta.text),
            "thought_summary" => {
                (Kind::Thought, delta.content.as_ref().map(|content| content.text).unwrap_or_default())
            }
            "thought_signature" => (Kind::Thought, delta.signature),
            "arguments_delta" => (Kind::Call, delta.arguments),
            "image" => (Kind::Output, delta.data),
            "text_annotation_delta" => {
                return notes.holds(!delta.annotations.is_null(), "a delta lacks the member of its type");
            }
            other => return notes.breaks_by("a delta has an unknown type", other),
        };
        let fits = kind.is_none_or(|kind| kind == wanted || kind == Kind::Other);
        notes.holds(fits, "a delta's type is not one of its step's");
        let Some(body) = field.text() else {
            return notes.breaks("a delta lacks the member of its type");
        };
        let piece = decoded(body, &mut self.scratch);
        match wanted {
            Kind::Output if delta.text.has_value() => notes.token(TokenKind::Text, piece),
            Kind::Thought if delta.content.is_some() => notes.token(TokenKind::Reasoning, piece),
            Kind::Call => {
                notes.call_goes_on(piece);
                if let Some(step) = step {
                    step.arguments.push(piece);
                }
            }
            _ => {}
        }
    }

    fn stop(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let Some(step) = open(&mut self.steps, event.index) else {
            return notes.breaks("step.stop belongs to a step that is not open");
        };
        step.open = false;
        // Without deltas, the start event contains the arguments.
        let is_whole = step.arguments.is_empty() || step.arguments.is_whole();
        notes.holds(is_whole, "a call's arguments are not JSON when they are joined");
    }

    fn end(&mut self, interaction: Field<'_>, notes: &mut Notes<'_>) {
        self.ended = true;
        let interaction: Interaction<'_> = interaction.read();
        let is_same = interaction.id.text() == self.id.as_deref();
        notes.holds(is_same, "interaction.completed has another id than interaction.created");
        let usage: Usage<'_> = interaction.usage.read();
        let thoughts = usage.total_thought_tokens.number().unwrap_or(0);
        notes.sample.usage = usage.total_output_tokens.number().map(|output| output + thoughts);
        let status = interaction.status.text().unwrap_or_default();
        let is_known = matches!(status, "completed" | "requires_action" | "incomplete");
        if !is_known {
            notes.breaks_by("the status at the end is not one of the API's", status);
        }
        let is_open = self.steps.iter().any(|step| step.open);
        notes.holds(!is_open || status == "incomplete", "a step is still open at the end");
        let has_calls = self.steps.iter().any(|step| step.kind == Kind::Call && !step.open);
        match status {
            "completed" => notes.holds(!has_calls, "there are calls, but the status is completed"),
            "requires_action" => {
                notes.holds(has_calls, "the status is requires_action, but there is no call")
            }
            _ => {}
        }
        notes.ends();
    }
}

/// The step with this index, if it is open.
fn open<'s>(steps: &'s mut [Begun], index: Field<'_>) -> Option<&'s mut Begun> {
    let index = index.number().and_then(|index| usize::try_from(index).ok())?;
    steps.get_mut(index).filter(|step| step.open)
}

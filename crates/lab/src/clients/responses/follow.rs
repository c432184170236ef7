//! OpenAI Responses: docs/protocols/responses.md#events and docs/protocols/responses.md#client-tolerance.

mod item;

use serde::Deserialize;

use self::item::{Item, Slot};
use crate::follow::{
    DONE, EventReader, failure,
    field::{Field, SmallList},
    notes::Notes,
    parse,
    sample::TokenKind,
};

/// Maximum number of items. More are a violation.
const MAX_ITEMS: usize = 1024;

/// Events of server tools, audio and citations. Only the item of such an event is checked.
const OTHER_EVENTS: [&str; 28] = [
    "response.output_text.annotation.added",
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
    "response.file_search_call.in_progress",
    "response.file_search_call.searching",
    "response.file_search_call.completed",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.generating",
    "response.image_generation_call.partial_image",
    "response.image_generation_call.completed",
    "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call.completed",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.mcp_list_tools.in_progress",
    "response.mcp_list_tools.completed",
    "response.mcp_list_tools.failed",
    "response.mcp_call.in_progress",
    "response.mcp_call.completed",
    "response.mcp_call.failed",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "response.audio.delta",
    "response.audio.done",
    "response.audio.transcript.delta",
    "response.audio.transcript.done",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    sequence_number: Field<'a>,
    item_id: Field<'a>,
    output_index: Field<'a>,
    content_index: Field<'a>,
    summary_index: Field<'a>,
    delta: Field<'a>,
    text: Field<'a>,
    refusal: Field<'a>,
    arguments: Field<'a>,
    input: Field<'a>,
    part: Field<'a>,
    item: Field<'a>,
    response: Field<'a>,
    error: Field<'a>,
    code: Field<'a>,
    message: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    object: Field<'a>,
    created_at: Field<'a>,
    status: Field<'a>,
    model: Field<'a>,
    output: Option<SmallList<Output<'a>>>,
    parallel_tool_calls: Field<'a>,
    tool_choice: Field<'a>,
    tools: Field<'a>,
    usage: Field<'a>,
    error: Field<'a>,
    incomplete_details: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Output<'a> {
    #[serde(borrow)]
    id: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    output_tokens: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal<'a> {
    #[serde(borrow)]
    code: Field<'a>,
    message: Field<'a>,
}

/// The state of a Responses stream.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// The expected `sequence_number` of the next event.
    next: u64,
    /// The response's id.
    id: Option<String>,
    /// Whether `response.in_progress` has arrived.
    in_progress: bool,
    items: Vec<Item>,
    /// The number of the event that revealed invalid JSON in a call's arguments. The end of the response decides whether it
    /// is allowed.
    cut: Option<u64>,
    ended: bool,
    /// Whether an `error` event has just ended the stream.
    has_error: bool,
    scratch: String,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Incomplete,
    Failed,
}

impl EventReader for Responses {
    fn event(&mut self, name: &[u8], data: &str, notes: &mut Notes<'_>) {
        if data == DONE {
            return notes.holds(self.ended, "[DONE] precedes the end of the stream");
        }
        let Some(event) = parse::<Event<'_>>(data, notes) else { return };
        let kind = event.kind.text().unwrap_or_default();
        // `response.failed` may follow an `error`: some clients do not raise an exception, and read on.
        let ends_error = std::mem::take(&mut self.has_error) && kind == "response.failed";
        notes.holds(!self.ended || ends_error, "an event follows the end of the stream");
        if kind.is_empty() && event.error.has_value() {
            self.ended = true;
            notes.breaks("an error has the form of Chat Completions");
            return failure(event.error, "an error is not an object with message and type", notes);
        }
        notes.holds(kind.as_bytes() == name, "an event's `event:` line differs from its type");
        notes.holds(
            event.sequence_number.number() == Some(self.next),
            "sequence_number does not count from 0",
        );
        self.next = event.sequence_number.number().unwrap_or(self.next).saturating_add(1);
        self.order(kind, notes);
        self.dispatch(kind, &event, notes);
    }

    fn missing_end(&self) -> &'static str {
        "the stream ends without response.completed"
    }
}

impl Responses {
    /// Checks that the stream begins with `response.created`, then `response.in_progress`.
    fn order(&mut self, kind: &str, notes: &mut Notes<'_>) {
        if kind == "error" {
            return;
        }
        if self.id.is_none() {
            notes.holds(kind == "response.created", "the first event is not response.created");
            self.in_progress = kind != "response.created";
        } else if !self.in_progress {
            let begins = matches!(kind, "response.in_progress" | "response.queued" | "response.failed");
            notes.holds(begins, "response.in_progress does not follow response.created");
            self.in_progress |= kind != "response.queued";
        }
    }

    fn dispatch(&mut self, kind: &str, event: &Event<'_>, notes: &mut Notes<'_>) {
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text_delta(Slot::Content, TokenKind::Text, event, notes);
            }
            "response.reasoning_text.delta" => {
                self.text_delta(Slot::Reasoning, TokenKind::Reasoning, event, notes);
            }
            "response.reasoning_summary_text.delta" => {
                self.text_delta(Slot::Summary, TokenKind::Reasoning, event, notes);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.on_item(event, notes, |item, scratch, notes| {
                    item.arguments_delta(event, scratch, notes)
                });
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.on_item(event, notes, |item, scratch, notes| item.arguments_done(event, scratch, notes));
            }
            "response.output_text.done" | "response.refusal.done" => {
                self.text_done(Slot::Content, event, notes);
            }
            "response.reasoning_text.done" => self.text_done(Slot::Reasoning, event, notes),
            "response.reasoning_summary_text.done" => self.text_done(Slot::Summary, event, notes),
            "response.content_part.added" => self.part_added(Slot::Content, event, notes),
            "response.reasoning_summary_part.added" => self.part_added(Slot::Summary, event, notes),
            "response.content_part.done" => self.part_done(Slot::Content, event, notes),
            "response.reasoning_summary_part.done" => self.part_done(Slot::Summary, event, notes),
            "response.output_item.added" => self.item_added(event, notes),
            "response.output_item.done" => self.item_done(event, notes),
            "response.created" => self.created(event, notes),
            "response.in_progress" | "response.queued" => {
                self.response(event, notes);
            }
            "response.completed" => self.end(End::Completed, event, notes),
            "response.incomplete" => self.end(End::Incomplete, event, notes),
            "response.failed" => self.end(End::Failed, event, notes),
            "error" => self.error(event, notes),
            _ if OTHER_EVENTS.contains(&kind) => {
                if event.item_id.has_value() {
                    self.on_item(event, notes, |_, _, _| {});
                }
            }
            _ => notes.breaks_by("an event has an unknown type", kind),
        }
    }

    /// Calls `act` with the event's item, if it is open.
    fn on_item(
        &mut self,
        event: &Event<'_>,
        notes: &mut Notes<'_>,
        act: impl FnOnce(&mut Item, &mut String, &mut Notes<'_>),
    ) {
        let index = event.output_index.number();
        let item = self.items.iter_mut().rev().find(|item| Some(item.index) == index);
        let Some(item) = item.filter(|item| item.open) else {
            return notes.breaks("an event belongs to an output_index that is not open");
        };
        notes.holds(event.item_id.is(&item.id), "an event's item_id is not that of its item");
        act(item, &mut self.scratch, notes);
    }

    fn text_delta(&mut self, slot: Slot, kind: TokenKind, event: &Event<'_>, notes: &mut Notes<'_>) {
        self.on_item(event, notes, |item, scratch, notes| item.text_delta(slot, kind, event, scratch, notes));
    }

    fn text_done(&mut self, slot: Slot, event: &Event<'_>, notes: &mut Notes<'_>) {
        self.on_item(event, notes, |item, scratch, notes| item.text_done(slot, event, scratch, notes));
    }

    fn part_added(&mut self, slot: Slot, event: &Event<'_>, notes: &mut Notes<'_>) {
        self.on_item(event, notes, |item, _, notes| item.part_added(slot, event, notes));
    }

    fn part_done(&mut self, slot: Slot, event: &Event<'_>, notes: &mut Notes<'_>) {
        self.on_item(event, notes, |item, scratch, notes| item.part_done(slot, event, scratch, notes));
    }

    fn item_added(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let known = self.items.len();
        let next = event.output_index.number() == u64::try_from(known).ok();
        notes.holds(next, "a new item's output_index is not the next one");
        if known == MAX_ITEMS {
            return notes.breaks("there are more than 1024 items; the others are not checked");
        }
        let item = Item::begin(event, notes);
        let new = item.id.is_empty() || !self.items.iter().any(|other| other.id == item.id);
        notes.holds(new, "two items have the same id");
        let new = item.call_id.is_empty() || !self.items.iter().any(|other| other.call_id == item.call_id);
        notes.holds(new, "two calls have the same call_id");
        self.items.push(item);
    }

    fn item_done(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        let index = event.output_index.number();
        let item = self.items.iter_mut().rev().find(|item| Some(item.index) == index);
        let Some(item) = item.filter(|item| item.open) else {
            return notes.breaks("an item that is not open is done");
        };
        if !item.end(event.item, &mut self.scratch, notes) {
            self.cut.get_or_insert(notes.frame);
        }
    }

    fn created(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        notes.holds(self.id.is_none(), "response.created is repeated");
        let response = self.response(event, notes);
        let begun = matches!(response.status.text(), Some("in_progress" | "queued"));
        let empty = response.output.as_ref().is_some_and(SmallList::is_empty) && !response.usage.has_value();
        notes.holds(begun && empty, "response.created's response is not in_progress, with an empty output");
    }

    /// Reads the response object of a lifecycle event.
    fn response<'a>(&mut self, event: &Event<'a>, notes: &mut Notes<'_>) -> Response<'a> {
        let response: Response<'a> = event.response.read();
        let id = response.id.word();
        match &self.id {
            None => self.id = Some(id.unwrap_or_default().to_owned()),
            Some(first) => notes.holds(id == Some(first), "the response's id changes"),
        }
        let whole = id.is_some()
            && response.object.is("response")
            && response.created_at.has_value()
            && response.status.word().is_some()
            && response.model.word().is_some()
            && response.output.is_some()
            && response.parallel_tool_calls.has_value()
            && response.tool_choice.has_value()
            && response.tools.has_value();
        notes.holds(whole, "a response lacks a member that the API's types require");
        response
    }

    fn end(&mut self, end: End, event: &Event<'_>, notes: &mut Notes<'_>) {
        self.ended = true;
        let response = self.response(event, notes);
        let status = match end {
            End::Completed => "completed",
            End::Incomplete => "incomplete",
            End::Failed => "failed",
        };
        notes.holds(response.status.is(status), "the last response's status is not that of its event");
        let usage: Usage<'_> = response.usage.read();
        notes.sample.usage = usage.output_tokens.number().or(notes.sample.usage);
        if end == End::Failed {
            return self.failed(response.error, notes);
        }
        notes.holds(
            usage.output_tokens.number().is_some(),
            "the last response has no usage with output_tokens",
        );
        let output = response.output.iter().flat_map(SmallList::iter).map(|item| item.id.text());
        let told = self.items.iter().map(|item| Some(item.id.as_str()));
        notes.holds(output.eq(told), "the last response's output differs from the items of the stream");
        notes.holds(self.items.iter().all(|item| !item.open), "an item is not ended by output_item.done");
        if end == End::Incomplete {
            let details: Incomplete<'_> = response.incomplete_details.read();
            notes.holds(details.reason.word().is_some(), "response.incomplete has no reason");
        } else if let Some(frame) = self.cut {
            notes.frame = frame;
            notes.breaks("a call's arguments are not JSON when they are joined");
        }
        notes.ends();
    }

    fn failed(&self, error: Field<'_>, notes: &mut Notes<'_>) {
        let refusal: Refusal<'_> = error.read();
        let whole = refusal.code.word().is_some() && refusal.message.word().is_some();
        notes.holds(whole, "response.failed has no code and message");
        notes.fails(refusal.message.told());
    }

    fn error(&mut self, event: &Event<'_>, notes: &mut Notes<'_>) {
        (self.ended, self.has_error) = (true, true);
        notes.holds(event.message.word().is_some(), "an error event has no message");
        notes.holds(event.code.raw() != "", "an error event has no code");
        notes.fails(event.message.told());
    }
}

//! The items of a response that have deltas: messages, reasoning, and calls to client tools.
//!
//! Texts are stored as bodies of JSON strings, since the text of an item is written up to four times.

use super::{
    events::{Events, delta_prefix},
    rope::Rope,
};
use crate::{
    conversation::Namespaced,
    event::{Annotation, CallEnd, CallStart},
    wire::json::escape_str,
};

#[derive(Debug)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) id: String,
}

impl Place {
    /// The members by which events identify the item.
    pub(super) fn members(&self) -> String {
        format!("\"item_id\":\"{}\",\"output_index\":{}", self.id, self.index)
    }

    /// Writes `response.output_item.added` or `.done`.
    pub(super) fn put_item(&self, kind: &str, item: &Rope, events: &mut Events<'_>) {
        events.put_rope(kind, &[&format!("\"output_index\":{}", self.index), ",\"item\":"], item, "");
    }
}

pub(super) const ADDED: &str = "response.output_item.added";
pub(super) const DONE: &str = "response.output_item.done";

/// The status of an item that is complete, or that was cut off by the end of the response.
pub(super) fn status(is_whole: bool) -> &'static str {
    if is_whole { "completed" } else { "incomplete" }
}

pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    escape_str(&mut quoted, text);
    quoted.push('"');
    quoted
}

/// Text that is sent in deltas, and the start of these deltas.
#[derive(Debug)]
struct Streamed {
    prefix: String,
    body: Rope,
}

impl Streamed {
    fn new(prefix: String) -> Self {
        Self { prefix, body: Rope::default() }
    }

    /// Adds a piece. Returns the number of bytes that are stored.
    fn push(&mut self, text: &str, events: &mut Events<'_>) -> usize {
        let piece = self.body.push_escaped(text);
        events.delta(&self.prefix, piece);
        piece.len()
    }
}

#[derive(Debug)]
pub(super) struct Message {
    place: Place,
    /// The phase. Empty if the message has none.
    phase: String,
    parts: Vec<Rope>,
    part: Option<Part>,
}

#[derive(Debug)]
struct Part {
    kind: PartKind,
    text: Streamed,
    citations: Vec<String>,
    /// The log probabilities of the tokens, as JSON.
    logprobs: Vec<String>,
    /// Number of characters of text in the response before this part. Positions of citations are relative to
    /// this number.
    begins_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
}

impl Message {
    pub(super) fn begin(place: Place, phase: String, events: &mut Events<'_>) -> Self {
        let item = format!(
            "{{\"id\":\"{}\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]{}}}",
            place.id,
            phase_member(&phase)
        );
        place.put_item(ADDED, &item.into(), events);
        Self { place, phase, parts: Vec::new(), part: None }
    }

    pub(super) fn set_phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
    }

    /// Adds a piece of text. Returns the number of bytes that are stored.
    pub(super) fn push(&mut self, kind: PartKind, text: &str, at: u64, events: &mut Events<'_>) -> usize {
        self.open(kind, at, events).text.push(text, events)
    }

    /// Adds a piece of text with the log probabilities of its tokens, a JSON array. Returns the number of bytes that are
    /// stored.
    pub(super) fn push_with_logprobs(
        &mut self,
        text: &str,
        logprobs: &str,
        at: u64,
        events: &mut Events<'_>,
    ) -> usize {
        self.open(PartKind::Text, at, events);
        let more = format!(",\"logprobs\":{logprobs}");
        let prefix = delta_prefix("response.output_text.delta", &self.members(), &more);
        let Some(part) = &mut self.part else { return 0 };
        let piece = part.text.body.push_escaped(text);
        events.delta(&prefix, piece);
        let tokens = logprobs.trim().strip_prefix('[').and_then(|tokens| tokens.strip_suffix(']'));
        part.logprobs.extend(tokens.map(str::to_owned));
        piece.len() + logprobs.len()
    }

    /// Adds a citation. Returns the number of bytes that are stored.
    pub(super) fn cite(&mut self, annotation: &Annotation<'_>, at: u64, events: &mut Events<'_>) -> usize {
        let begins_at = self.open(PartKind::Text, at, events).begins_at;
        let from_part = |at: u64| at.saturating_sub(begins_at);
        let citation = format!(
            "{{\"type\":\"url_citation\",\"start_index\":{},\"end_index\":{},\"title\":{},\"url\":{}}}",
            from_part(annotation.span.0),
            from_part(annotation.span.1),
            quoted(&annotation.title),
            quoted(&annotation.url)
        );
        self.annotate(citation, at, events)
    }

    /// Adds an annotation, given as JSON. Returns the number of bytes that are stored.
    pub(super) fn annotate(&mut self, citation: String, at: u64, events: &mut Events<'_>) -> usize {
        self.open(PartKind::Text, at, events);
        let place = self.members();
        let Some(part) = &mut self.part else { return 0 };
        let index = format!(",\"annotation_index\":{},\"annotation\":", part.citations.len());
        events.put("response.output_text.annotation.added", &[&place, &index, &citation]);
        part.citations.push(citation);
        part.citations.last().map_or(0, String::len)
    }

    /// The members by which events identify the open part, or the next one.
    fn members(&self) -> String {
        part_members(&self.place, &self.parts)
    }

    fn open(&mut self, kind: PartKind, at: u64, events: &mut Events<'_>) -> &mut Part {
        if self.part.as_ref().is_some_and(|part| part.kind != kind) {
            self.end_part(events);
        }
        let Self { place, parts, part, .. } = self;
        part.get_or_insert_with(|| Part::begin(kind, &part_members(place, parts), at, events))
    }

    fn end_part(&mut self, events: &mut Events<'_>) {
        if let Some(part) = self.part.take() {
            let part = part.end(&self.members(), events);
            self.parts.push(part);
        }
    }

    /// Ends the item. Returns its position and its JSON.
    pub(super) fn end(mut self, is_whole: bool, events: &mut Events<'_>) -> (Place, Rope) {
        self.end_part(events);
        let (id, status) = (&self.place.id, status(is_whole));
        let mut item = Rope::from(format!(
            "{{\"id\":\"{id}\",\"type\":\"message\",\"status\":\"{status}\",\"role\":\"assistant\",\"content\":["
        ));
        for (at, part) in self.parts.iter().enumerate() {
            item.push(if at == 0 { "" } else { "," });
            item.append(part);
        }
        item.push("]");
        item.push(&phase_member(&self.phase));
        item.push("}");
        (self.place, item)
    }
}

/// The member of a message that gives its phase, if it has one.
fn phase_member(phase: &str) -> String {
    if phase.is_empty() { String::new() } else { format!(",\"phase\":{}", quoted(phase)) }
}

/// The members by which events identify the part that follows `parts` in a message.
fn part_members(place: &Place, parts: &[Rope]) -> String {
    format!("{},\"content_index\":{}", place.members(), parts.len())
}

impl Part {
    fn begin(kind: PartKind, place: &str, at: u64, events: &mut Events<'_>) -> Self {
        let (empty, prefix) = match kind {
            PartKind::Text => (
                "{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}",
                delta_prefix("response.output_text.delta", place, ",\"logprobs\":[]"),
            ),
            PartKind::Refusal => {
                ("{\"type\":\"refusal\",\"refusal\":\"\"}", delta_prefix("response.refusal.delta", place, ""))
            }
        };
        events.put("response.content_part.added", &[place, ",\"part\":", empty]);
        Self { kind, text: Streamed::new(prefix), citations: Vec::new(), logprobs: Vec::new(), begins_at: at }
    }

    /// Ends the part. Returns its JSON.
    fn end(self, place: &str, events: &mut Events<'_>) -> Rope {
        let text = self.text.body;
        let logprobs = format!(",\"logprobs\":[{}]", self.logprobs.join(","));
        let behind_text = format!("\"{logprobs}");
        let (done, key, behind) = match self.kind {
            PartKind::Text => ("response.output_text.done", ",\"text\":\"", behind_text.as_str()),
            PartKind::Refusal => ("response.refusal.done", ",\"refusal\":\"", "\""),
        };
        events.put_rope(done, &[place, key], &text, behind);
        let mut part = Rope::default();
        match self.kind {
            PartKind::Text => {
                part.push("{\"type\":\"output_text\",\"text\":\"");
                part.append(&text);
                part.push("\",\"annotations\":[");
                part.push_string(self.citations.join(","));
                part.push("]");
                part.push_string(logprobs);
                part.push("}");
            }
            PartKind::Refusal => {
                part.push("{\"type\":\"refusal\",\"refusal\":\"");
                part.append(&text);
                part.push("\"}");
            }
        }
        events.put_rope("response.content_part.done", &[place, ",\"part\":"], &part, "");
        part
    }
}

/// Reasoning. Its text is written as a summary, since that is what clients of the API display.
#[derive(Debug)]
pub(super) struct Reasoning {
    place: Place,
    summary: Option<Streamed>,
}

impl Reasoning {
    pub(super) fn begin(place: Place, events: &mut Events<'_>) -> Self {
        let item = format!("{{\"id\":\"{}\",\"type\":\"reasoning\",\"summary\":[]}}", place.id);
        place.put_item(ADDED, &item.into(), events);
        Self { place, summary: None }
    }

    /// Adds a piece of text. Returns the number of bytes that are stored.
    pub(super) fn push(&mut self, text: &str, events: &mut Events<'_>) -> usize {
        if self.summary.is_none() {
            let place = self.members();
            let part = ",\"part\":{\"type\":\"summary_text\",\"text\":\"\"}";
            events.put("response.reasoning_summary_part.added", &[&place, part]);
            let prefix = delta_prefix("response.reasoning_summary_text.delta", &place, "");
            self.summary = Some(Streamed::new(prefix));
        }
        match &mut self.summary {
            Some(summary) if !text.is_empty() => summary.push(text, events),
            _ => 0,
        }
    }

    fn members(&self) -> String {
        format!("{},\"summary_index\":0", self.place.members())
    }

    /// Ends the item, with the upstream's state if there is any. Returns its position and its JSON.
    pub(super) fn end(self, state: Option<&str>, events: &mut Events<'_>) -> (Place, Rope) {
        let place = self.members();
        let mut item =
            Rope::from(format!("{{\"id\":\"{}\",\"type\":\"reasoning\",\"summary\":[", self.place.id));
        if let Some(Streamed { body: text, .. }) = self.summary {
            let done = "response.reasoning_summary_text.done";
            events.put_rope(done, &[&place, ",\"text\":\""], &text, "\"");
            let mut part = Rope::default();
            part.push("{\"type\":\"summary_text\",\"text\":\"");
            part.append(&text);
            part.push("\"}");
            let done = "response.reasoning_summary_part.done";
            events.put_rope(done, &[&place, ",\"part\":"], &part, "");
            item.append(&part);
        }
        item.push("]");
        if let Some(state) = state {
            item.push(",\"encrypted_content\":");
            item.push_string(quoted(state));
        }
        item.push("}");
        (self.place, item)
    }
}

#[derive(Debug)]
pub(super) struct Call {
    /// The index of the call, see [`CallStart::index`].
    pub(super) index: u32,
    place: Place,
    form: Form,
    /// The members `call_id`, `name` and `namespace`, as JSON.
    names: String,
    text: Streamed,
}

/// How calls to functions differ from calls to custom tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    item: &'static str,
    pub(super) id: &'static str,
    /// The member that contains the arguments.
    key: &'static str,
    delta: &'static str,
    done: &'static str,
}

pub(super) const FUNCTION: Form = Form {
    item: "function_call",
    id: "fc",
    key: "arguments",
    delta: "response.function_call_arguments.delta",
    done: "response.function_call_arguments.done",
};

pub(super) const CUSTOM: Form = Form {
    item: "custom_tool_call",
    id: "ctc",
    key: "input",
    delta: "response.custom_tool_call_input.delta",
    done: "response.custom_tool_call_input.done",
};

impl Call {
    pub(super) fn begin(
        place: Place,
        form: Form,
        start: &CallStart<'_>,
        namespaced: Option<&Namespaced>,
        events: &mut Events<'_>,
    ) -> Self {
        let id = quoted(&start.id);
        let names = match namespaced {
            Some(Namespaced { namespace, inner, .. }) => {
                format!("\"call_id\":{id},\"name\":{},\"namespace\":{}", quoted(inner), quoted(namespace))
            }
            None => format!("\"call_id\":{id},\"name\":{}", quoted(&start.name)),
        };
        let prefix = delta_prefix(form.delta, &place.members(), "");
        let call = Self { index: start.index, place, form, names, text: Streamed::new(prefix) };
        call.place.put_item(ADDED, &call.item("in_progress"), events);
        call
    }

    /// Adds a piece of the arguments. Returns the number of bytes that are stored.
    pub(super) fn push(&mut self, piece: &str, events: &mut Events<'_>) -> usize {
        if piece.is_empty() { 0 } else { self.text.push(piece, events) }
    }

    /// Ends the item. Returns its position and its JSON.
    pub(super) fn end(mut self, end: CallEnd, events: &mut Events<'_>) -> (Place, Rope) {
        if end == CallEnd::Complete && self.text.body.is_empty() && self.form.key == FUNCTION.key {
            self.push("{}", events);
        }
        let key = format!(",\"{}\":\"", self.form.key);
        events.put_rope(self.form.done, &[&self.place.members(), &key], &self.text.body, "\"");
        // Arguments that are not JSON do not count as complete.
        let item = self.item(status(end == CallEnd::Complete));
        (self.place, item)
    }

    fn item(&self, status: &str) -> Rope {
        let Self { place, form, names, text, .. } = self;
        let (id, kind, key) = (&place.id, form.item, form.key);
        let mut item = Rope::from(format!(
            "{{\"id\":\"{id}\",\"type\":\"{kind}\",\"status\":\"{status}\",{names},\"{key}\":\""
        ));
        item.append(&text.body);
        item.push("\"}");
        item
    }
}

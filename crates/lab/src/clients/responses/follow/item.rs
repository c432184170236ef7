//! [`Item`]: the state of one item of a response's output.

use serde::Deserialize;

use super::Event;
use crate::follow::{
    field::{Document, Field, SmallList, Sum},
    notes::Notes,
    sample::TokenKind,
};

/// Maximum number of parts of an item. More are a violation.
const MAX_PARTS: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(rename = "type")]
    kind: Field<'a>,
    status: Field<'a>,
    role: Field<'a>,
    content: Option<SmallList<Part<'a>>>,
    summary: Option<SmallList<Part<'a>>>,
    call_id: Field<'a>,
    name: Field<'a>,
    arguments: Field<'a>,
    input: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    text: Field<'a>,
    refusal: Field<'a>,
}

impl<'a> Part<'a> {
    fn body(&self) -> Option<&'a str> {
        self.text.text().or(self.refusal.text())
    }
}

/// One item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) call_id: String,
    pub(super) open: bool,
    kind: Kind,
    name: String,
    /// A call's arguments.
    arguments: Sum,
    document: Document,
    whole: bool,
    content: Vec<Progress>,
    summary: Vec<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Function,
    Custom,
    /// Server tools, and kinds that the API may add later.
    Other,
}

impl Kind {
    fn read(word: &str) -> Self {
        match word {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Function,
            "custom_tool_call" => Self::Custom,
            _ => Self::Other,
        }
    }
}

/// One part of an item's text.
#[derive(Debug)]
struct Progress {
    sum: Sum,
    /// Whether the `done` event of the part's text has arrived.
    whole: bool,
    open: bool,
    /// Whether the part started with an event of its own.
    added: bool,
}

impl Progress {
    fn new(added: bool) -> Self {
        Self { sum: Sum::default(), whole: false, open: true, added }
    }
}

/// Where in an item a text belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A part of a message.
    Content,
    /// Raw reasoning, whose parts need no start event.
    Reasoning,
    /// A part of a reasoning summary.
    Summary,
}

impl Item {
    /// Handles `response.output_item.added`.
    pub(super) fn begin(event: &Event<'_>, notes: &mut Notes<'_>) -> Self {
        let body: Body<'_> = event.item.read();
        let text = |field: Field<'_>| field.text().unwrap_or_default().to_owned();
        let kind = Kind::read(body.kind.text().unwrap_or_default());
        notes.holds(body.id.word().is_some(), "an item has no id");
        notes.holds(body.kind.word().is_some(), "an item has no type");
        let in_progress = body.status.is("in_progress") || matches!(kind, Kind::Reasoning | Kind::Other);
        match kind {
            Kind::Message => {
                let empty = body.content.is_some_and(|content| content.is_empty());
                let begins = in_progress && empty && body.role.is("assistant");
                notes.holds(
                    begins,
                    "a message does not begin in_progress, with role assistant and content []",
                );
            }
            Kind::Function | Kind::Custom => {
                let arguments = if kind == Kind::Function { body.arguments } else { body.input };
                let named = body.call_id.word().is_some() && body.name.word().is_some();
                notes.holds(named, "a call begins without call_id or name");
                notes.holds(in_progress || kind == Kind::Custom, "a call does not begin in_progress");
                notes.holds(arguments.is(""), "a call does not begin with empty arguments");
                if body.name.word().is_some() {
                    notes.call_begins();
                }
            }
            Kind::Reasoning | Kind::Other => {}
        }
        Self {
            index: event.output_index.number().unwrap_or(u64::MAX),
            id: text(body.id),
            call_id: text(body.call_id),
            open: true,
            kind,
            name: text(body.name),
            arguments: Sum::default(),
            document: Document::default(),
            whole: false,
            content: Vec::new(),
            summary: Vec::new(),
        }
    }

    pub(super) fn arguments_delta(&mut self, event: &Event<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        notes.holds(self.is_call(), "arguments belong to an item that is not a call");
        notes.holds(!self.whole, "a delta follows its done event");
        let Some(body) = event.delta.text() else { return notes.breaks("a delta is not a string") };
        let piece = self.arguments.push(body, scratch);
        self.document.push(piece);
        notes.call_goes_on(piece);
    }

    pub(super) fn arguments_done(&mut self, event: &Event<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        notes.holds(self.is_call(), "arguments belong to an item that is not a call");
        notes.holds(!self.whole, "a done event is repeated");
        self.whole = true;
        let field = if self.kind == Kind::Custom { event.input } else { event.arguments };
        self.check_arguments(field, scratch, notes);
    }

    fn check_arguments(&mut self, field: Field<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let same = field.text().is_some_and(|body| self.arguments.is(body, scratch));
        notes.holds(same, "a call's deltas differ from its complete arguments");
        // The arguments arrived complete, without deltas.
        if self.arguments.is_empty()
            && let Some(body) = field.word()
        {
            let text = self.arguments.push(body, scratch);
            self.document.push(text);
            notes.call_goes_on(text);
        }
    }

    fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Function | Kind::Custom)
    }

    fn parts(&mut self, slot: Slot) -> &mut Vec<Progress> {
        match slot {
            Slot::Content | Slot::Reasoning => &mut self.content,
            Slot::Summary => &mut self.summary,
        }
    }

    /// Returns the part that an event belongs to.
    fn part(&mut self, slot: Slot, event: &Event<'_>, notes: &mut Notes<'_>) -> Option<&mut Progress> {
        let index = slot.index(event).number().and_then(|index| usize::try_from(index).ok());
        let parts = self.parts(slot);
        if slot == Slot::Reasoning && index == Some(parts.len()) && parts.len() < MAX_PARTS {
            parts.push(Progress::new(false));
        }
        let part = index.and_then(|index| parts.get_mut(index)).filter(|part| part.open);
        notes.holds(part.is_some(), "an event belongs to a part that is not open");
        part
    }

    pub(super) fn part_added(&mut self, slot: Slot, event: &Event<'_>, notes: &mut Notes<'_>) {
        let parts = self.parts(slot);
        let next = slot.index(event).number() == u64::try_from(parts.len()).ok();
        notes.holds(next, "a new part's index is not the next one");
        if parts.len() == MAX_PARTS {
            return notes.breaks("there are more than 256 parts; the others are not checked");
        }
        parts.push(Progress::new(true));
        let part: Part<'_> = event.part.read();
        notes.holds(part.kind.word().is_some(), "a part has no type");
        notes.holds(part.body() == Some(""), "a part does not begin with an empty text");
    }

    pub(super) fn text_delta(
        &mut self,
        slot: Slot,
        kind: TokenKind,
        event: &Event<'_>,
        scratch: &mut String,
        notes: &mut Notes<'_>,
    ) {
        let Some(body) = event.delta.text() else { return notes.breaks("a delta is not a string") };
        match self.part(slot, event, notes) {
            Some(part) => {
                notes.holds(!part.whole, "a delta follows its done event");
                notes.token(kind, part.sum.push(body, scratch));
            }
            None => notes.token(kind, Sum::default().push(body, scratch)),
        }
    }

    pub(super) fn text_done(
        &mut self,
        slot: Slot,
        event: &Event<'_>,
        scratch: &mut String,
        notes: &mut Notes<'_>,
    ) {
        let Some(part) = self.part(slot, event, notes) else { return };
        notes.holds(!part.whole, "a done event is repeated");
        part.whole = true;
        let body = event.text.text().or(event.refusal.text());
        notes.holds(
            body.is_some_and(|body| part.sum.is(body, scratch)),
            "the deltas differ from the complete text",
        );
    }

    pub(super) fn part_done(
        &mut self,
        slot: Slot,
        event: &Event<'_>,
        scratch: &mut String,
        notes: &mut Notes<'_>,
    ) {
        let Some(part) = self.part(slot, event, notes) else { return };
        notes.holds(part.whole, "a part is done before its text");
        part.open = false;
        let told: Part<'_> = event.part.read();
        let same = told.body().is_some_and(|body| part.sum.is(body, scratch));
        notes.holds(same, "a part's complete text differs from its deltas");
    }

    /// Handles `response.output_item.done`. Returns whether a call's arguments are JSON.
    pub(super) fn end(&mut self, item: Field<'_>, scratch: &mut String, notes: &mut Notes<'_>) -> bool {
        self.open = false;
        let body: Body<'_> = item.read();
        notes.holds(body.id.is(&self.id), "an item's id changes");
        notes.holds(Kind::read(body.kind.text().unwrap_or_default()) == self.kind, "an item's type changes");
        let completed = matches!(body.status.text(), Some("completed" | "incomplete"));
        notes.holds(completed || !self.has_status(), "an item is done without its status");
        let ended =
            self.content.iter().chain(&self.summary).all(|part| part.whole && !(part.open && part.added));
        notes.holds(ended, "an item is done before its parts");
        if self.is_call() {
            notes.holds(self.whole, "a call is done before its arguments");
            let named = body.call_id.is(&self.call_id) && body.name.is(&self.name);
            notes.holds(named, "a call's call_id or name changes");
            let field = if self.kind == Kind::Custom { body.input } else { body.arguments };
            self.check_arguments(field, scratch, notes);
            return self.kind == Kind::Custom || self.document.is_whole();
        }
        for (told, came) in [(&body.content, &self.content), (&body.summary, &self.summary)] {
            let count = told.iter().flat_map(SmallList::iter).count();
            let mut pairs = told.iter().flat_map(SmallList::iter).zip(came);
            let same = count == came.len()
                && pairs.all(|(told, came)| told.body().is_some_and(|body| came.sum.is(body, scratch)));
            notes.holds(same || self.kind == Kind::Other, "an item's complete text differs from its parts");
        }
        true
    }

    /// Whether the item must have a status at its end.
    fn has_status(&self) -> bool {
        matches!(self.kind, Kind::Message | Kind::Function)
    }
}

impl Slot {
    fn index<'a>(self, event: &Event<'a>) -> Field<'a> {
        match self {
            Self::Content | Self::Reasoning => event.content_index,
            Self::Summary => event.summary_index,
        }
    }
}

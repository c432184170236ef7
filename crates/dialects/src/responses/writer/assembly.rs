//! [`Assembly`]: assembles a response as it grows and writes its events.

mod own_values;

use serde_json::{Value, json};

use super::{
    built_in_items::{BuiltInCall, BuiltInCalls},
    compaction::Summary,
    events::Events,
    hosted_items::{HostedItem, Key, Kind, Outcome},
    item::{CUSTOM, Call, DONE, FUNCTION, Message, PartKind, Place, Reasoning, quoted},
    response::{Head, Status, code},
    rope::Rope,
    tool_search,
};
use crate::{
    Answering, Dialect,
    conversation::Namespaced,
    custom_tools::{Customs, Mapped},
    event::{self, Annotation, CallEnd, CallStart, Event, Finish, Media, Runner, ServerCall, Usage},
    failure::Failure,
    opaque::carried,
    responses::own_item_id,
};

#[derive(Debug)]
pub(super) struct Assembly {
    head: Head,
    begun: bool,
    /// The items in order, as JSON. `None` while an item is open.
    items: Vec<Option<Rope>>,
    open: Option<Open>,
    calls: Vec<Call>,
    built_in: BuiltInCalls,
    /// The open call that was cut off.
    cut_call: Option<u32>,
    customs: Customs,
    namespaced: Vec<Namespaced>,
    /// The calls to other tools that have no result yet.
    hosted: Vec<HostedItem>,
    /// Citations that are held until the text that they belong to arrives.
    citations: Vec<Annotation<'static>>,
    phase: String,
    /// Number of characters of text so far.
    characters: u64,
    finish: Option<Finish>,
    usage: Option<Box<Usage>>,
    warnings: Vec<Value>,
    /// The summary, if the response is a compaction.
    summary: Option<Summary>,
    /// Approximate size of the items in bytes.
    kept: usize,
}

#[derive(Debug)]
enum Open {
    Message(Message),
    Reasoning(Reasoning),
}

impl Assembly {
    pub(super) fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            begun: false,
            items: Vec::new(),
            open: None,
            calls: Vec::new(),
            built_in: BuiltInCalls::new(answering),
            cut_call: None,
            customs: Customs::new(answering),
            namespaced: answering.namespaced.clone(),
            hosted: Vec::new(),
            citations: Vec::new(),
            phase: String::new(),
            characters: 0,
            finish: None,
            usage: None,
            warnings: Vec::new(),
            summary: Summary::new(answering),
            kept: 0,
        }
    }

    pub(super) fn is_stored(&self) -> bool {
        self.head.is_stored()
    }

    /// Approximate size of the collected contents in bytes, without the overhead of storing them.
    pub(super) fn kept(&self) -> usize {
        self.kept + self.summary.as_ref().map_or(0, |summary| summary.text.text.len())
    }

    /// Why the response, once it has a finish, is not what the client asked for.
    pub(super) fn defect(&self) -> Option<Failure> {
        self.summary.as_ref()?.text.defect(self.finish)
    }

    pub(super) fn event(&mut self, event: &Event<'_>, events: &mut Events<'_>) {
        if self.summary.as_mut().is_some_and(|summary| summary.text.takes(event)) {
            return;
        }
        match event {
            Event::Start(start) if !self.begun => self.head.take(start),
            Event::Start(_) | Event::Ping(_) => {}
            Event::Text(text) => self.text(PartKind::Text, text, events),
            Event::Refusal(text) => self.text(PartKind::Refusal, text, events),
            Event::Reasoning(reasoning) => self.reasoning(reasoning, events),
            Event::CallStart(start) => self.call_start(start, events),
            Event::CallArguments { index, piece } => self.arguments(*index, piece, events),
            // The item stays open until another one starts or the response ends. If the response fails,
            // clients must not take the call for complete.
            Event::CallEnd { index, end: CallEnd::Cut } => match self.built_in.take(*index) {
                Some(call) => self.warnings.push(call.cut_warning()),
                None => self.cut_call = Some(*index),
            },
            Event::CallEnd { index, end } => self.call_end(*index, *end, events),
            Event::CallResult(result) => {
                let outcome = Outcome::Result { content: &result.content, is_error: result.is_error };
                self.result(&Key::Index(result.index), outcome, events);
            }
            Event::ServerCall(call) => self.server_call(call, events),
            Event::Mcp(item) => self.mcp_item(item, events),
            Event::Annotation(annotation) => self.annotation(annotation, events),
            Event::Media(media) => self.media(media, events),
            Event::Phase { phase, begins } => self.phase(phase, *begins, events),
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Warning(warning) => {
                self.warnings.push(json!({"code": warning.code, "message": warning.message}));
            }
            Event::Finish(finish) => {
                self.begin(events);
                self.finish = Some(*finish);
                let is_whole = !matches!(finish, Finish::Length | Finish::Filter);
                self.close_said(is_whole, events);
                self.close_calls(events);
                self.close_hosted(Outcome::Unshown, events);
            }
            Event::Verbatim { frame, means } => self.verbatim(frame, *means, events),
        }
    }

    /// Ends the response and writes its last event. Returns the complete response as JSON.
    pub(super) fn finish(&mut self, events: &mut Events<'_>) -> Rope {
        self.begin(events);
        if let Some(summary) = self.summary.take() {
            self.put_summary(summary, events);
        }
        let status = Status::Ended(self.finish);
        let response = self.response(status);
        events.put_rope(&format!("response.{}", status.word()), &["\"response\":"], &response, "");
        response
    }

    /// Ends a stream with both error events of the API, because each client library raises only one of them.
    /// Calls stay open, so that clients do not take them for complete.
    pub(super) fn fail(&mut self, failure: &Failure, events: &mut Events<'_>) {
        self.begin(events);
        self.close_said(false, events);
        self.close_hosted(Outcome::Cut, events);
        let (code, message) = (quoted(code(failure)), quoted(failure.message()));
        let param = failure.param().map_or_else(|| "null".to_owned(), quoted);
        let members = format!("\"code\":{code},\"message\":{message},\"param\":{param}");
        events.put("error", &[&members, ",\"error\":{\"type\":\"server_error\",", &members, "}"]);
        let response = self.response(Status::Failed(failure));
        events.put_rope("response.failed", &["\"response\":"], &response, "");
    }

    fn response(&self, status: Status<'_>) -> Rope {
        let items = self.items.iter().filter_map(Option::as_ref);
        self.head.object(status, items, self.usage.as_deref(), &self.warnings)
    }

    /// Writes the first events if that has not been done yet.
    fn begin(&mut self, events: &mut Events<'_>) {
        if std::mem::replace(&mut self.begun, true) || matches!(events, Events::Unwritten) {
            return;
        }
        let response = self.response(Status::InProgress);
        for kind in ["response.created", "response.in_progress"] {
            events.put_rope(kind, &["\"response\":"], &response, "");
        }
    }

    /// The position of the next item. Its id starts with `prefix`.
    pub(super) fn next_place(&mut self, prefix: &str, events: &mut Events<'_>) -> Place {
        self.begin(events);
        self.close_cut_call(events);
        let index = self.items.len();
        self.items.push(None);
        Place { index, id: format!("{prefix}_{}_{index}", self.head.suffix()) }
    }

    /// The position of the next item, which represents a call that toolwire or the upstream runs.
    fn hosted_place(&mut self, kind: Kind, events: &mut Events<'_>) -> Place {
        let place = self.next_place(kind.id(), events);
        Place { id: own_item_id(kind.id(), self.head.suffix(), place.index), ..place }
    }

    pub(super) fn done(&mut self, (place, item): (Place, Rope), events: &mut Events<'_>) {
        place.put_item(DONE, &item, events);
        // The item's text was counted when it arrived.
        self.kept += ITEM;
        if let Some(slot) = self.items.get_mut(place.index) {
            *slot = Some(item);
        }
    }

    /// What the ids of items have in common.
    pub(super) fn suffix(&self) -> &str {
        self.head.suffix()
    }

    /// Adds `bytes` to the size of the collected contents.
    pub(super) fn count(&mut self, bytes: usize) {
        self.kept += bytes;
    }

    pub(super) fn close(&mut self, is_whole: bool, events: &mut Events<'_>) {
        let done = match self.open.take() {
            Some(Open::Message(message)) => message.end(is_whole, events),
            Some(Open::Reasoning(reasoning)) => reasoning.end(None, events),
            None => return,
        };
        self.done(done, events);
    }

    /// Closes the open message or reasoning, after adding the citations that are still held.
    fn close_said(&mut self, is_whole: bool, events: &mut Events<'_>) {
        if !self.citations.is_empty() {
            self.text_part(PartKind::Text, "", events);
        }
        self.close(is_whole, events);
    }

    fn close_cut_call(&mut self, events: &mut Events<'_>) {
        let Some(cut) = self.cut_call.take() else { return };
        if let Some(place) = self.calls.iter().position(|call| call.index == cut) {
            let done = self.calls.remove(place).end(CallEnd::Cut, events);
            self.done(done, events);
        }
    }

    fn close_calls(&mut self, events: &mut Events<'_>) {
        self.warnings.extend(self.built_in.take_all().iter().map(BuiltInCall::cut_warning));
        for call in std::mem::take(&mut self.calls) {
            let done = call.end(CallEnd::Cut, events);
            self.done(done, events);
        }
    }

    fn close_hosted(&mut self, outcome: Outcome<'_>, events: &mut Events<'_>) {
        for hosted in std::mem::take(&mut self.hosted) {
            let done = hosted.end(outcome, events);
            self.done(done, events);
        }
    }

    fn text(&mut self, kind: PartKind, text: &str, events: &mut Events<'_>) {
        if !text.is_empty() {
            self.text_part(kind, text, events);
        }
    }

    /// Adds `text` to the open message, after the citations that were held for it.
    fn text_part(&mut self, kind: PartKind, text: &str, events: &mut Events<'_>) {
        if !matches!(self.open, Some(Open::Message(_))) {
            self.close(true, events);
            let place = self.next_place("msg", events);
            let message = Message::begin(place, std::mem::take(&mut self.phase), events);
            self.open = Some(Open::Message(message));
        }
        let Some(Open::Message(message)) = &mut self.open else { return };
        let at = self.characters;
        if kind == PartKind::Text {
            for citation in std::mem::take(&mut self.citations) {
                self.kept += message.cite(&citation, at, events);
            }
            self.characters += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        }
        if !text.is_empty() {
            self.kept += message.push(kind, text, at, events);
        }
    }

    /// Sets the phase of the message that starts (if `begins` is set), or else of the open message.
    fn phase(&mut self, phase: &str, begins: bool, events: &mut Events<'_>) {
        match &mut self.open {
            Some(Open::Message(message)) if !begins => message.set_phase(phase),
            Some(Open::Message(_)) => {
                self.close_said(true, events);
                phase.clone_into(&mut self.phase);
            }
            _ => phase.clone_into(&mut self.phase),
        }
    }

    fn annotation(&mut self, annotation: &Annotation<'_>, events: &mut Events<'_>) {
        match &mut self.open {
            Some(Open::Message(message)) => {
                self.kept += message.cite(annotation, self.characters, events);
            }
            // Search results arrive before the text that is based on them.
            _ => {
                self.kept += annotation.url.len() + annotation.title.len();
                let Event::Annotation(annotation) = Event::Annotation(annotation.clone()).into_owned() else {
                    return;
                };
                self.citations.push(annotation);
            }
        }
    }

    fn reasoning(&mut self, reasoning: &event::Reasoning<'_>, events: &mut Events<'_>) {
        let event::Reasoning { text, signature, redacted } = reasoning;
        if reasoning.is_end() {
            if matches!(self.open, Some(Open::Reasoning(_))) {
                self.close(true, events);
            }
            return;
        }
        if text.is_empty() && signature.is_none() {
            return;
        }
        if !matches!(self.open, Some(Open::Reasoning(_))) {
            self.close(true, events);
            let item = Reasoning::begin(self.next_place("rs", events), events);
            self.open = Some(Open::Reasoning(item));
        }
        if let Some(Open::Reasoning(item)) = self.open.as_mut().filter(|_| !redacted) {
            self.kept += item.push(text, events);
        }
        if let Some(signature) = signature
            && let Some(Open::Reasoning(item)) = self.open.take()
        {
            let state = carried(signature, Dialect::Responses);
            self.kept += state.len();
            let done = item.end(Some(&state), events);
            self.done(done, events);
        }
    }

    fn call_start(&mut self, start: &CallStart<'_>, events: &mut Events<'_>) {
        self.close(true, events);
        self.kept += start.id.len() + start.name.len();
        if start.runner != Runner::Client {
            let (key, kind) = (Key::Index(start.index), Kind::of(&start.name, start.runner));
            return self.begin_hosted(key, (&start.name, "upstream", ""), kind, events);
        }
        let form = match self.customs.begin(start) {
            Some(Mapped::BuiltIn) => {
                self.begin(events);
                return self.built_in.begin(start);
            }
            Some(Mapped::Custom) => CUSTOM,
            None => FUNCTION,
        };
        let place = self.next_place(form.id, events);
        let namespaced = self.namespaced.iter().find(|known| known.name == start.name);
        self.calls.push(Call::begin(place, form, start, namespaced, events));
    }

    /// Adds the item of a call to a built-in tool. Arguments that no valid item can have are said as text.
    fn end_built_in(&mut self, call: &BuiltInCall, arguments: &str, events: &mut Events<'_>) {
        match call.members(arguments) {
            Some(members) => {
                let place = self.next_place(call.id_prefix(), events);
                let done = call.write(place, &members, events);
                self.done(done, events);
            }
            None => {
                self.warnings.push(call.unfit_warning());
                self.text(PartKind::Text, arguments, events);
            }
        }
    }

    fn arguments(&mut self, index: u32, piece: &str, events: &mut Events<'_>) {
        if self.built_in.has(index) {
            self.kept += piece.len();
            self.customs.get(index).map(|input| input.piece(piece));
        } else if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
            self.kept += match self.customs.get(index) {
                Some(input) => call.push(&input.piece(piece), events),
                None => call.push(piece, events),
            };
        } else if let Some(hosted) = self.hosted.iter_mut().find(|hosted| hosted.key == Key::Index(index)) {
            self.kept += hosted.push(piece, events);
        }
    }

    fn call_end(&mut self, index: u32, end: CallEnd, events: &mut Events<'_>) {
        if let Some(call) = self.built_in.take(index) {
            let arguments = self.customs.get(index).map(|input| input.end(end));
            self.end_built_in(&call, &arguments.unwrap_or_default(), events);
        } else if let Some(place) = self.calls.iter().position(|call| call.index == index) {
            let mut call = self.calls.remove(place);
            if let Some(input) = self.customs.get(index) {
                self.kept += call.push(&input.end(end), events);
            }
            let done = call.end(end, events);
            self.done(done, events);
        } else if let Some(hosted) = self.hosted.iter_mut().find(|hosted| hosted.key == Key::Index(index)) {
            hosted.called(events);
        }
    }

    /// `names` are those of the tool, of its server, and of the approval of the call.
    fn begin_hosted(&mut self, key: Key, names: (&str, &str, &str), kind: Kind, events: &mut Events<'_>) {
        self.close(true, events);
        let place = self.hosted_place(kind, events);
        self.hosted.push(HostedItem::begin(key, place, names, kind, events));
    }

    /// Adds the result of a call that the client does not run.
    fn result(&mut self, key: &Key, outcome: Outcome<'_>, events: &mut Events<'_>) {
        if let Some(place) = self.hosted.iter().position(|hosted| hosted.key == *key) {
            let done = self.hosted.remove(place).end(outcome, events);
            self.done(done, events);
        }
    }

    /// Adds a call that is not one of the response's own calls, or the result of such a call.
    fn server_call(&mut self, call: &ServerCall<'_>, events: &mut Events<'_>) {
        if tool_search::is_search(call) {
            return self.tool_search(call, events);
        }
        let key = Key::Id(call.id.to_string(), call.name.to_string());
        let kind = Kind::of(&call.name, call.runner);
        let is_known = self.hosted.iter().any(|hosted| hosted.key == key);
        // The images were the result of this call.
        if !is_known && kind == Kind::Image && call.arguments.is_none() {
            return;
        }
        if !is_known || call.arguments.is_some() {
            self.kept += call.id.len() + call.name.len();
            let names = (&*call.name, call.server_name(), &*call.approval);
            self.begin_hosted(key.clone(), names, kind, events);
        }
        if let (Some(hosted), Some(arguments)) = (self.hosted.last_mut(), &call.arguments) {
            self.kept += hosted.push(arguments, events);
            hosted.called(events);
        }
        if let Some(content) = &call.content {
            self.result(&key, Outcome::Result { content, is_error: call.is_error }, events);
        }
    }

    /// Adds an image. The first one ends the open item of the call that generated it; each further image gets
    /// an item of its own.
    fn media(&mut self, media: &Media<'_>, events: &mut Events<'_>) {
        // Only the image's id is known, which is useless to the client.
        if media.data.is_empty() {
            return;
        }
        self.kept += media.data.len();
        let hosted = match self.hosted.iter().position(|hosted| hosted.makes_images_as(&media.id)) {
            Some(place) => self.hosted.remove(place),
            None => {
                self.close(true, events);
                let key = Key::Id(String::new(), String::new());
                let place = self.hosted_place(Kind::Image, events);
                HostedItem::begin(key, place, ("", "", ""), Kind::Image, events)
            }
        };
        let done = hosted.end(Outcome::Image(media), events);
        self.done(done, events);
    }
}

/// The size that is assumed for an item in addition to its text, in bytes.
const ITEM: usize = 128;

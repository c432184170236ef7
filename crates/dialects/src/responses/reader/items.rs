//! Items: their parts as they arrive.

mod ends;

use std::borrow::Cow;

use super::{event::StreamEvent, response::ResponseReader};
use crate::{
    Skip,
    digest::Digest,
    event::{CallStart, Event, Reasoning, Runner, Sink, Source},
    failure::{Failure, Kind},
    responses::{built_in::BuiltInTool, request::flat_names},
    tool_calls::Streamed,
    wire::json::Json,
};
use ends::arguments;

#[derive(Debug)]
pub(super) struct OpenItem {
    /// The position of the item in the response, in the order in which items started.
    output: u64,
    name: ItemName,
    /// A digest of the phase that has been passed on.
    phase: Digest,
    parts: Vec<(PartKey, Streamed)>,
    /// Number of annotations that have been passed on.
    annotations: usize,
}

/// The index and the ids by which an upstream refers to an item.
#[derive(Debug)]
pub(super) struct ItemName {
    /// `output_index`. Some servers use the same one for two items.
    index: Option<u64>,
    /// A digest of the item's id, or of the empty string if there is none. Upstreams may choose ids of any
    /// length, so only digests are stored.
    id: Digest,
    /// For a call that has ended, a digest of the call's own id.
    call: Digest,
}

impl ItemName {
    /// Whether an event with this index and id may refer to this item.
    fn is(&self, index: Option<u64>, id: Digest) -> bool {
        let same_id = self.id == id;
        match index {
            Some(_) => self.index == index && (same_id || self.id.is_empty() || id.is_empty()),
            None => same_id && !id.is_empty(),
        }
    }
}

/// A digest of an item's id. A call whose item has no id is identified by the call's id.
pub(super) fn item_id(item: Json<'_>) -> Digest {
    let id = match item.text("id") {
        id if id.is_empty() => item.text("call_id"),
        id => id,
    };
    Digest::of(&id)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartKey {
    section: Section,
    index: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Text,
    Refusal,
    /// Part of a summary of the reasoning.
    Summary,
    /// The reasoning itself.
    Thought,
}

/// Maximum number of items in a response, and of parts in an item: far more than any real response has.
const MAX_ITEMS: usize = 4096;

impl PartKey {
    pub(super) fn of(section: Section, event: &StreamEvent<'_>) -> Self {
        Self { section, index: event.part_index() }
    }
}

impl ResponseReader {
    /// The open item that an event refers to. The event may also start it. It is the item with the event's
    /// `output_index` and `item_id`, or else the latest one with that index. If the event has no index, it is
    /// the item with that id, or else the latest item. `None` if there is no such item or it has ended.
    pub(super) fn addressed(&mut self, event: &StreamEvent<'_>) -> Result<Option<u64>, Failure> {
        let (index, id) = (event.output_index(), event.item_id());
        let has_ended = self.ended.iter().any(|ended| ended.is(index, id));
        let open = self.open_item(index, id).filter(|open| !has_ended || open.name.id == id);
        if let Some(item) = open {
            return Ok(Some(item.output));
        }
        if self.progress.is_finished || has_ended {
            self.skipped.add(Skip::LateContent);
            return Ok(None);
        }
        if index.is_none() {
            self.skipped.add(Skip::NotAChunk);
            return Ok(None);
        }
        self.begin_item(index, id).map(Some)
    }

    fn open_item(&self, index: Option<u64>, id: Digest) -> Option<&OpenItem> {
        let last = |wanted: &dyn Fn(&ItemName) -> bool| self.open.iter().rfind(|item| wanted(&item.name));
        let has_id = |name: &ItemName| !id.is_empty() && name.id == id;
        match index {
            Some(_) => last(&|name| name.index == index && has_id(name))
                .or_else(|| last(&|name| name.index == index)),
            None => last(&has_id).or_else(|| self.open.last()),
        }
    }

    pub(super) fn item_added(&mut self, event: &StreamEvent<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let Some(item) = event.item else { return self.not_a_chunk() };
        self.progress.has_choice = true;
        let index = event.output_index().or_else(|| u64::try_from(self.begun()).ok());
        let id = event.item_id();
        let call = Digest::of(&item.text("call_id"));
        let is_late = !id.is_empty()
            && self.ended.iter().any(|ended| {
                ended.index == index && ended.id == id && (call.is_empty() || ended.call == call)
            });
        if self.progress.is_finished || is_late {
            self.skipped.add(Skip::LateContent);
            return Ok(());
        }
        self.calls.settle(out);
        let is_again = |name: &ItemName| name.index == index;
        let known = self.open.iter().rfind(|open| is_again(&open.name) && open.name.id == id);
        let output = match known.filter(|open| !id.is_empty() || open.parts.is_empty()) {
            Some(open) => open.output,
            None => {
                if self.open.iter().map(|open| &open.name).chain(&self.ended).any(is_again) {
                    // Otherwise, the template would attribute deltas without an id to the previous item.
                    self.forget_template();
                    self.has_index_twice = true;
                }
                self.begin_item(index, id)?
            }
        };
        self.phase(output, item, out)?;
        let is_built_in = BuiltInTool::of_call(&item.text("type"), item).is_some();
        // An item of a built-in tool that has just begun does not have its arguments yet.
        if self.begin_call(output, item, out)? && !is_built_in {
            self.calls.give(output, &arguments(item))?;
        }
        Ok(())
    }

    fn phase(&mut self, output: u64, item: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let phase = item.text("phase");
        if (phase.is_empty() && !self.has_phases) || item.text("type") != "message" {
            return Ok(());
        }
        self.has_phases = true;
        let item = self.item(output)?;
        let told = Digest::of(&phase);
        if item.phase != told || (phase.is_empty() && item.parts.is_empty()) {
            item.phase = told;
            let begins = item.parts.is_empty();
            out.event(Event::Phase { phase, begins });
        }
        Ok(())
    }

    pub(super) fn item_done(&mut self, event: &StreamEvent<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let Some(item) = event.item else { return self.not_a_chunk() };
        self.progress.has_choice = true;
        match self.addressed(event)? {
            Some(output) => self.end_item(output, item, out),
            None => Ok(()),
        }
    }

    /// Handles those items of the complete response that have not ended yet.
    pub(super) fn end_items(&mut self, output: Option<Json<'_>>, out: &mut impl Sink) -> Result<(), Failure> {
        let items = || output.into_iter().flat_map(|output| output.elements());
        let ended = self.ended.len();
        // Some servers use different ids in the complete response, or the same id for all items.
        let has = |ended: &[ItemName], id: Digest| !id.is_empty() && ended.iter().any(|ended| ended.id == id);
        let are_unique = (1..ended).all(|place| {
            let (before, name) = (self.ended.get(..place), self.ended.get(place));
            !before.zip(name).is_some_and(|(before, name)| has(before, name.id))
        });
        let has_known_ids = are_unique && items().any(|item| has(&self.ended, item_id(item)));
        for (place, item) in (0_u64..).zip(items()) {
            let id = item_id(item);
            let before = self.ended.get(..ended).unwrap_or_default();
            let is_known = match (has_known_ids && !id.is_empty(), self.has_index_twice) {
                (true, _) => has(before, id),
                (false, true) => usize::try_from(place).is_ok_and(|place| place < ended),
                (false, false) => before.iter().any(|ended| ended.index == Some(place)),
            };
            if is_known {
                continue;
            }
            let has_id = |open: &&OpenItem| !id.is_empty() && open.name.id == id;
            let is_unique = self.open.iter().filter(has_id).nth(1).is_none();
            let by_id = || self.open.iter().find(has_id).filter(|_| is_unique);
            let by_order = || self.open.iter().find(|open| self.has_index_twice && open.output == place);
            let by_index = || self.open_item(Some(place), id);
            let open = by_id().or_else(by_order).or_else(by_index).map(|open| open.output);
            let output = match open {
                Some(output) => output,
                None => self.begin_item(Some(place), id)?,
            };
            self.end_item(output, item, out)?;
        }
        Ok(())
    }

    fn begun(&self) -> usize {
        self.open.len() + self.ended.len()
    }

    /// Starts an item and returns its position in the response.
    fn begin_item(&mut self, index: Option<u64>, id: Digest) -> Result<u64, Failure> {
        if self.begun() >= MAX_ITEMS {
            let message = format!("the upstream's response has more than {MAX_ITEMS} items");
            return Err(Failure::new(Kind::Protocol, message));
        }
        let output = u64::try_from(self.begun()).unwrap_or(u64::MAX);
        let name = ItemName { index, id, call: Digest::of("") };
        self.open.push(OpenItem { output, name, phase: Digest::of(""), parts: Vec::new(), annotations: 0 });
        Ok(output)
    }

    fn not_a_chunk(&mut self) -> Result<(), Failure> {
        self.skipped.add(Skip::NotAChunk);
        Ok(())
    }

    /// The open item at a position in the response.
    fn item(&mut self, output: u64) -> Result<&mut OpenItem, Failure> {
        let gone = || Failure::new(Kind::Internal, "an open item is missing");
        self.open.iter_mut().rfind(|item| item.output == output).ok_or_else(gone)
    }

    /// Starts the call in `item` if that has not been done yet. Returns whether `item` is a call.
    fn begin_call(&mut self, output: u64, item: Json<'_>, out: &mut impl Sink) -> Result<bool, Failure> {
        let (source, name) = match &*item.text("type") {
            "function_call" => (Source::Native, self.flat_name(item)),
            "custom_tool_call" => (Source::NativeCustom, self.flat_name(item)),
            kind => match BuiltInTool::of_call(kind, item) {
                Some(tool) => (Source::NativeBuiltIn, tool.function().into()),
                None => return Ok(false),
            },
        };
        if self.calls.index(output).is_some() || name.is_empty() {
            return Ok(!name.is_empty());
        }
        self.progress.has_content = true;
        let id = match item.text("call_id") {
            id if id.is_empty() => item.text("id"),
            id => id,
        };
        let start = CallStart { index: 0, id, name, runner: Runner::Client, source, signature: None };
        self.calls.begin(output, start, out)?;
        Ok(true)
    }

    /// The name of the tool that a call means. A tool in a namespace has the name by which toolwire knows it.
    fn flat_name<'a>(&self, item: Json<'a>) -> Cow<'a, str> {
        let (namespace, name) = (item.text("namespace"), item.text("name"));
        if namespace.is_empty() || name.is_empty() {
            return name;
        }
        let mut names = flat_names(&namespace, &name).into_iter();
        names.find(|name| self.calls.tools().resolve(name).is_some()).map_or(name, Cow::Owned)
    }

    /// Handles a piece of a part, which is the raw body of a JSON string.
    pub(super) fn part_piece(
        &mut self,
        output: u64,
        key: PartKey,
        body: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if !self.open.iter().any(|item| item.output == output) {
            self.skipped.add(Skip::LateContent);
            return Ok(());
        }
        let is_reasoning = matches!(key.section, Section::Summary | Section::Thought);
        let mut channel = std::mem::take(if is_reasoning { &mut self.reasoning } else { &mut self.text });
        let result = self.pass(output, key, channel.piece(body), out);
        *(if is_reasoning { &mut self.reasoning } else { &mut self.text }) = channel;
        result
    }

    /// Passes on the next piece of a part's text.
    fn pass(&mut self, output: u64, key: PartKey, piece: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let item = self.item(output)?;
        let is_later_summary = key.section == Section::Summary && !item.parts.is_empty();
        let parts = item.parts.len();
        match item.parts.iter_mut().rfind(|(known, _)| *known == key) {
            Some((_, streamed)) => streamed.push(piece),
            None if parts >= MAX_ITEMS => {
                let message = format!("an item of the upstream's response has more than {MAX_ITEMS} parts");
                return Err(Failure::new(Kind::Protocol, message));
            }
            None => {
                let mut streamed = Streamed::default();
                streamed.push(piece);
                item.parts.push((key, streamed));
                if is_later_summary {
                    // The parts of a summary are paragraphs.
                    out.event(Event::Reasoning(Reasoning::text("\n\n")));
                }
            }
        }
        let is_reasoning = matches!(key.section, Section::Summary | Section::Thought);
        self.progress.has_content |= !is_reasoning;
        out.event(match key.section {
            Section::Text if !self.logprobs.is_empty() => {
                let means = Event::Text(piece.into());
                out.event(Event::Verbatim { frame: &self.logprobs, means: Some(&means) });
                return Ok(());
            }
            Section::Text => Event::Text(piece.into()),
            Section::Refusal => Event::Refusal(piece.into()),
            Section::Summary | Section::Thought => Event::Reasoning(Reasoning::text(piece)),
        });
        Ok(())
    }

    pub(super) fn part_done(
        &mut self,
        event: &StreamEvent<'_>,
        section: Section,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Some(whole) = event.whole.and_then(|whole| whole.as_str()) else { return Ok(()) };
        if let (false, Some(output)) = (self.progress.is_finished, self.addressed(event)?) {
            // If this fails, the end of the item will fail as well, because it repeats the text.
            let _ = self.complete(output, PartKey::of(section, event), &whole, out);
        }
        Ok(())
    }

    /// Passes on what the complete text contains beyond the pieces that have arrived. If it does not start
    /// with these pieces, it is skipped.
    fn complete(
        &mut self,
        output: u64,
        key: PartKey,
        whole: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if whole.is_empty() {
            return Ok(());
        }
        // The complete text also contains any character of which only half has arrived.
        match key.section {
            Section::Text | Section::Refusal => _ = self.text.finish(),
            Section::Summary | Section::Thought => _ = self.reasoning.finish(),
        }
        let item = self.item(output)?;
        let known = item.parts.iter().rfind(|(known, _)| *known == key);
        let rest = match known {
            Some((_, streamed)) => streamed.rest_of(whole),
            None => Some(whole),
        };
        match rest {
            Some(rest) => self.pass(output, key, rest, out),
            None => {
                self.skipped.add(Skip::UnknownPart);
                Ok(())
            }
        }
    }
}

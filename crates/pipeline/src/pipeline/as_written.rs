//! Collects what the model writes in a turn with calls as text, and what the client receives of it, so that later
//! prompts can repeat the turn byte for byte.
//!
//! ```text
//! Reader ─text─▶ WrittenText ─▶ Detector ─▶ … ─▶ SentTurn ─▶ Writer
//!                     └──────── turn_state ────────┘
//! ```

use crate::{
    conversation::{TurnState, written_state},
    event::{CallEnd, Event, Finish, Runner, Source},
};

/// The text from the end of the reasoning on, before detection.
#[derive(Debug)]
pub(super) struct WrittenText {
    text: String,
    limit: usize,
    /// Whether the text may begin with reasoning, because none of the upstream's reasoning was separate and no end of
    /// reasoning was seen in the text.
    may_reason: bool,
    /// Whether the text cannot be used.
    is_lost: bool,
    /// The number of calls that the detector had found before.
    found: u32,
}

impl WrittenText {
    /// If there are more than `limit` bytes, they are not kept.
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, may_reason: true, is_lost: false, found: 0 }
    }

    /// Called with each event before the detector reads it.
    pub(super) fn reads(&mut self, event: &Event<'_>) {
        match event.meaning() {
            Event::Text(text) if self.is_lost || text.len() > self.limit.saturating_sub(self.text.len()) => {
                self.lose();
            }
            Event::Text(text) => self.text.push_str(text),
            Event::Reasoning(reasoning) if !reasoning.text.is_empty() => self.may_reason = false,
            _ => {}
        }
    }

    /// Called when the detector has read the end of reasoning, which this many bytes of the text follow.
    pub(super) fn reasoning_ended(&mut self, behind: usize) {
        match self.text.len().checked_sub(behind) {
            Some(end) if self.text.is_char_boundary(end) => {
                self.text.drain(..end);
                self.may_reason = false;
            }
            _ => self.lose(),
        }
    }

    /// Prepares for a hop that replaces the one before it.
    pub(super) fn begin_again(&mut self, found: u32) {
        *self = Self { found, is_lost: self.is_lost, ..Self::new(self.limit) };
    }

    pub(super) fn lose(&mut self) {
        (self.text, self.is_lost) = (String::new(), true);
    }
}

/// What the client has received of the turn.
#[derive(Debug)]
pub(super) struct SentTurn {
    calls: Vec<SentCall>,
    /// Bytes of text before the first call, and after the last one.
    before: usize,
    after: usize,
    bytes: usize,
    limit: usize,
    /// Whether there was anything that a turn of text and complete calls does not have.
    is_other: bool,
}

#[derive(Debug)]
struct SentCall {
    index: u32,
    id: String,
    name: String,
    arguments: String,
}

impl SentTurn {
    /// If the calls have more than `limit` bytes, they are not kept.
    pub(super) fn new(limit: usize) -> Self {
        Self { calls: Vec::new(), before: 0, after: 0, bytes: 0, limit, is_other: false }
    }

    pub(super) fn saw(&mut self, event: &Event<'_>) {
        match event.meaning() {
            Event::Text(text) if self.calls.is_empty() => self.before += text.len(),
            Event::Text(text) => self.after += text.len(),
            Event::CallStart(start) => {
                let is_text = start.runner == Runner::Client && matches!(start.source, Source::Format(_));
                self.is_other |= !is_text || self.after > 0;
                self.add(start.id.len() + start.name.len() + size_of::<SentCall>());
                if !self.is_other {
                    let (id, name) = (start.id.to_string(), start.name.to_string());
                    self.calls.push(SentCall { index: start.index, id, name, arguments: String::new() });
                }
            }
            Event::CallArguments { index, piece } => {
                self.add(piece.len());
                match self.calls.last_mut().filter(|call| call.index == *index) {
                    Some(call) => call.arguments.push_str(piece),
                    None => self.is_other = true,
                }
            }
            Event::CallEnd { end, .. } => self.is_other |= *end != CallEnd::Complete,
            Event::Finish(finish) => self.is_other |= *finish != Finish::Calls,
            Event::Refusal(_)
            | Event::CallResult(_)
            | Event::ServerCall(_)
            | Event::Mcp(_)
            | Event::Media(_) => {
                self.is_other = true;
            }
            _ => {}
        }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            self.is_other = true;
        }
        if self.is_other {
            self.calls = Vec::new();
        }
    }
}

/// The state of the turn, or `None` if it has no calls or cannot be repeated. `found` is how many calls the detector
/// has found, and `has_reasoned` whether there was any reasoning.
pub(super) fn turn_state(
    written: WrittenText,
    sent: SentTurn,
    found: u32,
    has_reasoned: bool,
) -> Option<TurnState> {
    let WrittenText { text, may_reason, is_lost, found: earlier, .. } = written;
    let all = usize::try_from(found.checked_sub(earlier)?).is_ok_and(|found| found == sent.calls.len());
    if is_lost || sent.is_other || sent.calls.is_empty() || !all || (has_reasoned && may_reason) {
        return None;
    }
    // Line ends between the reasoning and the turn's content belong to the template.
    let text = if has_reasoned { text.trim_start() } else { &text };
    let before = text.trim_start().get(..sent.before)?;
    let end = text.trim_end();
    let after = end.get(end.len().checked_sub(sent.after)?..)?;
    let calls = sent.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str()));
    let state = written_state(text, &format!("{before}{after}"), calls);
    let ids = sent.calls.into_iter().map(|call| call.id);
    // The state of the turn is that of its first call.
    let calls = ids.zip(std::iter::once(Some(state)).chain(std::iter::repeat(None))).collect();
    Some(TurnState { reasoning: Vec::new(), calls })
}

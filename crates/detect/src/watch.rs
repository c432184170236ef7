//! [`Watch`]: lets a call wait that may be a quotation, because its place quotes it or because a text that the model
//! was given to read contains its source.
//!
//! The source of a watched call is held while it agrees with such a text. If the call ends before it differs, it is
//! text, unless it may stand alone: it begins a line. Then it is pending (`pending.rs`).
//!
//! Without texts to compare with, a call that no place quotes has no watch, and nothing here runs.

use std::borrow::Cow;

use super::{
    Detector, State,
    gate::Waiting,
    gated_container::Passed,
    pending::Output,
    quotations::Trace,
    quote::{Quote, QuotedCount, Quoting},
    reading::{Outlet, Reading},
    tentative::LastEnd,
    text::{append, head, slice},
    walk::{Piece, Surroundings},
};
use crate::{
    conversation::{Conversation, Part, Role, Turn},
    event::{CallEnd, Event, Sink, Warning},
    fence::Foreign,
    rules::QuotedCalls,
};

/// The pieces of calls that may be a quotation.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pieces: Vec<Waiting>,
    trace: Trace,
    /// How many bytes at the start of the source are not compared: the opener of a fence, which may be missing in the
    /// text that is repeated.
    skipped: usize,
    /// Whether a quotation stays text, because visible text follows it.
    stays_text: bool,
}

impl Watch {
    /// Makes a quotation stay text.
    pub(super) fn stay_text(&mut self) {
        self.stays_text = true;
    }

    fn push(&mut self, piece: Piece<'_>) {
        match (piece, self.pieces.last_mut()) {
            (Piece::Arguments(text), Some(Waiting::Arguments(kept))) => append(kept, text),
            (piece, _) => self.pieces.push(Waiting::of(piece)),
        }
    }

    fn ends_call(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Waiting::End(_)))
    }
}

/// Whether a part of a message of this type contains what a tool of an upstream has returned.
fn is_result(kind: &str) -> bool {
    ["_result", "_output", "_call"].iter().any(|end| kind.ends_with(end))
}

/// Which texts of a conversation the model may quote.
impl Detector {
    /// Treats calls that repeat results in `turns`, or the user's text if the rules say so, as quotations. Calls that
    /// the model made earlier are not quotations.
    pub fn reads(&mut self, turns: &[Turn]) {
        for turn in turns {
            for part in &turn.parts {
                match part {
                    Part::Result(output) => self.reads_text(&output.content),
                    Part::Text(text) if self.may_quote(turn.role) => self.reads_text(text),
                    Part::Other(other) => {
                        let part = other.parts().1;
                        let kind = part.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
                        if turn.role == Role::Tool || is_result(kind) {
                            self.reads_text(&part.to_string());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether the model may quote texts of this role.
    fn may_quote(&self, role: Role) -> bool {
        match role {
            Role::Tool => true,
            Role::User => self.search.quoted_calls == QuotedCalls::Strict,
            _ => false,
        }
    }

    /// Like [`Detector::reads`], for all turns of `conversation`.
    #[must_use]
    pub fn reading(mut self, conversation: &Conversation) -> Self {
        self.reads(&conversation.turns);
        self
    }

    /// Reads the result of a call that the upstream ran.
    pub(super) fn reads_result(&mut self, event: &Event<'_>) {
        match event.meaning() {
            Event::CallResult(result) => self.reads_text(&result.content),
            Event::ServerCall(call) => self.reads_text(call.content.as_deref().unwrap_or_default()),
            _ => {}
        }
    }

    fn reads_text(&mut self, text: &str) {
        if self.search.calls && self.search.quoted_calls != QuotedCalls::Call {
            self.quotations.add(text, &self.search.sought);
            if !self.quotations.is_empty() {
                self.prose.keep_recent();
            }
            self.watch_start();
        }
    }

    /// Watches the message, which may begin inside a header.
    pub(super) fn watch_start(&mut self) {
        let watch = self.watch(Quote::None);
        if let State::Calls(reading) = &mut self.state
            && self.held.is_empty()
            && !reading.container.has_begun()
        {
            reading.watch = watch;
        }
    }

    /// How many quoted calls there were so far.
    pub fn quoted(&self) -> QuotedCount {
        self.quoted
    }

    /// Warns of calls that stayed text because they repeat a text.
    pub(super) fn warn_of_repetitions(&mut self, out: &mut impl Sink) {
        let count = std::mem::take(&mut self.quoted.repetitions);
        if count > 0 {
            let calls = if count == 1 { "a call that repeats" } else { "calls that repeat" };
            let message = Cow::Owned(match self.quotations.is_exceeded() {
                false => format!("{calls} a tool's result stayed text (quoted_calls)"),
                true => "a call stayed text because the tools' results are too long to look for it in them \
                         (quoted_calls)"
                    .to_owned(),
            });
            out.event(Event::Warning(Warning { code: "quoted_call", message }));
        }
    }
}

/// Watched calls.
impl Detector {
    pub(super) fn watch(&self, quote: Quote) -> Option<Watch> {
        (quote == Quote::Place || !self.quotations.is_empty()).then(Watch::default)
    }

    /// Like [`Detector::watch`], for what follows the held opener of a fence.
    pub(super) fn watch_fence(&self, quote: Quote) -> Option<Watch> {
        self.watch(quote).map(|watch| Watch { skipped: self.held.len(), ..watch })
    }

    /// Feeds a watched reading. Its calls wait.
    pub(super) fn feed_watched(
        &mut self,
        reading: &mut Reading,
        mut watch: Watch,
        text: &str,
        out: &mut impl Sink,
    ) -> Passed {
        let (format, starts_line) = (reading.format, reading.takes_line);
        let rules = reading.rules(&self.search);
        let (prose, next) = (&mut self.prose, &mut self.next);
        let mut outlet = Outlet { format, starts_line, prose, next, at_end: false, out };
        let passed = reading.feed(text, &rules, &mut |piece| match piece {
            Piece::Framed | Piece::Said(..) if watch.pieces.is_empty() => outlet.piece(piece),
            piece => watch.push(piece),
        });
        reading.watch = Some(watch);
        passed
    }

    /// Decides whether a watched reading of `text` has shown that its calls are a quotation.
    pub(super) fn watched(
        &mut self,
        mut reading: Box<Reading>,
        mut watch: Watch,
        passed: Passed,
        text: &str,
        out: &mut impl Sink,
    ) -> usize {
        if watch.pieces.is_empty() && !reading.container.has_begun() {
            reading.watch = Some(watch);
            return self.proceed(reading, passed, text, out);
        }
        let (taken, rescan) = passed.extent(text.len(), reading.container.undecided());
        let end = (self.held.len() + taken).saturating_sub(rescan);
        if !self.repeats(reading.quote, &mut watch, head(text, taken), end) {
            self.send(&reading, watch.pieces, false, out);
            return self.proceed(reading, passed, text, out);
        }
        let is_place = reading.quote == Quote::Place;
        let has_ended = watch.ends_call() || (passed.is_end() && reading.container.has_ended_call());
        // All of a container is quoted by its place.
        let goes_on = matches!(passed, Passed::More | Passed::Certain(_));
        if goes_on && (is_place || !has_ended) {
            return self.keep_watching(reading, watch, head(text, taken), out);
        }
        if !is_place && !has_ended {
            self.send(&reading, watch.pieces, false, out);
            return self.proceed(reading, passed, text, out);
        }
        let is_whole = !matches!(passed, Passed::Cut { .. }) && (!is_place || passed.is_end());
        let may_stand_alone = is_whole && !watch.stays_text;
        if !may_stand_alone || !self.may_stand_alone(&reading, head(text, taken), end) {
            append(&mut self.held, head(text, taken));
            self.stay_text(&mut reading, rescan, out);
            return taken;
        }
        if let Some(pending) = &mut self.pending {
            pending.calls += 1;
            self.send(&reading, watch.pieces, false, out);
            return self.proceed(reading, passed, text, out);
        }
        self.pend(&reading, head(text, taken));
        let mut output = Output::default();
        self.send(&reading, watch.pieces, false, &mut output);
        let taken = self.proceed(reading, passed, text, &mut output);
        self.pause(output, out);
        taken
    }

    /// Whether the source of a watched call is quoted, as far as it has been read: the first `end` bytes of the held
    /// text and `more`.
    fn repeats(&mut self, quote: Quote, watch: &mut Watch, more: &str, end: usize) -> bool {
        if quote == Quote::Place {
            return true;
        }
        let held = self.held.len();
        let part = |from: usize, to: usize| {
            let more = slice(more, from.saturating_sub(held), to.saturating_sub(held));
            (slice(&self.held, from.min(held), to.min(held)), more)
        };
        let mut end = end;
        if watch.skipped > 0 {
            let is_fence = |c: char| c.is_ascii_whitespace() || matches!(c, '`' | '~');
            let (source, more) = part(watch.skipped, end);
            let len = |text: &str| text.trim_end_matches(is_fence).len();
            end = match len(more) {
                0 => watch.skipped + len(source),
                more => watch.skipped + source.len() + more,
            };
            if watch.trace.len() == 0 {
                let blank = |text: &str| text.len() - text.trim_ascii_start().len();
                let before = blank(source);
                watch.skipped += if before < source.len() { before } else { before + blank(more) };
            }
        }
        let known = watch.skipped + watch.trace.len();
        let (source, more) = part(known, end.max(known));
        self.quotations.follow(&mut watch.trace, source) && self.quotations.follow(&mut watch.trace, more)
    }

    fn keep_watching(
        &mut self,
        mut reading: Box<Reading>,
        watch: Watch,
        text: &str,
        out: &mut impl Sink,
    ) -> usize {
        append(&mut self.held, text);
        if self.held.len() > reading.limit(&self.search, self.max_hold()) {
            self.stay_text(&mut reading, 0, out);
            return text.len();
        }
        if reading.container.is_streaming() {
            reading.rivals = super::reading::Rivals::None;
        }
        reading.watch = Some(watch);
        self.state = State::Calls(reading);
        text.len()
    }

    /// Ends the text within watched calls. Returns whether it ended with calls that are sent.
    pub(super) fn finish_watched(
        &mut self,
        reading: &mut Reading,
        mut watch: Watch,
        stopped: bool,
        out: &mut impl Sink,
    ) -> bool {
        let rules = reading.rules(&self.search);
        let mut ended = reading.finish(stopped, &rules, &mut |piece| watch.push(piece));
        if ended {
            watch.pieces.extend(reading.container.take_waiting());
        }
        let end = self.held.len().saturating_sub(reading.punctuation);
        let has_begun = !watch.pieces.is_empty() || reading.container.has_begun();
        let has_ended = if reading.quote == Quote::Place { has_begun } else { ended && watch.ends_call() };
        if has_ended && self.repeats(reading.quote, &mut watch, "", end) {
            let is_whole = watch.pieces.iter().all(|piece| *piece != Waiting::End(CallEnd::Cut));
            let may_stand_alone = is_whole && !watch.stays_text;
            ended = ended && stopped && may_stand_alone && self.may_stand_alone(reading, "", end);
            if ended {
                self.quoted.as_calls += 1;
            } else {
                self.quotation(reading.quote);
                watch.pieces.clear();
                drop(reading.container.take_waiting());
                reading.quote = Quote::Place;
            }
        }
        self.send(reading, watch.pieces, true, out);
        ended
    }

    /// Records a quotation.
    fn quotation(&mut self, quote: Quote) {
        self.quoted.as_text += 1;
        if quote != Quote::Place {
            self.quoted.repetitions += 1;
        }
    }

    /// Whether a quotation may be a call if nothing visible follows it. Its source is the first `end` bytes of the held
    /// text and `more`.
    fn may_stand_alone(&mut self, reading: &Reading, more: &str, end: usize) -> bool {
        let may = self.search.quoted_calls == QuotedCalls::Text && !self.quotes_only;
        may && reading.starts_line && self.doubted.is_none() && !self.continues_quotation(more, end)
    }

    /// Whether a text contains the text before a quotation, too. Its source is the first `end` bytes of the held text
    /// and `more`.
    fn continues_quotation(&mut self, more: &str, end: usize) -> bool {
        let Some(recent) = self.prose.recent() else { return false };
        let held = head(&self.held, end.min(self.held.len()));
        let source = [recent, held, head(more, end.saturating_sub(self.held.len()))].concat();
        self.quotations.follow(&mut Trace::default(), &source) && !self.quotations.is_exceeded()
    }

    /// Turns a quotation into text. The last `rescan` bytes of the held text follow it.
    fn stay_text(&mut self, reading: &mut Reading, rescan: usize, out: &mut impl Sink) {
        let end = self.held.len().saturating_sub(rescan);
        self.quotation(reading.quote);
        self.last_end = LastEnd { rescan, broken: true };
        if let Some(thinking) = self.doubted.take() {
            return self.think_on(thinking, out);
        }
        self.state = State::Prose;
        if let Surroundings::Fence(fence) = reading.container.surroundings(false) {
            self.state = State::Foreign(Foreign::in_body(fence, head(&self.held, end)));
        }
        let source: String = self.held.drain(..end).collect();
        self.prose.put(&source, out);
        // What follows on the same line is quoted in the same way.
        if reading.quote == Quote::Place && matches!(self.state, State::Prose) && !self.prose.is_quoting() {
            self.prose.begin_quoting(Quoting::Line);
        }
        self.release(rescan, out);
    }
}

impl Passed {
    /// Returns how many bytes of a piece of `len` bytes were read, and how many of the bytes read so far follow the
    /// calls. `undecided` is how many the container has not decided about.
    fn extent(self, len: usize, undecided: usize) -> (usize, usize) {
        match self {
            Self::More => (len, undecided),
            Self::Certain(taken) | Self::Broken(taken) | Self::MessageEnded(taken) => (taken, undecided),
            Self::Ended { taken, rescan } | Self::Cut { taken, rescan } | Self::Failed { taken, rescan } => {
                (taken, rescan)
            }
        }
    }

    /// Whether everything up to here is certain.
    fn is_end(self) -> bool {
        matches!(self, Self::Certain(_) | Self::Ended { .. } | Self::MessageEnded(_))
    }
}

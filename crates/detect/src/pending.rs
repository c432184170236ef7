//! [`Pending`]: calls that are quotations unless they stand alone, and all that follows them.
//!
//! They wait until the text ends or something visible follows. In the first case, all of it is sent. In the second one,
//! it is read again, with quotations as text. So each byte is read at most twice.

use super::{
    Detector, State,
    prose::Prose,
    quote::QuotedCount,
    reading::Reading,
    text::{append, boundary_from, head, is_blank},
};
use crate::event::{CallEnd, Event, Sink};

/// Calls that are a quotation unless they stand alone, and all that follows them.
#[derive(Debug)]
pub(super) struct Pending {
    /// The state before the first of these calls.
    prose: Prose,
    next: u32,
    count: QuotedCount,
    /// The source from there on.
    source: String,
    /// Whether the source begins inside a header, like the message.
    begins_message: bool,
    output: Output,
    /// Whether the source is being read at the moment, so that output already goes to `output`.
    is_running: bool,
    pub(super) calls: u64,
}

/// Output that waits.
#[derive(Debug, Default)]
pub(super) struct Output {
    events: Vec<Event<'static>>,
    /// Whether there is text that is not only white space, or a call that is not whole.
    is_visible: bool,
}

impl Sink for Output {
    fn event(&mut self, event: Event<'_>) {
        self.is_visible |= match &event {
            Event::Text(text) => !text.bytes().all(is_blank),
            Event::CallEnd { end, .. } => *end != CallEnd::Complete,
            _ => false,
        };
        if !self.events.last_mut().is_some_and(|last| last.continues(&event)) {
            self.events.push(event.into_owned());
        }
    }
}

impl Detector {
    /// Lets calls and all that follows them wait. The held text and `more` have been read of the calls.
    pub(super) fn pend(&mut self, reading: &Reading, more: &str) {
        let source = [&self.held, more].concat();
        let begins_message = reading.has_messages && !self.search.sought.markers.opens_call(&source);
        self.pending = Some(Box::new(Pending {
            prose: self.prose.clone(),
            next: self.next,
            count: self.quoted,
            source,
            begins_message,
            output: Output::default(),
            is_running: true,
            calls: 1,
        }));
    }

    pub(super) fn pending_source(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.source.len())
    }

    /// Whether what is read must wait, and output does not wait yet.
    pub(super) fn is_paused(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.is_running)
    }

    /// Reads the start of `text`, which follows pending calls.
    pub(super) fn step_behind_pending(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let Some(mut output) = self.run_on() else { return 0 };
        let room = self.max_pending().saturating_sub(self.pending_source());
        let text = head(text, boundary_from(text, room.saturating_add(1)));
        // What the model invented after a call is dropped, but shows that the call does not stand alone.
        output.is_visible |= matches!(self.state, State::Dropped) && !text.bytes().all(is_blank);
        let taken = self.step(text, &mut output);
        if let Some(pending) = &mut self.pending {
            append(&mut pending.source, head(text, taken));
        }
        self.pause(output, out);
        taken
    }

    /// Resolves the state at the end of the text, behind pending calls.
    pub(super) fn resolve_behind_pending(&mut self, stopped: bool, out: &mut impl Sink) {
        let Some(mut output) = self.run_on() else { return };
        self.resolve(stopped, &mut output);
        self.pause(output, out);
    }

    fn max_pending(&self) -> usize {
        self.search.max_hold.saturating_add(self.search.max_arguments)
    }

    fn run_on(&mut self) -> Option<Output> {
        let pending = self.pending.as_mut()?;
        pending.is_running = true;
        Some(std::mem::take(&mut pending.output))
    }

    /// Stores the output behind pending calls. If it is visible, the calls are quotations.
    pub(super) fn pause(&mut self, output: Output, out: &mut impl Sink) {
        let max = self.max_pending();
        self.flow = None;
        let Some(pending) = &mut self.pending else { return };
        pending.is_running = false;
        let is_quotation = output.is_visible || pending.source.len() > max;
        pending.output = output;
        if is_quotation {
            self.retract(out);
        }
    }

    /// Called at the end of a piece. In prose, the next piece would not be recorded as the source of pending calls.
    pub(super) fn stay_behind_pending(&mut self) {
        if matches!(self.state, State::Prose) && self.is_paused() {
            self.state = State::Behind;
        }
    }

    /// Reads pending calls again, as text.
    fn retract(&mut self, out: &mut impl Sink) {
        let Some(pending) = self.pending.take() else { return };
        let Pending { prose, next, count, source, begins_message, .. } = *pending;
        (self.prose, self.next, self.quoted, self.state) = (prose, next, count, State::Prose);
        self.held.clear();
        if begins_message {
            self.start(false);
        }
        let again = std::mem::replace(&mut self.quotes_only, true);
        self.text(&source, out);
        self.quotes_only = again;
    }

    /// Decides about pending calls at the end of the text. They are calls if the model has stopped. Returns whether
    /// there were any.
    pub(super) fn settle_pending(&mut self, stopped: bool, out: &mut impl Sink) -> bool {
        let is_pending = self.pending.is_some();
        if !stopped {
            self.retract(out);
        } else if let Some(pending) = self.pending.take() {
            self.quoted.as_calls += pending.calls;
            pending.output.events.into_iter().for_each(|event| out.event(event));
        }
        is_pending
    }
}

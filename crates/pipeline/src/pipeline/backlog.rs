//! [`Backlog`]: events that the reader has produced and that later stages have not processed yet.
//!
//! A single frame may contain megabytes of text, and detection may have to examine every byte. Such text is
//! cut into slices, so that the shell can send the output of one slice and yield the thread before it asks
//! for the next. Events that follow wait in order. Nearly all events are small and never enter the queue.

use std::{borrow::Cow, collections::VecDeque};

use crate::{
    event::{Event, Sink},
    failure::Failure,
    wire::text::{boundary_upto, slice},
};

/// Maximum number of bytes of text that are processed at once.
pub const SLICE: usize = 4 << 10;

/// An event in the queue and the frame that may be forwarded in its place.
#[derive(Debug)]
pub(super) struct Waiting {
    frame: Option<String>,
    means: Option<Event<'static>>,
}

impl Waiting {
    pub(super) fn new(event: Event<'_>) -> Self {
        match event {
            Event::Verbatim { frame, means } => {
                Self { frame: Some(frame.to_owned()), means: means.map(|means| means.clone().into_owned()) }
            }
            event => Self { frame: None, means: Some(event.into_owned()) },
        }
    }

    /// The event, or the event that the frame stands for.
    pub(super) fn means(&self) -> Option<&Event<'static>> {
        self.means.as_ref()
    }

    /// Appends the text of `event` if it is of the same kind as this event. Returns whether it did.
    pub(super) fn continues(&mut self, event: &Event<'_>) -> bool {
        match (&self.frame, &mut self.means) {
            (None, Some(means)) => means.continues(event),
            _ => false,
        }
    }

    pub(super) fn pass(self, pass_on: &mut impl FnMut(Event<'_>)) {
        match (self.frame, self.means) {
            (Some(frame), means) => pass_on(Event::Verbatim { frame: &frame, means: means.as_ref() }),
            (None, Some(event)) => pass_on(event),
            (None, None) => {}
        }
    }
}

/// The reader's state after the last event in the queue.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) result: Result<(), Failure>,
    pub(super) ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    events: VecDeque<Waiting>,
    /// Number of bytes of the first event's text that have been processed.
    done: usize,
    /// Set while the queue is not empty.
    pub(super) read: Option<Read>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.done = 0;
    }

    /// Whether `event` must be queued: other events are already queued, or its text is too large to process
    /// at once and `needs_processing` returns true for that text.
    pub(super) fn takes(&self, event: &Event<'_>, needs_processing: impl FnOnce(&str) -> bool) -> bool {
        let is_large = |text: &str| text.len() > SLICE && needs_processing(text);
        !self.events.is_empty() || text_of(event).is_some_and(is_large)
    }

    pub(super) fn put(&mut self, event: Event<'_>) {
        self.events.push_back(Waiting::new(event));
    }

    /// Passes the next slice, or the next small event, to `out`.
    pub(super) fn next(&mut self, out: &mut impl Sink) {
        let Some(Waiting { frame, means }) = self.events.front() else { return };
        if let Some(text) = means.as_ref().and_then(text_of).filter(|text| text.len() > SLICE) {
            // Pass at most one slice on: the next stage would queue anything larger again.
            let end = boundary_upto(text, self.done + SLICE);
            out.event(Event::Text(Cow::Borrowed(slice(text, self.done, end))));
            self.done = end;
            if end < text.len() {
                return;
            }
        } else if let Some(frame) = frame {
            out.event(Event::Verbatim { frame, means: means.as_ref() });
        } else if let Some(means) = means {
            out.event(means.clone());
        }
        self.done = 0;
        self.events.pop_front();
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }
}

fn text_of<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    if let Event::Text(text) = event.meaning() { Some(text) } else { None }
}

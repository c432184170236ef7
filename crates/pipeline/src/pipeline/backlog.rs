//! [`Backlog`]: events that have been read from a response and wait for the stages after the reader.
//!
//! One frame may contain megabytes of text, and detection may have to process each byte of it. Such a text is
//! cut into slices, so the shell can send the output of one slice and yield the thread before it asks for the
//! next slice. Later events wait in order. Nearly all events are small and are never queued here.

use std::{borrow::Cow, collections::VecDeque};

use crate::{
    event::{Event, Sink},
    failure::Failure,
    wire::text::{boundary_upto, slice},
};

/// Maximum number of bytes of text that are processed at once.
pub const SLICE: usize = 4 << 10;

/// A waiting event, with the frame that may be forwarded instead of it.
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

    /// Appends the text of `event` if `event` continues this one. Returns `false` if it does not.
    pub(super) fn continues(&mut self, event: &Event<'_>) -> bool {
        let (None, Some(means)) = (&self.frame, &mut self.means) else { return false };
        match (means, event) {
            (Event::Text(text), Event::Text(more)) | (Event::Refusal(text), Event::Refusal(more)) => {
                text.to_mut().push_str(more);
            }
            (Event::Reasoning(reasoning), Event::Reasoning(more))
                if reasoning.signature.is_none() && more.signature.is_none() =>
            {
                reasoning.text.to_mut().push_str(&more.text);
            }
            (Event::CallArguments { index, piece }, Event::CallArguments { index: same, piece: more })
                if index == same =>
            {
                piece.to_mut().push_str(more);
            }
            _ => return false,
        }
        true
    }

    /// Passes the event on.
    pub(super) fn pass(self, pass_on: &mut impl FnMut(Event<'_>)) {
        match (self.frame, self.means) {
            (Some(frame), means) => pass_on(Event::Verbatim { frame: &frame, means: means.as_ref() }),
            (None, Some(event)) => pass_on(event),
            (None, None) => {}
        }
    }
}

/// The state of the reader after the last waiting event.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) result: Result<(), Failure>,
    pub(super) ended: bool,
}

/// The queue of waiting events.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    events: VecDeque<Waiting>,
    /// Bytes of the first event's text that have been processed.
    done: usize,
    /// Set while events wait.
    pub(super) read: Option<Read>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Discards the waiting events.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.done = 0;
    }

    /// Whether `event` has to wait, either because other events are waiting, or because its text is too large
    /// to process at once and `needs_processing` returns true for it.
    pub(super) fn takes(&self, event: &Event<'_>, needs_processing: impl FnOnce(&str) -> bool) -> bool {
        let is_large = |text: &str| text.len() > SLICE && needs_processing(text);
        !self.events.is_empty() || text_of(event).is_some_and(is_large)
    }

    /// Appends an event to the queue.
    pub(super) fn put(&mut self, event: Event<'_>) {
        self.events.push_back(Waiting::new(event));
    }

    /// Passes the next slice of the waiting events to `out`.
    pub(super) fn next(&mut self, out: &mut impl Sink) {
        let Some(Waiting { frame, means }) = self.events.front() else { return };
        if let Some(text) = means.as_ref().and_then(text_of).filter(|text| text.len() > SLICE) {
            // At most one slice: otherwise the stages after this one would make the text wait again.
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
    match event {
        Event::Text(text) | Event::Verbatim { means: Some(Event::Text(text)), .. } => Some(text),
        _ => None,
    }
}

//! [`Joiner`]: joins adjacent pieces of output of the same kind.
//!
//! A stretch of text may produce as many pieces as it has bytes, and each piece becomes a chunk of a few hundred
//! bytes for the client. Joining never waits for more input from the upstream: what has been joined is sent once
//! the upstream's piece has been read.

use std::borrow::Cow;

use crate::event::{Event, Reasoning, Sink};

/// The maximum number of joined bytes, except for text that may still be sent in its original frame.
const MAX_JOINED: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    /// The arguments of the call with this index.
    Arguments(u32),
}

/// A sink that joins adjacent pieces.
#[derive(Debug)]
pub(super) struct Joiner<'s, S> {
    kind: Kind,
    pub(super) joined: String,
    /// Whether all output so far is text, and none of it has been sent.
    pub(super) pure: bool,
    pub(super) out: &'s mut S,
}

impl<'s, S: Sink> Joiner<'s, S> {
    /// Joins pieces in the buffer `space`, which must be empty.
    pub(super) fn new(space: String, out: &'s mut S) -> Self {
        Self { kind: Kind::Text, joined: space, pure: true, out }
    }

    pub(super) fn finish(mut self) -> String {
        self.flush();
        self.joined.shrink_to(MAX_JOINED);
        self.joined
    }

    fn add(&mut self, kind: Kind, piece: &str) {
        let is_full = !self.pure && self.joined.len() + piece.len() > MAX_JOINED;
        if self.kind != kind || is_full {
            self.flush();
            self.kind = kind;
        }
        self.joined.push_str(piece);
    }

    fn flush(&mut self) {
        if self.joined.is_empty() {
            return;
        }
        let piece = Cow::Borrowed(self.joined.as_str());
        self.out.event(match self.kind {
            Kind::Text => Event::Text(piece),
            Kind::Reasoning => Event::Reasoning(Reasoning::text(piece)),
            Kind::Arguments(index) => Event::CallArguments { index, piece },
        });
        self.joined.clear();
    }
}

impl<S: Sink> Sink for Joiner<'_, S> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Text(text) = event {
            return self.add(Kind::Text, &text);
        }
        self.pure = false;
        match event {
            Event::Reasoning(Reasoning { text, signature: None, .. }) => self.add(Kind::Reasoning, &text),
            Event::CallArguments { index, piece } if piece.len() <= MAX_JOINED => {
                self.add(Kind::Arguments(index), &piece)
            }
            event => {
                self.flush();
                self.out.event(event);
            }
        }
    }
}

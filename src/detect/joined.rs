//! [`Joined`]: the pieces of one text on their way out, neighbours of a kind joined to one.
//!
//! A stretch of text may come out in as many pieces as it has bytes, and each piece becomes a chunk of some hundred
//! bytes for the client. Nothing waits for the next piece of the upstream: what is joined goes out when the text that it
//! came of has been read.

use std::borrow::Cow;

use crate::event::{Event, Reasoning, Sink};

/// Bytes that are joined at most, unless they are text that may yet leave as the frame it came in.
const MAX_JOINED: usize = 16 << 10;

/// What the pieces are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    /// The arguments of this call.
    Arguments(u32),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Joined<'s, S> {
    kind: Kind,
    pub(super) joined: String,
    /// Nothing but text has come, and it has not gone out yet.
    pub(super) pure: bool,
    pub(super) out: &'s mut S,
}

impl<'s, S: Sink> Joined<'s, S> {
    /// Joins pieces in `space`, which is empty.
    pub(super) fn new(space: String, out: &'s mut S) -> Self {
        Self { kind: Kind::Text, joined: space, pure: true, out }
    }

    /// Lets the last piece go, and gives the space back.
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
            Kind::Reasoning => Event::Reasoning(Reasoning { text: piece, signature: None }),
            Kind::Arguments(index) => Event::CallArguments { index, piece },
        });
        self.joined.clear();
    }
}

impl<S: Sink> Sink for Joined<'_, S> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Text(text) = event {
            return self.add(Kind::Text, &text);
        }
        self.pure = false;
        match event {
            Event::Reasoning(Reasoning { text, signature: None }) => self.add(Kind::Reasoning, &text),
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

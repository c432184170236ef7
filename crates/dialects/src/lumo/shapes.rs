//! [`Shapes`]: the fast path of the reader.

use super::target::Target;
use crate::wire::json::{FrameTemplate, Json};

/// The position of a token in a frame that contains nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) target: Target,
    /// The body of a JSON string.
    pub(super) body: &'a str,
    /// A number in the frame that has no meaning but varies.
    pub(super) number: Option<Json<'a>>,
}

/// The fast path: recognises frames that equal an earlier one except for the token.
///
/// A shape is learnt from a frame that contains only a token, so every frame of that shape contains only a
/// token.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// One for text and one for reasoning, since frames of these two kinds may alternate.
    known: [Option<(FrameTemplate, Target)>; 2],
    next: usize,
    /// Number of shapes learnt since a shape was last used.
    idle: u32,
}

impl Shapes {
    /// Number of unused shapes after which learning stops. In a stream whose frames are all different, it
    /// would only cost time.
    const MAX_IDLE: u32 = 16;

    /// The token of a frame of a known shape, and its channel.
    pub(super) fn token<'a>(&mut self, frame: &'a str) -> Option<(Target, &'a str)> {
        let found =
            self.known.iter().flatten().find_map(|(shape, target)| Some((*target, shape.body(frame)?)));
        if found.is_some() {
            self.idle = 0;
        }
        found
    }

    /// Learns from a frame that contains only `token`.
    pub(super) fn learn(&mut self, frame: &str, token: Token<'_>) {
        if self.idle >= Self::MAX_IDLE {
            return;
        }
        self.idle += 1;
        let Some(shape) = FrameTemplate::learn(frame, token.body, token.number) else { return };
        if let Some(place) = self.known.get_mut(self.next) {
            *place = Some((shape, token.target));
        }
        self.next = (self.next + 1) % self.known.len();
    }
}

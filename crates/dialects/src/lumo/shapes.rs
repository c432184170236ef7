//! [`Shapes`]: the fast path of the reader.

use super::target::Target;
use crate::wire::json::{FrameTemplate, Json};

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) target: Target,
    pub(super) body: &'a str,
    /// A number in the frame that varies but has no meaning.
    pub(super) number: Option<Json<'a>>,
}

/// Recognises frames that equal an earlier one except for the token.
///
/// A shape is learnt from a frame that contains only a token, so all frames of that shape contain only a
/// token.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// Two shapes, since frames with text and with reasoning may alternate.
    known: [Option<(FrameTemplate, Target)>; 2],
    next: usize,
    /// Number of shapes learnt since one was last used.
    idle: u32,
}

impl Shapes {
    /// Number of unused shapes after which learning stops: if all frames of a stream differ, learning only
    /// costs time.
    const MAX_IDLE: u32 = 16;

    /// The channel and the token of a frame whose shape is known.
    pub(super) fn token<'a>(&mut self, frame: &'a str) -> Option<(Target, &'a str)> {
        let found =
            self.known.iter().flatten().find_map(|(shape, target)| Some((*target, shape.body(frame)?)));
        if found.is_some() {
            self.idle = 0;
        }
        found
    }

    /// Learns the shape of a frame that contains only `token`.
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

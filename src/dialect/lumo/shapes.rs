//! [`Shapes`]: the fast path of the reader.

use super::answer::Target;
use crate::wire::json::{FrameTemplate, Json};

/// Where a token lies that is all that a frame says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) target: Target,
    /// The body of a JSON string.
    pub(super) body: &'a str,
    /// A number in the frame that tells nothing, but varies.
    pub(super) number: Option<Json<'a>>,
}

/// The fast path: frames that are known from earlier ones, all but their token.
///
/// A shape is learnt from a frame that said nothing but its token, so a frame of that shape says nothing else either.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// Text and reasoning may take turns.
    known: [Option<(FrameTemplate, Target)>; 2],
    next: usize,
    /// Shapes learnt since one last was of use.
    idle: u32,
}

impl Shapes {
    /// Shapes learnt in vain until no more are: a stream whose frames are all different would pay for each.
    const MAX_IDLE: u32 = 16;

    /// The token of a frame that is known, and the channel it is for.
    pub(super) fn token<'a>(&mut self, frame: &'a str) -> Option<(Target, &'a str)> {
        let found =
            self.known.iter().flatten().find_map(|(shape, target)| Some((*target, shape.body(frame)?)));
        if found.is_some() {
            self.idle = 0;
        }
        found
    }

    /// Learns from a frame that says nothing but `token`.
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

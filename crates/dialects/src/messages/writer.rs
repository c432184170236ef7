//! Encodes events for a client of Messages, as a stream or as a single object.
//!
//! ```text
//! Text, Reasoning ─▶ a block that stays open until another kind of content starts
//! CallStart … CallEnd ─▶ a block of its own (`BlockOrder` holds other content until it has ended)
//! Finish, Usage ─▶ held for `message_delta`, which has both (docs/protocols/messages.md#events)
//! Verbatim ─▶ forwarded if it is a delta of the block that is open here, with the same index
//! ```

mod block;
mod deltas;
mod held;
mod members;
mod stream;
mod whole;

use crate::{Answering, Ids, ResponseWriter, event::Start};

/// Writes a response to a client that speaks Messages.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

#[derive(Debug)]
struct Head {
    id: String,
    model: String,
    /// Whether the response is stored under this id.
    stored: bool,
}

impl Head {
    /// Generates values for upstreams that send no head.
    fn new(answering: &Answering) -> Self {
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next(ID_PREFIX),
            model: answering.model.clone(),
            stored: answering.stored,
        }
    }

    /// Replaces the generated values with the upstream's. An id from another API would not be valid here, so
    /// it is ignored, and a response is stored under its own id, since upstreams repeat theirs.
    fn take(&mut self, start: &Start<'_>) {
        if start.id.starts_with(ID_PREFIX) && !self.stored {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
    }
}

const ID_PREFIX: &str = "msg_";

/// Makes response ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x6d73_6773;

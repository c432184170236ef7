//! The writer: encodes events for a client of Messages, as a stream or as one object.
//!
//! ```text
//! Text, Reasoning ─▶ a block that lasts until another kind of content begins
//! CallStart … CallEnd ─▶ a block of its own (`BlockOrder` keeps other content until it has ended)
//! Finish, Usage ─▶ kept for `message_delta`, which has both (docs/protocols/messages.md#events)
//! Verbatim ─▶ forwarded if it is a delta of the block that is open here, under the same number
//! ```

mod block;
mod deltas;
mod members;
mod stream;
mod whole;

use crate::{Answering, Ids, ResponseWriter, event::Start};

/// Writes one response to a client that speaks Messages.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

/// The members that identify a response.
#[derive(Debug)]
struct Head {
    id: String,
    model: String,
}

impl Head {
    /// Generated values, for an upstream that sends no head.
    fn new(answering: &Answering) -> Self {
        Self { id: Ids::new(answering.stamp.seed, ID_SALT).next(ID_PREFIX), model: answering.model.clone() }
    }

    /// Replaces the generated values with the upstream's. An id in the form of another API is not valid in
    /// this API, so it is not taken.
    fn take(&mut self, start: &Start<'_>) {
        if start.id.starts_with(ID_PREFIX) {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
    }
}

/// Prefix of each message's id.
const ID_PREFIX: &str = "msg_";

/// Distinguishes a response's id from other ids of the same seed.
const ID_SALT: u64 = 0x6d73_6773;

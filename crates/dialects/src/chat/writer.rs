//! The writer: encodes events for a client of Chat Completions, as a stream or as one object.
//!
//! The stream has the one form that every client library understands (docs/protocols/chat.md#stream): one
//! role, complete call heads, clean argument deltas, one finish, usage last. The writer relies on the
//! previous stage for call indices from 0 without gaps, unique ids, and a single finish.

mod delta;
mod reasoning;
mod remainder;
mod stream;
mod usage;
mod whole;

use crate::{Answering, Ids, ResponseWriter, event::Start};

/// Writes one response to a client that speaks Chat Completions.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

/// The fields that all chunks of a response have in common.
#[derive(Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    /// Generated values, for an upstream that sends no head.
    fn new(answering: &Answering) -> Self {
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next("chatcmpl-"),
            created: answering.stamp.created,
            model: answering.model.clone(),
        }
    }

    /// Replaces the generated values with the upstream's.
    fn take(&mut self, start: &Start<'_>) {
        if !start.id.is_empty() {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
        self.created = start.created.unwrap_or(self.created);
    }
}

/// Distinguishes a response's id from other ids of the same seed.
const ID_SALT: u64 = 0x6368_6174;

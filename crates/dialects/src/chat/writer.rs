//! Encodes events for a client of Chat Completions, as a stream or as a single object.
//!
//! A stream has the one form that every client library understands (docs/protocols/chat.md#stream): the role
//! once, complete call heads, clean argument deltas, one finish, and the usage last. The writer relies on the
//! previous stage for call indexes without gaps, unique ids, and a single finish.

mod delta;
mod reasoning;
mod remainder;
mod stream;
mod usage;
mod whole;

use crate::{Answering, Ids, ResponseWriter, event::Start};

/// Writes a response to a client that speaks Chat Completions.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

#[derive(Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    /// Generates values for upstreams that send no head.
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

/// Makes response ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x6368_6174;

//! [`Head`]: what Chat Completions and text completions repeat in every chunk.

use super::{Answering, Ids};
use crate::event::Start;

/// The members that all chunks of a response have.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

impl Head {
    /// Generates values for upstreams that send no head. The id starts with `prefix`.
    pub(super) fn new(answering: &Answering, prefix: &str) -> Self {
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next(prefix),
            created: answering.stamp.created,
            model: answering.model.clone(),
        }
    }

    /// Replaces the generated values with the upstream's.
    pub(super) fn take(&mut self, start: &Start<'_>) {
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

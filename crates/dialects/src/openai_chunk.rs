//! Chunks of Chat Completions and of text completions. [`Head`]: what they repeat.

use bytes::{BufMut, BytesMut};
use serde_json::json;

use super::{Answering, Ids, openai_usage};
use crate::{
    event::{Start, Usage},
    wire::json::Encoder,
};

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

    /// Writes the members of an object of the type `object`.
    pub(super) fn put(&self, object: &str, chunk: &mut Encoder) {
        chunk.key("id").string(&self.id);
        chunk.key("object").string(object);
        chunk.key("created").value(&self.created);
        chunk.key("model").string(&self.model);
    }

    /// Writes the chunk of the type `object` with the token counts, which has no choices.
    pub(super) fn put_usage(&self, object: &str, usage: &Usage, out: &mut BytesMut) {
        let chunk = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": [],
            "usage": openai_usage::object(usage),
        });
        put_frame(chunk.to_string().as_bytes(), out);
    }
}

/// Makes response ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x6368_6174;

/// Writes an event with this data.
pub(super) fn put_frame(data: &[u8], out: &mut BytesMut) {
    out.put_slice(b"data: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

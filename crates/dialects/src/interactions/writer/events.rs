//! [`Events`]: writes the events of a stream.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use serde_json::json;

use crate::{
    failure::Failure,
    wire::json::{Encoder, escape_into},
};

/// The output of a stream. `None` if the response is not streamed.
pub(super) struct Events<'o>(pub(super) Option<&'o mut BytesMut>);

impl Events<'_> {
    /// Writes an event of this type with these members.
    pub(super) fn event(&mut self, kind: &str, members: impl FnOnce(&mut Encoder)) {
        let Some(out) = &mut self.0 else { return };
        let mut event = Encoder::default();
        event.object(|event| {
            members(event);
            event.key("event_type").string(kind);
        });
        put(out, kind, &event.finish());
    }

    /// Writes a piece of text. `before` and `behind` are the members of the delta around it, as JSON.
    pub(super) fn text(&mut self, index: usize, before: &str, text: &str, behind: &str) {
        let Some(out) = &mut self.0 else { return };
        out.put_slice(b"event: step.delta\ndata: {\"index\":");
        // Writing to memory cannot fail.
        let _ = write!(out, "{index}");
        out.put_slice(b",\"delta\":{");
        out.put_slice(before.as_bytes());
        out.put_slice(b"\"");
        escape_into(*out, text);
        out.put_slice(b"\"");
        out.put_slice(behind.as_bytes());
        out.put_slice(b"},\"event_type\":\"step.delta\"}\n\n");
    }

    pub(super) fn failure(&mut self, failure: &Failure) {
        let code = failure.code().unwrap_or("internal_error");
        let error = json!({"code": code, "message": failure.message()});
        self.event("error", |event| event.key("error").value(&error));
    }

    /// Writes the end mark.
    pub(super) fn done(&mut self) {
        if let Some(out) = &mut self.0 {
            put(out, "done", b"[DONE]");
        }
    }
}

fn put(out: &mut BytesMut, kind: &str, data: &[u8]) {
    out.put_slice(b"event: ");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\ndata: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

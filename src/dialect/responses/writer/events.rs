//! [`Events`]: the events of a stream, numbered.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};

/// Where the events of a response go.
#[derive(Debug)]
pub(super) enum Events<'o> {
    /// To the client.
    Written {
        /// The stream.
        out: &'o mut BytesMut,
        /// The number of the next event.
        sequence: &'o mut u64,
    },
    /// Nowhere: the response is not streamed.
    Unwritten,
}

impl<'o> Events<'o> {
    /// To the client, from number `sequence` on.
    pub(super) fn written(out: &'o mut BytesMut, sequence: &'o mut u64) -> Self {
        Self::Written { out, sequence }
    }

    /// Writes an event of this type; `members` are its other members as JSON text.
    pub(super) fn put(&mut self, kind: &str, members: &[&str]) {
        let Self::Written { out, .. } = self else { return };
        for part in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\","] {
            out.put_slice(part.as_bytes());
        }
        members.iter().for_each(|part| out.put_slice(part.as_bytes()));
        self.end(b"");
    }

    /// Writes a delta: `prefix`, as made by [`delta_prefix`], and the escaped text.
    pub(super) fn delta(&mut self, prefix: &[u8], text: &[u8]) {
        let Self::Written { out, .. } = self else { return };
        out.put_slice(prefix);
        out.put_slice(text);
        self.end(b"\"");
    }

    /// `behind`, the event's number, and its end.
    fn end(&mut self, behind: &[u8]) {
        let Self::Written { out, sequence } = self else { return };
        out.put_slice(behind);
        // Writing to memory cannot fail.
        let _ = write!(out, ",\"sequence_number\":{}}}\n\n", **sequence);
        **sequence += 1;
    }
}

/// The beginning of a delta up to its text. All deltas of a part begin in the same way, so this is built once; after that a
/// piece of text allocates nothing.
pub(super) fn delta_prefix(kind: &str, place: &str, more: &str) -> Vec<u8> {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{place}{more},\"delta\":\"").into_bytes()
}

//! [`Deltas`]: writes the deltas of a block, each of which extends one string.
//!
//! All deltas of a block start the same way. The start is built once for each block; after that, writing a
//! piece takes two copies and the escaping, but no allocation. If an upstream's frame is a delta of the same
//! block with the same index, it is forwarded unchanged.

use bytes::{BufMut, BytesMut};

use crate::wire::json::{Json, escape_into, span};

/// Closes the string, the delta and the event.
const END: &[u8] = b"\"}}\n\n";

/// What precedes the JSON of a delta.
const LEAD: &str = "event: content_block_delta\ndata: ";

#[derive(Debug)]
pub(super) struct Deltas {
    pub(super) index: usize,
    key: &'static str,
    /// The start of every delta, up to the text of the string.
    prefix: Vec<u8>,
    /// The start of every delta as the upstream writes it, if it differs from `prefix`.
    spelling: Vec<u8>,
}

impl Deltas {
    /// Creates a writer for the block `index`, whose deltas have the type `kind` and their string in the
    /// member `key`.
    pub(super) fn new(index: usize, (kind, key): (&'static str, &'static str)) -> Self {
        let start = format!("{LEAD}{{\"type\":\"content_block_delta\",\"index\":{index},");
        let prefix = format!("{start}\"delta\":{{\"type\":\"{kind}\",\"{key}\":\"").into_bytes();
        Self { index, key, prefix, spelling: Vec::new() }
    }

    pub(super) fn put(&self, piece: &str, out: &mut BytesMut) {
        out.put_slice(&self.prefix);
        escape_into(out, piece);
        out.put_slice(END);
    }

    /// Forwards `frame` if it is a delta of this block, and otherwise writes `piece`.
    pub(super) fn put_frame(&mut self, frame: &str, piece: &str, out: &mut BytesMut) {
        if !self.has(frame) {
            return self.put(piece, out);
        }
        for part in [LEAD, frame, "\n\n"] {
            out.put_slice(part.as_bytes());
        }
    }

    /// Whether `frame` is a delta of this block. Readers guarantee its structure, so if it contains the
    /// index, comparing its start is enough.
    fn has(&mut self, frame: &str) -> bool {
        let bytes = frame.as_bytes();
        let own = self.prefix.get(LEAD.len()..).unwrap_or_default();
        if bytes.starts_with(own) || (!self.spelling.is_empty() && bytes.starts_with(&self.spelling)) {
            return true;
        }
        let Ok(json) = Json::parse(frame) else { return false };
        let Some(index) = json.get("index") else { return false };
        if index.as_u64().and_then(|index| usize::try_from(index).ok()) != Some(self.index) {
            return false;
        }
        let text = json.get("delta").and_then(|delta| delta.get(self.key)?.string_body());
        let text = text.and_then(|text| span(frame, text));
        if let (Some(text), Some(index)) = (text, span(frame, index.raw()))
            && index.end < text.start
        {
            self.spelling = bytes.get(..text.start).unwrap_or_default().to_owned();
        }
        true
    }
}

//! Bytes in any split in; an HTTP body out of its framing, SSE lines and frames, NDJSON lines and JSON values out,
//! borrowed from the input where they lie whole in it. Nothing here knows what they mean.

pub mod http1;
pub mod json;
pub mod ndjson;
pub mod sse;
pub(crate) mod text;
pub mod utf8;

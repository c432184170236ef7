//! Bytes in any split in; SSE lines and frames, NDJSON lines and JSON values out,
//! borrowed from the input where they lie whole in it. Nothing here knows what they mean.

pub mod json;
pub mod ndjson;
pub mod sse;
pub(crate) mod text;
pub mod utf8;

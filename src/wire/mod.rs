//! Bytes in any split become SSE lines and frames, and JSON values, borrowed from the input where they are contiguous in
//! it. Nothing here knows what they mean.

pub mod json;
pub mod sse;
pub(crate) mod text;

//! Converts bytes, split anywhere, to SSE lines and frames and to JSON values, borrowed from the input where
//! they are contiguous in it. This module does not interpret them.

pub mod json;
pub mod sse;
pub(crate) mod text;

//! Converts bytes, split anywhere, to SSE lines and frames and to JSON values, borrowed from the input where
//! they are contiguous in it. This crate does not interpret them.
//! [`calendar`], [`debug_fields`], [`digest`], [`hex`] and [`suggest`] are small helpers for the crates above this one.

pub mod calendar;
mod debug;
pub mod digest;
pub mod hex;
pub mod json;
pub mod sse;
pub mod suggest;
pub mod text;

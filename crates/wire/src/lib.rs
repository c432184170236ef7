//! Converts bytes, split anywhere, to SSE lines and frames and to JSON values. Whatever is contiguous in the input
//! is borrowed from it. This crate does not interpret the values.
//!
//! [`calendar`], [`debug_fields`], [`digest`], [`hex`] and [`suggest`] are small helpers for other crates.

pub mod calendar;
mod debug;
pub mod digest;
pub mod hex;
pub mod json;
pub mod sse;
pub mod suggest;
pub mod text;

//! Converts bytes, split anywhere, to SSE lines and frames and to JSON values. Whatever is contiguous in the input
//! is borrowed from it. This crate does not interpret the values.
//!
//! The feature `amazon-frames` adds the frames of Amazon's event streams.
//!
//! [`calendar`], [`debug_fields`], [`digest`], [`hex`], [`suggest`] and [`Invalid`] help other crates.

#[cfg(feature = "amazon-frames")]
pub mod amazon_frames;
pub mod calendar;
mod debug;
pub mod digest;
pub mod hex;
mod invalid;
pub mod json;
pub mod sse;
pub mod suggest;
pub mod text;

pub use invalid::Invalid;

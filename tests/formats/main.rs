//! The tables of formats: what they promise holds for every one of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on has failed"
)]

mod custom;
mod found;
mod json;
mod page;
mod prose;
mod taught;

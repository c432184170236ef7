//! The types that the requests and responses of all LLM APIs have in common. Other crates convert them from
//! and to bytes.

pub mod conversation;
pub mod enforce;
pub mod event;
pub mod failure;
pub mod format;
pub mod rules;
pub mod settings;
pub mod tools;

// The code that `#[derive(Settings)]` generates refers to this crate by name.
extern crate self as toolwire_engine;

use toolwire_wire::{self as wire, digest};

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

// What `#[derive(Settings)]` writes names this crate.
extern crate self as toolwire_engine;

use toolwire_wire::{self as wire, digest};

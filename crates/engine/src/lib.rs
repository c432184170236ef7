//! What requests and responses of LLM APIs have in common, whatever API they came from: bytes are read and written by the
//! crates above this one.

pub mod conversation;
pub mod enforce;
pub mod event;
pub mod failure;
pub mod format;
pub mod rules;
pub mod settings;
pub mod tools;

use toolwire_wire::{self as wire, digest};

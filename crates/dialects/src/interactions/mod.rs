//! Google's Interactions API, for clients (docs/protocols/interactions.md).
//!
//! A conversation consists of steps: what the user said, thoughts, calls, results, and what the model said. An
//! interaction can continue a stored one.

mod client;
mod decode;
mod history;
mod writer;

use super::Dialect;

pub(crate) use client::Client;
pub use writer::Writer;

const DIALECT: &str = Dialect::Interactions.name();

/// The member of a request that names the interaction that it continues.
const PREVIOUS: &str = "previous_interaction_id";

/// Replaces [`PREVIOUS`] once the history has been added to `input`. A request that still has [`PREVIOUS`] lacks its
/// history and is rejected.
const CONTINUED: &str = "toolwire_previous_interaction_id";

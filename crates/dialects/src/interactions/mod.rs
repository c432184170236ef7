//! Google's Interactions API, both for clients and for upstreams (docs/protocols/interactions.md).
//!
//! A conversation consists of steps: what the user said, thoughts, calls, results, and what the model said. An
//! interaction can continue a stored one.

mod client;
mod decode;
mod history;
mod reader;
mod request;
mod upstream;
mod writer;

use super::Dialect;

pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub use upstream::Options;
pub use writer::Writer;

const DIALECT: &str = Dialect::Interactions.name();

/// The member of a request that names the interaction that it continues.
const PREVIOUS: &str = "previous_interaction_id";

/// Replaces [`PREVIOUS`] once the history has been added to `input`. A request that still has [`PREVIOUS`] lacks its
/// history and is rejected.
const CONTINUED: &str = "toolwire_previous_interaction_id";

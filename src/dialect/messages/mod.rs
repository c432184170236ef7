//! Anthropic Messages, as client dialect.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation
//!                            Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/messages.md has the facts.

mod client;
mod error;
mod request;
mod writer;

pub(crate) use client::Client;
pub use error::error_body;
pub use writer::Writer;

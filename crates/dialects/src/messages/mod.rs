//! Anthropic Messages, as client dialect and as upstream.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/messages.md has the facts.

mod client;
mod error;
mod reader;
mod request;
mod upstream;
mod writer;

pub(crate) use client::Client;
pub use error::error_body;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Effort, LaterSystem, Options};
pub use writer::Writer;

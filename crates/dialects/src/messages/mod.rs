//! Anthropic Messages, both for clients and for upstreams.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/messages.md describes the protocol.

mod client;
mod error;
mod model_page;
mod reader;
mod request;
mod threads;
mod toolsets;
mod upstream;
mod writer;

pub(crate) use client::Client;
pub use error::error_body;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Effort, LaterSystem, Options};
pub use writer::Writer;

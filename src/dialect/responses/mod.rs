//! OpenAI Responses, as client dialect and as upstream.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/responses.md has the facts.

mod client;
mod history;
mod reader;
mod request;
mod upstream;
mod writer;

pub use super::openai_error::error_body;
pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub use upstream::Options;
pub use writer::Writer;

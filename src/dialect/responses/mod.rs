//! OpenAI Responses, as client dialect.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation
//!                            Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/responses.md has the facts.

mod client;
mod history;
mod request;
mod writer;

pub use super::openai_error::error_body;
pub(crate) use client::Client;
pub use writer::Writer;

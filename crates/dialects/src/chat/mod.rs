//! OpenAI Chat Completions and similar APIs, both for clients and for upstreams.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! The reader accepts every variant that servers of this API are known to send, and turns all of them into
//! the same events. The writer sends the one variant that every client understands. [`refusal()`] parses an
//! upstream's errors, and [`error_body`] writes toolwire's own.

mod client;
mod extra;
mod profile;
mod reader;
pub mod request;
mod server;
mod upstream;
mod writer;

use super::refusal;

pub use super::{openai_error::error_body, refusal::refusal, server::Server};
pub(crate) use client::Client;
pub use profile::{MaxTokens, PastReasoning, Profile, RequiredChoice};
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Streaming};
pub use writer::Writer;

/// The path of requests, relative to an upstream's base URL.
pub(crate) const PATH: &str = "chat/completions";

/// The path of the list of models, relative to the base URL.
pub(crate) const MODELS_PATH: &str = "models";

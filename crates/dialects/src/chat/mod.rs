//! OpenAI Chat Completions, as client dialect and as upstream, and similar APIs.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! The reader accepts every form that servers of this API are known to send and turns all of them into the
//! same events; the writer writes the one form that every client understands. [`refusal()`] reads an
//! upstream's errors, and [`error_body`] writes toolwire's errors.

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

/// The path of requests, below an upstream's base URL.
pub(crate) const PATH: &str = "chat/completions";

/// The path of the list of models, below the base URL.
pub(crate) const MODELS_PATH: &str = "models";

//! Ollama's own API, both for clients and for upstreams.
//!
//! Responses are JSON Lines. Calls are written complete; those of upstreams have no ids, so results are matched to
//! calls by order and name (docs/protocols/ollama.md).

mod client;
mod decode;
mod models;
mod reader;
mod request;
mod upstream;
mod writer;

pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Think};
pub use writer::Writer;

//! Ollama's own API, `/api/chat`, as an upstream.
//!
//! Responses are JSON Lines. Calls arrive complete and without ids, so results are matched to calls by order
//! and name (docs/protocols/ollama.md).

mod reader;
mod request;
mod upstream;

pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Think};

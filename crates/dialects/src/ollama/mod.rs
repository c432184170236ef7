//! Ollama's own API, `/api/chat`, as an upstream.
//!
//! Responses are JSON lines. Calls arrive complete and without ids, so calls and results are matched by their
//! order and names (docs/protocols/ollama.md).

mod reader;
mod request;
mod upstream;

pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Think};

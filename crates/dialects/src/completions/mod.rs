//! Text completions, for clients and for upstreams: a prompt in, text out.
//!
//! The upstreams' API exists in three versions (`Form`, docs/protocols/completions.md#servers). A single reader
//! recognises all of them by their fields. The model's chat template writes the prompt; without a template,
//! the prompt is the bare text of the conversation. A prompt that a client of this dialect wrote is not changed.

mod client;
mod decode;
mod reader;
mod request;
mod upstream;
mod writer;

pub use super::server::Server;
pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Bos, Options};
pub use writer::Writer;

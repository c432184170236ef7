//! Text completion upstreams: a finished prompt in, text out.
//!
//! The API exists in three versions (`Form`, docs/protocols/completions.md#servers). A single reader
//! recognises all of them by their fields. The model's chat template writes the prompt; without a template,
//! the prompt is the bare text of the conversation.

mod reader;
mod request;
mod upstream;

pub use super::server::Server;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Bos, Options};

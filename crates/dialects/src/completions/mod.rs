//! Text completions, as an upstream: a finished prompt in, text out.
//!
//! It has three forms (`Form`, docs/protocols/completions.md#servers). One reader
//! recognises all of them by their fields. The prompt is what the model's chat template writes; without a
//! template it is the conversation's bare text.

mod reader;
mod request;
mod upstream;

pub use super::server::Server;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Bos, Options};

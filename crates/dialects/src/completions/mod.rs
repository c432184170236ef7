//! Text completions, as an upstream: a finished prompt in, text out.
//!
//! The API has three forms (`Form`, docs/protocols/completions.md#servers). One reader recognises all of them
//! by their fields. The model's chat template writes the prompt; without a template, the prompt is the
//! conversation's bare text.

mod reader;
mod request;
mod upstream;

pub use super::server::Server;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Bos, Options};

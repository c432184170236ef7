//! Google Gemini's `generateContent`, both for clients and for upstreams (docs/protocols/gemini.md).
//!
//! Every frame of a stream is a complete response object with the next parts. Calls usually arrive complete.
//! Some parts have a signature, which must be sent back at the same position in the next request.

mod client;
mod decode;
mod reader;
mod request;
mod schema;
mod upstream;
mod writer;

pub use super::google_error::error_body;
pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Schemas, Thinking};
pub use writer::Writer;

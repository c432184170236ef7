//! Google Gemini's `generateContent` as an upstream (docs/protocols/gemini.md).
//!
//! Every frame of a stream is a complete response object with the next parts. Calls usually arrive complete.
//! Some parts have a signature, which must be sent back at the same position in the next request.

mod reader;
mod refusal;
mod request;
mod schema;
mod upstream;

pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Schemas, Thinking};

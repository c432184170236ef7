//! Google Gemini's `generateContent`, as an upstream (docs/protocols/gemini.md).
//!
//! Every frame of a stream is a whole response with the next parts. Calls come whole. Some parts carry a signature, which
//! must come back with the next request at the place where it was.

mod reader;
mod refusal;
mod request;
mod schema;
mod upstream;

pub use reader::{Reader, ReaderSettings};
pub use upstream::{Options, Schemas, Thinking};

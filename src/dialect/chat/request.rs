//! Requests of OpenAI Chat Completions: read from a client, written for an upstream.
//!
//! ```text
//! body ─decode─▶ Conversation ─(a format's instructions)─▶ encode ─▶ body
//! ```
//!
//! Encoding what was decoded keeps all that the client said: fields that [`Conversation`](crate::conversation::Conversation)
//! does not model are kept in its `rest`, digits of numbers included. Where a message says more than its parts can
//! hold (a `cache_control` on a text, a signature on a call), its original form travels along, see `original`.

mod decode;
mod encode;
mod original;

pub use decode::decode;
pub use encode::encode;

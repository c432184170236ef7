//! Requests of OpenAI Chat Completions: read from a client, written for an upstream.
//!
//! ```text
//! body ─decode─▶ Conversation ─(a format's instructions)─▶ encode ─▶ body
//! ```
//!
//! Encoding a decoded request keeps everything that the client sent: fields that
//! [`Conversation`](crate::conversation::Conversation) does not model are kept in its `rest`, including the
//! digits of numbers. If a message contains more than its parts can hold (a `cache_control` on a text, a
//! signature on a call), its original form is also kept; see `original`.

mod decode;
mod encode;
mod original;

pub use decode::decode;
pub(super) use decode::read;
pub use encode::encode;

//! Chat Completions requests: decoded from clients, encoded for upstreams.
//!
//! ```text
//! body ─decode─▶ Conversation ─(a format's instructions)─▶ encode ─▶ body
//! ```
//!
//! Decoding and encoding a request preserves everything that the client sent. Fields that
//! [`Conversation`](crate::conversation::Conversation) does not model stay in its `rest`, down to the digits
//! of numbers. If a message contains more than its parts can represent (such as `cache_control` on text, or
//! a signature on a call), the original is stored as well; see `original`.

mod decode;
mod encode;
mod original;

pub use decode::decode;
pub(super) use decode::read;
pub use encode::encode;

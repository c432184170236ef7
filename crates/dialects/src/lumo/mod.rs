//! Proton Lumo as an upstream. Supports both versions of its protocol, even mixed in one stream.
//!
//! ```text
//! bytes ─▶ Reader (lines, frames) ─JSON─▶ v1 | v2 (what a frame means) ─▶ AnswerState (its state)          ─▶ Events
//!                                                                          ├─ Values: tool payloads split across frames
//!                                                                          ├─ ServerCalls: calls that Lumo runs itself
//!                                                                          ├─ Images: images that arrive progressively
//!                                                                          └─ CallDeltas: calls to the client's tools
//! ```
//!
//! [`encode`] writes requests, and [`refusal()`] reads error responses. [`u2l`] is Lumo's encryption: it
//! encrypts what [`encode`] wrote, and decrypts frames before anything else reads them.

mod account;
mod answer;
mod encryption;
mod images;
mod lenient;
mod partial;
mod reader;
mod refusal;
mod request;
mod sealed_payload;
mod server_calls;
mod session;
mod shapes;
mod target;
mod tools;
mod turns;
pub mod u2l;
mod unfinished_frame;
mod upstream;
mod v1;
mod v2;
mod values;

pub use account::{AccountSettings, Credentials};
pub use encryption::{Encryption, KeyError};
pub use reader::{Reader, ReaderSettings};
pub use refusal::refusal;
pub use request::{Options, Version, encode};
pub use session::{Form, RefreshError, Session, UID_HEADER, brought};
pub use u2l::RequestKey;

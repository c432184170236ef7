//! A connection on which a client sends requests and receives responses as messages (RFC 6455, section 5).
//!
//! ```text
//! messages ─transport─▶ session ─queue─▶ turn ─Service::create─▶ AnswerBody
//!                            ◀─transport──────── its events ◀──────┘
//! ```
//!
//! A [`session`] belongs to one task, the client's connection, which polls everything: it reads messages, and polls the
//! responses that are running. Each request takes the same way as one over HTTP, from the check of its key to the record
//! in the log, with the headers of the handshake. Nothing is read from an upstream while the client does not read, and
//! no further message is read while too many requests or events are waiting.
//!
//! The protocol's frames are read and written by tungstenite, which is sans-IO; [`transport`] connects it to the socket.
//! What messages mean belongs to the dialect ([`SocketSide`](toolwire_pipeline::dialect::SocketSide)).

mod session;
mod timers;
mod transport;
mod turn;

pub(super) use session::run;

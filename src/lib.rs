//! toolwire makes any model speak standard tool calls.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it, native or written as text, and
//! writes the stream on as the client's API wants it, each piece the moment it is certain.
//!
//! The way of the data, one direction, no way back:
//!
//! ```text
//! client ─request─▶ proxy ─▶ dialect (decode) ─▶ Conversation ─▶ format (instruct) ─▶ dialect (encode) ─▶ upstream
//! client ◀─bytes── dialect (write) ◀─Event── pipeline's rules ◀─Event── detect ◀─Event── dialect (read) ◀─ wire ◀─ upstream
//! ```
//!
//! The rooms: [`wire`] frames bytes, [`dialect`] knows the HTTP APIs, [`event`] and [`conversation`] are what they
//! share, [`mod@format`] and [`detect`] know calls written as text, [`pipeline`] joins the stages for one answer. These
//! are plain synchronous code: bytes in, bytes out, no sockets, clocks or randomness. [`proxy`] is the asynchronous
//! shell around them; [`redact`] covers secrets in what leaves by another way than the answer; [`fixture`], [`config`], [`observe`] and [`cli`] are what makes a program of it. [`mod@bench`]
//! measures streams, ours and others'.

pub mod bench;
pub mod cli;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod detect;
pub mod dialect;
mod digest;
pub mod event;
pub mod failure;
pub mod fixture;
pub mod format;
pub mod observe;
pub mod pipeline;
pub mod proxy;
pub mod redact;
pub mod rules;
pub mod settings;
mod suggest;
pub mod tools;
pub mod wire;

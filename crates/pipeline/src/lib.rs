//! The core of toolwire: bytes in, bytes out, without sockets, clocks, randomness or an async runtime.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it, native or written as text, and writes
//! the stream in the dialect of the client. Each piece is sent as soon as it is certain.
//!
//! # Embedding the pipeline
//!
//! ```
#![doc = include_str!("../examples/embed.rs")]
//! ```
//!
//! # Detecting calls in text
//!
//! ```
#![doc = include_str!("../examples/detect.rs")]
//! ```
//!
//! # Data path
//!
//! Data flows in one direction. Each stage knows the types that it takes and emits, but not its neighbours.
//!
//! ```text
//! client ─request─▶ dialect (decode) ─▶ Conversation ─▶ format (instruct) ─▶ dialect (encode) ─▶ upstream
//! client ◀─bytes── dialect (write) ◀─Event── pipeline's rules ◀─Event── detect ◀─Event── dialect (read) ◀─ wire ◀─ upstream
//! ```
//!
//! # Modules
//!
//! [`wire`] splits bytes into frames, [`dialect`] implements the HTTP APIs, [`event`] and [`conversation`]
//! are the types between the stages, [`mod@format`] describes how calls are written as text and [`detect`]
//! finds such calls, [`tools`] and [`rules`] are the declared tools and the settings of one model,
//! [`failure`] is the error type, and [`pipeline`] connects the stages for one response.
//!
//! The feature `lumo-u2l` adds the encryption of Lumo's session API ([`dialect::lumo`]).

pub mod pipeline;

pub use toolwire_detect as detect;
pub use toolwire_dialects as dialect;
pub use toolwire_engine::{conversation, enforce, event, failure, format, rules, settings, tools};
pub use toolwire_wire as wire;

use toolwire_wire::digest;

//! The core of toolwire: bytes in, bytes out, without sockets, clocks, randomness or an async runtime.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it (native or written as text),
//! and writes the stream in the client's dialect. Everything is sent as soon as it is certain.
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
//! Data flows in one direction. Each stage knows its input and output types, but not its neighbours.
//!
//! ```text
//! client ─request─▶ dialect (decode) ─▶ Conversation ─▶ format (instruct) ─▶ dialect (encode) ─▶ upstream
//! client ◀─bytes── dialect (write) ◀─Event── pipeline's rules ◀─Event── detect ◀─Event── dialect (read) ◀─ wire ◀─ upstream
//! ```
//!
//! # Modules
//!
//! [`wire`] splits bytes into frames, and [`dialect`] implements the HTTP APIs. [`event`] and
//! [`conversation`] are the types that the stages exchange. [`mod@format`] describes how calls are written as
//! text, and [`detect`] finds such calls. [`tools`] holds the declared tools, [`rules`] the settings of a
//! model, and [`failure`] the error type. [`pipeline`] connects the stages to handle one response.
//!
//! The feature `bedrock` enables the API of Amazon Bedrock ([`dialect::bedrock`]).

pub mod pipeline;

pub use toolwire_detect as detect;
pub use toolwire_dialects as dialect;
pub use toolwire_engine::{conversation, enforce, event, failure, format, rules, settings, tools};
pub use toolwire_wire as wire;

use toolwire_wire::digest;

//! toolwire makes any model speak standard tool calls.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it, whether native or written as text,
//! and writes the stream in the dialect of the client. Each piece is sent as soon as it is certain.
//!
//! This crate is the program, and re-exports its parts for tests and benches. To embed only the core, use
//! [`toolwire-pipeline`](https://docs.rs/toolwire-pipeline), which has examples.

pub mod cli;

pub use toolwire_admin as admin;
pub use toolwire_config as config;
pub use toolwire_gateway as proxy;
pub use toolwire_http1 as http1;
pub use toolwire_lab::{bench, calibrate, conform, fixture};
pub use toolwire_net::{redact, store};
pub use toolwire_pipeline::{
    conversation, detect, dialect, enforce, event, failure, format, pipeline, rules, settings, tools, wire,
};
pub use toolwire_template as template;

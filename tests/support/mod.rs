//! Helpers for tests of the complete pipeline: an upstream that builds bytes from events, an exchange that is run
//! through a [`Pipeline`](toolwire::pipeline::Pipeline) in any split, and independent clients that read the output.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod cuts;
pub(crate) mod exchange;
pub(crate) mod gemini;
pub(crate) mod generated;
pub(crate) mod hostile;
pub(crate) mod interactions;
mod interactions_upstream;
pub(crate) mod messages;
pub(crate) mod ollama;
pub(crate) mod redis_server;
pub(crate) mod repository;
pub(crate) mod responses;
mod responses_upstream;
pub(crate) mod types;
pub(crate) mod upstream;

//! Tests the sans-IO core through its public interface: readers, writers, formats, detection and the complete
//! pipeline, all without sockets. In addition, [`docs`] checks references in documents and comments, and
//! [`dialects`] checks that no dialect imports another.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "a failing test panics, wherever its helpers live"
)]

extern crate toolwire_pipeline as toolwire;

mod accepted;
#[cfg(feature = "bedrock")]
mod bedrock;
mod bodies;
mod chat;
mod completions;
mod conformance;
mod dialects;
mod docs;
mod enforce;
mod failed_generation;
mod fit;
mod formats;
mod fuzz;
mod gemini;
mod hostile;
mod interactions;
mod interactions_upstreams;
mod laws;
mod lumo;
mod messages;
mod native;
mod ollama;
mod quotations;
mod read;
mod regressions;
mod rendered;
mod requests;
mod responses;
mod sse;
#[path = "../support/mod.rs"]
mod support;
mod types;

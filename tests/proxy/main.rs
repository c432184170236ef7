//! End-to-end tests of the proxy over real sockets, between a scripted upstream and a client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failing test panics, wherever its helpers live"
)]

#[path = "../support/mod.rs"]
mod independent;
mod support;

mod accounts;
mod admin;
#[cfg(feature = "bedrock")]
mod bedrock;
mod bodies;
mod bombs;
mod cancel;
mod compaction;
mod completions;
mod connections;
mod cors;
mod drain;
mod encryption;
mod enforce;
mod exchanges;
mod execute;
mod failover;
mod failures;
mod forms;
mod gemini;
mod headers;
mod hops;
mod hostile_upstreams;
mod hosts;
mod http1;
mod instances;
mod instructions;
mod interactions;
mod keys;
mod limits;
mod log;
mod message_threads;
mod model_facts;
mod models;
mod neighbours;
mod passthrough;
mod persistence;
mod prefill;
mod profiles;
mod prompts;
mod reload;
mod requests;
mod responses;
mod reuse;
mod servers;
mod stalls;
mod starts;
mod streams;
mod telemetry;
mod threads;
mod tls;
mod turn_states;
mod turns;
mod turns_as_written;
mod upstream_capabilities;
mod upstream_tls;
mod web_pages;
mod websocket;
mod whole;

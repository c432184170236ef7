//! The asynchronous shell around the pipeline. hyper reads requests, and toolwire's own code writes responses and reads
//! from upstreams ([`http1`](toolwire_http1)). Between them, a body pulls an upstream's bytes through a
//! [`Pipeline`](toolwire_pipeline::pipeline::Pipeline).
//!
//! ```text
//! server ─▶ worker (a thread) ─connection─▶ service ─route, key, body─▶ exchange ─▶ answer ─polls─▶ upstream (queue, connection, request)
//!                                                              │ └ pipeline: bytes in, bytes out
//!                              client's connection ─polls──────┘
//! ```
//!
//! A request does not have its own task. It is first a future and then a body, and the client's connection polls both.
//! Dropping either releases everything that belongs to the request: its place in the upstream's queue, its connection,
//! its log line.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

pub mod answer;
mod asking;
pub mod attempt_throttle;
pub mod auth;
mod bench;
mod betas;
pub mod budget;
mod catalogue;
mod clock_watch;
mod command;
mod cors;
mod count;
mod current_service;
mod deadlines;
pub mod doctor;
pub mod drain;
mod exchange;
pub mod exchange_observer;
pub mod extension;
mod failover;
pub mod feed_body;
mod hops;
mod images;
mod intake;
mod large;
pub mod limits;
mod listen;
pub mod manifest;
mod missed_calls;
pub mod models;
pub mod observe;
mod passthrough;
mod permits;
mod preview;
mod programs;
mod reload;
pub mod reloads;
pub mod reply;
pub mod report;
mod request;
pub mod retry_after;
pub mod routes;
mod serve_error;
mod server;
mod servers;
pub mod service;
pub mod site;
pub mod stamp;
mod stored_responses;
pub mod tap;
mod tool_search;
mod turn_states;
mod upstream;
mod upstream_capabilities;
pub mod web_pages;
mod websocket;
mod worker;
mod yield_now;

pub use bench::{Bench, BenchError, BenchRequest, BenchRun};
pub use drain::terminated;
pub use limits::{Counts, CountsByModel};
pub use preview::with_known_servers;
pub use preview::{Preview, preview};
pub use reloads::{ReloadError, ReloadReason, Reloaded, Reloads};
pub use serve_error::ServeError;
pub use server::Server;
pub use stamp::unix_time;
pub use upstream::{Managed, SessionError, Status};

#[cfg(test)]
#[path = "../../../tests/support/repository.rs"]
mod repository;

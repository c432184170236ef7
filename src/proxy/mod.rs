//! The asynchronous shell: hyper reads requests, own code writes responses and reads upstreams ([`http1`](crate::http1)),
//! and between them a body pulls an upstream's bytes through a [`Pipeline`](crate::pipeline::Pipeline).
//!
//! ```text
//! server ─▶ worker (a thread) ─connection─▶ service ─route, key, body─▶ exchange ─▶ answer ─polls─▶ upstream (queue, connection, request)
//!                                                              │ └ pipeline: bytes in, bytes out
//!                              client's connection ─polls──────┘
//! ```
//!
//! A request has no task of its own. It is a future and then a body, both polled by the client's connection. Dropping
//! either releases everything that belongs to the request: its place in the upstream's queue, its connection, its log
//! line.

pub mod admin;
mod answer;
mod asking;
mod auth;
mod bench;
mod betas;
mod budget;
mod catalogue;
mod command;
mod console;
mod cors;
mod count;
mod current;
mod deadlines;
#[cfg(feature = "cli")]
pub(crate) mod doctor;
mod drain;
mod exchange;
mod exchange_log;
mod exchange_observer;
mod extension;
mod failover;
mod feed_body;
mod hops;
mod images;
mod intake;
mod large;
mod learned;
mod limits;
mod listen;
mod models;
mod passthrough;
mod permits;
mod playground;
#[cfg(feature = "bench")]
mod preview;
mod programs;
mod reload;
mod reloads;
mod reply;
mod report;
mod request;
mod retry_after;
mod routes;
mod serve_error;
mod server;
mod servers;
mod service;
mod stamp;
mod stored;
pub mod tap;
mod tries;
mod turn;
mod turn_states;
mod upstream;
pub(crate) mod web_pages;
mod worker;

pub use bench::{Bench, BenchRun, BenchWish};
pub use drain::terminated;
#[cfg(feature = "cli")]
pub(crate) use limits::{Counts, CountsByModel};
#[cfg(feature = "cli")]
pub(crate) use preview::with_known_servers;
#[cfg(feature = "bench")]
pub(crate) use preview::{Preview, preview};
pub use reloads::{ReloadError, ReloadReason, Reloaded, Reloads};
pub use serve_error::ServeError;
pub use server::Server;
#[cfg(feature = "cli")]
pub(crate) use stamp::unix_time;
#[cfg(feature = "cli")]
pub(crate) use upstream::{Managed, Status};

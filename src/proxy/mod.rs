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

pub(crate) mod answer;
mod asking;
pub(crate) mod auth;
mod bench;
mod betas;
pub(crate) mod budget;
mod catalogue;
mod command;
mod cors;
mod count;
mod current;
mod deadlines;
#[cfg(feature = "cli")]
pub(crate) mod doctor;
pub(crate) mod drain;
mod exchange;
pub(crate) mod exchange_observer;
pub(crate) mod extension;
mod failover;
pub(crate) mod feed_body;
mod hops;
mod images;
mod intake;
mod large;
mod learned;
pub(crate) mod limits;
mod listen;
mod models;
mod passthrough;
mod permits;
#[cfg(feature = "bench")]
mod preview;
mod programs;
mod reload;
pub(crate) mod reloads;
pub(crate) mod reply;
pub(crate) mod report;
mod request;
mod retry_after;
pub(crate) mod routes;
mod serve_error;
mod server;
mod servers;
pub(crate) mod service;
pub(crate) mod stamp;
mod stored;
pub mod tap;
pub(crate) mod tries;
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

//! The asynchronous shell: hyper reads the requests, own code writes the answers and reads the upstreams, and between
//! them a body pulls upstream frames through a [`Pipeline`](crate::pipeline::Pipeline).
//!
//! ```text
//! server ─▶ worker (a thread) ─connection─▶ service ─route, key, body─▶ exchange ─▶ answer ─polls─▶ upstream (line, connection, request)
//!                                                              │ └ pipeline: bytes in, bytes out
//!                              client's connection ─polls──────┘
//! ```
//!
//! No request has a task of its own. A request is a future and then a body, both polled by the client's connection;
//! dropping either ends all that belongs to it: the place in the upstream's line, the connection, the log line.

mod answer;
mod auth;
mod budget;
mod catalogue;
mod cors;
mod deadlines;
mod drain;
mod exchange;
mod intake;
mod listen;
mod models;
mod permits;
mod reply;
mod request;
mod routes;
mod server;
mod service;
pub mod tap;
mod turn;
mod upstream;
mod worker;

pub use drain::terminated;
pub use server::{ServeError, Server};

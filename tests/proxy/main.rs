//! The proxy end to end over real sockets, between a scripted upstream and a client.

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod drain;
mod failures;
mod limits;
mod requests;
mod streams;

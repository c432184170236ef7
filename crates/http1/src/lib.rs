//! HTTP/1.1 messages that toolwire parses and writes itself. This crate is sans-IO: it only converts bytes, and the
//! gateway owns the sockets.
//!
//! # Which messages hyper handles, and why
//!
//! | message | code | why |
//! |---|---|---|
//! | a client's request | hyper | Requests are the most error-prone part of HTTP, and the cost is only paid once per request. |
//! | a response that toolwire creates (errors, models, metrics) | hyper | The cost is only paid once per request. |
//! | a response from an upstream | [`ResponseEncoder`] | hyper would keep its write buffers allocated for as long as the model writes. |
//! | a request to an upstream | [`RequestHead`] | Only the length differs between requests, so the head is formatted once. |
//! | an upstream's response | [`HeadReader`], [`BodyDecoder`] | hyper's client needs a task, a channel and a buffer per connection, which is too much per stream. |
//! | HTTP/2 on both sides; the list of an upstream's models | hyper | Code of our own would not be any better. |
//!
//! `docs/performance.md` has the measurements. `httparse`, which hyper also uses, parses the syntax. This crate decides what
//! the fields mean, where a message ends, and whether its connection may be reused.
//!
//! # The handover
//!
//! hyper has seen the complete request, so it decides whether a client's connection persists, but it does not write
//! the response. `worker::handover` in the gateway defines and tests the invariant under which a connection is
//! taken over from hyper.
//!
//! # How this crate is tested
//!
//! docs/protocols/http1.md#requirements lists the requirements of the standard and the tests that verify them. The fuzz
//! check `http1` (`tests/core/fuzz/checks`) reads arbitrary bytes in arbitrary pieces with this crate and with hyper's
//! client. The results may differ only as described in docs/protocols/http1.md#differences-from-hyper.

mod body;
mod encode;
mod fields;
mod request;
mod response;

pub use self::{
    body::{BodyDecoder, BodyError},
    encode::ResponseEncoder,
    fields::{list_contains, list_items},
    request::RequestHead,
    response::{HeadError, HeadReader, MAX_HEAD, ResponseHead, check_head_size},
};

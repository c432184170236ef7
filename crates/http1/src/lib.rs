//! HTTP/1.1 messages that toolwire reads and writes with its own code. Sans-IO: bytes in, bytes out; the sockets are in
//! the gateway.
//!
//! # What is our own, what is hyper's, and why
//!
//! | message | code | why |
//! |---|---|---|
//! | a client's request | hyper | It is the part of HTTP with the most to get wrong, and costs once per request. |
//! | a response made by toolwire itself (errors, models, metrics) | hyper | It costs once per request. |
//! | a response that comes from an upstream | [`ResponseEncoder`] | hyper's write buffers would stay with the connection for as long as the model writes. |
//! | a request to an upstream | [`RequestHead`] | All of it but the length is the same for every request, so it is formatted once. |
//! | an upstream's response | [`HeadReader`], [`BodyDecoder`] | hyper's client needs a task, a channel and a buffer for each connection; a stream may not cost that much. |
//! | HTTP/2, on both sides; the list of an upstream's models | hyper | Our own code would gain nothing. |
//!
//! `docs/performance.md` has the measurements. Syntax is left to `httparse`, which hyper uses too; our own
//! code decides what the fields mean, where a message ends, and whether its connection may be used again.
//!
//! # The handover
//!
//! hyper decides whether a client's connection persists, since it has seen the whole request, but it does not write the
//! response. `worker::handover` of the gateway states the invariant under which a connection is taken over from hyper, and
//! has the test for it.
//!
//! # How this crate is tested
//!
//! docs/protocols/http1.md#requirements lists what the standard requires, each with the tests that verify it. The fuzz check
//! `http1` (`tests/core/fuzz/checks`) reads arbitrary bytes, split in any way, with this crate and with hyper's client, and
//! allows only docs/protocols/http1.md#differences-from-hyper.

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

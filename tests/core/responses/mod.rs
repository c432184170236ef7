//! Tests Responses clients: how their requests are decoded, and exactly which events they get. [`reader`] and
//! [`upstream_requests`] test Responses upstreams.

mod built_in;
mod forwarded;
mod reader;
mod requests;
mod upstream_requests;
mod writer;

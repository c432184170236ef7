//! Clients of Responses: the meaning of their requests, and the exact events that they get.
//! [`reader`] and [`upstream_requests`] test upstreams of this dialect.

mod reader;
mod requests;
mod upstream_requests;
mod writer;

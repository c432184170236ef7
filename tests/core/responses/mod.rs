//! Clients of Responses: what their requests mean, and the exact events that they get. [`reader`] and
//! [`upstream_requests`] are about its upstreams.

mod reader;
mod requests;
mod upstream_requests;
mod writer;

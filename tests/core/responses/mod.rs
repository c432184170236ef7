//! Clients of Responses: what their requests mean, and the exact events that they get.

mod requests;
mod writer;

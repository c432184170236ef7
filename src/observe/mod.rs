//! What an operator sees: one log line a request, and Prometheus metrics.
//!
//! [`Access`] is made when a request arrives and travels with its response; when it is dropped, the request is over,
//! however it ended, and the line is written and everything counted. Nothing here ever sees a body or a secret.

mod access;
pub(crate) mod log;
mod metrics;
pub(crate) mod terminal;
pub(crate) mod untrusted;

pub(crate) use access::{Access, Outcome};
pub(crate) use metrics::Metrics;

//! What an operator sees: one log line per request, Prometheus metrics, and for the admin API figures of the last hours and the
//! responses in progress.
//!
//! [`Access`] is created when a request arrives, and travels with its response. When it is dropped the
//! request is over, however it ended: the line is written and everything is counted. Nothing here sees a body
//! or a secret.

mod access;
mod figures;
mod hop;
mod latencies;
mod list;
mod live;
#[cfg(feature = "cli")]
pub(crate) mod log;
mod metrics;
#[cfg(feature = "bench")]
pub(crate) mod terminal;

pub(crate) use crate::untrusted;
pub(crate) use access::{Access, Outcome, failure_name, finish_name, tools_left_out};
pub(crate) use figures::{By, MAX_WINDOW};
pub(crate) use hop::{HopName, HopRecord};
pub(crate) use list::List;
pub(crate) use live::LiveState;
pub(crate) use metrics::{Metrics, RefreshCounter};

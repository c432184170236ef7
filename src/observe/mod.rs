//! What an operator sees: one log line per request, Prometheus metrics, what a collector gets of both and of traces, and for the admin
//! API figures of the last hours and the responses in progress.
//!
//! [`Access`] is created when a request arrives, and travels with its response. When it is dropped the
//! request is over, however it ended: the line is written and everything is counted. Nothing here sees a body
//! or a secret.

mod access;
#[cfg(feature = "otel")]
mod export;
mod figures;
pub(crate) mod gen_ai;
mod hop;
mod hosted;
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
#[cfg(feature = "otel")]
pub(crate) use export::start as start_export;
pub(crate) use figures::{By, MAX_WINDOW};
pub(crate) use hop::{Attempt, HopEnd, HopName, HopRecord};
pub(crate) use list::List;
pub(crate) use live::LiveState;
pub(crate) use metrics::{Metrics, RefreshCounter, kind_name};

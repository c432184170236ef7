//! Output for operators: one log line per request, Prometheus metrics, the export of traces and metrics to a collector,
//! and, for the admin API, statistics of the last two hours and the list of responses in progress.
//!
//! [`Access`] is created when a request arrives and moves along with its response. When it is dropped, the request has
//! ended in one way or another, so the log line is written and everything is counted. This code never sees a body or a
//! secret.

mod access;
#[cfg_attr(not(feature = "otel"), path = "no_export.rs")]
mod export;
mod figures;
pub(crate) mod gen_ai;
mod hop;
mod hosted_figures;
mod latencies;
mod list;
mod live;
pub mod log;
pub(crate) mod memory;
mod metrics;
pub mod terminal;

pub(crate) use access::tools_left_out;
pub use access::{Access, Outcome, failure_name, finish_name};
pub(crate) use export::start as start_export;
pub use figures::{By, MAX_WINDOW};
pub(crate) use hop::{Attempt, HopEnd, HopName, HopRecord};
pub use list::List;
pub(crate) use live::LiveState;
pub use memory::HeldMemory;
pub use metrics::Metrics;
pub(crate) use metrics::{RefreshCounter, kind_name};
pub use toolwire_net::untrusted_text;

//! [`TelemetrySettings`]: where telemetry goes, and how much of it.

use std::{collections::BTreeMap, time::Duration};

use http::Uri;

use crate::settings::TableText;

/// Where telemetry goes, and how much of it.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// The base URL of the collector, without a slash at its end.
    pub endpoint: Uri,
    /// Sent with every export.
    pub headers: BTreeMap<String, TableText>,
    /// What the program is called.
    pub service_name: String,
    /// Further attributes of the program.
    pub resource: Vec<(String, String)>,
    /// The share of the traces that begin here and are recorded, from 0 to 1.
    pub sample: f64,
    /// Clients' traces are continued. Otherwise each request begins a trace, which refers to the client's.
    pub trusts_context: bool,
    /// The time between two exports of metrics; `None`: they are not exported.
    pub metrics_interval: Option<Duration>,
    /// The longest that a span waits for others to be exported with.
    pub batch_delay: Duration,
    /// How long an export may take.
    pub timeout: Duration,
}

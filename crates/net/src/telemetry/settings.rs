//! [`TelemetrySettings`]: where telemetry is sent, and how much of it.

use std::{collections::BTreeMap, time::Duration};

use http::Uri;

use crate::settings::TableText;

/// Where telemetry is sent, and how much of it.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// The collector's base URL, without a trailing slash.
    pub endpoint: Uri,
    /// Headers for every export.
    pub headers: BTreeMap<String, TableText>,
    /// The value of `service.name`.
    pub service_name: String,
    /// Further resource attributes.
    pub resource: Vec<(String, String)>,
    /// The fraction of the traces started here that are recorded, from 0 to 1.
    pub sample: f64,
    /// Whether clients' traces are continued. If not, each request starts a new trace with a link to the client's.
    pub trusts_context: bool,
    /// The interval between exports of metrics. `None` if they are not exported.
    pub metrics_interval: Option<Duration>,
    /// Maximum time that a span waits for others to be exported with it.
    pub batch_delay: Duration,
    pub timeout: Duration,
}

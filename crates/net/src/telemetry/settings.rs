//! [`TelemetrySettings`]: the destination and amount of telemetry.

use std::{collections::BTreeMap, time::Duration};

use http::Uri;

use crate::settings::TableText;

/// The destination and amount of telemetry.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// The base URL of the collector, without a trailing slash.
    pub endpoint: Uri,
    /// Headers sent with every export.
    pub headers: BTreeMap<String, TableText>,
    /// The name under which the program reports.
    pub service_name: String,
    /// Further attributes of the program.
    pub resource: Vec<(String, String)>,
    /// The fraction of the traces started here that are recorded, from 0 to 1.
    pub sample: f64,
    /// Whether clients' traces are continued. Otherwise each request starts a new trace that links to the client's
    /// trace.
    pub trusts_context: bool,
    /// Interval between exports of metrics. `None` if they are not exported.
    pub metrics_interval: Option<Duration>,
    /// Maximum time for which a span waits to be exported together with others.
    pub batch_delay: Duration,
    /// Timeout of an export.
    pub timeout: Duration,
}

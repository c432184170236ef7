//! The exporter in a build without the feature `otel`: it cannot be started.

use std::{io, sync::Arc};

use super::Metrics;
use toolwire_net::telemetry::{TelemetrySettings, Tracer};

/// # Errors
/// Always: this build cannot export.
pub(crate) fn start(_settings: &Arc<TelemetrySettings>, _metrics: &Arc<Metrics>) -> io::Result<Arc<Tracer>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without the feature `otel`"))
}

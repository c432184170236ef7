//! Replaces the export in builds without the feature `otel`.

use std::{io, sync::Arc};

use super::Metrics;
use toolwire_net::telemetry::{TelemetrySettings, Tracer};

/// # Errors
/// Always, since this build cannot export.
pub(crate) fn start(_settings: &Arc<TelemetrySettings>, _metrics: &Arc<Metrics>) -> io::Result<Arc<Tracer>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without the feature `otel`"))
}

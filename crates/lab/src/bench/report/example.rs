//! A complete report for testing the views: three targets, five rounds, a baseline, a ramp.

use super::Report;

/// The report in `example/report.json`.
pub(crate) fn report() -> Report {
    serde_json::from_str(include_str!("example/report.json")).unwrap()
}

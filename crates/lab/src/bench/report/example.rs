//! A complete report for tests of its output formats: three targets, five rounds, a baseline and a ramp.

use super::Report;

pub(crate) fn report() -> Report {
    serde_json::from_str(include_str!("example/report.json")).unwrap()
}

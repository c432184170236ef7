//! `toolwire bench`: measures the streams of one target, or of several side by side, in any client dialect.
//!
//! ```text
//! plan (load, length, prompts) ─▶ rounds: target by target ─▶ client: one stream ─follow─▶ Sample
//!                                                                                            │
//!                        report (table, JSON, CSV, HTML) ◀─ Report ◀─ tallies (histograms) ◀─┘
//! ```
//!
//! Every round measures all targets, so that the state of the machine affects them alike; ratios are computed within
//! rounds. The intended start of a stream depends only on the load's schedule, so the figures include the delays that
//! stalls cause. docs/bench.md defines every measure.

pub mod baseline;
pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod overhead;
pub mod plan;
pub(crate) mod process;
pub(crate) mod progress;
pub mod prompts;
pub mod ramp;
pub(crate) mod ratios;
pub mod report;
pub(crate) mod rounds;
pub mod slo;
pub(crate) mod tally;
pub mod target;
mod target_run;
pub mod upstream_bench;

use http::{HeaderName, HeaderValue, header::InvalidHeaderValue};

use toolwire_pipeline::dialect::ClientDialect;

pub use rounds::{RunError, run};

/// Returns the headers of every request in a dialect, with the one for the API key.
///
/// # Errors
/// The key contains characters that a header cannot have.
pub fn headers(
    dialect: ClientDialect,
    key: Option<&str>,
) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
    let api = crate::clients::api(dialect);
    let own = api.headers().iter();
    let own = own.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let mut headers: Vec<_> = own.collect();
    if let Some((name, value)) = key.map(|key| api.key_header(key)) {
        let mut value = HeaderValue::try_from(value)?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    Ok(headers)
}

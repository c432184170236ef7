//! `toolwire bench`: measures streams of any client dialect, of one target or of several side by side.
//!
//! ```text
//! plan (load, length, prompts) ─▶ rounds: target by target ─▶ client: one stream ─follow─▶ Sample
//!                                                                                            │
//!                        report (table, JSON, CSV, HTML) ◀─ Report ◀─ tallies (histograms) ◀─┘
//! ```
//!
//! Every round measures all targets, so that the machine affects them alike; ratios are computed round by round. The
//! intended start of a stream follows the schedule of the load, not earlier responses, so stalls are in the figures.
//! docs/bench.md defines every measure.

pub mod baseline;
pub mod client;
pub mod follow;
pub mod load;
pub mod overhead;
pub mod plan;
pub mod process;
pub mod progress;
pub mod prompts;
pub mod ramp;
pub mod ratios;
pub mod report;
pub mod rounds;
pub mod sample;
pub mod slo;
pub mod tally;
pub mod target;
mod target_run;

pub use follow::Dialect;
pub use rounds::{RunError, run};

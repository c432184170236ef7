//! `toolwire bench`: measures streams of any client dialect, of one target or of several side by side.
//!
//! ```text
//! plan (load, length, prompts) ─▶ rounds: target by target ─▶ client: one stream ─follow─▶ Sample
//!                                                                                            │
//!                        report (table, JSON, CSV, HTML) ◀─ Report ◀─ tallies (histograms) ◀─┘
//! ```
//!
//! Targets take turns within a round, so that what the machine does to one it does to all; ratios are taken round by
//! round. A stream's intended start is on the schedule of the load, not on the answers that came: a stall is in the
//! figures, not beside them. docs/bench.md defines every measure.

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

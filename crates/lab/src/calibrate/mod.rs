//! `toolwire calibrate`: sends a model the same prompts in every format, and reports in which format its calls are most
//! often right.
//!
//! ```text
//! CaseSet (prompts, tools) ─┐
//! variants (format × wording × enforce) ─┴▶ run ─▶ gateway::Server on loopback ─▶ upstream
//!                                            │ Answer (from the cache, or asked)
//!                  report (table, JSON, page, entry) ◀─ judge: Verdict
//! ```
//!
//! The requests pass through toolwire's own server, so the figures apply to what users receive. docs/calibrate.md defines
//! every measure.

pub(crate) mod ask;
pub(crate) mod cache;
pub mod case;
pub(crate) mod failures;
pub mod interval;
pub mod judge;
pub mod plan;
pub mod report;
pub mod run;
pub mod set;
pub mod variant;

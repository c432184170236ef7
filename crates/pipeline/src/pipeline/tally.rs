//! [`Tally`]: statistics of a response.

use super::{Pipeline, Reason, corrections::UNFULFILLED};
use crate::{
    detect::{Detector, QuotedCount},
    dialect::Skipped,
    event::Finish,
};

/// Statistics of a response, for logs and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// The calls that the client received.
    pub calls: Vec<CallTally>,
    /// Number of calls that were refused or dropped.
    pub dropped_calls: u64,
    /// Calls in text that repeat what the model was given to read or that are visibly quoted.
    pub quoted_calls: QuotedCount,
    /// Number of parts of the upstream's response that were left out because they were malformed.
    pub malformed_frames: u64,
    /// What was left out of the upstream's response, by reason.
    pub skipped: Skipped,
    /// Maximum number of bytes that were held at once.
    pub held_peak: usize,
    /// Bytes currently held.
    pub held: usize,
    /// Why further hops followed: one reason for each hop after the first.
    pub follow_ups: Vec<Reason>,
    /// The codes of the warnings that the client received.
    pub warnings: Vec<&'static str>,
    /// Tokens of the requests, as reported by the upstream, summed over all hops.
    pub input_tokens: Option<u64>,
    /// Tokens of the responses, as reported by the upstream, summed over all hops.
    pub output_tokens: Option<u64>,
    /// Whether the model refused to answer, in a form that the dialect distinguishes from text.
    pub is_refusal: bool,
    /// The finish reason that was sent.
    pub finish: Option<Finish>,
}

impl Tally {
    /// Number of hops that followed because the previous one was unacceptable.
    pub fn retries(&self) -> u64 {
        self.follow_ups.iter().filter(|reason| !matches!(reason, Reason::Hosted | Reason::ToolSearch)).count()
            as u64
    }

    /// Whether the client was warned that a required call is missing.
    pub fn lacks_required_call(&self) -> bool {
        self.warnings.contains(&UNFULFILLED)
    }
}

/// One call, for metrics. Every label has a limited number of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTally {
    /// `native` or a format's name.
    pub format: &'static str,
    /// The name of the tool, or `None` if it is not declared.
    pub name: Option<String>,
}

impl Pipeline {
    /// Statistics of the response so far.
    pub fn tally(&self) -> Tally {
        let detector = self.stages.detector.as_ref();
        let mut skipped = self.reader.skipped();
        skipped.add_all(&self.skipped);
        skipped.add_all(&self.stages.calls.skipped);
        Tally {
            malformed_frames: skipped.malformed(),
            skipped,
            held: self.held(),
            held_peak: detector
                .map_or(0, Detector::held_peak)
                .max(self.stages.withheld.peak())
                .max(self.stages.prefill.peak()),
            quoted_calls: detector.map(Detector::quoted).unwrap_or_default(),
            ..self.stages.calls.tally.clone()
        }
    }
}

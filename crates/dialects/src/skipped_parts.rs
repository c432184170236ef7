//! [`Skipped`]: the parts of an upstream's response that a reader left out, by reason.
//!
//! By law 3, everything that is received is sent to the client, fails the response, or is left out for a
//! reason that is counted here. The counts become the metric `toolwire_skipped`, and one warning per
//! response.

use std::fmt;

/// Why a part was left out. The names are metric labels, so their number is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skip {
    /// A frame that is not JSON, where it cannot have contained part of the response.
    NotJson,
    /// JSON that is not a chunk of a response.
    NotAChunk,
    /// A part of a message whose type is unknown.
    UnknownPart,
    /// A choice that the client's API cannot express.
    OtherChoice,
    /// Content after the finish reason.
    LateContent,
    /// A call that never got a name.
    NamelessCall,
    /// Arguments for a call that was already complete.
    LateArguments,
    /// A result whose call was not seen.
    OrphanResult,
    /// A call that the upstream announced and never dispatched.
    UndispatchedCall,
    /// Content for an unknown target.
    UnknownTarget,
    /// The model's apology after a call that was meant for the client but that the upstream tried to run.
    Apology,
    /// An unknown finish reason, which counts as `stop`.
    UnknownFinish,
}

impl Skip {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::NotJson,
        Self::NotAChunk,
        Self::UnknownPart,
        Self::OtherChoice,
        Self::LateContent,
        Self::NamelessCall,
        Self::LateArguments,
        Self::OrphanResult,
        Self::UndispatchedCall,
        Self::UnknownTarget,
        Self::Apology,
        Self::UnknownFinish,
    ];

    /// The description of the reason in the documentation.
    pub fn about(self) -> &'static str {
        match self {
            Self::NotJson => {
                "a frame that is not JSON, outside of a response or truncated by its end; inside it is an error"
            }
            Self::NotAChunk => "JSON that is not part of a response",
            Self::UnknownPart => "a part of a message of an unknown kind",
            Self::OtherChoice => "a choice other than the first that cannot be forwarded",
            Self::LateContent => "content after the finish reason",
            Self::NamelessCall => "a call without a name",
            Self::LateArguments => "arguments for a call that is already complete",
            Self::OrphanResult => "a result without a call",
            Self::UndispatchedCall => "a call that was announced and never dispatched",
            Self::UnknownTarget => "content for an unknown target",
            Self::Apology => {
                "the upstream's apology after it tried to run a call that was meant for the client"
            }
            Self::UnknownFinish => "an unknown finish reason, which counts as `stop`",
        }
    }

    /// The label in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::NotAChunk => "not_a_chunk",
            Self::UnknownPart => "unknown_part",
            Self::OtherChoice => "other_choice",
            Self::LateContent => "late_content",
            Self::NamelessCall => "nameless_call",
            Self::LateArguments => "late_arguments",
            Self::OrphanResult => "orphan_result",
            Self::UndispatchedCall => "undispatched_call",
            Self::UnknownTarget => "unknown_target",
            Self::Apology => "apology",
            Self::UnknownFinish => "unknown_finish",
        }
    }
}

/// Counts by reason. For nearly every response it is empty and not allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(Vec<(Skip, u64)>);

impl Skipped {
    /// Counts one more part for this reason.
    pub fn add(&mut self, why: Skip) {
        self.add_many(why, 1);
    }

    pub(crate) fn add_many(&mut self, why: Skip, count: u64) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == why) {
            Some((_, counted)) => *counted += count,
            None => self.0.push((why, count)),
        }
    }

    /// Adds the counts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(why, count)| self.add_many(why, count));
    }

    /// Number of parts that were left out for this reason.
    pub fn count(&self, why: Skip) -> u64 {
        self.iter().find(|(known, _)| *known == why).map_or(0, |(_, count)| count)
    }

    /// Number of parts that were left out for any reason.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// Number of parts that were left out because they were malformed.
    pub fn malformed(&self) -> u64 {
        let malformed = [Skip::NotJson, Skip::NotAChunk, Skip::UnknownTarget, Skip::NamelessCall];
        malformed.map(|why| self.count(why)).iter().sum()
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64)> {
        self.0.iter().copied()
    }
}

/// The format for logs: `not_json=2 nameless_call=1`.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (why, count)) in self.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{}={count}", why.name())?;
        }
        Ok(())
    }
}

/// Whether a frame's data is a word that some servers send as a keep-alive.
pub(super) fn is_sign_of_life(data: &str) -> bool {
    ["ping", "pong", "heartbeat", "keep-alive", "keepalive"].contains(&data)
}

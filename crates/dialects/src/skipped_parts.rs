//! [`Skipped`]: the parts of an upstream's response that a reader left out, by reason.
//!
//! By law 3, everything that is received is sent to the client, fails the response, or is left out for a
//! reason that is counted here. The counts become the metric `toolwire_skipped`, and one warning per
//! response.

use std::fmt;

use strum::{EnumMessage, VariantArray};

/// Why a part was left out. The names are metric labels, so their number is fixed. The comments are the
/// descriptions in the documentation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Skip {
    /// a frame that is not JSON, outside of a response or truncated by its end; inside it is an error
    NotJson,
    /// JSON that is not part of a response
    NotAChunk,
    /// a part of a message of an unknown kind
    UnknownPart,
    /// a choice other than the first that cannot be forwarded
    OtherChoice,
    /// content after the finish reason
    LateContent,
    /// a call without a name
    NamelessCall,
    /// arguments for a call that is already complete
    LateArguments,
    /// a result without a call
    OrphanResult,
    /// a call that was announced and never dispatched
    UndispatchedCall,
    /// content for an unknown target
    UnknownTarget,
    /// the upstream's apology after it tried to run a call that was meant for the client
    Apology,
    /// an unknown finish reason, which counts as `stop`
    UnknownFinish,
}

impl Skip {
    /// All reasons.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The description of the reason in the documentation.
    pub fn about(self) -> &'static str {
        self.get_documentation().unwrap_or_default()
    }

    /// The label in metrics and logs.
    pub fn name(self) -> &'static str {
        self.into()
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

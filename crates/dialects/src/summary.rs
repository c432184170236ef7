//! Summaries that a model writes for toolwire, and how clients of Responses carry them in place of what only a
//! server could read.
//!
//! ```text
//! toolwire_summary_1:0123456789abcdef:The user asked for …
//! ```
//!
//! The number is a checksum, so that a damaged summary is not taken for a complete one. Nothing in it is secret:
//! it is the client's own conversation.

use crate::{
    event::{Event, Finish},
    failure::{Failure, Kind},
};

/// The start of every summary, with the version of its form.
const MARK: &str = "toolwire_summary_1:";

/// What a client carries for this summary.
pub(crate) fn carried(summary: &str) -> String {
    format!("{MARK}{:016x}:{summary}", checksum(summary))
}

/// A summary that a client has sent back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CarriedSummary<'t> {
    Summary(&'t str),
    /// It is not as it was sent.
    Damaged,
    /// Another server wrote it.
    Foreign,
}

/// Reads what a client carries.
pub(crate) fn read(carried: &str) -> CarriedSummary<'_> {
    let Some(rest) = carried.strip_prefix(MARK) else { return CarriedSummary::Foreign };
    match rest.split_once(':') {
        Some((sum, summary)) if sum == format!("{:016x}", checksum(summary)) => {
            CarriedSummary::Summary(summary)
        }
        _ => CarriedSummary::Damaged,
    }
}

/// The text that the model receives in place of the conversation.
pub(crate) fn told(summary: &str) -> String {
    format!("This summary replaces the earlier part of the conversation:\n\n{summary}")
}

/// The summary that the model writes as the text of its answer.
#[derive(Debug, Default)]
pub(crate) struct SummaryText {
    pub(crate) text: String,
}

impl SummaryText {
    /// Takes an event. Returns whether it is part of the model's answer, which is written at the end. Reasoning
    /// is dropped. Refusals are not summaries.
    pub(crate) fn takes(&mut self, event: &Event<'_>) -> bool {
        match event.meaning() {
            Event::Text(text) => self.text.push_str(text),
            Event::Start(_) | Event::Usage(_) | Event::Warning(_) | Event::Finish(_) | Event::Ping(_) => {
                return false;
            }
            _ => {}
        }
        true
    }

    /// Why there is no complete summary, once the model has finished.
    pub(crate) fn defect(&self, finish: Option<Finish>) -> Option<Failure> {
        let why = match finish? {
            Finish::Length => "reached the token limit before it was complete",
            Finish::Filter => "was withheld by a content filter",
            _ if self.text.trim().is_empty() => "is empty",
            _ => return None,
        };
        let message = format!("the conversation was not compacted: the model's summary {why}");
        Some(Failure::new(Kind::Upstream, message).with_code("compaction_failed"))
    }
}

/// FNV-1a with 64 bits, which is the same in every version and on every machine.
fn checksum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_comes_back_as_it_was_or_is_found_to_be_damaged() {
        for summary in ["", "a", "two\nlines: é", "toolwire_summary_1:x"] {
            let carried = carried(summary);
            assert_eq!(read(&carried), CarriedSummary::Summary(summary));
            assert_eq!(read(&format!("{carried} ")), CarriedSummary::Damaged);
            for cut in (MARK.len()..carried.len()).filter_map(|end| carried.get(..end)) {
                assert_eq!(read(cut), CarriedSummary::Damaged, "{cut}");
            }
        }
        assert_eq!(carried("a"), "toolwire_summary_1:af63dc4c8601ec8c:a");
        for other in ["", "gAAAAAB", "toolwire_summary_2:0:a", "toolwire_summary_1"] {
            assert_eq!(read(other), CarriedSummary::Foreign, "{other}");
        }
    }
}

//! Checks whether results are correct and independent of splits.

use crate::{
    client::Assembled,
    contenders::{Answer, Clock, Contender},
    samples::Sample,
};
use std::time::Duration;

/// How one contender did on a number of samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub samples: usize,
    /// Samples whose result is correct if they arrive in one piece.
    pub right: usize,
    pub splits: usize,
    /// Splits whose result differs from that of the unsplit sample.
    pub differ: usize,
    /// Splits with a wrong result.
    pub wrong: usize,
}

/// Returns what a client has received at the end of the response.
pub fn sum(contender: &dyn Contender, format: &str, pieces: &[&str], stopped: bool) -> Assembled {
    let mut client = Assembled::default();
    contender.read(Answer { format, pieces, stopped }, &mut client, &mut Clock::new(Duration::from_secs(60)));
    client
}

/// Reads the samples in one piece and in two pieces. Of all two-way splits, only every `step`th is tried.
pub fn tally(
    contender: &dyn Contender,
    format: &str,
    samples: &[Sample],
    step: usize,
    wrong: &mut Vec<String>,
) -> Tally {
    let mut tally = Tally::default();
    for sample in samples {
        let text = sample.written.text.as_str();
        let one = sum(contender, format, &[text], sample.stopped);
        tally.samples += 1;
        let right = sample.expected.met(&one);
        tally.right += usize::from(right);
        let before = (tally.differ, tally.wrong);
        for (at, _) in text.char_indices().skip(1).step_by(step) {
            let (head, tail) = text.split_at(at);
            let two = sum(contender, format, &[head, tail], sample.stopped);
            tally.splits += 1;
            tally.differ += usize::from(!two.same(&one));
            tally.wrong += usize::from(!sample.expected.met(&two));
        }
        if !right || (tally.differ, tally.wrong) != before {
            wrong.push(sample.id.clone());
        }
    }
    tally
}

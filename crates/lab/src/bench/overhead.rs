//! Measures the tool's own costs before a run: reading the clock and parsing a delta.

use std::{hint::black_box, time::Instant};

use crate::{
    clock,
    follow::{
        Follower,
        sample::{Outcome, Sample},
    },
    upstream::{Api, FrameWriter, Identity, Usage},
};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish};

const IDENTITY: Identity = Identity { name: "canned", model: "m", created: 17 };

/// Number of clock readings to time.
const READINGS: u32 = 20_000;

/// Number of deltas to parse.
const DELTAS: usize = 2_000;

/// Returns the mean time of one clock reading, in ns.
pub(crate) fn clock_ns() -> f64 {
    let before = Instant::now();
    for _ in 0..READINGS {
        black_box(clock::now());
    }
    before.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// Returns the mean time of parsing and checking one delta of the dialect, in ns.
pub(crate) fn parse_ns(dialect: ClientDialect) -> f64 {
    let stream = canned(dialect);
    let mut sample = Sample::default();
    let mut follower = Follower::new(dialect);
    let before = Instant::now();
    for frame in &stream {
        follower.push(frame.as_slice(), clock::now(), &mut sample);
    }
    let time = before.elapsed().as_nanos() as f64;
    debug_assert!(stream.is_empty() || sample.outcome == Outcome::Done && sample.tokens.len() == DELTAS);
    time / DELTAS as f64
}

/// Returns the frames of a complete stream in the dialect, or none if no mock speaks it.
fn canned(dialect: ClientDialect) -> Vec<Vec<u8>> {
    let Ok(api) = dialect.dialect().name().parse::<Api>() else { return Vec::new() };
    let mut writer = FrameWriter::new(api, &IDENTITY);
    writer.begin(1);
    (0..DELTAS).for_each(|_| writer.text(" word"));
    writer.end(Finish::Stop, Usage { input: 1, output: 2 }, true);
    writer.frames.into_iter().map(|frame| frame.bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canned_streams_have_no_violations() {
        for dialect in ClientDialect::all() {
            let (mut sample, mut follower) = (Sample::default(), Follower::new(dialect));
            for frame in canned(dialect) {
                follower.push(frame.as_slice(), 1, &mut sample);
            }
            follower.finish(2, &mut sample);
            assert_eq!((sample.tokens.len(), sample.outcome), (DELTAS, Outcome::Done), "{dialect:?}");
            assert_eq!(sample.violations, [""; 0], "{dialect:?}");
            assert!(parse_ns(dialect) > 0.0 && clock_ns() > 0.0);
        }
    }
}

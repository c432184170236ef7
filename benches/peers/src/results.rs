//! Measures each format.

use std::time::Duration;

use crate::{
    behaviour::{self, Tally},
    contenders::Contender,
    samples::{self, Sample},
    shapes::{self, Shape},
    speed::{self, Effort, Side, Times},
};

/// The sizes of the long argument, in bytes.
pub const SIZES: [usize; 3] = [2_000, 20_000, 200_000];
/// The size of the prose, in bytes.
pub const PROSE: usize = 200_000;
/// The size of a piece in bytes, which is about that of a token.
const PIECE: usize = 4;

pub type Contenders = [Box<dyn Contender>];

/// How correct one contender's results in one format are.
pub struct Behaviour {
    pub format: &'static str,
    pub contender: &'static str,
    pub cases: Tally,
    pub plain: Tally,
    /// Results that were wrong or depended on splits.
    pub wrong: Vec<String>,
}

/// How fast one contender reads one notation of calls.
pub struct Speed {
    pub label: &'static str,
    pub contender: &'static str,
    /// Whether the call is only found if no marker is split. In that case, each marker arrived in one piece, like a
    /// model's token.
    pub whole: bool,
    /// Whether the call was missing or wrong. The times are then meaningless.
    pub missed: bool,
    /// For each of [`SIZES`]: the size of the response in bytes, and the times.
    pub cells: Vec<(usize, Times)>,
}

pub struct Prose {
    pub format: &'static str,
    pub contender: &'static str,
    pub missed: bool,
    pub bytes: usize,
    pub times: Times,
}

fn shapes_of(format: &str) -> impl Iterator<Item = &'static Shape> {
    shapes::ALL.iter().filter(move |shape| shape.format == format)
}

pub fn behaviour(
    contenders: &Contenders,
    format: &'static str,
    cases: &[(String, Sample)],
    step: usize,
) -> Vec<Behaviour> {
    let cases: Vec<Sample> =
        cases.iter().filter(|(of, _)| of == format).map(|(_, sample)| sample.clone()).collect();
    let plain: Vec<Sample> = shapes_of(format).flat_map(samples::scenarios).collect();
    let of = |contender: &Box<dyn Contender>| {
        let (contender, mut wrong) = (contender.as_ref(), Vec::new());
        Behaviour {
            format,
            contender: contender.name(),
            cases: behaviour::tally(contender, format, &cases, step, &mut wrong),
            plain: behaviour::tally(contender, format, &plain, step, &mut wrong),
            wrong,
        }
    };
    contenders.iter().filter(|contender| contender.has(format)).map(of).collect()
}

pub fn speed(contenders: &Contenders, shape: &'static Shape, effort: Effort) -> Vec<Speed> {
    let texts = SIZES.map(|bytes| samples::long_call(shape, bytes));
    let found = |contender: &dyn Contender, whole: bool| {
        texts.iter().take(2).all(|sample| {
            let pieces = samples::pieces(&sample.written, PIECE, whole);
            sample.expected.met(&behaviour::sum(contender, shape.format, &pieces, true))
        })
    };
    let able = contenders.iter().filter(|contender| contender.has(shape.format));
    let mut all: Vec<(&dyn Contender, Speed)> = able
        .map(|contender| {
            let contender = contender.as_ref();
            let whole = !found(contender, false);
            let missed = whole && !found(contender, true);
            let (label, name) = (shape.label, contender.name());
            (contender, Speed { label, contender: name, whole: whole && !missed, missed, cells: Vec::new() })
        })
        .collect();
    for text in &texts {
        let mut running: Vec<_> = all.iter_mut().filter(|(_, speed)| !speed.missed).collect();
        let sides: Vec<Side<'_>> = running
            .iter()
            .map(|(contender, speed)| Side {
                contender: *contender,
                format: shape.format,
                pieces: samples::pieces(&text.written, PIECE, speed.whole),
            })
            .collect();
        let times = speed::race(&sides, effort);
        for ((_, speed), times) in running.iter_mut().zip(times) {
            speed.cells.push((text.written.text.len(), times));
        }
    }
    all.into_iter().map(|(_, speed)| speed).collect()
}

pub fn prose(contenders: &Contenders, format: &'static str, effort: Effort) -> Vec<Prose> {
    let sample = samples::prose(PROSE);
    let pieces = || samples::pieces(&sample.written, PIECE, false);
    let short = samples::prose(PROSE / 20);
    let able: Vec<_> = contenders.iter().filter(|contender| contender.has(format)).collect();
    let sides: Vec<_> = able
        .iter()
        .map(|contender| Side { contender: contender.as_ref(), format, pieces: pieces() })
        .collect();
    let times = speed::race(&sides, effort);
    let row = |(contender, times): (&&Box<dyn Contender>, Times)| {
        let pieces = samples::pieces(&short.written, PIECE, false);
        let missed = !short.expected.met(&behaviour::sum(contender.as_ref(), format, &pieces, true));
        Prose { format, contender: contender.name(), missed, bytes: sample.written.text.len(), times }
    };
    able.iter().zip(times).map(row).collect()
}

/// Megabytes per second, or `None` if the contender did not finish in time.
pub fn rate(bytes: usize, times: &Times) -> Option<f64> {
    let median = times.median().filter(|_| !times.expired)?;
    Some(bytes as f64 / median.as_secs_f64() / 1e6)
}

/// The time for the longest response divided by the time for one a tenth as long. If the contender did not finish
/// in time, this is a lower bound.
pub fn growth(speed: &Speed, budget: Duration) -> Option<f64> {
    let [_, (_, middle), (_, long)] = speed.cells.as_slice() else { return None };
    let middle = middle.median().filter(|_| !middle.expired)?;
    let long = if long.expired { budget } else { long.median()? };
    Some(long.as_secs_f64() / middle.as_secs_f64())
}

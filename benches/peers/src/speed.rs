//! Measures speed: all contenders take turns, round by round, so that conditions are the same for each.

use std::time::Duration;

use crate::{
    client::Counted,
    contenders::{Answer, Clock, Contender},
};

/// The effort of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// The time that a contender has for all its rounds.
    pub budget: Duration,
    /// The minimum duration of a round: a reading is repeated until this is reached.
    pub least: Duration,
}

/// One participant.
pub struct Side<'a> {
    pub contender: &'a dyn Contender,
    pub format: &'a str,
    pub pieces: Vec<&'a str>,
}

/// The result of one side: times of one reading.
#[derive(Debug, Clone, Default)]
pub struct Times {
    rounds: Vec<Duration>,
    spent: Duration,
    /// Whether the contender did not finish within the budget.
    pub expired: bool,
    /// The share of pieces that yielded a piece of arguments.
    pub streamed: f64,
}

impl Times {
    /// The median.
    pub fn median(&self) -> Option<Duration> {
        let mut sorted = self.rounds.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Half of the difference between the slowest and the fastest round, as a share of the median; with many
    /// rounds, the slowest and the fastest are ignored.
    pub fn spread(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_unstable();
        let outer = sorted.len() / 6;
        let (Some(low), Some(high), Some(median)) =
            (sorted.get(outer), sorted.get(sorted.len().wrapping_sub(1 + outer)), self.median())
        else {
            return 0.0;
        };
        (high.as_secs_f64() - low.as_secs_f64()) / 2.0 / median.as_secs_f64()
    }
}

/// Reads the same response with all sides, in turns.
pub fn race(sides: &[Side<'_>], effort: Effort) -> Vec<Times> {
    let mut all = vec![Times::default(); sides.len()];
    // The first round warms up and determines how often a side repeats its reading.
    let mut repeats = vec![1_u32; sides.len()];
    for round in 0..=effort.rounds {
        for ((side, times), repeats) in sides.iter().zip(&mut all).zip(&mut repeats) {
            if times.expired || times.spent > effort.budget {
                continue;
            }
            let time = repeat(side, *repeats, effort, times);
            if times.expired {
                continue;
            }
            let slow = time * 4 > effort.least;
            if round == 0 {
                let often = effort.least.as_nanos() / time.as_nanos().max(1) + 1;
                *repeats = u32::try_from(often).unwrap_or(u32::MAX).clamp(1, 2_000);
            }
            if round > 0 || slow {
                times.rounds.push(time);
            }
        }
    }
    all
}

/// The time of one reading.
fn repeat(side: &Side<'_>, repeats: u32, effort: Effort, times: &mut Times) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..repeats {
        let (mut client, mut clock) = (Counted::default(), Clock::new(effort.budget));
        side.contender.read(
            Answer { format: side.format, pieces: &side.pieces, stopped: true },
            &mut client,
            &mut clock,
        );
        std::hint::black_box(client.bytes);
        times.streamed = client.streamed as f64 / side.pieces.len() as f64;
        times.expired |= clock.has_expired();
        total += clock.taken();
    }
    times.spent += total;
    total / repeats
}

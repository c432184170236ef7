//! Measures speed. All contenders take turns in each round, so that they run under the same conditions.

use std::time::Duration;

use crate::{
    client::Counted,
    contenders::{Answer, Clock, Contender},
};

/// How thoroughly to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// How much time a contender has for all of its rounds.
    pub budget: Duration,
    /// The minimum duration of a round. Readings are repeated to reach it.
    pub least: Duration,
}

pub struct Side<'a> {
    pub contender: &'a dyn Contender,
    pub format: &'a str,
    pub pieces: Vec<&'a str>,
}

/// How long one contender takes for a reading.
#[derive(Debug, Clone, Default)]
pub struct Times {
    rounds: Vec<Duration>,
    spent: Duration,
    pub expired: bool,
    /// The share of pieces that yielded arguments.
    pub streamed: f64,
}

impl Times {
    pub fn median(&self) -> Option<Duration> {
        let mut sorted = self.rounds.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Half the difference between a slow and a fast round, relative to the median. A sixth of the rounds at each
    /// end is ignored.
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

/// Reads the same response with all sides in turn.
pub fn race(sides: &[Side<'_>], effort: Effort) -> Vec<Times> {
    let mut all = vec![Times::default(); sides.len()];
    // The first round is a warm-up. It determines how many times each side reads the response in each later round.
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

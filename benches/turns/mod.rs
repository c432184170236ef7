//! Measures in rounds. Each side of a comparison runs once per round, so that both run under the same conditions
//! even on a shared machine. The best time of each side counts.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "each bench takes what it needs; the ratios are the result"
)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The measured work. Its result depends on the work, so that the compiler cannot remove it.
pub type Work<'w> = Box<dyn FnMut() -> usize + 'w>;

/// Whether ratios are measured. They are not if `cargo test --benches` only checks that the benches run, or if one
/// bench is being profiled.
pub fn wanted() -> bool {
    let asked = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    asked("--bench") && !asked("--profile-time")
}

/// The number of rounds in a comparison, which is lower with `--quick`.
pub fn rounds() -> usize {
    if std::env::args().any(|argument| argument == "--quick") { 40 } else { 200 }
}

/// Returns the best time of each piece of work over `rounds` rounds.
pub fn best<const N: usize>(rounds: usize, mut works: [Work<'_>; N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds {
        for (best, work) in best.iter_mut().zip(&mut works) {
            let start = Instant::now();
            black_box(work());
            *best = start.elapsed().min(*best);
        }
    }
    best
}

/// The best time of each lap over all rounds. Used for work that takes so long that something disturbs almost every
/// run.
pub struct Laps {
    best: Vec<Duration>,
    lap: usize,
    begun: Instant,
}

impl Laps {
    pub fn new() -> Self {
        Self { best: Vec::new(), lap: 0, begun: Instant::now() }
    }

    pub fn start(&mut self) {
        self.lap = 0;
    }

    /// Restarts the current lap, so that the time since the end of the last lap is not measured.
    pub fn ready(&mut self) {
        self.begun = Instant::now();
    }

    /// Ends a lap. Every round must have the same laps.
    pub fn lap(&mut self) {
        let time = self.begun.elapsed();
        match self.best.get_mut(self.lap) {
            Some(best) => *best = time.min(*best),
            None => self.best.push(time),
        }
        self.lap += 1;
        self.begun = Instant::now();
    }

    pub fn sum(&self) -> Duration {
        self.best.iter().sum()
    }
}

/// The time per item in nanoseconds.
pub fn each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

/// The required range of a ratio.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    Most(f64),
    Least(f64),
    /// Close to 1, with this tolerance.
    One(f64),
    /// Any value. The ratio is only printed for comparison.
    None,
}

/// Prints a ratio and whether it is within `bound`.
pub fn tell(name: &str, figures: &str, ratio: f64, bound: Bound) {
    let (holds, wanted) = match bound {
        Bound::Most(most) => (ratio <= most, format!("at most {most}")),
        Bound::Least(least) => (ratio >= least, format!("at least {least}")),
        Bound::One(off) => ((ratio - 1.0).abs() <= off, format!("1 ± {off}")),
        Bound::None => (true, "no bound".to_owned()),
    };
    let verdict = if holds { "ok" } else { "MISSED" };
    println!("{name:<52} {figures:<42} {ratio:>6.2}  ({wanted}: {verdict})");
}

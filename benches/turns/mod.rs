//! Measuring in turns: every side of a comparison runs once a round, and of each its best time counts. On a shared
//! machine the sides of a ratio have to meet the same weather.

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

/// What is measured: gives something that could not be known without doing the work.
pub type Work<'w> = Box<dyn FnMut() -> usize + 'w>;

/// Whether ratios are wanted: not when `cargo test --benches` only looks whether the benches run, and not while one
/// bench is profiled.
pub fn wanted() -> bool {
    let asked = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    asked("--bench") && !asked("--profile-time")
}

/// Rounds of a comparison; with `--quick` fewer.
pub fn rounds() -> usize {
    if std::env::args().any(|argument| argument == "--quick") { 40 } else { 200 }
}

/// The best time of each work over so many rounds.
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

/// Nanoseconds for each of so many.
pub fn each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

/// What a ratio is to be.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// At most this.
    Most(f64),
    /// At least this.
    Least(f64),
    /// 1, give or take this.
    One(f64),
    /// Anything: it is told for comparison.
    None,
}

/// Prints a ratio and whether it is what it is to be.
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

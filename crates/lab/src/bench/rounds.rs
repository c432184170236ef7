//! [`run`]: executes a plan.

use std::{io, sync::Arc, thread, time::Instant};

use super::{
    load::{Trial, nanoseconds},
    overhead,
    plan::{Length, Load, Plan},
    process::{ProcessTree, Unseen, Watch},
    progress::Progress,
    ramp,
    ratios::ratios,
    report::{Machine, Overhead, Process, Ramp, Report},
    slo::Slo,
    tally::{Tally, Times},
    target_run::{SampleBuffer, TargetRun},
};
use crate::{clock, follow::sample::Sample};
use toolwire_gateway::{observe::terminal::plural, unix_time};

/// The first streams of a ramp's step are spread over 1/`RAMP_SPREAD` of the step's length.
const RAMP_SPREAD: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Process(#[from] Unseen),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("stopped before the end of the first trial: there is nothing to report")]
    Stopped,
}

/// Executes `plan`. If `stop` completes first, the report contains only the turns that have ended.
///
/// # Errors
/// A process under test cannot be inspected, the operating system reports an error, or the run is stopped
/// before the end of the first turn. Errors of targets are in the report.
pub async fn run(plan: &Plan, stop: impl Future<Output = ()>) -> Result<Report, RunError> {
    let began = Instant::now();
    let load_before = load_average();
    let started = unix_time();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        seconds: 0.0,
        command: plan.command.clone(),
        dialect: plan.dialect.dialect().name().to_owned(),
        load: load_in_words(plan),
        rounds: 0,
        machine: Machine::default(),
        overhead: Overhead {
            clock_ns: overhead::clock_ns(),
            parse_ns: overhead::parse_ns(plan.dialect),
            ..Overhead::default()
        },
        baseline: None,
        targets: Vec::new(),
        ratios: Vec::new(),
        ramps: Vec::new(),
    };
    let mut bench = Bench::new(plan, started)?;
    tokio::select! {
        ended = bench.carry_out() => ended?,
        () = stop => report.load.push_str("; stopped before its end"),
    }
    bench.progress.finish();
    if bench.runs.iter().all(|run| run.shown.rounds.is_empty()) && bench.ramps.is_empty() {
        return Err(RunError::Stopped);
    }
    bench.fill(&mut report);
    report.machine = Machine {
        cores: thread::available_parallelism().map_or(1, usize::from),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        load: load_before.zip(load_average()),
    };
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

struct Bench<'p> {
    plan: &'p Plan,
    runs: Vec<TargetRun>,
    /// Whether the last target is the baseline.
    has_baseline: bool,
    progress: Progress,
    turns: u64,
    /// When the run started, which makes generated prompts differ from those of other runs.
    started: u64,
    /// The bench's own CPU time during the targets' turns, in ns, and the number of tokens that it read.
    own: (u64, u64),
    ramps: Vec<Ramp>,
}

impl<'p> Bench<'p> {
    fn new(plan: &'p Plan, started: u64) -> Result<Self, RunError> {
        let baseline = plan.baseline.as_ref().filter(|_| plan.ramp.is_none());
        let runs = plan.targets.iter().chain(baseline).map(|contender| TargetRun::new(contender, plan));
        let runs: Vec<_> = runs.collect::<Result<_, _>>()?;
        let turns = if plan.ramp.is_some() { runs.len() } else { runs.len().saturating_mul(plan.rounds) };
        let progress = Progress::new(turns, plan.quiet).with_course(Arc::clone(&plan.course));
        progress.steady();
        let has_baseline = baseline.is_some();
        Ok(Self { plan, runs, has_baseline, progress, turns: 0, started, own: (0, 0), ramps: Vec::new() })
    }

    async fn carry_out(&mut self) -> io::Result<()> {
        self.warm_up().await?;
        match &self.plan.ramp {
            Some((slo, range)) => self.ramp(slo, *range).await,
            None => self.rounds().await,
        }
    }

    async fn warm_up(&mut self) -> io::Result<()> {
        let Some(requests) = Some(self.plan.warm_up).filter(|requests| *requests > 0) else { return Ok(()) };
        let length = Length { requests: Some(requests), duration: None };
        let turn = Trial { length, ..self.turn_of(self.plan.load, 0) };
        for run in 0..self.runs.len() {
            self.measure(run, &turn, "warm-up", 0.0..0.0).await?;
        }
        self.own = (0, 0);
        Ok(())
    }

    async fn rounds(&mut self) -> io::Result<()> {
        let (rounds, runs) = (self.plan.rounds, self.runs.len());
        let share = 1.0 / rounds.saturating_mul(runs).max(1) as f64;
        for round in 0..rounds {
            for (place, run) in order(round, runs).into_iter().enumerate() {
                let done = share * (round * runs + place) as f64;
                let turn = self.turn_of(self.plan.load, round as u64);
                let label = format!("round {} of {rounds}", round + 1);
                let (tally, process) = self.measure(run, &turn, &label, done..done + share).await?;
                if let Some(run) = self.runs.get_mut(run) {
                    run.take(&tally, process);
                }
            }
        }
        Ok(())
    }

    /// Returns a turn under this load. A Poisson schedule is the same for all targets within a round, and differs between
    /// rounds.
    fn turn_of(&self, load: Load, round: u64) -> Trial {
        let load = match load {
            Load::Open { rate, arrivals, seed } => {
                Load::Open { rate, arrivals, seed: seed.wrapping_add(round) }
            }
            closed => closed,
        };
        let Plan { length, max_open, spread, .. } = *self.plan;
        Trial { load, length, max_open, spread }
    }

    async fn ramp(&mut self, slo: &Slo, range: ramp::Range) -> io::Result<()> {
        let runs = self.runs.len();
        for run in 0..runs {
            let span = run as f64 / runs as f64..(run + 1) as f64 / runs as f64;
            let mut most = 0;
            let attempt = async |streams: u64| {
                let concurrency = usize::try_from(streams).unwrap_or(usize::MAX);
                let length = Length { requests: None, duration: Some(range.step) };
                let spread = range.step / RAMP_SPREAD;
                let turn = Trial { length, spread, ..self.turn_of(Load::Closed { concurrency }, 0) };
                let label = format!("{streams} {}", plural(streams, "stream"));
                let (tally, process) = self.measure(run, &turn, &label, span.clone()).await?;
                let verdict = slo.judge(&tally.summary(false, None));
                if let Some(run) = self.runs.get_mut(run).filter(|_| verdict.held && streams >= most) {
                    most = streams;
                    run.clear(self.plan);
                    run.take(&tally, process);
                }
                Ok::<_, io::Error>(verdict)
            };
            let (streams, steps) = ramp::search(range, attempt).await?;
            let target = self.runs.get(run).map_or_else(String::new, |run| run.shown.name.clone());
            self.ramps.push(Ramp { target, slo: slo.to_string(), streams, steps });
        }
        Ok(())
    }

    /// Runs one turn of a target. `span` is the range of the run's progress that the turn covers.
    async fn measure(
        &mut self,
        run: usize,
        turn: &Trial,
        label: &str,
        span: std::ops::Range<f64>,
    ) -> io::Result<(Tally, Option<Process>)> {
        let gap = nanoseconds(self.plan.gap);
        let is_baseline = self.has_baseline && run + 1 == self.runs.len();
        let Some(run) = self.runs.get(run) else { return Ok((Tally::new(gap), None)) };
        self.turns += 1;
        let number = self.started.wrapping_mul(1000).wrapping_add(self.turns);
        let label = format!("{label}, {}", run.contender.target.name);
        let start = |stream, intended| {
            let (client, body) = (Arc::clone(&run.client), self.plan.prompts.body(number, stream));
            async move { client.run(body, intended).await }
        };
        let mut buffer = SampleBuffer::new(Tally::new(gap));
        self.progress.tick(&label, span.start);
        let (began, length) = (clock::now(), turn.length);
        let keep = |sample: Sample| {
            buffer.keep(sample);
            let part = length.part(buffer.streams, clock::now().saturating_sub(began));
            self.progress.tick(&label, span.start + part * (span.end - span.start));
        };
        let watch = run.family.clone().map(Watch::begin);
        let own = ProcessTree::own_cpu();
        let course = turn.run(start, keep).await?;
        let own = ProcessTree::own_cpu().zip(own).map(|(after, before)| after.saturating_sub(before));
        let cost = watch.map(Watch::end);
        let mut tally = buffer.settled();
        tally.course(course);
        if !is_baseline {
            self.own.0 += own.unwrap_or(0);
            self.own.1 += tally.token_count();
        }
        let process = cost.map(|cost| run.cost(cost, tally.token_count(), course.most_open));
        Ok((tally, process))
    }

    fn fill(mut self, report: &mut Report) {
        let mut lag = Times::default();
        self.runs.iter().for_each(|run| lag.absorb(&run.all.start_lag));
        report.overhead.start_lag = lag.distribution(true);
        let (cpu, tokens) = self.own;
        report.overhead.cpu_per_token = if tokens > 0 { cpu as f64 / 1e3 / tokens as f64 } else { 0.0 };
        if self.has_baseline {
            report.baseline = self.runs.pop().map(TargetRun::finish);
        }
        if self.plan.ramp.is_none() {
            report.rounds = self.runs.iter().map(|run| run.shown.rounds.len()).min().unwrap_or(0);
        }
        report.ramps = self.ramps;
        report.targets = self.runs.into_iter().map(TargetRun::finish).collect();
        // A ramp loads each target differently, so its figures cannot be compared.
        if report.rounds > 0 {
            report.ratios = ratios(&report.targets);
        }
    }
}

/// Returns the order of the turns in a round: forward in one round and backward in the next, then the same starting from
/// the next target. This way, every target runs early and late equally often, and follows every other target equally
/// often, so a steady drift of the machine affects all alike.
fn order(round: usize, runs: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..runs).collect();
    order.rotate_left((round / 2).checked_rem(runs).unwrap_or(0));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn load_in_words(plan: &Plan) -> String {
    match &plan.ramp {
        Some((slo, ramp::Range { from, to, step })) => {
            let (step, streams) = (humantime::format_duration(*step), plural(*to, "stream"));
            format!("ramp from {from} to {to} concurrent {streams}, {step} per step, until {slo} is not met")
        }
        None => format!("{}; {}", plan.load, plan.length),
    }
}

/// Returns the one-minute load average, if available.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_equally_often_at_each_position() {
        for runs in 1..6 {
            let rounds: Vec<_> = (0..2 * runs).map(|round| order(round, runs)).collect();
            for place in 0..runs {
                for run in 0..runs {
                    let times = rounds.iter().filter(|round| round[place] == run).count();
                    assert_eq!(times, 2, "{run} at {place}: {rounds:?}");
                }
            }
        }
        assert_eq!([order(0, 2), order(1, 2), order(2, 2), order(3, 2)], [[0, 1], [1, 0], [1, 0], [0, 1]]);
        assert_eq!(order(3, 0), [0; 0]);
    }
}

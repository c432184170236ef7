//! Warnings about everything in a run that makes its figures less reliable.

use super::{Metric, Report, Summary, Target, figure};
use toolwire_gateway::observe::terminal::{counted, plural};

/// The mock's slip and the tool's lag are reported if their p99, in µs, exceeds this: 1 ms, a scheduler tick.
const LATE: f64 = 1_000.0;
/// Minimum number of streams for a meaningful p99. With fewer, it is simply the maximum.
const FEW: u64 = 100;
/// Minimum number of open streams for a meaningful figure of memory per stream.
const MANY: u64 = 20;
/// A round is reported if its median exceeds that of the middle round by more than this factor.
const UNEVEN: f64 = 3.0;
/// Minimum number of rounds for a meaningful spread.
const ROUNDS: usize = 5;

pub(super) fn caveats(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(slip(report));
    for target in &report.targets {
        lines.extend(losses(target));
        lines.extend(unsent(target));
    }
    lines.extend(lag(report));
    lines.extend(busy(report));
    lines.extend(uneven(report));
    lines.extend(thin(report));
    lines.extend(lonely(report));
    lines
}

/// Reports that the mock sent pieces late. This worsens every figure except `added`, which is measured from the postmark.
fn slip(report: &Report) -> Option<String> {
    let baseline = report.baseline.iter().map(|target| ("the baseline", target));
    let sides = baseline.chain(report.targets.iter().map(|target| (target.name.as_str(), target)));
    let late = sides.filter_map(|(name, target)| {
        let slip = target.all.metrics.get(&Metric::Slip).filter(|slip| slip.p99 > LATE)?;
        Some(format!("{} for {name}", figure::time(slip.p99)))
    });
    let late = late.collect::<Vec<_>>();
    (!late.is_empty()).then(|| {
        format!(
            "the mock could not keep its pace: p99 of its slip is {}. TTFT, ITL and E2E include that, added does not",
            late.join(", ")
        )
    })
}

/// Reports incomplete streams.
fn losses(target: &Target) -> Option<String> {
    let Summary { streams, good, .. } = target.all;
    (good < streams).then(|| {
        let bad = figure::count(streams - good);
        format!(
            "{}: {bad} of {} {} were incomplete or violated the rules",
            target.name,
            figure::count(streams),
            plural(streams, "stream")
        )
    })
}

/// Reports skipped starts, which make the actual load lower than the requested load.
fn unsent(target: &Target) -> Option<String> {
    let Summary { streams, unsent, .. } = target.all;
    (unsent > 0).then(|| {
        let (unsent, wanted) = (figure::count(unsent), figure::count(streams + unsent));
        format!(
            "{}: {unsent} of {wanted} streams of the schedule were not sent, as too many were open: the target \
             is above its capacity, and the figures are too good for it",
            target.name
        )
    })
}

/// Reports that the tool sent requests late, which makes the actual load differ from the requested load.
fn lag(report: &Report) -> Option<String> {
    let lag = report.overhead.start_lag.as_ref().filter(|lag| lag.p99 > LATE)?;
    Some(format!(
        "requests were sent late: p99 {} after their intended start. Times count from the intended start and include that",
        figure::time(lag.p99)
    ))
}

/// Reports other load on the machine.
fn busy(report: &Report) -> Option<String> {
    let (before, after) = report.machine.load?;
    let cores = report.machine.cores.max(1);
    (before > cores as f64 / 2.0).then(|| {
        format!(
            "the machine was busy before the run began: load {before:.2} on {} ({after:.2} at the end). \
             Trust the ratios more than the times",
            counted(cores, "core")
        )
    })
}

/// Reports a round that differs so much from the other rounds that something must have disturbed it.
fn uneven(report: &Report) -> Option<String> {
    let spreads = report.targets.iter().flat_map(|target| {
        [Metric::Added, Metric::Ttft].into_iter().filter_map(move |metric| {
            let rounds = target.rounds.iter().filter_map(|round| Some(round.metrics.get(&metric)?.p50));
            let mut rounds = rounds.collect::<Vec<_>>();
            rounds.sort_unstable_by(f64::total_cmp);
            let (middle, most) = (*rounds.get(rounds.len() / 2)?, *rounds.last()?);
            (most > UNEVEN * middle).then_some((most / middle, target, metric, middle, most))
        })
    });
    let (_, target, metric, middle, most) = spreads.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!(
        "rounds differ widely: {} p50 of {} is {} in the middle round and {} in the worst. Something else was at work; \
         measure again",
        metric.title(),
        target.name,
        figure::time(middle),
        figure::time(most)
    ))
}

/// Reports too few measurements.
fn thin(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let fewest = report.targets.iter().map(|target| target.all.streams).min().unwrap_or(0);
    if fewest < FEW {
        lines.push(format!(
            "only {fewest} {} per target: p99 of figures that a stream has once (TTFB, TTFT, calls, E2E) is close to their maximum",
            plural(fewest, "stream")
        ));
    }
    if report.rounds == 0 && report.ramps.is_empty() {
        lines.push("stopped before each target had a trial".to_owned());
    } else if report.rounds == 0 {
        if report.targets.len() > 1 {
            lines.push(
                "the figures of each target are those of its own highest step that held: their loads differ, so compare \
                 the streams and not the times"
                    .to_owned(),
            );
        }
    } else if !report.ratios.is_empty() && report.rounds < ROUNDS {
        lines.push(format!("only {}: the spread needs five or more", counted(report.rounds, "round")));
    }
    lines
}

/// Reports too few streams to distinguish memory per stream from general growth of the process.
fn lonely(report: &Report) -> Option<String> {
    let processes = report.targets.iter().filter_map(|target| target.all.process.as_ref());
    let most = processes.map(|process| process.open_streams).max()?;
    (most < MANY).then(|| {
        format!(
            "at most {most} {} open at once: memory per stream is mostly general growth of the process",
            if most == 1 { "stream was" } else { "streams were" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Process, example},
        *,
    };

    #[test]
    fn undisturbed_run_warns_only_about_losses() {
        assert_eq!(
            caveats(&example::report()),
            ["nginx: 2 of 607 streams were incomplete or violated the rules"]
        );
    }

    #[test]
    fn each_weakness_has_a_warning() {
        let mut report = example::report();
        report.rounds = 3;
        report.machine.load = Some((3.2, 4.0));
        report.overhead.start_lag.as_mut().unwrap().p99 = 2_500.0;
        for target in &mut report.targets {
            (target.all.streams, target.all.good) = (40, 40);
        }
        report.targets[2].all.unsent = 3;
        for target in &mut report.targets {
            target.all.process =
                target.all.process.take().map(|process| Process { open_streams: 4, ..process });
        }
        report.targets[1].all.metrics.get_mut(&Metric::Slip).unwrap().p99 = 4_200.0;
        report.targets[2].rounds[1].metrics.get_mut(&Metric::Ttft).unwrap().p50 = 1.05e6;
        report.targets[0].rounds[1].metrics.get_mut(&Metric::Added).unwrap().p50 = 500.0;
        let lines = caveats(&report);
        let starts = [
            "the mock could not keep its pace: p99 of its slip is 4.20 ms for nginx. TTFT, ITL",
            "toolwire: 3 of 43 streams of the schedule were not sent",
            "requests were sent late: p99 2.50 ms",
            "the machine was busy before the run began: load 3.20 on 2 cores",
            "rounds differ widely: TTFT p50 of toolwire is 647 µs in the middle round and 1.05 s in the worst.",
            "only 40 streams per target",
            "only 3 rounds",
            "at most 4 streams were open at once",
        ];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn ramp_report_warns_about_loads_and_not_rounds() {
        let mut report = example::report();
        report.rounds = 0;
        let lines = caveats(&report);
        assert!(lines.iter().any(|line| line.contains("their loads differ")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("rounds")), "{lines:?}");
        report.ramps.clear();
        assert!(caveats(&report).iter().any(|line| line.starts_with("stopped before")));
    }
}

//! Ratios of targets, round by round.
//!
//! Conditions are most similar within a round, so each round has its own ratios. The result to quote is their median;
//! their spread shows how reliable it is.

use super::report::{Distribution, Metric, Ratio, Summary, Target};

/// The metrics that are compared, by median and 99th percentile.
const METRICS: [Metric; 6] =
    [Metric::Ttfb, Metric::Ttft, Metric::FirstCall, Metric::Itl, Metric::Added, Metric::E2e];

/// For each measure, compares targets with the first target for which the measure is available.
pub(crate) fn ratios(targets: &[Target]) -> Vec<Ratio> {
    let has =
        |target: &Target, measure: Measure| target.rounds.iter().any(|round| measure.of(round).is_some());
    let first = |measure| targets.iter().position(|target| has(target, measure));
    let against: Vec<_> = Measure::all().filter_map(|measure| Some((measure, first(measure)?))).collect();
    let of = |at: usize| {
        let before = against.iter().filter(move |(_, first)| *first < at);
        before.filter_map(move |(measure, first)| ratio(targets.get(*first)?, targets.get(at)?, *measure))
    };
    (0..targets.len()).flat_map(of).collect()
}

#[derive(Clone, Copy)]
enum Measure {
    /// A statistic of a metric, with the statistic's name.
    Time(Metric, &'static str, fn(&Distribution) -> f64),
    /// A figure for a round as a whole, with its name.
    Whole(&'static str, fn(&Summary) -> Option<f64>),
}

impl Measure {
    fn all() -> impl Iterator<Item = Self> {
        let times = METRICS.into_iter().flat_map(|metric| {
            [Self::Time(metric, "p50", |times| times.p50), Self::Time(metric, "p99", |times| times.p99)]
        });
        times.chain([
            Self::Whole("tokens_per_second", |round| Some(round.tokens_per_second)),
            Self::Whole("cpu_per_token", |round| Some(round.process.as_ref()?.cpu_per_token)),
            Self::Whole("kib_per_stream", |round| Some(round.process.as_ref()?.kib_per_stream)),
        ])
    }

    fn name(self) -> String {
        match self {
            Self::Time(metric, statistic, _) => format!("{}_{statistic}", metric.name()),
            Self::Whole(name, _) => name.to_owned(),
        }
    }

    fn of(self, round: &Summary) -> Option<f64> {
        match self {
            Self::Time(metric, _, statistic) => round.metrics.get(&metric).map(statistic),
            Self::Whole(_, figure) => figure(round),
        }
    }
}

/// Compares `target` with `to` by one measure. Returns `None` if no round has values for both.
fn ratio(to: &Target, target: &Target, measure: Measure) -> Option<Ratio> {
    let rounds = to.rounds.iter().zip(&target.rounds);
    let rounds = rounds.filter_map(|(to, own)| Some(measure.of(own)? / measure.of(to)?));
    let mut rounds: Vec<f64> = rounds.filter(|ratio| ratio.is_finite()).collect();
    rounds.sort_unstable_by(f64::total_cmp);
    Some(Ratio {
        target: target.name.clone(),
        to: to.name.clone(),
        measure: measure.name(),
        median: median(&rounds)?,
        min: *rounds.first()?,
        max: *rounds.last()?,
    })
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(lower.midpoint(*upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Process;

    fn target(name: &str, rounds: &[(f64, Option<f64>)]) -> Target {
        let round = |(p50, cpu): &(f64, Option<f64>)| {
            let mut summary = Summary { tokens_per_second: 10.0, ..Summary::default() };
            let times = Distribution { p50: *p50, ..Distribution::default() };
            summary.metrics.insert(Metric::Ttft, times);
            summary.process = cpu.map(|cpu_per_token| Process { cpu_per_token, ..Process::default() });
            summary
        };
        Target { name: name.to_owned(), rounds: rounds.iter().map(round).collect(), ..Target::default() }
    }

    #[test]
    fn ratio_is_the_median_of_the_rounds() {
        let first = target("direct", &[(10.0, None), (20.0, None), (10.0, None), (0.0, None)]);
        let second = target("proxy", &[(30.0, Some(5.0)), (40.0, Some(5.0)), (10.0, None), (7.0, None)]);
        let ratios = ratios(&[first, second]);
        let names: Vec<_> = ratios.iter().map(|ratio| ratio.measure.as_str()).collect();
        // There is no ratio if a percentile is 0, or if only one target has process figures.
        assert_eq!(names, ["ttft_p50", "tokens_per_second"]);
        let ttft = &ratios[0];
        assert_eq!((ttft.target.as_str(), ttft.to.as_str()), ("proxy", "direct"));
        assert_eq!((ttft.min, ttft.median, ttft.max), (1.0, 2.0, 3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }

    #[test]
    fn ratio_refers_to_the_first_target_that_has_the_measure() {
        let direct = target("direct", &[(10.0, None)]);
        let others = [("one", 4.0), ("two", 2.0)].map(|(name, cpu)| target(name, &[(20.0, Some(cpu))]));
        let ratios = ratios(&[&[direct][..], &others].concat());
        let medians = |measure| {
            let found = ratios.iter().filter(move |ratio| ratio.measure == measure);
            found.map(|ratio| (ratio.target.as_str(), ratio.to.as_str(), ratio.median)).collect::<Vec<_>>()
        };
        assert_eq!(medians("ttft_p50"), [("one", "direct", 2.0), ("two", "direct", 2.0)]);
        assert_eq!(medians("cpu_per_token"), [("two", "one", 0.5)]);
    }

    #[test]
    fn single_target_has_no_ratios() {
        assert_eq!(ratios(&[target("direct", &[(1.0, None)])]), []);
        assert_eq!(ratios(&[]), []);
    }
}

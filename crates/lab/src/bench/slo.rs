//! [`Slo`]: a service level, such as `ttft_p99<300ms,itl_p99<50ms,broken_share<0.1%`.
//!
//! A service level is a list of conditions, separated by commas. Each consists of a measure, one of `<`, `<=`, `>` and
//! `>=`, and a bound. The name of a time is a metric, `_` and a statistic. Shares are relative to the requested streams.

use std::{fmt, str::FromStr};

use super::report::{Distribution, Metric, Summary};
use crate::Invalid;

type Statistic = fn(&Distribution) -> f64;

/// The statistics of a distribution, in µs.
const STATISTICS: [(&str, Statistic); 8] = [
    ("min", |times| times.min),
    ("mean", |times| times.mean),
    ("p50", |times| times.p50),
    ("p90", |times| times.p90),
    ("p95", |times| times.p95),
    ("p99", |times| times.p99),
    ("p999", |times| times.p999),
    ("max", |times| times.max),
];

type Count = fn(&Summary) -> u64;

/// The outcomes of streams whose share a service level may limit.
const SHARES: [(&str, Count); 6] = [
    ("broken_share", |summary| summary.broken),
    ("failed_share", |summary| summary.failed),
    ("refused_share", |summary| summary.refused),
    ("malformed_share", |summary| summary.malformed),
    ("unsent_share", |summary| summary.unsent),
    ("bad_share", |summary| (summary.streams + summary.unsent).saturating_sub(summary.good)),
];

/// Units of time, in µs. A unit must precede any unit that is a suffix of it.
const TIME_UNITS: [(&str, f64); 5] = [("ns", 1e-3), ("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];

#[derive(Debug, Clone)]
pub struct Slo {
    text: String,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone)]
struct Condition {
    name: String,
    measure: Measure,
    relation: Relation,
    bound: f64,
}

#[derive(Debug, Clone, Copy)]
enum Measure {
    Time(Metric, Statistic),
    Share(Count),
    TokensPerSecond,
}

#[derive(Debug, Clone, Copy)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// The comparison operators. An operator must precede any operator that is a prefix of it.
const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub held: bool,
    /// The measured value for each condition: `ttft_p99 = 210 ms`.
    pub measured: Vec<String>,
}

impl Slo {
    /// Compares the figures with the service level. A condition fails if its measure has no value.
    pub(crate) fn judge(&self, summary: &Summary) -> Verdict {
        let mut verdict = Verdict { held: true, measured: Vec::new() };
        for condition in &self.conditions {
            let value = condition.measure.of(summary);
            verdict.held &= value.is_some_and(|value| condition.relation.holds(value, condition.bound));
            let shown =
                value.map_or_else(|| "not measured".to_owned(), |value| condition.measure.tell(value));
            verdict.measured.push(format!("{} = {shown}", condition.name));
        }
        verdict
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Measure {
    fn of(self, summary: &Summary) -> Option<f64> {
        let asked = summary.streams + summary.unsent;
        match self {
            Self::Time(metric, statistic) => summary.metrics.get(&metric).map(statistic),
            Self::Share(count) => (asked > 0).then(|| count(summary) as f64 / asked as f64),
            Self::TokensPerSecond => Some(summary.tokens_per_second),
        }
    }

    fn tell(self, value: f64) -> String {
        match self {
            Self::Time(..) => time(value),
            Self::Share(_) => format!("{:.3} %", value * 100.0),
            Self::TokensPerSecond => format!("{value:.0}/s"),
        }
    }

    /// Returns the factor for a bound's unit.
    fn unit(self, unit: &str) -> Result<f64, &'static str> {
        match (self, unit) {
            (Self::Time(..), unit) => {
                let known = TIME_UNITS.iter().find(|(name, _)| *name == unit);
                known.map(|(_, factor)| *factor).ok_or("a time needs a unit: ns, us, ms or s")
            }
            (Self::Share(_), "%") => Ok(0.01),
            (Self::Share(_) | Self::TokensPerSecond, "") => Ok(1.0),
            (Self::Share(_), _) => Err("a share is a number between 0 and 1, or has `%`"),
            (Self::TokensPerSecond, _) => Err("tokens_per_second has no unit"),
        }
    }
}

impl Relation {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
        }
    }
}

/// Formats a time given in µs.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        under if under < 1e3 => format!("{under:.0} µs"),
        under if under < 1e5 => format!("{:.1} ms", under / 1e3),
        under if under < 1e6 => format!("{:.0} ms", under / 1e3),
        over => format!("{:.2} s", over / 1e6),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (character {})\n  {text}\n  {:before$}^", characters(.text, *.at) + 1, "", before = characters(.text, *.at))]
pub struct SloError {
    text: String,
    at: usize,
    message: String,
}

/// Returns the number of characters before byte `at` of `text`.
fn characters(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).chars().count()
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let mut conditions = Vec::new();
        let mut start = 0;
        for part in text.split(',') {
            let at = start + (part.len() - part.trim_start().len());
            let read = condition(part.trim()).map_err(|(inside, message)| SloError {
                text: text.to_owned(),
                at: at + inside,
                message,
            })?;
            conditions.push(read);
            start += part.len() + 1;
        }
        Ok(Self { text: text.trim().to_owned(), conditions })
    }
}

/// Parses one condition. An error includes its byte position in `text`.
fn condition(text: &str) -> Result<Condition, (usize, String)> {
    let found = text.find(['<', '>']).and_then(|at| text.split_at_checked(at));
    let Some((name, rest)) = found.filter(|(name, _)| !name.trim().is_empty()) else {
        return Err((0, "a condition is a measure, `<` or `>`, and a bound: `ttft_p99<300ms`".to_owned()));
    };
    let measure = measure(name.trim_end()).map_err(|why| (0, why.to_string()))?;
    let comparison = RELATIONS.iter().find_map(|(sign, relation)| Some((relation, rest.strip_prefix(sign)?)));
    let (relation, bound) = comparison.ok_or_else(|| (name.len(), "`<` or `>` is missing".to_owned()))?;
    let bound = bound.trim_start();
    let at = text.len() - bound.len();
    let digits =
        bound.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(bound.len());
    let (number, unit) = bound.split_at_checked(digits).unwrap_or((bound, ""));
    let number: f64 =
        number.parse().map_err(|_| (at, "the bound must be a number with a unit".to_owned()))?;
    let factor = measure
        .unit(unit.trim_start())
        .map_err(|message| (text.len() - unit.trim_start().len(), message.to_owned()))?;
    Ok(Condition { name: name.trim_end().to_owned(), measure, relation: *relation, bound: number * factor })
}

fn measure(name: &str) -> Result<Measure, Invalid> {
    if name == "tokens_per_second" {
        return Ok(Measure::TokensPerSecond);
    }
    if let Some((_, count)) = SHARES.iter().find(|(known, _)| *known == name) {
        return Ok(Measure::Share(*count));
    }
    let (metric, statistic) = name.rsplit_once('_').unwrap_or((name, ""));
    let metric: Metric = metric.parse().map_err(|_| {
        format!(
            "there is no measure `{name}`; there are {}, each with _p50 and so on, {} and tokens_per_second",
            Metric::names(),
            names(&SHARES),
        )
    })?;
    let known = STATISTICS.iter().find(|(known, _)| *known == statistic);
    let statistic = known.map(|(_, statistic)| *statistic);
    let statistic = statistic
        .ok_or_else(|| format!("`{name}` has no known statistic after `_`: {}", names(&STATISTICS)))?;
    Ok(Measure::Time(metric, statistic))
}

fn names<T>(table: &[(&'static str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let times = |p99| Distribution { count: 10, p50: p99 / 2.0, p99, ..Distribution::default() };
        let mut summary = Summary { streams: 1000, good: 998, broken: 2, ..Summary::default() };
        summary.metrics.insert(Metric::Ttft, times(210_000.0));
        summary.metrics.insert(Metric::FirstCall, times(900.0));
        summary.tokens_per_second = 500.0;
        summary
    }

    fn held(text: &str) -> bool {
        text.parse::<Slo>().unwrap().judge(&summary()).held
    }

    #[test]
    fn slo_conditions_are_compared() {
        for text in [
            "ttft_p99<300ms",
            "ttft_p99 <= 0.21s , first_call_p50<451us",
            "first_call_p99<901µs",
            "first_call_p99>899000ns",
            "broken_share<0.3%",
            "bad_share<=0.002",
            "tokens_per_second>=500",
        ] {
            assert!(held(text), "{text}");
        }
        for text in [
            "ttft_p99<210ms",
            "ttft_p99<300ms,broken_share<0.1%",
            "itl_p99<1s",
            "tokens_per_second>500",
            "broken_share<0.001",
        ] {
            assert!(!held(text), "{text}");
        }
    }

    #[test]
    fn verdict_contains_the_measured_values() {
        let slo: Slo = "ttft_p99<300ms,itl_p99<50ms,broken_share<0.1%".parse().unwrap();
        let verdict = slo.judge(&summary());
        assert!(!verdict.held);
        assert_eq!(
            verdict.measured,
            ["ttft_p99 = 210 ms", "itl_p99 = not measured", "broken_share = 0.200 %"]
        );
    }

    #[test]
    fn slo_error_has_a_message_and_a_place() {
        for (text, at, part) in [
            ("", 0, "a condition is"),
            ("ttft_p99<300ms,", 15, "a condition is"),
            ("ttft_p99<300ms, itl_p98<50ms", 16, "p50"),
            ("tttf_p99<300ms", 0, "no measure `tttf_p99`"),
            ("ttft<300ms", 0, "`ttft` has no known statistic"),
            ("ttft_p99<fast", 9, "number"),
            ("ttft_p99<300", 12, "unit"),
            ("ttft_p99<1.2.3ms", 9, "number"),
            ("ttft_p99<300 km", 13, "unit"),
            ("broken_share<1ms", 14, "share"),
        ] {
            let error = text.parse::<Slo>().unwrap_err();
            assert!(error.message.contains(part), "{text}: {error}");
            assert_eq!(error.at, at, "{error}");
        }
        let shown = "ttft_p99<1ms,µ<1".parse::<Slo>().unwrap_err().to_string();
        assert!(shown.ends_with("\n  ttft_p99<1ms,µ<1\n               ^"), "{shown}");
    }
}

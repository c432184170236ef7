//! [`Tally`]: aggregates samples into counts and histograms.
//!
//! Times are recorded in nanoseconds with three significant digits, and reported in µs. Each turn of a target has its own
//! tally, which is then added to the target's overall tally.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{
    load::LoadStats,
    report::{Distribution, Metric, Process, Summary, Timeline},
};
use crate::{
    fixture::postmark::Postmark,
    follow::{
        rule,
        sample::{Outcome, Sample, Token},
    },
};

/// Number of significant decimal digits in histograms.
const DIGITS: u8 = 3;

/// The longest time recorded exactly, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Number of points in a percentile curve per halving of the distance to 100 %.
const CURVE_STEPS: u32 = 4;

/// A histogram of times, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Times(Option<Histogram<u64>>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are valid, so this is always `Some`.
        Self(Histogram::new_with_bounds(1, LONGEST, DIGITS).ok())
    }
}

impl Times {
    /// Records a time. A time of more than an hour is recorded as an hour.
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(nanoseconds);
        }
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Cannot fail: both have the same bounds.
            let _ = histogram.add(other);
        }
    }

    /// Returns the distribution in µs, or `None` if there are no times.
    pub(crate) fn distribution(&self, with_curve: bool) -> Option<Distribution> {
        let histogram = self.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        let points = histogram.iter_quantiles(CURVE_STEPS);
        let points = points.map(|point| (point.quantile() * 100.0, micros(point.value_iterated_to())));
        Some(Distribution {
            count: histogram.len(),
            min: micros(histogram.min()),
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(histogram.max()),
            curve: if with_curve { points.collect() } else { Vec::new() },
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Pauses longer than this are counted as gaps, in nanoseconds.
    gap: u64,
    /// The counts. Distributions are added in [`Tally::summary`].
    counts: Summary,
    times: BTreeMap<Metric, Times>,
    /// Delay between the intended start of a request and its sending, on an open connection.
    pub start_lag: Times,
    /// Errors as sentences, with the number of occurrences.
    pub complaints: BTreeMap<String, u64>,
    /// The timeline of the first stream with a token.
    pub timeline: Option<Timeline>,
    began: Option<u64>,
    ended: u64,
    /// Total duration of the absorbed turns, in seconds.
    earlier: f64,
}

impl Tally {
    /// Creates an empty tally that counts pauses longer than `gap` nanoseconds.
    pub(crate) fn new(gap: u64) -> Self {
        Self { gap, ..Self::default() }
    }

    pub(crate) fn record(&mut self, sample: &Sample) {
        self.count(sample);
        if sample.sent > 0 {
            self.span(sample);
        }
        // If a connection had to be opened, the delay is partly the target's, and that part cannot be told from
        // the tool's own.
        if sample.sent > 0 && !sample.connected {
            self.start_lag.record(sample.sent.saturating_sub(sample.intended));
        }
        let since = |at: u64| at.saturating_sub(sample.intended);
        let first = sample.tokens.first();
        let moments = [
            (Metric::Ttfb, sample.first_byte),
            (Metric::Ttft, first.map(|token| token.at)),
            (Metric::FirstCall, sample.first_call),
            (Metric::LastCall, sample.last_call),
            (Metric::E2e, (sample.outcome == Outcome::Done).then_some(sample.end)),
        ];
        for (metric, moment) in moments {
            if let Some(moment) = moment {
                self.time(metric, since(moment));
            }
        }
        self.pauses(&sample.tokens);
        self.postmarks(sample);
        if let Some(tpot) = time_per_token(sample) {
            self.time(Metric::Tpot, tpot);
        }
        if self.timeline.is_none() && first.is_some() {
            self.timeline = Some(timeline(sample));
        }
    }

    fn count(&mut self, sample: &Sample) {
        let counts = &mut self.counts;
        counts.streams += 1;
        counts.tokens += sample.tokens.len() as u64;
        counts.bytes += sample.bytes;
        let (kind, complaint) = match &sample.outcome {
            Outcome::Done if sample.violations.is_empty() => (&mut counts.good, None),
            Outcome::Done => (&mut counts.malformed, None),
            Outcome::Refused => {
                let status = sample.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
                let why = sample.refusal.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                (&mut counts.refused, Some(format!("refused with status {status}{why}")))
            }
            Outcome::Failed(message) => {
                (&mut counts.failed, Some(format!("an error event in the stream: {message}")))
            }
            Outcome::Broken(message) => (&mut counts.broken, Some(message.clone())),
            Outcome::Open => (&mut counts.broken, Some("abandoned before its end".to_owned())),
        };
        *kind += 1;
        let violations = sample.violations.iter().map(|violation| rule(violation).to_owned());
        for complaint in violations.chain(complaint) {
            *self.complaints.entry(complaint).or_default() += 1;
        }
    }

    fn span(&mut self, sample: &Sample) {
        self.began = Some(self.began.map_or(sample.intended, |began| began.min(sample.intended)));
        self.ended = self.ended.max(sample.end);
    }

    fn pauses(&mut self, tokens: &[Token]) {
        for pair in tokens.windows(2) {
            if let [before, after] = pair {
                let pause = after.at.saturating_sub(before.at);
                self.time(Metric::Itl, pause);
                self.counts.gaps += u64::from(pause > self.gap);
            }
        }
    }

    /// Records the latency since each token's postmark. Ignores postmarks outside the time of the stream: they are from
    /// another machine's clock or from an old recording.
    fn postmarks(&mut self, sample: &Sample) {
        for token in &sample.tokens {
            let sent = |postmark: &Postmark| (sample.intended..=token.at).contains(&postmark.left);
            if let Some(postmark) = token.postmark.filter(sent) {
                self.time(Metric::Added, token.at.saturating_sub(postmark.left));
                self.time(Metric::Slip, u64::from(postmark.slip));
            }
        }
    }

    fn time(&mut self, metric: Metric, nanoseconds: u64) {
        self.times.entry(metric).or_default().record(nanoseconds);
    }

    pub(crate) fn course(&mut self, course: LoadStats) {
        self.counts.unsent += course.unsent;
        if course.unsent > 0 {
            let complaint = "not sent: as many streams were open as `--max-open` allows";
            *self.complaints.entry(complaint.to_owned()).or_default() += course.unsent;
        }
    }

    /// Adds the results of a turn.
    pub(crate) fn absorb(&mut self, turn: &Self) {
        let (counts, more) = (&mut self.counts, &turn.counts);
        counts.streams += more.streams;
        counts.good += more.good;
        counts.refused += more.refused;
        counts.failed += more.failed;
        counts.broken += more.broken;
        counts.malformed += more.malformed;
        counts.unsent += more.unsent;
        counts.tokens += more.tokens;
        counts.bytes += more.bytes;
        counts.gaps += more.gaps;
        for (metric, times) in &turn.times {
            self.times.entry(*metric).or_default().absorb(times);
        }
        self.start_lag.absorb(&turn.start_lag);
        for (complaint, times) in &turn.complaints {
            *self.complaints.entry(complaint.clone()).or_default() += times;
        }
        self.earlier += turn.seconds();
    }

    /// Returns the number of deltas with content so far.
    pub(crate) fn token_count(&self) -> u64 {
        self.counts.tokens
    }

    /// Returns the time from the first intended start to the end of the last stream, summed over the turns.
    fn seconds(&self) -> f64 {
        let own = self.began.map_or(0, |began| self.ended.saturating_sub(began));
        self.earlier + own as f64 / 1e9
    }

    pub(crate) fn summary(&self, with_curves: bool, process: Option<Process>) -> Summary {
        let seconds = self.seconds();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let metrics = self.times.iter();
        let metrics = metrics.filter_map(|(metric, times)| Some((*metric, times.distribution(with_curves)?)));
        Summary {
            seconds,
            tokens_per_second: rate(self.counts.tokens),
            streams_per_second: rate(self.counts.good + self.counts.malformed),
            metrics: metrics.collect(),
            process,
            ..self.counts.clone()
        }
    }
}

/// Returns a stream's mean time per output token after the first, if the stream is complete and has several tokens. An
/// upstream may put several tokens into a delta, so the count is taken from the usage if there is one.
fn time_per_token(sample: &Sample) -> Option<u64> {
    let (first, last) = (sample.tokens.first()?, sample.tokens.last()?);
    let deltas = sample.tokens.len() as u64;
    let tokens = sample.usage.map_or(deltas, |usage| usage.max(deltas));
    let whole = sample.outcome == Outcome::Done;
    last.at.saturating_sub(first.at).checked_div(tokens.saturating_sub(1)).filter(|_| whole && deltas > 1)
}

fn timeline(sample: &Sample) -> Timeline {
    let since = |at: u64| micros(at.saturating_sub(sample.intended));
    Timeline {
        tokens: sample.tokens.iter().map(|token| since(token.at)).collect(),
        first_byte: sample.first_byte.map(since),
        first_call: sample.first_call.map(since),
        end: since(sample.end),
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::sample::TokenKind;

    const MS: u64 = 1_000_000;

    fn token(at: u64, left: Option<u64>) -> Token {
        let postmark = left.map(|left| Postmark { left, slip: 7_000 });
        Token { at, kind: TokenKind::Text, postmark }
    }

    /// A complete stream whose intended start was at 10 ms and that started at 11 ms.
    fn sample(tokens: &[Token]) -> Sample {
        Sample {
            intended: 10 * MS,
            sent: 11 * MS,
            first_byte: Some(15 * MS),
            end: 100 * MS,
            tokens: tokens.to_vec(),
            bytes: 40,
            outcome: Outcome::Done,
            ..Sample::default()
        }
    }

    fn summary(samples: &[Sample]) -> Summary {
        let mut tally = Tally::new(20 * MS);
        samples.iter().for_each(|sample| tally.record(sample));
        tally.summary(true, None)
    }

    /// Returns the maximum of a metric, in ms, rounded to two decimal places.
    fn max(summary: &Summary, metric: Metric) -> Option<f64> {
        summary.metrics.get(&metric).map(|times| (times.max / 10.0).round() / 100.0)
    }

    #[test]
    fn times_count_from_the_intended_start() {
        let stream = sample(&[token(20 * MS, Some(19 * MS)), token(50 * MS, None), token(60 * MS, None)]);
        let stream = Sample { first_call: Some(30 * MS), last_call: Some(55 * MS), ..stream };
        let summary = summary(&[stream]);
        for (metric, wanted) in [
            (Metric::Ttfb, 5.0),
            (Metric::Ttft, 10.0),
            (Metric::FirstCall, 20.0),
            (Metric::LastCall, 45.0),
            (Metric::Itl, 30.0),
            (Metric::Tpot, 20.0),
            (Metric::E2e, 90.0),
            (Metric::Added, 1.0),
            (Metric::Slip, 0.01),
        ] {
            let found = max(&summary, metric);
            assert!(
                found.is_some_and(|found| (found - wanted).abs() <= wanted / 500.0),
                "{metric}: {found:?}"
            );
        }
        assert_eq!((summary.streams, summary.good, summary.tokens, summary.bytes), (1, 1, 3, 40));
        assert_eq!((summary.gaps, summary.metrics[&Metric::Itl].count), (1, 2));
        assert!((summary.seconds - 0.09).abs() < 1e-9);
    }

    #[test]
    fn postmarks_of_other_clocks_are_ignored() {
        let tokens =
            [token(20 * MS, Some(9 * MS)), token(30 * MS, Some(31 * MS)), token(40 * MS, Some(40 * MS))];
        let summary = summary(&[sample(&tokens)]);
        assert_eq!((summary.tokens, summary.metrics[&Metric::Added].count), (3, 1));
        assert_eq!(summary.metrics[&Metric::Slip].count, 1);
    }

    #[test]
    fn usage_counts_tokens_that_share_a_delta() {
        let tokens = [token(20 * MS, None), token(60 * MS, None)];
        let tpot = |usage| max(&summary(&[Sample { usage, ..sample(&tokens) }]), Metric::Tpot).unwrap();
        assert!((tpot(None) - 40.0).abs() < 0.1 && (tpot(Some(5)) - 10.0).abs() < 0.1);
        assert!((tpot(Some(1)) - 40.0).abs() < 0.1, "fewer than there are deltas cannot be");
        assert_eq!(max(&summary(&[sample(&tokens[..1])]), Metric::Tpot), None);
    }

    #[test]
    fn every_outcome_is_counted_and_named() {
        let ended = |outcome| Sample { outcome, ..sample(&[token(20 * MS, None)]) };
        let samples = [
            ended(Outcome::Done),
            Sample { violations: vec!["a rule (frame 3)".to_owned()], ..ended(Outcome::Done) },
            Sample { violations: vec!["a rule (frame 9)".to_owned()], ..ended(Outcome::Done) },
            Sample { status: Some(503), refusal: Some("busy".to_owned()), ..ended(Outcome::Refused) },
            ended(Outcome::Failed("overloaded".to_owned())),
            ended(Outcome::Broken("cut".to_owned())),
            ended(Outcome::Open),
        ];
        let mut tally = Tally::new(MS);
        samples.iter().for_each(|sample| tally.record(sample));
        tally.course(LoadStats { unsent: 2, most_open: 9 });
        let summary = tally.summary(false, None);
        let counts = [summary.streams, summary.good, summary.malformed, summary.refused, summary.failed];
        assert_eq!((counts, summary.broken, summary.unsent), ([7, 1, 2, 1, 1], 2, 2));
        assert_eq!(
            summary.metrics[&Metric::E2e].count,
            3,
            "a stream that is not whole has no end to end time"
        );
        assert_eq!(summary.metrics[&Metric::Ttft].count, 7);
        assert!(summary.metrics.values().all(|times| times.curve.is_empty()));
        let found: Vec<_> =
            tally.complaints.iter().map(|(complaint, times)| (complaint.as_str(), *times)).collect();
        assert_eq!(
            found,
            [
                ("a rule", 2),
                ("abandoned before its end", 1),
                ("an error event in the stream: overloaded", 1),
                ("cut", 1),
                ("not sent: as many streams were open as `--max-open` allows", 2),
                ("refused with status 503: busy", 1),
            ]
        );
    }

    #[test]
    fn tallies_of_turns_are_summed() {
        let streams: Vec<_> = (1..9).map(|at| sample(&[token(20 * MS + at * at * MS, None)])).collect();
        let (mut all, mut both) = (Tally::new(MS), Tally::new(MS));
        for half in streams.chunks(4) {
            let mut turn = Tally::new(MS);
            half.iter().for_each(|sample| turn.record(sample));
            both.absorb(&turn);
        }
        streams.iter().for_each(|sample| all.record(sample));
        let (all, both) = (all.summary(true, None), both.summary(true, None));
        assert_eq!(all.metrics, both.metrics);
        assert!((both.seconds - 2.0 * all.seconds).abs() < 1e-9, "turns follow each other");
        assert_eq!((both.streams, both.tokens), (8, 8));
        assert!((both.tokens_per_second - 8.0 / 0.18).abs() < 1e-6);
    }

    #[test]
    fn timeline_is_that_of_the_first_stream_with_a_token() {
        let mut tally = Tally::new(MS);
        tally.record(&Sample { outcome: Outcome::Broken(String::new()), ..Sample::default() });
        tally.record(&sample(&[token(20 * MS, None), token(30 * MS, None)]));
        tally.record(&sample(&[token(99 * MS, None)]));
        let shown = tally.timeline.unwrap();
        assert_eq!(
            (shown.tokens, shown.first_byte, shown.end),
            (vec![10_000.0, 20_000.0], Some(5_000.0), 90_000.0)
        );
    }
}

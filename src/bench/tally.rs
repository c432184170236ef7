//! [`Tally`]: samples become counts and histograms.
//!
//! Times are recorded in nanoseconds with three digits; reports are in µs. A tally is made for each turn of a target
//! and added to that of all its turns.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{
    follow::rule,
    load::Course,
    report::{Distribution, Metric, Process, Summary, Timeline},
    sample::{Outcome, Sample, Token},
};

/// Decimal digits that histograms keep.
const DIGITS: u8 = 3;

/// The longest time that is told from longer ones: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// Steps of a percentile curve for each halving of the distance to 100 %.
const CURVE_STEPS: u32 = 4;

/// Times, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Times(Option<Histogram<u64>>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are right, so there is one.
        Self(Histogram::new_with_bounds(1, LONGEST, DIGITS).ok())
    }
}

impl Times {
    /// Takes a time in; beyond an hour counts as an hour.
    pub fn record(&mut self, nanoseconds: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(nanoseconds);
        }
    }

    /// Takes all of another's times in.
    pub fn absorb(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Both have the same bounds.
            let _ = histogram.add(other);
        }
    }

    /// In µs; `None` without a time. With the percentile curve or without it.
    pub fn distribution(&self, with_curve: bool) -> Option<Distribution> {
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

/// Counts and times of many streams.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Pauses longer than this are counted, in nanoseconds.
    gap: u64,
    /// Counts, and no distributions as yet.
    counts: Summary,
    times: BTreeMap<Metric, Times>,
    /// How late requests left.
    pub start_lag: Times,
    /// Sentences about what went wrong, with how often.
    pub complaints: BTreeMap<String, u64>,
    /// The first stream that had a token.
    pub timeline: Option<Timeline>,
    began: Option<u64>,
    ended: u64,
    /// Seconds of turns that were added.
    earlier: f64,
}

impl Tally {
    /// An empty one that counts pauses longer than `gap` nanoseconds.
    pub fn new(gap: u64) -> Self {
        Self { gap, ..Self::default() }
    }

    /// Takes a stream in.
    pub fn record(&mut self, sample: &Sample) {
        self.count(sample);
        if sample.sent > 0 {
            self.span(sample);
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
        self.tokens(&sample.tokens);
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
                (&mut counts.failed, Some(format!("an error inside the stream: {message}")))
            }
            Outcome::Broken(message) => (&mut counts.broken, Some(message.clone())),
            Outcome::Open => (&mut counts.broken, Some("given up before its end".to_owned())),
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

    fn tokens(&mut self, tokens: &[Token]) {
        for pair in tokens.windows(2) {
            if let [before, after] = pair {
                let pause = after.at.saturating_sub(before.at);
                self.time(Metric::Itl, pause);
                self.counts.gaps += u64::from(pause > self.gap);
            }
        }
        for token in tokens {
            if let Some(postmark) = token.postmark {
                self.time(Metric::Added, token.at.saturating_sub(postmark.left));
                self.time(Metric::Slip, u64::from(postmark.slip));
            }
        }
    }

    fn time(&mut self, metric: Metric, nanoseconds: u64) {
        self.times.entry(metric).or_default().record(nanoseconds);
    }

    /// Takes in what the load itself counted.
    pub fn course(&mut self, course: Course) {
        self.counts.unsent += course.unsent;
        if course.unsent > 0 {
            let complaint = "not sent: as many streams were open as `--max-open` allows";
            *self.complaints.entry(complaint.to_owned()).or_default() += course.unsent;
        }
    }

    /// Adds a turn.
    pub fn absorb(&mut self, turn: &Self) {
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

    /// Deltas with content, as yet.
    pub fn token_count(&self) -> u64 {
        self.counts.tokens
    }

    /// From the first intended start to the last end, turn by turn.
    fn seconds(&self) -> f64 {
        let own = self.began.map_or(0, |began| self.ended.saturating_sub(began));
        self.earlier + own as f64 / 1e9
    }

    /// The figures; with percentile curves or without them.
    pub fn summary(&self, with_curves: bool, process: Option<Process>) -> Summary {
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

/// A stream's mean time for an output token behind the first, if it is whole and has several. Upstreams that put
/// several tokens into a delta tell the true number as usage.
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

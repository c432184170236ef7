//! [`Figures`]: statistics of the requests of the last two hours, per minute, grouped by model, key and upstream.
//!
//! A request is counted once, when it ends. The numbers of minutes, names and latencies are bounded, and so is memory:
//! at most [`MAX_NAMES`] models, keys and upstreams have figures of their own at a time. Any others are counted as
//! `other`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{
    latencies::{Latencies, milliseconds, pack, unpack},
    metrics::OTHER,
};

/// The longest window in minutes. The same number of minutes before it is also stored, for comparison.
pub const MAX_WINDOW: u64 = 60;

/// Maximum number of models, keys or upstreams with figures of their own.
const MAX_NAMES: usize = 100;

/// Number of seconds covered by the [current figures](Figures::now).
const RECENT: u64 = 60;

#[derive(Debug, Default)]
pub(crate) struct FinishedRequest<'r> {
    /// The configured name for each [`By`]. `None` if the request has none, or failed before it was known.
    pub(crate) names: [Option<&'r str>; 3],
    /// The error label, if the request failed.
    pub(crate) error: Option<&'static str>,
    /// Whether the client disconnected before the end.
    pub(crate) is_cancelled: bool,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Time from the arrival of the request to the first content of its stream.
    pub(crate) first_content: Option<Duration>,
    pub(crate) duration: Duration,
    /// Number of tool calls that reached the client.
    pub(crate) calls: u64,
    /// Number of additional requests to upstreams after failures or wrong calls.
    pub(crate) retries: u64,
}

/// The categories by which figures are grouped, in the order of [`FinishedRequest::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Model,
    Key,
    Upstream,
}

impl By {
    /// All groupings with their names.
    pub const ALL: [(&str, Self); 3] =
        [("model", Self::Model), ("key", Self::Key), ("upstream", Self::Upstream)];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, by)| *by == self).map_or("", |(name, _)| name)
    }
}

#[derive(Debug, Default)]
pub struct Figures(Mutex<RequestHistory>);

#[derive(Debug, Default)]
struct RequestHistory {
    /// Indexed by [`By`].
    groups: [Group; 3],
    /// Sums for each second in which a request ended, oldest first.
    seconds: VecDeque<(u64, Sums)>,
}

/// Statistics for one [`By`].
#[derive(Debug, Default)]
struct Group {
    /// The latest minute with a request, in minutes since the Unix epoch.
    number: u64,
    /// The sums of that minute, by name.
    current: BTreeMap<Arc<str>, Sums>,
    /// Earlier minutes, oldest first.
    earlier: VecDeque<PackedMinute>,
    /// The names with figures of their own, and the last minute of each.
    names: HashMap<Arc<str>, u64>,
}

#[derive(Debug)]
struct PackedMinute {
    /// Minutes since the Unix epoch.
    number: u64,
    sums: Box<[(Arc<str>, Packed)]>,
}

impl Figures {
    /// Counts a request that ended at `now`, a Unix time in seconds.
    pub(crate) fn record(&self, request: &FinishedRequest<'_>, now: u64) {
        let mut history = self.0.lock();
        for (group, name) in history.groups.iter_mut().zip(request.names) {
            group.sums(name.unwrap_or(OTHER), now / 60).add(request);
        }
        // `second` is later than `now` if the clock has been set back.
        match history.seconds.back_mut() {
            Some((second, sums)) if *second >= now => sums.add(request),
            _ => {
                let mut sums = Sums::default();
                sums.add(request);
                history.seconds.push_back((now, sums));
                while history.seconds.front().is_some_and(|(second, _)| second + RECENT <= now) {
                    history.seconds.pop_front();
                }
            }
        }
    }

    /// Estimates the memory of all figures in bytes. It grows for two hours, since each minute has figures of its own.
    pub(crate) fn bytes(&self) -> usize {
        let history = self.0.lock();
        let minutes = history.groups.iter().flat_map(|group| &group.earlier);
        let packed: usize = minutes.flat_map(|minute| &minute.sums).map(|(_, packed)| packed.bytes()).sum();
        packed
            + history.groups.iter().flat_map(|group| group.current.values()).map(Sums::bytes).sum::<usize>()
    }

    /// Returns the figures of the last minute. `now` is a Unix time in seconds, and `running` is the number of
    /// responses in progress.
    pub(crate) fn now(&self, running: i64, now: u64) -> Value {
        let history = self.0.lock();
        let mut recent = Sums::default();
        history
            .seconds
            .iter()
            .filter(|(second, _)| second + RECENT > now)
            .for_each(|(_, sums)| recent.merge(sums));
        drop(history);
        let mut json = recent.json();
        json.insert("running".to_owned(), running.into());
        json.insert("window_s".to_owned(), RECENT.into());
        json.insert("requests_per_s".to_owned(), ratio(recent.requests, Duration::from_secs(RECENT)));
        json.insert(
            "output_tokens_per_s".to_owned(),
            ratio(recent.output_tokens, Duration::from_secs(RECENT)),
        );
        Value::Object(json)
    }

    /// Returns the figures of the last `window` minutes, including the current one, and of the same number of minutes
    /// before them. `window` is at most [`MAX_WINDOW`]. `now` is a Unix time in seconds.
    pub fn window(&self, by: By, window: u64, now: u64) -> Value {
        let history = self.0.lock();
        let [model, key, upstream] = &history.groups;
        let group = match by {
            By::Model => model,
            By::Key => key,
            By::Upstream => upstream,
        };
        let mut all = Row::default();
        let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
        let earlier = group.earlier.iter().flat_map(|minute| {
            minute.sums.iter().map(|(name, packed)| (minute.number, name, Cow::Owned(packed.unpack())))
        });
        let current = group.current.iter().map(|(name, sums)| (group.number, name, Cow::Borrowed(sums)));
        for (number, name, sums) in earlier.chain(current) {
            let age = (now / 60).saturating_sub(number);
            all.add(&sums, number, age, window);
            rows.entry(name).or_default().add(&sums, number, age, window);
        }
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|(_, row)| !row.is_empty())
            .map(|(name, row)| {
                let mut json = Map::from_iter([("name".to_owned(), name.into())]);
                json.extend(row.json());
                Value::Object(json)
            })
            .collect();
        let mut json = Map::from_iter([
            ("by".to_owned(), by.name().into()),
            ("window_s".to_owned(), (window * 60).into()),
            ("step_s".to_owned(), 60.into()),
        ]);
        json.extend(all.json());
        json.insert("rows".to_owned(), rows.into());
        Value::Object(json)
    }
}

impl Group {
    fn sums(&mut self, name: &str, now: u64) -> &mut Sums {
        // `now` is smaller if the clock has been set back.
        if now > self.number {
            let sums = mem::take(&mut self.current).into_iter().map(|(name, sums)| (name, sums.pack()));
            self.earlier.push_back(PackedMinute { number: self.number, sums: sums.collect() });
            self.number = now;
            let first = (now + 1).saturating_sub(2 * MAX_WINDOW);
            while self.earlier.front().is_some_and(|minute| minute.number < first) {
                self.earlier.pop_front();
            }
            self.names.retain(|_, last| *last >= first);
        }
        let name = match self.names.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None if self.names.len() < MAX_NAMES => name.into(),
            None => OTHER.into(),
        };
        if *name != *OTHER {
            self.names.insert(Arc::clone(&name), self.number);
        }
        self.current.entry(name).or_default()
    }
}

/// The figures of a name in a window and in the window before it.
#[derive(Debug, Default)]
struct Row {
    totals: Sums,
    before: Sums,
    series: BTreeMap<u64, Sums>,
}

impl Row {
    /// Adds the sums of the minute `number`, which is `age` minutes old.
    fn add(&mut self, sums: &Sums, number: u64, age: u64, window: u64) {
        if age < window {
            self.totals.merge(sums);
            self.series.entry(number).or_default().merge(sums);
        } else if age < 2 * window {
            self.before.merge(sums);
        }
    }

    fn is_empty(&self) -> bool {
        self.totals.requests == 0 && self.before.requests == 0
    }

    fn json(self) -> Map<String, Value> {
        let minute = |(number, sums): (u64, Sums)| {
            let mut json = Map::from_iter([("t".to_owned(), (number * 60_000).into())]);
            json.extend(sums.json());
            Value::Object(json)
        };
        let series: Vec<_> = self.series.into_iter().map(minute).collect();
        Map::from_iter([
            ("totals".to_owned(), Value::Object(self.totals.json())),
            ("before".to_owned(), Value::Object(self.before.json())),
            ("series".to_owned(), series.into()),
        ])
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    requests: u64,
    errors: BTreeMap<&'static str, u64>,
    cancelled: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// For streams whose token count is known: the tokens, and the time from the first content to the end.
    streamed: (u64, Duration),
    first_content: Latencies,
    duration: Latencies,
    calls: u64,
    retries: u64,
}

impl Sums {
    fn add(&mut self, request: &FinishedRequest<'_>) {
        self.requests += 1;
        if let Some(kind) = request.error {
            *self.errors.entry(kind).or_default() += 1;
        }
        self.cancelled += u64::from(request.is_cancelled);
        self.input_tokens += request.input_tokens;
        self.output_tokens += request.output_tokens;
        if let Some(first) = request.first_content {
            self.first_content.add(first);
            if request.output_tokens > 0 {
                self.streamed.0 += request.output_tokens;
                self.streamed.1 += request.duration.saturating_sub(first);
            }
        }
        self.duration.add(request.duration);
        self.calls += request.calls;
        self.retries += request.retries;
    }

    /// Estimates the memory in bytes, in a tree whose nodes are two thirds full.
    fn bytes(&self) -> usize {
        /// A node of the tree of errors, which are of few kinds.
        const ERRORS: usize = 12 * size_of::<(&str, u64)>();
        let errors = if self.errors.is_empty() { 0 } else { ERRORS };
        let own = size_of::<(Arc<str>, Self)>() * 3 / 2;
        own + errors + self.first_content.bytes() + self.duration.bytes()
    }

    fn pack(self) -> Packed {
        let (tokens, time) = self.streamed;
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let counts = [self.requests, self.cancelled, self.input_tokens, self.output_tokens, tokens, time];
        let mut numbers = Vec::new();
        for number in counts.into_iter().chain([self.calls, self.retries]) {
            pack(&mut numbers, number);
        }
        self.first_content.pack(&mut numbers);
        self.duration.pack(&mut numbers);
        Packed { numbers: numbers.into(), errors: self.errors.into_iter().collect() }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        other.errors.iter().for_each(|(kind, count)| *self.errors.entry(kind).or_default() += count);
        self.cancelled += other.cancelled;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.streamed.0 += other.streamed.0;
        self.streamed.1 += other.streamed.1;
        self.first_content.merge(&other.first_content);
        self.duration.merge(&other.duration);
        self.calls += other.calls;
        self.retries += other.retries;
    }

    fn json(&self) -> Map<String, Value> {
        let (tokens, time) = self.streamed;
        let json = json!({
            "requests": self.requests,
            "errors": self.errors,
            "cancelled": self.cancelled,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "tokens_per_s": ratio(tokens, time),
            "ttft_ms": percentiles(&self.first_content),
            "duration_ms": percentiles(&self.duration),
            "calls": self.calls,
            "retries": self.retries,
        });
        match json {
            Value::Object(json) => json,
            _ => Map::new(),
        }
    }
}

/// The [`Sums`] of a finished minute. They take a sixth of the memory as numbers of few bytes.
#[derive(Debug)]
struct Packed {
    numbers: Box<[u8]>,
    errors: Box<[(&'static str, u64)]>,
}

impl Packed {
    fn unpack(&self) -> Sums {
        let mut numbers = &*self.numbers;
        let mut next = || unpack(&mut numbers);
        Sums {
            requests: next(),
            cancelled: next(),
            input_tokens: next(),
            output_tokens: next(),
            streamed: (next(), Duration::from_micros(next())),
            calls: next(),
            retries: next(),
            first_content: Latencies::unpack(&mut numbers),
            duration: Latencies::unpack(&mut numbers),
            errors: self.errors.iter().copied().collect(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<(Arc<str>, Self)>() + self.numbers.len() + size_of_val(&*self.errors)
    }
}

fn percentiles(times: &Latencies) -> Value {
    json!({
        "p50": times.percentile(50).map(milliseconds),
        "p95": times.percentile(95).map(milliseconds),
    })
}

/// `count` per second, rounded to two decimals. `null` if no time has passed.
fn ratio(count: u64, time: Duration) -> Value {
    if time.is_zero() {
        return Value::Null;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of two hours stay far below 2^52")]
    let ratio = count as f64 / time.as_secs_f64();
    ((ratio * 100.0).round() / 100.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn finished(model: &str, millis: u64) -> FinishedRequest<'_> {
        FinishedRequest {
            names: [Some(model), None, Some("up")],
            output_tokens: 10,
            input_tokens: 3,
            first_content: Some(Duration::from_millis(millis)),
            duration: Duration::from_millis(millis + 1000),
            ..FinishedRequest::default()
        }
    }

    #[test]
    fn window_is_compared_with_the_one_before() {
        let figures = Figures::default();
        figures.record(&finished("a", 100), NOW - 3600);
        figures.record(&finished("a", 100), NOW - 60);
        figures.record(&finished("a", 200), NOW);
        let failed = FinishedRequest { error: Some("timeout"), ..finished("b", 1) };
        figures.record(&FinishedRequest { first_content: None, ..failed }, NOW);
        let hour = figures.window(By::Model, 60, NOW);
        assert_eq!((&hour["totals"]["requests"], &hour["before"]["requests"]), (&3.into(), &1.into()));
        assert_eq!(hour["totals"]["errors"], json!({"timeout": 1}));
        let [a, b] = hour["rows"].as_array().unwrap().as_slice() else { panic!("{hour}") };
        assert_eq!((&a["name"], &a["totals"]["output_tokens"]), (&"a".into(), &20.into()));
        assert_eq!(
            (&a["totals"]["tokens_per_s"], &b["totals"]["tokens_per_s"]),
            (&10.0.into(), &Value::Null)
        );
        let series = a["series"].as_array().unwrap();
        let begins: Vec<_> = series.iter().map(|minute| minute["t"].as_u64().unwrap()).collect();
        assert_eq!(begins, [(NOW - 60) * 1000, NOW * 1000]);
        let minute = figures.window(By::Upstream, 1, NOW);
        assert_eq!((&minute["totals"]["requests"], &minute["before"]["requests"]), (&2.into(), &1.into()));
        assert_eq!(figures.window(By::Key, 60, NOW)["rows"][0]["name"], OTHER);
        assert_eq!(figures.window(By::Model, 60, NOW + 7200)["rows"], json!([]));
    }

    #[test]
    fn names_and_minutes_are_bounded() {
        let figures = Figures::default();
        for number in 0..MAX_NAMES + 10 {
            figures.record(&finished(&format!("m{number}"), 1), NOW);
        }
        let rows = figures.window(By::Model, 60, NOW)["rows"].as_array().unwrap().clone();
        assert_eq!(rows.len(), MAX_NAMES + 1);
        let other = rows.iter().find(|row| row["name"] == OTHER).unwrap();
        assert_eq!(other["totals"]["requests"], 10);
        for minute in 1..=500 {
            figures.record(&finished("later", 1), NOW + minute * 60);
        }
        let history = figures.0.lock();
        let [models, ..] = &history.groups;
        assert_eq!(models.earlier.len() as u64 + 1, 2 * MAX_WINDOW);
        assert_eq!(models.names.len(), 1, "names of the past make room for others");
        assert!(history.seconds.len() as u64 <= RECENT);
    }

    #[test]
    fn packed_sums_are_the_same_and_small() {
        let mut sums = Sums::default();
        assert_eq!(Sums::default().pack().unpack(), sums);
        for number in 0..40_u64 {
            let error = [None, Some("timeout"), Some("rate_limited")][number as usize % 3];
            sums.add(&FinishedRequest { error, calls: number, ..finished("m", 100 + number * 37) });
        }
        sums.merge(&Sums { input_tokens: u64::MAX - 1000, retries: 1 << 40, ..Sums::default() });
        let packed = sums.clone().pack();
        assert_eq!(packed.unpack(), sums);
        assert!(packed.bytes() < 260, "{}", packed.bytes());
    }

    #[test]
    fn clock_that_is_set_back_loses_nothing() {
        let figures = Figures::default();
        figures.record(&finished("a", 1), NOW);
        figures.record(&finished("a", 1), NOW - 1000);
        assert_eq!(figures.window(By::Model, 1, NOW)["totals"]["requests"], 2);
        assert_eq!(figures.now(0, NOW)["requests"], 2);
    }

    #[test]
    fn figures_of_now_are_those_of_the_last_minute() {
        let figures = Figures::default();
        figures.record(&finished("a", 1), NOW - 60);
        figures.record(&finished("a", 1), NOW - 59);
        (0..5).for_each(|_| figures.record(&finished("a", 1), NOW));
        let now = figures.now(7, NOW);
        assert_eq!(
            (&now["requests"], &now["running"], &now["requests_per_s"]),
            (&6.into(), &7.into(), &0.1.into())
        );
        assert_eq!(now["output_tokens_per_s"], 1.0);
        assert_eq!(figures.now(0, NOW + 60)["requests"], 0);
    }
}

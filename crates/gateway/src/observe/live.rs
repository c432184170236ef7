//! [`LiveStreams`]: the list of responses in progress, for inspection.
//!
//! A response updates its entry by storing numbers, so it is never delayed by readers of the list.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use strum::VariantArray;

/// Maximum number of responses in the list.
const MAX_LISTED: usize = 1000;

/// The state of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum LiveState {
    /// Before the upstream can be asked, images are being described or hosted calls of the previous turn are still
    /// running.
    Preparing,
    /// No content has arrived yet: the request is queued, or the model is working.
    Waiting,
    Streaming,
    /// Hosted tools are running between two requests to the upstream.
    Tools,
    /// Complete, but the client has not read all of it.
    Ending,
}

impl LiveState {
    fn name(self) -> &'static str {
        self.into()
    }
}

/// All responses in progress, oldest first.
#[derive(Debug, Default)]
pub struct LiveStreams(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    last: u64,
    streams: BTreeMap<u64, Arc<LiveStream>>,
}

#[derive(Debug)]
pub(crate) struct LiveStart {
    pub(crate) id: String,
    pub(crate) model: String,
    /// The client's name or the fingerprint of its key.
    pub(crate) key: Option<String>,
    pub(crate) client: &'static str,
    pub(crate) is_stream: bool,
    pub(crate) begun: Instant,
}

#[derive(Debug)]
struct LiveStream {
    start: LiveStart,
    /// The configured name of the model that answers, and the upstream's name.
    place: Mutex<(String, String)>,
    state: AtomicU8,
    hops: AtomicU64,
    tokens: AtomicU64,
    /// Microseconds from the start to the first content, or 0 before that.
    first_content: AtomicU64,
}

/// The entry of a response in progress, which is removed from the list on drop.
#[derive(Debug)]
pub(crate) struct LiveEntry {
    streams: Arc<LiveStreams>,
    number: u64,
    stream: Arc<LiveStream>,
}

impl LiveStreams {
    pub(crate) fn begin(self: &Arc<Self>, start: LiveStart) -> LiveEntry {
        let stream = Arc::new(LiveStream {
            start,
            place: Mutex::default(),
            state: AtomicU8::new(LiveState::Waiting as u8),
            hops: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            first_content: AtomicU64::new(0),
        });
        let mut open = self.0.lock();
        open.last += 1;
        let number = open.last;
        open.streams.insert(number, Arc::clone(&stream));
        drop(open);
        LiveEntry { streams: Arc::clone(self), number, stream }
    }

    /// Returns the number of responses in progress, and the oldest of them as JSON.
    pub fn list(&self) -> (usize, Vec<Value>) {
        let open = self.0.lock();
        let count = open.streams.len();
        let listed: Vec<_> = open.streams.values().take(MAX_LISTED).cloned().collect();
        drop(open);
        (count, listed.iter().map(|stream| stream.json()).collect())
    }
}

impl LiveEntry {
    /// Sets the configured name of the model that answers, and the upstream's name.
    pub(super) fn at(&self, model: &str, upstream: &str) {
        *self.stream.place() = (model.to_owned(), upstream.to_owned());
    }

    pub(super) fn hops(&self, count: usize) {
        self.stream.hops.store(count as u64, Relaxed);
    }

    pub(super) fn first_content(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX).max(1);
        self.stream.first_content.store(micros, Relaxed);
    }

    /// Sets the state, and the approximate number of tokens written by the model.
    pub(crate) fn progress(&self, state: LiveState, tokens: u64) {
        self.stream.state.store(state as u8, Relaxed);
        self.stream.tokens.store(tokens, Relaxed);
    }
}

impl Drop for LiveEntry {
    fn drop(&mut self) {
        self.streams.0.lock().streams.remove(&self.number);
    }
}

impl LiveStream {
    fn place(&self) -> MutexGuard<'_, (String, String)> {
        self.place.lock()
    }

    fn json(&self) -> Value {
        let LiveStart { id, model, key, client, is_stream, begun } = &self.start;
        let (target, upstream) = self.place().clone();
        let state = LiveState::VARIANTS.get(usize::from(self.state.load(Relaxed))).copied();
        let (age, tokens) = (begun.elapsed(), self.tokens.load(Relaxed));
        let first = Some(self.first_content.load(Relaxed)).filter(|micros| *micros > 0);
        json!({
            "id": id,
            "model": model,
            "key": key,
            "client": client,
            "stream": is_stream,
            "target": target,
            "upstream": upstream,
            "state": state.map(LiveState::name),
            "hops": self.hops.load(Relaxed),
            "tokens": tokens,
            "tokens_per_s": first.and_then(|first| rate(tokens, age.checked_sub(Duration::from_micros(first))?)),
            "ttft_ms": first.map(|micros| micros / 1000),
            "ms": u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

/// Tokens per second, with one decimal. `None` at the very start, when the rate would be meaningless.
fn rate(tokens: u64, time: Duration) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "no response has 2^52 tokens")]
    let rate = (tokens as f64 / time.as_secs_f64() * 10.0).round() / 10.0;
    (time >= Duration::from_millis(100)).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: String) -> LiveStart {
        let (model, key) = ("m".to_owned(), Some("team".to_owned()));
        LiveStart { id, model, key, client: "chat", is_stream: true, begun: Instant::now() }
    }

    #[test]
    fn response_is_listed_until_it_is_over() {
        let streams = Arc::new(LiveStreams::default());
        let entry = streams.begin(start("r".to_owned()));
        entry.at("target", "up");
        entry.hops(2);
        let json = streams.list().1.remove(0);
        assert_eq!(
            (&json["state"], &json["ttft_ms"], &json["key"]),
            (&"waiting".into(), &Value::Null, &"team".into())
        );
        assert_eq!(
            (&json["target"], &json["upstream"], &json["hops"]),
            (&"target".into(), &"up".into(), &2.into())
        );
        for &state in LiveState::VARIANTS {
            entry.progress(state, 3);
            entry.first_content(Duration::from_millis(5));
            let json = streams.list().1.remove(0);
            assert_eq!(
                (&json["state"], &json["tokens"], &json["ttft_ms"]),
                (&state.name().into(), &3.into(), &5.into())
            );
        }
        drop(entry);
        assert_eq!(streams.list(), (0, Vec::new()));
    }

    #[test]
    fn list_is_bounded() {
        let streams = Arc::new(LiveStreams::default());
        let entries: Vec<_> =
            (0..MAX_LISTED + 5).map(|number| streams.begin(start(number.to_string()))).collect();
        let (count, listed) = streams.list();
        assert_eq!((count, listed.len()), (MAX_LISTED + 5, MAX_LISTED));
        assert_eq!(listed[0]["id"], "0", "the oldest come first");
        drop(entries);
        assert_eq!(streams.list().0, 0);
    }
}

//! [`Feed`]: passes the execution stage's events to the readers of `/admin/events`.
//!
//! ```text
//! the stage's bus ─▶ collecting (a task, while somebody reads) ─▶ the last events ─▶ Reader, one for each connection
//! current figures, every second ─▲
//! ```
//!
//! All readers share the buffered events. A reader stores only the number of its next event, so a slow reader costs
//! nothing: if its next event has left the buffer, it gets a `reset` and continues with new events. The buffer also
//! serves readers that reconnect with `Last-Event-ID`.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{figures::PERIOD, sessions::random};
use toolwire_execution::{Audit, Record, Runtime, Subscription, audit::unix_millis};
use toolwire_gateway::{feed_body::FeedSource, observe::Metrics, stamp::unix_time};

/// Maximum number of buffered events.
const MAX_EVENTS: usize = 4096;

/// Maximum total size in bytes of the buffered events.
const MAX_BYTES: usize = 4 << 20;

/// Maximum number of bytes passed to a reader at once.
const MAX_PIECE: usize = 64 << 10;

/// How long events are still collected after the last reader has disconnected, in case it reconnects.
const LINGER: Duration = Duration::from_secs(30);

/// The event feed, shared by all threads.
#[derive(Debug)]
pub(super) struct Feed {
    /// Distinguishes the event ids of this process from those of other processes.
    boot: String,
    log: Mutex<FeedLog>,
}

#[derive(Debug, Default)]
struct FeedLog {
    /// The buffered events with consecutive numbers.
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The number of the last event, whether it was collected or lost.
    last: u64,
    /// The number of the last event on the bus. `None` if collecting has just started.
    on_bus: Option<u64>,
    readers: usize,
    /// Number of readers opened so far, which is also the id of the next reader.
    begun: u64,
    /// How many times all readers were closed.
    endings: u64,
    is_collecting: bool,
    /// The wakers of waiting readers, by reader id. A map, so that a reader is found quickly even among thousands.
    waiting: HashMap<u64, Waker>,
}

impl Default for Feed {
    fn default() -> Self {
        let boot = random().unwrap_or_default().chars().take(8).collect();
        Self { boot, log: Mutex::default() }
    }
}

impl Feed {
    /// Opens a reader for the events after `last`, the client's `Last-Event-ID`. Without `last`, the reader gets only
    /// new events.
    pub(super) fn open(
        self: &Arc<Self>,
        bus: Option<(&Audit, &Runtime, &Arc<Metrics>)>,
        last: Option<&HeaderValue>,
    ) -> Reader {
        let mut log = self.log.lock();
        log.readers += 1;
        log.begun += 1;
        if let (Some((audit, runtime, metrics)), false) = (bus, log.is_collecting) {
            log.is_collecting = true;
            // Events were not collected until now.
            log.lose();
            log.on_bus = None;
            runtime.spawn(collect(Arc::clone(self), audit.subscribe(), Arc::clone(metrics)));
        }
        let (next, reset) = match last {
            None => (None, None),
            Some(last) => self.resumed(&log, last),
        };
        let next = next.unwrap_or(log.last + 1);
        Reader { feed: Arc::clone(self), number: log.begun, next, reset, endings: log.endings }
    }

    /// Closes all readers, since their keys may no longer be valid.
    pub(super) fn end_readers(&self) {
        let mut log = self.log.lock();
        log.endings += 1;
        log.wake();
    }

    /// Wraps another event source so that it ends together with the feed's readers.
    pub(super) fn ending<S: FeedSource>(self: &Arc<Self>, source: S) -> Ending<S> {
        Ending { feed: Arc::clone(self), endings: self.log.lock().endings, source }
    }

    /// Returns the number of the next event for a reader that reconnects, or the reason why it missed events.
    fn resumed(&self, log: &FeedLog, last: &HeaderValue) -> (Option<u64>, Option<&'static str>) {
        let id = last.to_str().ok().and_then(|last| last.split_once('-'));
        let Some((boot, number)) = id else { return (None, Some("unknown_id")) };
        if boot != self.boot {
            return (None, Some("restarted"));
        }
        match number.parse::<u64>() {
            Ok(number) if number == log.last => (Some(number + 1), None),
            Ok(number) if number > log.last => (None, Some("unknown_id")),
            Ok(number) if log.has(number + 1) => (Some(number + 1), None),
            Ok(_) => (None, Some("expired")),
            Err(_) => (None, Some("unknown_id")),
        }
    }

    fn publish(&self, record: &Record) {
        let data = record.json();
        let mut log = self.log.lock();
        if log.on_bus.is_some_and(|last| record.sequence != last + 1) {
            log.lose();
        }
        log.on_bus = Some(record.sequence);
        self.keep(&mut log, record.event.name(), &data);
    }

    /// Publishes the current figures, which are not on the bus, if there are readers.
    fn publish_figures(&self, metrics: &Metrics) {
        if self.log.lock().readers == 0 {
            return;
        }
        let mut figures = metrics.figures_of_now(unix_time());
        if let Value::Object(figures) = &mut figures {
            figures.insert("t".to_owned(), unix_millis().into());
        }
        self.keep(&mut self.log.lock(), "metrics", &figures.to_string());
    }

    fn keep(&self, log: &mut FeedLog, name: &str, data: &str) {
        let number = log.last + 1;
        let id = format!("{}-{number}", self.boot);
        let event = format!("id: {id}\nevent: {name}\ndata: {data}\n\n");
        log.last = number;
        log.bytes += event.len();
        log.events.push_back((number, event.into()));
        while log.events.len() > MAX_EVENTS || log.bytes > MAX_BYTES {
            let dropped = log.events.pop_front().map_or(0, |(_, event)| event.len());
            log.bytes -= dropped;
        }
        log.wake();
    }
}

impl FeedLog {
    /// Whether event `number` is still in the buffer.
    fn has(&self, number: u64) -> bool {
        self.events.front().is_some_and(|(first, _)| *first <= number)
    }

    /// Marks a gap: empties the buffer, so that readers before the gap get a `reset`.
    fn lose(&mut self) {
        self.events.clear();
        self.bytes = 0;
        self.last += 1;
    }

    fn wake(&mut self) {
        self.waiting.drain().for_each(|(_, waiting)| waiting.wake());
    }
}

/// Collects events from the bus until there have been no readers for [`LINGER`].
async fn collect(feed: Arc<Feed>, mut bus: Subscription, metrics: Arc<Metrics>) {
    let mut last_read = Instant::now();
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            received = bus.recv() => match received {
                Ok(record) => feed.publish(&record),
                // The gap will show in the number of the next event.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            },
            _ = tick.tick() => feed.publish_figures(&metrics),
        }
        let mut log = feed.log.lock();
        let now = Instant::now();
        if log.readers > 0 {
            last_read = now;
        } else if now >= last_read + LINGER {
            log.is_collecting = false;
            break;
        }
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    feed: Arc<Feed>,
    number: u64,
    next: u64,
    /// Why the reader missed events. `None` once the reader has been notified.
    reset: Option<&'static str>,
    /// The value of `FeedLog::endings` when the reader was opened.
    endings: u64,
}

impl FeedSource for Reader {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut log = self.feed.log.lock();
        if log.endings != self.endings {
            return Poll::Ready(None);
        }
        let next = self.next;
        if next <= log.last && !log.has(next) {
            self.reset = Some("too_slow");
        }
        if let Some(reason) = self.reset.take() {
            self.next = log.last + 1;
            let id = format!("{}-{}", self.feed.boot, log.last);
            let data = json!({"reason": reason});
            return Poll::Ready(Some(format!("id: {id}\nevent: reset\ndata: {data}\n\n").into()));
        }
        if next > log.last {
            log.waiting.insert(self.number, cx.waker().clone());
            return Poll::Pending;
        }
        let mut piece = Vec::new();
        let first = log.events.front().map_or(next, |(first, _)| *first);
        let skipped = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        for (number, event) in log.events.iter().skip(skipped) {
            if !piece.is_empty() && piece.len() + event.len() > MAX_PIECE {
                break;
            }
            piece.extend_from_slice(event);
            self.next = number + 1;
        }
        Poll::Ready(Some(piece.into()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut log = self.feed.log.lock();
        log.readers -= 1;
        log.waiting.remove(&self.number);
    }
}

/// An event source that ends together with the feed's readers; see [`Feed::ending`].
#[derive(Debug)]
pub(super) struct Ending<S> {
    feed: Arc<Feed>,
    /// The value of `FeedLog::endings` when the source was wrapped.
    endings: u64,
    source: S,
}

impl<S: FeedSource> FeedSource for Ending<S> {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.feed.log.lock().endings != self.endings {
            return Poll::Ready(None);
        }
        self.source.poll_events(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;
    use toolwire_execution::AuditEvent;

    fn record(sequence: u64) -> Record {
        let event = AuditEvent::RegistryChanged { tools: vec![format!("tool_{sequence}")] };
        Record { sequence, t: 1, subject: None, event }
    }

    fn read(reader: &mut Reader) -> Option<String> {
        match reader.poll_events(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => piece.map(|piece| String::from_utf8(piece.to_vec()).unwrap()),
            Poll::Pending => None,
        }
    }

    fn id(feed: &Feed, number: u64) -> HeaderValue {
        HeaderValue::try_from(format!("{}-{number}", feed.boot)).unwrap()
    }

    #[test]
    fn reader_gets_new_events_in_order_once() {
        let feed = Arc::new(Feed::default());
        feed.publish(&record(1));
        let mut reader = feed.open(None, None);
        assert_eq!(read(&mut reader), None);
        feed.publish(&record(2));
        feed.publish(&record(3));
        let events = read(&mut reader).unwrap();
        assert_eq!(events.matches("event: registry_changed\n").count(), 2, "{events}");
        assert!(events.starts_with(&format!("id: {}-2\n", feed.boot)), "{events}");
        assert_eq!(read(&mut reader), None);
    }

    #[test]
    fn reader_that_comes_back_gets_what_it_missed() {
        let feed = Arc::new(Feed::default());
        (1..=5).for_each(|number| feed.publish(&record(number)));
        let mut reader = feed.open(None, Some(&id(&feed, 3)));
        let events = read(&mut reader).unwrap();
        assert!(
            events.contains("tool_4") && events.contains("tool_5") && !events.contains("tool_3"),
            "{events}"
        );
        assert_eq!(read(&mut feed.open(None, Some(&id(&feed, 5)))), None);
        assert!(read(&mut feed.open(None, Some(&id(&feed, 0)))).unwrap().contains("tool_1"));
    }

    #[test]
    fn unknown_and_foreign_ids_are_reset() {
        let feed = Arc::new(Feed::default());
        (1..=5).for_each(|number| feed.publish(&record(number)));
        for (last, reason) in [
            (id(&feed, 6), "unknown_id"),
            (id(&feed, u64::MAX), "unknown_id"),
            (HeaderValue::from_static("other-1"), "restarted"),
            (HeaderValue::from_static("7"), "unknown_id"),
            (HeaderValue::from_static(""), "unknown_id"),
        ] {
            let mut reader = feed.open(None, Some(&last));
            let reset = read(&mut reader).unwrap();
            assert!(reset.contains("event: reset\n") && reset.contains(reason), "{last:?}: {reset}");
            assert_eq!(read(&mut reader), None, "it goes on with new events");
        }
    }

    #[test]
    fn slow_reader_is_reset_and_memory_is_bounded() {
        let feed = Arc::new(Feed::default());
        let mut reader = feed.open(None, None);
        assert_eq!(read(&mut reader), None);
        (1..=MAX_EVENTS as u64 + 10).for_each(|number| feed.publish(&record(number)));
        assert_eq!(feed.log.lock().events.len(), MAX_EVENTS);
        assert!(read(&mut reader).unwrap().contains("too_slow"));
        assert_eq!(read(&mut reader), None);
        assert!(read(&mut feed.open(None, Some(&id(&feed, 1)))).unwrap().contains("expired"));
    }

    #[test]
    fn readers_end_when_they_are_told_to_and_new_ones_go_on() {
        let feed = Arc::new(Feed::default());
        let mut reader = feed.open(None, None);
        feed.publish(&record(1));
        feed.end_readers();
        let polled = reader.poll_events(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(None)));
        let mut reader = feed.open(None, None);
        feed.publish(&record(2));
        assert!(read(&mut reader).unwrap().contains("tool_2"));
    }

    #[test]
    fn large_events_that_nobody_reads_stay_bounded() {
        let feed = Arc::new(Feed::default());
        let mut reader = feed.open(None, None);
        assert_eq!(read(&mut reader), None);
        for sequence in 1..=10_000 {
            let content = Some("x".repeat(4 << 10));
            let event = AuditEvent::MessageComplete {
                content,
                finish: "stop".to_owned(),
                usage: serde_json::Value::Null,
                millis: 1,
                first_byte_millis: None,
            };
            feed.publish(&Record { sequence, t: 1, subject: None, event });
            let log = feed.log.lock();
            assert!(log.bytes <= MAX_BYTES && log.events.len() <= MAX_EVENTS);
            assert_eq!(log.bytes, log.events.iter().map(|(_, event)| event.len()).sum::<usize>());
        }
        assert!(read(&mut reader).unwrap().contains("too_slow"));
    }

    #[test]
    fn gap_in_the_numbers_is_a_reset() {
        let feed = Arc::new(Feed::default());
        let mut reader = feed.open(None, None);
        feed.publish(&record(1));
        read(&mut reader).unwrap();
        feed.publish(&record(9));
        assert!(read(&mut reader).unwrap().contains("event: reset\n"));
        feed.publish(&record(10));
        assert!(read(&mut reader).unwrap().contains("tool_10"));
    }
}

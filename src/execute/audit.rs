//! [`Audit`]: what happens in the stage, on one bus.
//!
//! ```text
//! publish ─▶ the observer (metrics), at once
//!         ├▶ a log line for each call that has ended
//!         ├▶ the audit file, written by a task
//!         └▶ live subscribers (the event feed)
//! ```
//!
//! Contents of messages, arguments and results are in an event only while they are captured, and then with their secrets covered.
//! Without subscribers, an event costs what building it costs; events of single tokens are not built unless
//! [`Audit::is_watched`].

mod event;
mod file;

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

pub(crate) use self::{
    event::{AuditEvent, CallRecord, Record, Subject},
    file::write as write_file,
};
use crate::{redact::Redactor, wire::text::boundary_upto};

/// Events that a slow live subscriber may be behind. Beyond, it loses the oldest.
const LIVE: usize = 1024;

/// Events that may wait to be written to the audit file. Beyond, they are dropped and counted.
const FILED: usize = 4096;

/// Bytes of a captured content.
const MAX_CONTENT: usize = 64 << 10;

/// Sees every event at once, on the thread where it happened.
pub(crate) type Observer = Box<dyn Fn(&Record) + Send + Sync>;

/// The bus.
pub(crate) struct Audit {
    live: broadcast::Sender<Arc<Record>>,
    /// The number of the next event. The lock keeps the events of all threads in the order of their numbers.
    next: Mutex<u64>,
    observer: Option<Observer>,
    file: OnceLock<mpsc::Sender<Arc<Record>>>,
    /// Events that found no room in the queue of the file.
    lost: AtomicU64,
    is_captured: AtomicBool,
    redactor: Arc<Redactor>,
}

impl Audit {
    /// A bus without subscribers. `redactor` knows the configured secrets.
    pub(crate) fn new(redactor: Arc<Redactor>, observer: Option<Observer>) -> Self {
        Self {
            live: broadcast::Sender::new(LIVE),
            next: Mutex::new(1),
            observer,
            file: OnceLock::new(),
            lost: AtomicU64::new(0),
            is_captured: AtomicBool::new(false),
            redactor,
        }
    }

    /// Publishes an event. `subject`: the exchange and hop that it belongs to, if any.
    pub(crate) fn publish(&self, subject: Option<&Subject>, event: AuditEvent) {
        let is_filed = self.file.get().is_some() && event.is_filed();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let record = Record { sequence: *next, t: unix_millis(), subject: subject.cloned(), event };
        *next += 1;
        if let Some(observer) = &self.observer {
            observer(&record);
        }
        record.log();
        if !is_filed && !self.is_watched() {
            return;
        }
        let record = Arc::new(record);
        if let (Some(file), true) = (self.file.get(), is_filed)
            && file.try_send(Arc::clone(&record)).is_err()
        {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            if lost.is_power_of_two() {
                tracing::warn!(lost, "events are missing in the audit file");
            }
        }
        // An error means that the last subscriber has left.
        let _ = self.live.send(record);
    }

    /// All events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<Record>> {
        self.live.subscribe()
    }

    /// Whether there are live subscribers.
    pub(crate) fn is_watched(&self) -> bool {
        self.live.receiver_count() > 0
    }

    /// The events for the audit file. `None` if somebody has them already.
    pub(crate) fn filed(&self) -> Option<mpsc::Receiver<Arc<Record>>> {
        let (sender, receiver) = mpsc::channel(FILED);
        self.file.set(sender).ok().map(|()| receiver)
    }

    /// Whether contents are captured from now on.
    pub(crate) fn capture(&self, is_captured: bool) {
        self.is_captured.store(is_captured, Ordering::Relaxed);
    }

    /// `text` as an event may contain it: its beginning, with secrets covered. `None` unless contents are captured.
    pub(crate) fn content(&self, text: &str) -> Option<String> {
        let is_wanted =
            self.is_captured.load(Ordering::Relaxed) && (self.is_watched() || self.file.get().is_some());
        is_wanted.then(|| {
            // Cut afterwards: part of a secret would not be recognised.
            let mut text = self.redacted(text);
            text.truncate(boundary_upto(&text, MAX_CONTENT));
            text
        })
    }

    /// `json` as an event may contain it: as JSON where that is still possible. `None` unless contents are captured.
    pub(crate) fn json(&self, json: &str) -> Option<Value> {
        let text = self.content(json)?;
        Some(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// `text` with its secrets covered.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("subscribers", &self.live.receiver_count()).finish_non_exhaustive()
    }
}

/// Milliseconds of Unix time.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::ErrorCode;

    fn audit(secret: &str) -> Audit {
        Audit::new(Arc::new(Redactor::new([secret])), None)
    }

    fn subject() -> Subject {
        Subject { exchange: "ex_1".into(), hop: 2 }
    }

    #[test]
    fn events_have_the_names_and_fields_of_the_feed() {
        let audit = audit("secret-word");
        let mut live = audit.subscribe();
        let call = CallRecord::new("call_1", "web_search", "{\"query\":\"x\"}", None);
        audit
            .publish(Some(&subject()), AuditEvent::ToolUse { call: call.clone(), provider: "serper".into() });
        audit.publish(
            Some(&subject()),
            AuditEvent::ToolResult {
                call,
                provider: Some("serper".into()),
                result: None,
                code: Some(ErrorCode::Timeout),
                millis: 30_000,
                is_cached: false,
            },
        );
        let used = live.try_recv().unwrap();
        assert_eq!((used.sequence, used.event.name()), (1, "tool_use"));
        let data = Value::Object(used.data());
        assert_eq!(data["exchange"], "ex_1");
        assert_eq!(data["hop"], 2);
        assert_eq!(data["toolCall"]["name"], "web_search");
        assert_eq!(data["toolCall"]["input_bytes"], 13);
        assert_eq!(data["toolCall"].get("input"), None);
        let result = Value::Object(live.try_recv().unwrap().data());
        assert_eq!(
            (&result["ok"], &result["code"], &result["ms"]),
            (&false.into(), &"timeout".into(), &30_000.into())
        );
    }

    #[test]
    fn contents_are_captured_only_on_demand_and_without_secrets() {
        let audit = audit("secret-word");
        assert_eq!(audit.content("a secret-word"), None);
        audit.capture(true);
        assert_eq!(audit.content("a secret-word"), None, "nobody listens");
        let _live = audit.subscribe();
        assert_eq!(audit.content("a secret-word").as_deref(), Some("a xxxxxxxxxxx"));
        assert_eq!(audit.json("{\"q\":\"secret-word\"}").unwrap()["q"], "xxxxxxxxxxx");
        assert_eq!(audit.content(&"é".repeat(MAX_CONTENT)).map(|text| text.len()), Some(MAX_CONTENT));
        audit.capture(false);
        assert_eq!(audit.content("text"), None);
    }

    #[test]
    fn observer_sees_every_event_also_without_subscribers() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let names = Arc::clone(&seen);
        let observer: Observer = Box::new(move |record| names.lock().unwrap().push(record.event.name()));
        let audit = Audit::new(Arc::new(Redactor::new([])), Some(observer));
        audit.publish(None, AuditEvent::RegistryChanged { tools: Vec::new() });
        assert!(!audit.is_watched());
        assert_eq!(*seen.lock().unwrap(), ["registry_changed"]);
    }

    #[test]
    fn numbers_of_events_have_the_order_of_the_feed_on_all_threads() {
        let audit = audit("secret-word");
        let mut live = audit.subscribe();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        audit.publish(None, AuditEvent::RegistryChanged { tools: Vec::new() });
                    }
                });
            }
        });
        let numbers: Vec<_> =
            std::iter::from_fn(|| live.try_recv().ok()).map(|record| record.sequence).collect();
        assert_eq!(numbers, (1..=400).collect::<Vec<u64>>());
    }
}

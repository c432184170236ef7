//! [`Audit`]: distributes the events of exchanges and of the execution stage.
//!
//! ```text
//! publish ─▶ the observer (metrics), at once
//!         ├▶ a log line for each finished call
//!         ├▶ the audit file, written by a separate thread
//!         └▶ live subscribers (the event feed)
//! ```
//!
//! Messages, arguments and results are included only while contents are captured, and with secrets redacted. Events
//! about messages and hops are created only while [someone receives them](Audit::is_heard), and events with a message's
//! text only while there are [live subscribers](Audit::is_watched).

mod event;
mod file;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

pub use self::event::{AuditEvent, CallRecord, ExchangeId, Record, Subject};
use self::file::AuditFile;
use toolwire_net::redact::Redactor;
use toolwire_pipeline::wire::text::boundary_upto;

/// Maximum number of events that a live subscriber may lag behind. Beyond that, it loses the oldest ones.
const LIVE: usize = 1024;

/// In bytes.
pub const MAX_CONTENT: usize = 64 << 10;

/// Called with every event, immediately and on the thread that published it.
pub type Observer = Box<dyn Fn(&Record) + Send + Sync>;

/// Distributes events.
pub struct Audit {
    live: broadcast::Sender<Arc<Record>>,
    watchers: Arc<AtomicUsize>,
    order: Mutex<Order>,
    observer: Option<Observer>,
    is_filed: AtomicBool,
    lost: Arc<AtomicU64>,
    is_captured: AtomicBool,
    redactor: RwLock<Arc<Redactor>>,
}

/// Keeps events in order: it is locked while an event is numbered and passed on.
#[derive(Debug)]
struct Order {
    next: u64,
    file: Option<(PathBuf, AuditFile)>,
}

/// A live subscription to all events published after its creation.
#[derive(Debug)]
pub struct Subscription {
    live: broadcast::Receiver<Arc<Record>>,
    watchers: Arc<AtomicUsize>,
}

impl Subscription {
    /// Waits for the next event.
    ///
    /// # Errors
    /// The subscriber has lost events because it was too slow, or the [`Audit`] no longer exists.
    pub async fn recv(&mut self) -> Result<Arc<Record>, RecvError> {
        self.live.recv().await
    }

    /// Returns the next event without waiting.
    ///
    /// # Errors
    /// No event is available; see also [`Subscription::recv`].
    pub fn try_recv(&mut self) -> Result<Arc<Record>, TryRecvError> {
        self.live.try_recv()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Audit {
    /// Creates an [`Audit`] without subscribers. `redactor` masks the configured secrets.
    pub fn new(redactor: Arc<Redactor>, observer: Option<Observer>) -> Self {
        Self {
            live: broadcast::Sender::new(LIVE),
            watchers: Arc::default(),
            order: Mutex::new(Order { next: 1, file: None }),
            observer,
            is_filed: AtomicBool::new(false),
            lost: Arc::default(),
            is_captured: AtomicBool::new(false),
            redactor: RwLock::new(redactor),
        }
    }

    /// Publishes an event. `subject` is the exchange and hop that it belongs to, if any.
    pub fn publish(&self, subject: Option<&Subject>, event: AuditEvent) {
        let t = unix_millis();
        let mut record = Arc::new(Record { sequence: 0, t, subject: subject.cloned(), event });
        let mut is_lost = false;
        {
            let mut order = self.order.lock();
            // The record is not shared yet, so this succeeds.
            if let Some(record) = Arc::get_mut(&mut record) {
                record.sequence = order.next;
            }
            order.next += 1;
            if let Some((_, file)) = order.file.as_ref().filter(|_| record.event.is_filed()) {
                is_lost = !file.take(Arc::clone(&record));
            }
            if self.is_watched() {
                // An error means that there are no subscribers left.
                let _ = self.live.send(Arc::clone(&record));
            }
        }
        if is_lost && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("the audit file is written too slowly; events are missing in it");
        }
        if let Some(observer) = &self.observer {
            observer(&record);
        }
        record.log();
    }

    pub fn subscribe(&self) -> Subscription {
        let live = self.live.subscribe();
        self.watchers.fetch_add(1, Ordering::Relaxed);
        Subscription { live, watchers: Arc::clone(&self.watchers) }
    }

    pub fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Whether there are live subscribers or an audit file.
    pub fn is_heard(&self) -> bool {
        self.is_watched() || self.is_filed.load(Ordering::Relaxed)
    }

    /// Appends all further events to the file at `path`, as JSON lines. Closes the previous file. `None` stops writing.
    pub(crate) fn write_to(&self, path: Option<&Path>) {
        if self.order.lock().file.as_ref().map(|(path, _)| path.as_path()) == path {
            return;
        }
        self.close_file();
        let Some(path) = path else { return };
        match AuditFile::start(path.to_owned(), Arc::clone(&self.lost)) {
            Ok(file) => {
                self.order.lock().file = Some((path.to_owned(), file));
                self.is_filed.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the thread of the audit file cannot be started");
            }
        }
    }

    /// Writes all queued events to the file and closes it. Waits only for a limited time.
    pub fn close_file(&self) {
        self.is_filed.store(false, Ordering::Relaxed);
        let file = self.order.lock().file.take();
        if let Some((_, file)) = file {
            file.close();
        }
    }

    /// Replaces the redactor when the configured secrets have changed.
    pub fn know_secrets(&self, redactor: &Arc<Redactor>) {
        *self.redactor.write() = Arc::clone(redactor);
    }

    pub(crate) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor.read())
    }

    /// Sets whether events include contents.
    pub fn capture(&self, is_captured: bool) {
        self.is_captured.store(is_captured, Ordering::Relaxed);
    }

    pub fn is_captured(&self) -> bool {
        self.is_captured.load(Ordering::Relaxed)
    }

    /// Returns the start of `text` for an event, with secrets redacted. `None` if contents are not captured.
    pub fn content(&self, text: &str) -> Option<String> {
        (self.is_captured() && self.is_heard()).then(|| {
            // Redaction comes first, because it would not recognize a truncated secret.
            let mut text = self.redacted(text);
            text.truncate(boundary_upto(&text, MAX_CONTENT));
            text
        })
    }

    /// Returns `json` for an event, parsed if it is still valid after redaction. `None` if contents are not captured.
    pub(crate) fn json(&self, json: &str) -> Option<Value> {
        let text = self.content(json)?;
        Some(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Returns a result's details for an event. `None` if there are none or if contents are not captured.
    pub(crate) fn details(&self, details: &Value) -> Option<Value> {
        if details.is_null() || !self.is_captured() {
            return None;
        }
        self.json(&details.to_string())
    }

    pub fn redacted(&self, text: &str) -> String {
        self.redactor().text(text).into_owned()
    }

    /// The length of the longest configured secret, in bytes.
    pub fn longest_secret(&self) -> usize {
        self.redactor().longest()
    }
}

toolwire_pipeline::wire::debug_fields!(Audit { watchers });

pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub fn unix_time() -> u64 {
    unix_millis() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorCode,
        question::{By, Question, Settled, Shown},
        rules::Asked,
    };

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
        audit.publish(
            Some(&subject()),
            AuditEvent::ToolUse { call: call.clone(), provider: "serper".into(), progress: None },
        );
        audit.publish(
            Some(&subject()),
            AuditEvent::ToolResult {
                call,
                provider: Some("serper".into()),
                result: None,
                details: None,
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

    /// Iterates over all kinds of events. `None` starts the iteration and ends it.
    fn next(event: Option<&AuditEvent>) -> Option<AuditEvent> {
        let call = || CallRecord::new("call_1", "web_search", "{}", None);
        let asked =
            Asked { key: None, client: None, model: "m", tool: "web_search", aliases: &[], domain: None };
        let shown = Shown { label: "Web Search", params: "{}", definition: &String::new };
        let question = || Question::new(&asked, shown, None, tokio::time::Instant::now());
        let text = String::new;
        Some(match event {
            None => AuditEvent::MessageStart {
                model: text(),
                key: None,
                client: "chat",
                upstream: text(),
                tools: Vec::new(),
            },
            Some(AuditEvent::MessageStart { .. }) => {
                AuditEvent::HopStart { upstream: text(), model: text(), purpose: None }
            }
            Some(AuditEvent::HopStart { .. }) => {
                AuditEvent::MessageUpdate { content: None, bytes: 1, tokens: 1, held: 0 }
            }
            Some(AuditEvent::MessageUpdate { .. }) => {
                AuditEvent::HopEnd { finish: text(), usage: Value::Null, millis: 1, purpose: None }
            }
            Some(AuditEvent::HopEnd { .. }) => AuditEvent::PermissionRequest(question()),
            Some(AuditEvent::PermissionRequest(question)) => AuditEvent::PermissionResult(Settled {
                request_id: question.id.clone(),
                tool: Arc::clone(&question.tool),
                granted: true,
                by: By::Rule,
                subject: None,
                is_input: false,
            }),
            Some(AuditEvent::PermissionResult(_)) => {
                AuditEvent::ToolUse { call: call(), provider: "p".into(), progress: None }
            }
            Some(AuditEvent::ToolUse { .. }) => AuditEvent::ToolProgress {
                call: call(),
                provider: "p".into(),
                line: None,
                done: 1.0,
                total: None,
            },
            Some(AuditEvent::ToolProgress { .. }) => AuditEvent::CacheHit { call: call() },
            Some(AuditEvent::CacheHit { .. }) => {
                AuditEvent::Retry { call: call(), attempt: 2, delay_millis: 1, code: ErrorCode::Timeout }
            }
            Some(AuditEvent::Retry { .. }) => AuditEvent::ToolResult {
                call: call(),
                provider: None,
                result: None,
                details: None,
                code: None,
                millis: 1,
                is_cached: true,
            },
            Some(AuditEvent::ToolResult { .. }) => AuditEvent::MessageComplete {
                content: None,
                finish: text(),
                usage: Value::Null,
                millis: 1,
                first_byte_millis: None,
            },
            Some(AuditEvent::MessageComplete { .. }) => AuditEvent::CallMissed { format: "react", calls: 1 },
            Some(AuditEvent::CallMissed { .. }) => {
                AuditEvent::Error { code: text(), message: text(), is_retryable: false }
            }
            Some(AuditEvent::Error { .. }) => AuditEvent::RegistryChanged { tools: Vec::new() },
            Some(AuditEvent::RegistryChanged { .. }) => {
                AuditEvent::ConfigLoaded { ok: true, errors: Vec::new() }
            }
            Some(AuditEvent::ConfigLoaded { .. }) => {
                AuditEvent::ProviderStatus { name: "p".into(), state: "ready", since: 1, tools: 1 }
            }
            Some(AuditEvent::ProviderStatus { .. }) => AuditEvent::InputRequest(question()),
            Some(AuditEvent::InputRequest(question)) => AuditEvent::InputResult(Settled {
                request_id: question.id.clone(),
                tool: Arc::clone(&question.tool),
                granted: true,
                by: By::Timeout,
                subject: None,
                is_input: true,
            }),
            Some(AuditEvent::InputResult(_)) => return None,
        })
    }

    #[test]
    fn every_kind_of_event_reaches_the_file_but_updates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = audit("secret-word");
        audit.write_to(Some(&path));
        let events: Vec<_> = std::iter::successors(next(None), |event| next(Some(event))).collect();
        let mut expected: Vec<_> = events.iter().map(AuditEvent::name).collect();
        expected.retain(|name| !["message_update", "tool_progress"].contains(name));
        events.into_iter().for_each(|event| audit.publish(Some(&subject()), event));
        audit.close_file();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        assert!(lines.iter().all(|line| line["exchange"] == "ex_1" && line["hop"] == 2), "{lines:?}");
        let hop = lines.iter().find(|line| line["event"] == "hop_end").unwrap();
        assert_eq!(hop["id"], "ex_1:hop2");
    }

    #[test]
    fn exchanges_whose_events_nobody_reads_stay_bounded() {
        let audit = audit("secret-word");
        let mut live = audit.subscribe();
        let events = || std::iter::successors(next(None), |event| next(Some(event)));
        for _ in 0..10_000 {
            events().for_each(|event| audit.publish(Some(&subject()), event));
        }
        let published = 10_000 * events().count();
        let Err(TryRecvError::Lagged(lost)) = live.try_recv() else { panic!("events are missing") };
        let kept = std::iter::from_fn(|| live.try_recv().ok()).count();
        assert!(kept <= LIVE.next_power_of_two(), "{kept} events are kept");
        assert_eq!(usize::try_from(lost).unwrap() + kept, published);
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
        let observer: Observer = Box::new(move |record| names.lock().push(record.event.name()));
        let audit = Audit::new(Arc::new(Redactor::new([])), Some(observer));
        audit.publish(None, AuditEvent::RegistryChanged { tools: Vec::new() });
        assert!(!audit.is_watched() && !audit.is_heard());
        assert_eq!(*seen.lock(), ["registry_changed"]);
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

//! [`ExchangeLog`]: the most recent exchanges, for inspection through the admin API.
//!
//! ```text
//! Observation (a response) ─────┐
//!                               ├▶ ExchangeRecord ─▶ rows of /admin/exchanges
//! hosted calls (the bus) ───────┘
//! ```
//!
//! A record is updated when its exchange changes state: when a hop or a hosted call starts or ends, at the first
//! content, and at the end. Both the size of a record and the number of records are bounded; new records replace the
//! oldest.

mod capture;
mod held_request;
mod observation;
mod query;
mod record;
mod rewrite;
mod sent;
mod trace;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use self::capture::{Capture, MAX_ALL};
pub(super) use self::{
    capture::NoFixture,
    observation::Observation,
    query::Query,
    record::ExchangeRecord,
    trace::{TraceFeed, Traced},
};
use super::analysis;
use parking_lot::Mutex;
use toolwire_execution::{AuditEvent, Record, audit::unix_millis};
use toolwire_gateway::{
    exchange_observer::ExchangeBegin,
    tap::{Opening, Watch},
};
use toolwire_net::redact::Redactor;

/// The most recent exchanges. All threads and successive configurations share one log.
#[derive(Debug)]
pub(super) struct ExchangeLog {
    /// Maximum number of exchanges. 0 without an admin API, or if exchanges are switched off.
    max: AtomicUsize,
    /// When this log was created, as Unix time in milliseconds.
    since: u64,
    /// Number of bytes stored by all captures.
    captured: Arc<AtomicUsize>,
    index: Mutex<RecordIndex>,
}

#[derive(Debug, Default)]
struct RecordIndex {
    /// Oldest first.
    records: VecDeque<Arc<ExchangeRecord>>,
    by_id: HashMap<Arc<str>, Arc<ExchangeRecord>>,
}

/// A list of exchanges, newest first.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) records: Vec<Arc<ExchangeRecord>>,
    /// Number of exchanges in the log, including those not listed.
    pub(super) kept: usize,
}

impl ExchangeLog {
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.into(), since: unix_millis(), captured: Arc::default(), index: Mutex::default() }
    }

    /// Changes the maximum number of exchanges.
    pub(super) fn keep(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
        self.index.lock().drop_beyond(max);
    }

    pub(super) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Adds an exchange when it starts, or updates its record when it restarts with another model. `None` if the log is
    /// switched off.
    pub(super) fn begin(&self, begin: &ExchangeBegin<'_>) -> Option<Arc<ExchangeRecord>> {
        let max = self.max();
        if max == 0 {
            return None;
        }
        let mut index = self.index.lock();
        if let Some(record) = index.by_id.get(&begin.exchange.own) {
            let record = Arc::clone(record);
            drop(index);
            record.begin_again(begin);
            return Some(record);
        }
        let record = Arc::new(ExchangeRecord::new(begin));
        index.by_id.insert(Arc::clone(&begin.exchange.own), Arc::clone(&record));
        index.records.push_back(Arc::clone(&record));
        index.drop_beyond(max);
        Some(record)
    }

    /// Starts to capture the contents of an exchange.
    pub(super) fn capture(
        self: &Arc<Self>,
        record: &ExchangeRecord,
        opening: &Opening<'_>,
        redactor: &Redactor,
    ) -> Box<dyn Watch> {
        let (capture, watch) = Capture::begin(self, &self.captured, opening, redactor);
        record.set_capture(capture);
        self.make_room();
        Box::new(watch)
    }

    /// Drops the contents of the oldest exchanges if the captures take too much memory.
    fn make_room(&self) {
        let is_below = |max: usize| self.captured.load(Ordering::Relaxed) <= max;
        if is_below(MAX_ALL) {
            return;
        }
        for record in &self.index.lock().records {
            record.drop_capture();
            // Frees more than necessary, so that the next pieces fit without dropping anything.
            if is_below(MAX_ALL / 4 * 3) {
                break;
            }
        }
    }

    /// The number of bytes stored by all captures, at most [`MAX_ALL`].
    pub(super) fn captured_bytes(&self) -> usize {
        self.captured.load(Ordering::Relaxed)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<ExchangeRecord>> {
        self.index.lock().by_id.get(id).map(Arc::clone)
    }

    /// Lists exchanges, newest first: all of them, or those that began before the exchange `before`. The list is empty
    /// if that exchange is no longer in the log.
    pub(super) fn list(&self, before: Option<&str>) -> Listed {
        let index = self.index.lock();
        let newest_first = index.records.iter().rev();
        let records = match before {
            None => newest_first.map(Arc::clone).collect(),
            Some(id) => newest_first.skip_while(|record| record.id() != id).skip(1).map(Arc::clone).collect(),
        };
        Listed { records, kept: index.records.len() }
    }

    /// Records the start or the result of a hosted call.
    pub(super) fn observe(&self, record: &Record) {
        let is_call = matches!(
            record.event,
            AuditEvent::ToolUse { .. } | AuditEvent::ToolResult { .. } | AuditEvent::CallMissed { .. }
        );
        let Some(subject) = record.subject.as_ref().filter(|_| is_call && self.max() > 0) else { return };
        let Some(exchange) = self.find(&subject.exchange.own) else { return };
        match &record.event {
            AuditEvent::ToolUse { call, .. } => exchange.hosted_began(call, subject.hop),
            AuditEvent::ToolResult { call, code, millis, is_cached, .. } => {
                let code = code.map(|code| code.name());
                let end = record::HostedEnd { code, millis: *millis, is_cached: *is_cached };
                exchange.hosted_ended(call, subject.hop, end);
            }
            AuditEvent::CallMissed { format, .. } => exchange.call_missed(format),
            _ => {}
        }
    }
}

impl RecordIndex {
    fn drop_beyond(&mut self, max: usize) {
        while self.records.len() > max {
            if let Some(oldest) = self.records.pop_front() {
                self.by_id.remove(oldest.id());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_execution::{ExchangeId, Subject, audit::CallRecord};
    use toolwire_gateway::exchange_observer::ExchangeEnd;
    use toolwire_pipeline::{dialect::ClientDialect, pipeline::Tally};

    fn begin(log: &ExchangeLog, exchange: &ExchangeId, upstream: &str) -> Option<Arc<ExchangeRecord>> {
        log.begin(&ExchangeBegin {
            exchange,
            model: "m",
            key: None,
            client: ClientDialect::Chat.dialect().name(),
            upstream,
            upstream_dialect: "chat",
            upstream_model: "um",
            asks_upstream: true,
            captured: "off",
        })
    }

    fn ids(listed: &Listed) -> Vec<&str> {
        listed.records.iter().map(|record| record.id()).collect()
    }

    #[test]
    fn newest_exchanges_are_kept_and_listed_first() {
        let log = ExchangeLog::new(3);
        for id in ["ex_1", "ex_2", "ex_3", "ex_4"] {
            begin(&log, &id.into(), "up").unwrap();
        }
        let all = log.list(None);
        assert_eq!((ids(&all), all.kept), (vec!["ex_4", "ex_3", "ex_2"], 3));
        assert_eq!(ids(&log.list(Some("ex_3"))), ["ex_2"]);
        assert!(log.list(Some("ex_1")).records.is_empty());
        assert!(log.find("ex_1").is_none() && log.find("ex_2").is_some());
        log.keep(1);
        assert_eq!(ids(&log.list(None)), ["ex_4"]);
        log.keep(0);
        assert!(begin(&log, &"ex_5".into(), "up").is_none());
        assert!(log.list(None).records.is_empty() && log.find("ex_4").is_none());
    }

    #[test]
    fn exchange_that_turns_to_another_model_stays_one() {
        let log = ExchangeLog::new(3);
        let id = ExchangeId::from("ex_1");
        let record = begin(&log, &id, "first").unwrap();
        record.ended(&ExchangeEnd {
            state: "error",
            code: Some("overloaded"),
            message: None,
            finish: "error",
            tally: &Tally::default(),
            millis: 5,
            first_byte_millis: None,
        });
        assert_eq!(record.row()["state"], "error");
        begin(&log, &id, "second").unwrap();
        let row = record.row();
        assert_eq!(
            (&row["state"], &row["upstream"], &row["hops"]),
            (&"running".into(), &"second".into(), &2.into())
        );
        assert_eq!(log.list(None).kept, 1);
    }

    #[test]
    fn quoted_calls_are_counted_in_the_row() {
        let log = ExchangeLog::new(3);
        let record = begin(&log, &ExchangeId::from("ex_1"), "up").unwrap();
        let mut tally = Tally::default();
        let end = |tally: &Tally| {
            let (state, finish) = ("done", "stop");
            record.ended(&ExchangeEnd {
                state,
                code: None,
                message: None,
                finish,
                tally,
                millis: 5,
                first_byte_millis: None,
            });
            record.row()["quoted_calls"].to_string()
        };
        assert_eq!(end(&tally), "null");
        (tally.quoted_calls.as_text, tally.quoted_calls.as_calls) = (2, 1);
        assert_eq!(end(&tally), r#"{"text":2,"call":1}"#);
    }

    #[test]
    fn hosted_calls_of_the_bus_belong_to_their_exchange_and_stay_bounded() {
        let log = ExchangeLog::new(3);
        let id = ExchangeId::from("ex_1");
        let record = begin(&log, &id, "up").unwrap();
        let happened = |id: &str, call: &str, is_over: bool| {
            let call = CallRecord::new(call, &"n".repeat(1000), "{}", None);
            let event = match is_over {
                false => AuditEvent::ToolUse { call, provider: "p".into(), progress: None },
                true => AuditEvent::ToolResult {
                    call,
                    provider: Some("p".into()),
                    details: None,
                    result: None,
                    code: None,
                    millis: 7,
                    is_cached: true,
                },
            };
            let subject = Some(Subject { exchange: id.into(), hop: 1 });
            log.observe(&Record { sequence: 1, t: 1, subject, event });
        };
        happened("ex_1", "call_1", false);
        happened("ex_1", "call_1", true);
        happened("ex_2", "call_2", false);
        let one = record.json();
        assert_eq!((&one["exchange"]["calls"], one["calls"].as_array().unwrap().len()), (&1.into(), 1));
        let call = &one["calls"][0];
        assert_eq!((&call["hosted"], &call["ok"], &call["ms"]), (&true.into(), &true.into(), &7.into()));
        for number in 0..10_000 {
            happened("ex_1", &format!("more_{number}"), false);
        }
        let text = record.json().to_string();
        assert!(text.len() < 128 << 10, "{}", text.len());
        assert_eq!(record.row()["calls"], 10_001);
    }
}

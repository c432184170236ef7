//! [`ExchangeReport`]: publishes the events of one response: its start and end, its hops, and the progress of its text.
//!
//! Nothing is published without subscribers. A subscriber that joins during a response gets a late start event. Every
//! end thus has a start, and every start has exactly one end, even if the client disconnects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use super::exchange_observer::{ExchangeBegin, ExchangeEnd, ExchangeObserver, HopResult};
use crate::observe::{Access, Outcome, failure_name, finish_name};
use toolwire_execution::{Audit, AuditEvent, Subject, audit::MAX_CONTENT};
use toolwire_pipeline::{
    failure::{Failure, Kind},
    pipeline::{EmittedText, Pipeline, Tally},
    wire::text::{boundary_from, boundary_upto, slice},
};

/// Minimum interval between two reports of the text.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum interval between two reports of the text to the observer of the exchange.
const OBSERVER_PAUSE: Duration = Duration::from_millis(250);

/// Number of bytes before a piece of text that are searched again together with it, since a secret may start there.
const CONTEXT: usize = 4 << 10;

/// Number of bytes held back at the end of the text, since they may be the start of a secret. The number is larger if
/// configured secrets are longer.
const HELD: usize = 256;

/// Error message for a response that was cut short by its client.
const DISCONNECTED: &str = "the client disconnected before the end";

/// Publishes the events of one response.
#[derive(Debug)]
pub(super) struct ExchangeReport {
    audit: Arc<Audit>,
    /// The extension's observer of the exchange, if there is one.
    observer: Option<Box<dyn ExchangeObserver>>,
    subject: Subject,
    upstream: String,
    upstream_model: String,
    /// The start event, until it is published.
    start: Option<AuditEvent>,
    /// The hop in progress, if there is one.
    hop: Option<Hop>,
    /// Input and output tokens of the hops that have ended.
    counted: (u64, u64),
    /// Whether contents were captured when the response began.
    is_captured: bool,
    text: TextReported,
    has_content: bool,
    is_over: bool,
    begun: Instant,
}

#[derive(Debug)]
struct Hop {
    begun: Instant,
    is_published: bool,
}

/// The part of the text that has been reported.
#[derive(Debug, Default)]
struct TextReported {
    pieces: u64,
    held: u64,
    /// Number of bytes of the stored text that have been reported.
    content: usize,
    /// When the text was last reported.
    last: Option<Instant>,
    /// When the text was last reported to the observer.
    observed: Option<Instant>,
}

impl ExchangeReport {
    /// Creates the report at the beginning of a response. `tools` are the hosted tools that are offered to the model.
    pub(super) fn new(
        audit: &Arc<Audit>,
        observer: Option<Box<dyn ExchangeObserver>>,
        begin: &ExchangeBegin<'_>,
        tools: Vec<String>,
    ) -> Self {
        let start = AuditEvent::MessageStart {
            model: begin.model.to_owned(),
            key: begin.key.map(str::to_owned),
            client: begin.client,
            upstream: begin.upstream.to_owned(),
            tools,
        };
        let mut report = Self {
            audit: Arc::clone(audit),
            observer,
            subject: Subject { exchange: begin.exchange.clone(), hop: 1 },
            upstream: begin.upstream.to_owned(),
            upstream_model: begin.upstream_model.to_owned(),
            start: Some(start),
            hop: None,
            counted: (0, 0),
            is_captured: audit.is_captured(),
            text: TextReported::default(),
            has_content: false,
            is_over: false,
            begun: Instant::now(),
        };
        if begin.asks_upstream {
            report.hop = Some(Hop { begun: report.begun, is_published: false });
        }
        report.catch_up();
        report
    }

    /// The observer of the exchange, if contents are captured.
    pub(super) fn captures(&self) -> Option<&dyn ExchangeObserver> {
        self.observer.as_deref().filter(|_| self.is_captured)
    }

    /// Maximum number of bytes of the text that the pipeline must store for the report.
    pub(super) fn kept_text(&self) -> usize {
        if self.is_captured { MAX_CONTENT } else { 0 }
    }

    /// Reports that another request is sent to the upstream.
    pub(super) fn hop_started(&mut self) {
        self.subject.hop += 1;
        self.hop = Some(Hop { begun: Instant::now(), is_published: false });
        if let Some(observer) = &self.observer {
            observer.hop_started();
        }
        self.catch_up();
    }

    /// Sets where the next request is sent.
    pub(super) fn moved(&mut self, upstream: &str, upstream_model: Option<String>) {
        upstream.clone_into(&mut self.upstream);
        self.upstream_model = upstream_model.unwrap_or_default();
    }

    /// Reports that the hop has failed, and begins again.
    pub(super) fn hop_failed(&mut self, pipeline: &Pipeline) {
        self.end_hop("error", &pipeline.tally());
    }

    /// Reports the end of the hop, if one is in progress.
    pub(super) fn hop_ended(&mut self, pipeline: &Pipeline) {
        if self.hop.is_some() {
            let tally = pipeline.tally();
            let finish = pipeline.hop_finish().or(tally.finish).map_or("none", finish_name);
            self.end_hop(finish, &tally);
        }
    }

    /// Reports the progress of the response, part of which may have been sent to the client.
    pub(super) fn progressed(&mut self, pipeline: &Pipeline) {
        if !self.has_content && pipeline.has_content() {
            self.has_content = true;
            if let Some(observer) = &self.observer {
                observer.content_began(self.begun.elapsed());
            }
        }
        if !self.audit.is_watched() {
            return;
        }
        let now = Instant::now();
        self.observe_text(pipeline, now);
        if self.text.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            return;
        }
        if self.report_text(pipeline, false) {
            self.text.last = Some(now);
        }
    }

    /// Reports the progress of the text to the observer, but not too often.
    fn observe_text(&mut self, pipeline: &Pipeline, now: Instant) {
        let is_due = self.text.observed.is_none_or(|last| now.duration_since(last) >= OBSERVER_PAUSE);
        if let (true, Some(observer), Some(text)) = (is_due, &self.observer, pipeline.emitted_text()) {
            observer.progressed(text, pipeline.held() as u64);
            self.text.observed = Some(now);
        }
    }

    pub(super) fn ended(mut self, outcome: &Outcome, pipeline: &Pipeline, access: &Access) {
        let tally = pipeline.tally();
        let finish = match outcome {
            Outcome::Done => tally.finish.map_or("none", finish_name),
            Outcome::Failed(_) => "error",
            Outcome::Cancelled | Outcome::Stalled => "cancelled",
        };
        self.end_hop(finish, &tally);
        if self.audit.is_watched() {
            self.report_text(pipeline, true);
        }
        if let (Some(observer), Some(text)) = (&self.observer, pipeline.emitted_text()) {
            observer.progressed(text, 0);
        }
        let event = match outcome {
            Outcome::Done => AuditEvent::MessageComplete {
                content: self.content_of(pipeline),
                finish: finish.to_owned(),
                usage: usage(tally.input_tokens, tally.output_tokens),
                millis: millis(access.elapsed()),
                first_byte_millis: access.first_byte().map(millis),
            },
            Outcome::Failed(failure) => failed(failure),
            Outcome::Cancelled => left("cancelled", DISCONNECTED),
            Outcome::Stalled => left("stalled", "the client accepted nothing for too long"),
        };
        self.end(event, finish, &tally, millis(access.elapsed()), access.first_byte().map(millis));
    }

    /// Returns the start of the response's text, up to the size that is stored.
    fn content_of(&self, pipeline: &Pipeline) -> Option<String> {
        let text = pipeline.emitted_text().filter(|_| self.is_captured)?;
        self.audit.content(&text.kept)
    }

    /// Publishes start events that have not been published. Returns `false` if there are no subscribers.
    fn catch_up(&mut self) -> bool {
        if !self.audit.is_heard() {
            return false;
        }
        if let Some(start) = self.start.take() {
            self.publish(start);
        }
        if let Some(hop) = self.hop.as_mut().filter(|hop| !hop.is_published) {
            hop.is_published = true;
            let (upstream, model) = (self.upstream.clone(), self.upstream_model.clone());
            self.publish(AuditEvent::HopStart { upstream, model, purpose: None });
        }
        true
    }

    fn end_hop(&mut self, finish: &str, tally: &Tally) {
        let is_heard = self.catch_up();
        let Some(hop) = self.hop.take() else { return };
        let total = (tally.input_tokens.unwrap_or(0), tally.output_tokens.unwrap_or(0));
        // The upstream's counts are totals for all hops.
        let own = |total: u64, before: u64| Some(total.saturating_sub(before)).filter(|own| *own > 0);
        let usage = usage(own(total.0, self.counted.0), own(total.1, self.counted.1));
        self.counted = total;
        let millis = millis(hop.begun.elapsed());
        if let Some(observer) = &self.observer {
            observer.hop_ended(HopResult { finish, usage: usage.clone(), millis, tally });
        }
        if is_heard {
            self.publish(AuditEvent::HopEnd { finish: finish.to_owned(), usage, millis, purpose: None });
        }
    }

    /// Publishes the progress of the text. Returns `false` if there is nothing new.
    fn report_text(&mut self, pipeline: &Pipeline, is_last: bool) -> bool {
        let Some(text) = pipeline.emitted_text() else { return false };
        let held = pipeline.held() as u64;
        let content = if self.is_captured { self.new_content(text, is_last) } else { None };
        if text.pieces == self.text.pieces && held == self.text.held && content.is_none() {
            return false;
        }
        (self.text.pieces, self.text.held) = (text.pieces, held);
        self.catch_up();
        self.publish(AuditEvent::MessageUpdate { content, bytes: text.bytes, tokens: text.pieces, held });
        true
    }

    /// Returns the part of the stored text that is new and can be published. The end of an unfinished text is held
    /// back, since it may be the start of a secret.
    fn new_content(&mut self, text: &EmittedText, is_last: bool) -> Option<(u64, String)> {
        let (kept, from) = (text.kept.as_str(), self.text.content);
        let line = memchr::memrchr2(b'\n', b'\r', kept.as_bytes()).map_or(0, |at| at + 1);
        // Each byte may be escaped as `\u0000`.
        let held = HELD.max(self.audit.longest_secret().saturating_mul(6));
        let upto = match is_last {
            true => kept.len(),
            false => line.max(boundary_upto(kept, kept.len().saturating_sub(held))),
        };
        if upto <= from || !self.audit.is_captured() {
            return None;
        }
        let context = boundary_from(kept, from.saturating_sub(CONTEXT));
        // Masking does not change the number of bytes.
        let covered = self.audit.redacted(slice(kept, context, kept.len()));
        let content = slice(&covered, from - context, upto - context).to_owned();
        self.text.content = upto;
        Some((from as u64, content))
    }

    fn end(
        &mut self,
        event: AuditEvent,
        finish: &str,
        tally: &Tally,
        millis: u64,
        first_byte_millis: Option<u64>,
    ) {
        self.is_over = true;
        if let Some(observer) = &self.observer {
            let (state, code, message) = match &event {
                AuditEvent::Error { code, message, .. } if finish == "cancelled" => {
                    ("cancelled", Some(code), Some(message))
                }
                AuditEvent::Error { code, message, .. } => ("error", Some(code), Some(message)),
                _ => ("done", None, None),
            };
            let (code, message) = (code.map(String::as_str), message.map(String::as_str));
            observer.ended(&ExchangeEnd { state, code, message, finish, tally, millis, first_byte_millis });
        }
        if self.catch_up() {
            self.publish(event);
        }
    }

    fn publish(&self, event: AuditEvent) {
        self.audit.publish(Some(&self.subject), event);
    }
}

/// Ends the report of a response whose body was never created or whose task panicked.
impl Drop for ExchangeReport {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let tally = Tally::default();
        self.end_hop("cancelled", &tally);
        let (finish, event) = match std::thread::panicking() {
            true => ("error", failed(&Failure::new(Kind::Internal, "the response failed in toolwire"))),
            false => ("cancelled", left("cancelled", DISCONNECTED)),
        };
        self.end(event, finish, &tally, millis(self.begun.elapsed()), None);
    }
}

pub fn failed(failure: &Failure) -> AuditEvent {
    AuditEvent::Error {
        code: failure_name(failure).to_owned(),
        message: failure.message().to_owned(),
        is_retryable: matches!(
            failure.kind(),
            Kind::RateLimit
                | Kind::Overloaded
                | Kind::StoreAway
                | Kind::Timeout
                | Kind::Connect
                | Kind::Protocol
                | Kind::Truncated
                | Kind::Upstream
                | Kind::Draining
        ),
    }
}

/// Creates the event for a client that disconnected before the end.
fn left(code: &str, message: &str) -> AuditEvent {
    AuditEvent::Error { code: code.to_owned(), message: message.to_owned(), is_retryable: false }
}

/// Returns the known token counts as JSON.
pub fn usage(input: Option<u64>, output: Option<u64>) -> Value {
    let counts = [("input_tokens", input), ("output_tokens", output)];
    let known = counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?.into())));
    Value::Object(known.collect::<Map<String, Value>>())
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

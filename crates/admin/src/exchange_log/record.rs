//! [`ExchangeRecord`]: what the log stores about one exchange.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{
    capture::{Capture, NoFixture},
    trace::{Trace, TraceFeed, Traced},
};
use toolwire_config::{self as config, model_rules::detect_of_flag};
use toolwire_execution::{
    ExchangeId,
    audit::{CallRecord, unix_millis},
};
use toolwire_gateway::{
    exchange_observer::{ExchangeBegin, ExchangeEnd, HopResult},
    manifest::{ManifestError, RuleOverrides},
    report::{millis, usage},
};
use toolwire_net::untrusted_text::clip;
use toolwire_pipeline::{
    detect::QuotedCount,
    pipeline::{EmittedText, Tally},
    rules::Rules,
};

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 128;

/// Maximum length of a failure's message in bytes.
const MAX_MESSAGE: usize = 512;

/// Maximum number of names of called tools in a row.
const MAX_TOOLS: usize = 8;

/// Maximum number of hops, and of calls of each kind, that are stored with details. Further ones are only counted.
const MAX_DETAILS: usize = 128;

#[derive(Debug)]
pub(crate) struct ExchangeRecord {
    id: ExchangeId,
    /// Start time as Unix time in milliseconds.
    t: u64,
    begun: Instant,
    model: String,
    key: Option<String>,
    client: &'static str,
    captured: &'static str,
    course: Mutex<Course>,
    /// The captured contents, until they are dropped.
    capture: Mutex<Option<Arc<Capture>>>,
}

/// The part of a record that changes while the exchange runs.
#[derive(Debug, Default)]
struct Course {
    upstream: String,
    upstream_dialect: &'static str,
    upstream_model: String,
    /// `None` while the exchange runs.
    end: Option<End>,
    hops: Vec<Hop>,
    hop_count: usize,
    client_calls: Vec<ClientCall>,
    client_count: usize,
    hosted_calls: Vec<HostedCall>,
    hosted_count: usize,
    first_content_millis: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens: Option<u64>,
    text_bytes: u64,
    /// Number of pieces of text. Roughly one per token.
    pieces: u64,
    held: u64,
    quoted_calls: QuotedCount,
    /// The format of calls that were not looked for.
    missed_format: Option<&'static str>,
}

#[derive(Debug)]
struct End {
    state: &'static str,
    millis: u64,
    finish: String,
    /// The failure's code and message.
    failure: Option<(String, String)>,
}

#[derive(Debug)]
struct Hop {
    number: usize,
    upstream: String,
    model: String,
    /// Milliseconds from the start of the exchange to the start of the hop.
    after_millis: u64,
    /// The finish reason, the usage, and the duration in milliseconds. `None` while the hop runs.
    end: Option<(String, Value, u64)>,
}

#[derive(Debug)]
struct ClientCall {
    name: Option<String>,
    format: &'static str,
}

#[derive(Debug)]
struct HostedCall {
    id: String,
    name: String,
    hop: usize,
    input_bytes: usize,
    end: Option<HostedEnd>,
}

/// The result of a hosted call.
#[derive(Debug)]
pub(super) struct HostedEnd {
    /// Error code, if the call failed.
    pub(super) code: Option<&'static str>,
    pub(super) millis: u64,
    /// Whether the result was taken from an earlier call.
    pub(super) is_cached: bool,
}

impl ExchangeRecord {
    /// Creates the record of an exchange that starts now.
    pub(super) fn new(begin: &ExchangeBegin<'_>) -> Self {
        let record = Self {
            id: begin.exchange.clone(),
            t: unix_millis(),
            begun: Instant::now(),
            model: name(begin.model),
            key: begin.key.map(name),
            client: begin.client,
            captured: begin.captured,
            course: Mutex::default(),
            capture: Mutex::default(),
        };
        record.begin_again(begin);
        record
    }

    /// Restarts the exchange with another model after a model failed.
    pub(super) fn begin_again(&self, begin: &ExchangeBegin<'_>) {
        {
            let mut course = self.course();
            course.upstream = name(begin.upstream);
            course.upstream_dialect = begin.upstream_dialect;
            course.upstream_model = name(begin.upstream_model);
            course.end = None;
        }
        if begin.asks_upstream {
            self.hop_started();
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id.own
    }

    pub(crate) fn hop_started(&self) {
        let after_millis = millis(self.begun.elapsed());
        let mut course = self.course();
        course.hop_count += 1;
        if course.hops.len() < MAX_DETAILS {
            let (number, upstream, model) =
                (course.hop_count, course.upstream.clone(), course.upstream_model.clone());
            course.hops.push(Hop { number, upstream, model, after_millis, end: None });
        }
    }

    pub(crate) fn hop_ended(&self, result: HopResult<'_>) {
        let mut course = self.course();
        course.count(result.tally);
        let number = course.hop_count;
        if let Some(hop) = course.hops.last_mut().filter(|hop| hop.number == number) {
            hop.end = Some((name(result.finish), result.usage, result.millis));
        }
    }

    /// Records that the client received the first content. `after` is the time since the request to the upstream.
    pub(crate) fn content_began(&self, after: Duration) {
        self.course().first_content_millis = Some(millis(after));
    }

    /// Updates how much text the client has received.
    pub(crate) fn progressed(&self, text: &EmittedText, held: u64) {
        let mut course = self.course();
        (course.text_bytes, course.pieces, course.held) = (text.bytes, text.pieces, held);
    }

    /// Records the end of the exchange. The exchange can still restart with another model.
    pub(crate) fn ended(&self, end: &ExchangeEnd<'_>) {
        let mut course = self.course();
        course.count(end.tally);
        course.held = 0;
        course.first_content_millis = end.first_byte_millis.or(course.first_content_millis);
        let message = || clip(end.message.unwrap_or_default(), MAX_MESSAGE).into_owned();
        let failure = end.code.map(|code| (name(code), message()));
        course.end = Some(End { state: end.state, millis: end.millis, finish: name(end.finish), failure });
    }

    pub(super) fn hosted_began(&self, call: &CallRecord, hop: usize) {
        let mut course = self.course();
        course.hosted_count += 1;
        if course.hosted_calls.len() < MAX_DETAILS {
            course.hosted_calls.push(HostedCall::new(call, hop));
        }
    }

    /// Records that calls in this format were not looked for.
    pub(super) fn call_missed(&self, format: &'static str) {
        self.course().missed_format = Some(format);
    }

    /// Records the result of a hosted call.
    pub(super) fn hosted_ended(&self, call: &CallRecord, hop: usize, end: HostedEnd) {
        let mut course = self.course();
        let id = name(&call.id);
        let begun = course.hosted_calls.iter_mut().rev().find(|known| known.id == id && known.end.is_none());
        if let Some(known) = begun {
            known.end = Some(end);
        } else if course.hosted_calls.len() < MAX_DETAILS {
            // A call that was refused never started.
            course.hosted_count += 1;
            course.hosted_calls.push(HostedCall { end: Some(end), ..HostedCall::new(call, hop) });
        }
    }

    /// Attaches a capture. It replaces the capture of a model that failed.
    pub(super) fn set_capture(&self, capture: Arc<Capture>) {
        *self.capture.lock() = Some(capture);
    }

    /// Drops the contents to make room for other exchanges.
    pub(super) fn drop_capture(&self) {
        if let Some(capture) = self.capture.lock().take() {
            capture.drop_steps();
        }
    }

    /// Whether contents are captured, according to the settings at the start of the exchange.
    pub(crate) fn is_captured(&self) -> bool {
        self.captured != config::Capture::Off.word()
    }

    /// Returns a feed of the contents while the exchange runs. `None` without a capture.
    pub(crate) fn follow(&self) -> Option<TraceFeed> {
        let capture = self.capture.lock().clone()?;
        (!capture.is_over()).then(|| TraceFeed::new(capture))
    }

    /// Returns the exchange as a fixture: the names and contents of its files.
    ///
    /// # Errors
    /// Fails if there is no fixture; the error says why.
    pub(crate) fn fixture(&self) -> Result<Vec<(String, Vec<u8>)>, NoFixture> {
        let capture = self.capture.lock().clone();
        capture.ok_or(NoFixture::NotKept)?.fixture()
    }

    /// Returns the contents. `None` if they were dropped.
    pub(crate) fn traced(&self) -> Option<Traced> {
        let capture = self.capture.lock().clone()?;
        Trace::new(capture).all()
    }

    /// Returns what the first hop would be with other formats in `detect`, whose value is written as on the command
    /// line. `None` if the contents were dropped.
    ///
    /// # Errors
    /// There is no such format.
    pub(crate) fn read_again(&self, detect: &str) -> Result<Option<Traced>, ManifestError> {
        let Some(capture) = self.capture.lock().clone() else { return Ok(None) };
        let overrides = RuleOverrides::default().with("detect", Some(detect_of_flag(detect)));
        let rules = Rules {
            detect: overrides.settings(&capture.replay.formats)?.detect,
            ..capture.replay.rules.clone()
        };
        Ok(Trace::first_hop(capture, rules).all())
    }

    /// The client's request, the requests to the upstream, and the hosted calls, with the contents that are kept.
    pub(crate) fn requests(&self) -> Value {
        let capture = self.capture.lock().clone();
        let kept = capture.as_ref().and_then(|capture| Some((capture, capture.sent_contents()?)));
        let hosted: Vec<_> = self.course().hosted_calls.iter().map(HostedCall::json).collect();
        let mut shown = json!({"exchange": self.id(), "captured": self.captured});
        let Some((Capture { replay, .. }, sent)) = kept.map(|(capture, sent)| (&**capture, sent)) else {
            extend(&mut shown, json!({"client": null, "requests": [], "hosted": hosted, "rewrite": null}));
            return shown;
        };
        let hosted = hosted.into_iter().map(|mut call| {
            let contents =
                call.get("id").and_then(Value::as_str).and_then(|id| sent.call(id, &replay.redactor));
            extend(&mut call, contents.unwrap_or_default());
            call
        });
        let hosted: Vec<_> = hosted.collect();
        let (client, upstream) = (replay.client.dialect().name(), replay.upstream.dialect().name());
        let (client, requests) = sent.json(client, upstream, &replay.redactor);
        let rewrite = replay.rewrite_options();
        extend(
            &mut shown,
            json!({"client": client, "requests": requests, "hosted": hosted, "rewrite": rewrite}),
        );
        shown
    }

    /// Summarizes the exchange without its contents: times, sizes, kinds and names.
    pub(crate) fn outline(&self) -> Vec<Value> {
        let course = self.course();
        let mut rows = Vec::new();
        for hop in &course.hops {
            let out = json!([{"kind": "hop_start", "name": hop.model}]);
            rows.push((hop.number, hop.after_millis, out));
            for call in course.hosted_calls.iter().filter(|call| call.hop == hop.number) {
                let out = json!([{"kind": "hosted_call", "name": call.name, "bytes": call.input_bytes}]);
                rows.push((hop.number, hop.after_millis, out));
            }
            if let Some((finish, _, millis)) = &hop.end {
                let out = json!([{"kind": "hop_end", "finish": finish}]);
                rows.push((hop.number, hop.after_millis + millis, out));
            }
        }
        let calls = course.client_calls.iter().map(|call| json!({"kind": "call", "name": call.name}));
        let text = json!({"kind": "text", "bytes": course.text_bytes, "pieces": course.pieces});
        let out = [text].into_iter().chain(calls).collect();
        let end = course.end.as_ref().map_or_else(|| millis(self.begun.elapsed()), |end| end.millis);
        rows.push((course.hop_count, end, out));
        let rows = rows.into_iter().zip(1..);
        rows.map(|((hop, after, out), n)| json!({"n": n, "hop": hop, "t_ms": after, "out": out})).collect()
    }

    /// The exchange as a row of a list.
    pub(crate) fn row(&self) -> Value {
        let course = self.course();
        let end = course.end.as_ref();
        let took = end.map_or_else(|| millis(self.begun.elapsed()), |end| end.millis);
        let mut row = json!({
            "id": &*self.id.own, "request": &*self.id.request, "t": self.t, "key": self.key, "model": self.model,
            "client": self.client, "upstream": course.upstream, "upstream_dialect": course.upstream_dialect,
            "state": end.map_or("running", |end| end.state), "hops": course.hop_count,
            "calls": course.client_count + course.hosted_count, "client_calls": course.client_count,
            "hosted_calls": course.hosted_count, "tools": course.tools(), "formats": course.formats(),
            "ttft_ms": course.first_content_millis,
            "tokens_per_s": course.tokens_per_second(took), "ms": took, "captured": self.captured,
        });
        let quoted = course.quoted_calls;
        if quoted.as_text + quoted.as_calls > 0 {
            extend(&mut row, json!({"quoted_calls": {"text": quoted.as_text, "call": quoted.as_calls}}));
        }
        if let Some(format) = course.missed_format {
            extend(&mut row, json!({"missed_format": format}));
        }
        if let Some(end) = end {
            extend(&mut row, json!({"finish": end.finish}));
            if let Some((code, _)) = &end.failure {
                extend(&mut row, json!({"code": code}));
            }
        }
        row
    }

    pub(super) fn tools(&self) -> Vec<String> {
        let course = self.course();
        let own = course.client_calls.iter().filter_map(|call| call.name.clone());
        own.chain(course.hosted_calls.iter().map(|call| call.name.clone())).collect()
    }

    /// The complete record: the row with additional fields, the hops and the calls.
    pub(crate) fn json(&self) -> Value {
        let mut row = self.row();
        let course = self.course();
        let hops: Vec<_> = course.hops.iter().map(Hop::json).collect();
        let own = course.client_calls.iter().map(ClientCall::json);
        let mut calls: Vec<_> = course.hosted_calls.iter().map(HostedCall::json).chain(own).collect();
        for (call, number) in calls.iter_mut().zip(1_u64..) {
            if let Value::Object(call) = call {
                call.insert("call".to_owned(), number.into());
            }
        }
        let end = course.end.as_ref();
        let failure = end.and_then(|end| end.failure.as_ref());
        let error = failure.map(|(code, message)| json!({"code": code, "message": message}));
        let more = json!({
            "upstream_model": course.upstream_model, "usage": usage(course.input_tokens, course.output_tokens),
            "text_bytes": course.text_bytes, "held": course.held, "error": error,
        });
        extend(&mut row, more);
        json!({"exchange": row, "hops": hops, "calls": calls})
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock()
    }
}

impl Course {
    fn count(&mut self, tally: &Tally) {
        let calls = tally.calls.iter().take(MAX_DETAILS);
        self.client_calls = calls
            .map(|call| ClientCall { name: call.name.as_deref().map(name), format: call.format })
            .collect();
        self.client_count = tally.calls.len();
        self.quoted_calls = tally.quoted_calls;
        self.output_tokens = tally.output_tokens.or(self.output_tokens);
        self.input_tokens = tally.input_tokens.or(self.input_tokens);
    }

    /// The names of the first tools that were called, without repetition.
    fn tools(&self) -> Vec<&str> {
        let hosted = self.hosted_calls.iter().map(|call| call.name.as_str());
        let names = hosted.chain(self.client_calls.iter().filter_map(|call| call.name.as_deref()));
        distinct(names, MAX_TOOLS)
    }

    /// The formats in which the client's calls were written, without repetition.
    fn formats(&self) -> Vec<&str> {
        distinct(self.client_calls.iter().map(|call| call.format), MAX_TOOLS)
    }

    /// Tokens per second since the first token, with one decimal. `took` is the exchange's duration in milliseconds.
    fn tokens_per_second(&self, took: u64) -> Option<f64> {
        let tokens = self.output_tokens.unwrap_or(self.pieces);
        let flowed =
            took.checked_sub(self.first_content_millis?).filter(|flowed| *flowed > 0 && tokens > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = tokens as f64 * 1e3 / flowed as f64;
        Some((rate * 10.0).round() / 10.0)
    }
}

impl Hop {
    fn json(&self) -> Value {
        let Self { number, upstream, model, after_millis, end } = self;
        let mut hop = json!({"hop": number, "upstream": upstream, "model": model, "t_ms": after_millis});
        if let Some((finish, usage, millis)) = end {
            extend(&mut hop, json!({"finish": finish, "usage": usage, "ms": millis}));
        }
        hop
    }
}

impl ClientCall {
    fn json(&self) -> Value {
        json!({"name": self.name, "hosted": false, "format": self.format})
    }
}

impl HostedCall {
    fn new(call: &CallRecord, hop: usize) -> Self {
        let input_bytes = call.input_bytes;
        Self { id: name(&call.id), name: name(&call.name), hop, input_bytes, end: None }
    }

    fn json(&self) -> Value {
        let Self { id, name, hop, input_bytes, end } = self;
        let mut call =
            json!({"id": id, "name": name, "hosted": true, "hop": hop, "input_bytes": input_bytes});
        if let Some(HostedEnd { code, millis, is_cached }) = end {
            extend(&mut call, json!({"ok": code.is_none(), "code": code, "ms": millis, "cached": is_cached}));
        }
        call
    }
}

/// The first `max` of these names, without repetition.
fn distinct<'n>(names: impl Iterator<Item = &'n str>, max: usize) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        if found.len() < max && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn name(text: &str) -> String {
    clip(text, MAX_NAME).into_owned()
}

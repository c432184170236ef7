//! [`Trace`]: the rows of an exchange, which show what the upstream sent and what the client received because of it.
//!
//! The upstream's bytes are interpreted again, event by event, with the same rules and ids as when they arrived. Each
//! row pairs one event from the upstream with what the client received because of it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde_json::{Value, json};

use super::{
    analysis,
    capture::{Capture, Framing, Next, Replay, Step},
};
use toolwire_gateway::{feed_body::FeedSource, observe::finish_name};
use toolwire_pipeline::{
    dialect::{Asked, Reader},
    event::{Event, Sink},
    pipeline::{EmittedEvent, Pipeline, State},
    rules::Rules,
    tools::DeclaredTools,
};

/// Maximum number of bytes of a hop's text that are searched for calls.
const MAX_ANALYSED: usize = 256 << 10;

/// The same limit while the exchange is being followed. It is lower, since the search blocks the thread.
const MAX_FOLLOWED: usize = 32 << 10;

/// Maximum number of rows of one exchange. The stored bytes could hold half a million empty events.
const MAX_ROWS: u64 = 20_000;

const STEPS: usize = 64;

pub(crate) struct Trace {
    capture: Arc<Capture>,
    /// Rules that replace those of the exchange. Then only the first hop is read: the others followed from what was
    /// read in it.
    rules: Option<Rules>,
    at: usize,
    pipeline: Pipeline,
    /// Interprets the same bytes again to extract the upstream's text.
    reader: Reader,
    text: UpstreamText,
    hop: usize,
    is_error: bool,
    framing: Framing,
    /// The start of an incomplete event.
    partial: Vec<u8>,
    n: u64,
    last_millis: u64,
    /// The number of the row since which some text has been held back.
    held_since: Option<u64>,
    is_full: bool,
    max_analysed: usize,
    calls: Vec<Value>,
}

/// The rows of a finished exchange.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) rows: Vec<Value>,
    pub(crate) calls: Vec<Value>,
    /// Whether rows are missing because there was too much data.
    pub(crate) is_cut: bool,
}

/// The upstream's text in a hop.
#[derive(Debug, Default)]
struct UpstreamText {
    text: String,
    /// The contents of the last event from the upstream.
    read: Vec<ReadPart>,
}

#[derive(Debug)]
struct ReadPart {
    kind: &'static str,
    /// The index of a call.
    call: Option<u32>,
    /// The name, if a call starts.
    text: String,
}

impl Sink for UpstreamText {
    fn event(&mut self, event: Event<'_>) {
        let (kind, call, text) = match event.meaning() {
            Event::Text(text) => {
                self.text.push_str(text);
                ("text", None, &**text)
            }
            Event::Reasoning(reasoning) => ("reasoning", None, &*reasoning.text),
            Event::Refusal(text) => ("refusal", None, &**text),
            Event::CallStart(call) => ("call_start", Some(call.index), &*call.name),
            Event::CallArguments { index, piece } => ("arguments", Some(*index), &**piece),
            Event::Finish(finish) => ("finish", None, finish_name(*finish)),
            _ => return,
        };
        match self.read.last_mut() {
            Some(last) if (last.kind, last.call) == (kind, call) => last.text.push_str(text),
            _ => self.read.push(ReadPart { kind, call, text: text.to_owned() }),
        }
    }
}

impl ReadPart {
    fn json(self) -> Value {
        let Self { kind, call, text } = self;
        match call {
            None => json!({"kind": kind, "text": text}),
            Some(call) if kind == "call_start" => json!({"kind": kind, "call": call + 1, "name": text}),
            Some(call) => json!({"kind": kind, "call": call + 1, "text": text}),
        }
    }
}

impl Trace {
    pub(super) fn new(capture: Arc<Capture>) -> Self {
        Self::reading(capture, None)
    }

    /// Interprets the first hop by other rules.
    pub(super) fn first_hop(capture: Arc<Capture>, rules: Rules) -> Self {
        Self::reading(capture, Some(rules))
    }

    fn reading(capture: Arc<Capture>, rules: Option<Rules>) -> Self {
        let replay = &capture.replay;
        let mut pipeline = Pipeline::new(
            &replay.conversation,
            rules.as_ref().unwrap_or(&replay.rules),
            &replay.formats,
            replay.upstream.side().reader(&replay.reading),
            replay.client.side().writer(&replay.answering),
            &replay.answering,
        );
        if let Some(hosted) = &replay.hosted {
            pipeline.host(hosted.clone());
        }
        pipeline.observe_events();
        Self {
            reader: text_reader(replay),
            pipeline,
            capture,
            rules,
            at: 0,
            text: UpstreamText::default(),
            hop: 0,
            is_error: false,
            framing: Framing::None,
            partial: Vec::new(),
            n: 1,
            last_millis: 0,
            held_since: None,
            is_full: false,
            max_analysed: MAX_ANALYSED,
            calls: Vec::new(),
        }
    }

    /// Returns the rows so far. `None` if the contents were dropped.
    pub(crate) fn all(mut self) -> Option<Traced> {
        let mut traced = Traced::default();
        let mut is_over = false;
        while !is_over {
            match self.capture.next(self.at, STEPS, None) {
                Next::Steps(steps) => {
                    for step in steps {
                        is_over = self.rules.is_some() && self.hop == 1 && matches!(step, Step::Hop { .. });
                        self.step(if is_over { Step::End(None) } else { step }, &mut traced.rows);
                        if is_over {
                            break;
                        }
                    }
                }
                Next::Wait => break,
                Next::Over { is_cut } => {
                    traced.is_cut = is_cut || self.is_full;
                    break;
                }
                Next::Dropped => return None,
            }
        }
        traced.calls = self.calls;
        Some(traced)
    }

    fn step(&mut self, step: Step, rows: &mut Vec<Value>) {
        self.at += 1;
        let mut out = BytesMut::new();
        match step {
            Step::Hop { shown, prefill, .. } => {
                if self.hop > 0 {
                    self.end_of_hop(&mut out, rows);
                    shown.iter().for_each(|event| self.pipeline.show(event, &mut out));
                    let replay = &self.capture.replay;
                    let reader = replay.upstream.side().reader(&replay.reading);
                    self.pipeline.resume(reader, &mut out);
                    self.row("", None, &mut out, rows);
                    self.reader = text_reader(&self.capture.replay);
                }
                self.hop += 1;
                self.pipeline.expect_prefill(prefill);
            }
            Step::Otherwise(prefill) => self.pipeline.expect_prefill(prefill),
            Step::Answered { is_error, framing } => (self.is_error, self.framing) = (is_error, framing),
            Step::Piece(millis, bytes) => {
                self.last_millis = millis;
                self.piece(&bytes, rows);
            }
            Step::End(failure) => {
                self.end_of_hop(&mut out, rows);
                if self.pipeline.state() == State::HopEnded {
                    self.pipeline.end(&mut out);
                }
                if let Some(failure) = failure {
                    self.pipeline.fail(failure, &mut out);
                    self.pipeline.write_failure(&mut out);
                }
                self.row("", None, &mut out, rows);
            }
        }
    }

    /// Processes the events that `bytes` complete.
    fn piece(&mut self, bytes: &[u8], rows: &mut Vec<Value>) {
        let mut searched = self.partial.len().saturating_sub(3);
        self.partial.extend_from_slice(bytes);
        let mut partial = std::mem::take(&mut self.partial);
        let mut begin = 0;
        while let Some(end) = end_of_event(self.framing, partial.get(searched..).unwrap_or_default()) {
            let event = partial.get(begin..searched + end).unwrap_or_default();
            self.event(event, rows);
            begin = searched + end;
            searched = begin;
        }
        partial.drain(..begin);
        self.partial = partial;
    }

    fn event(&mut self, raw: &[u8], rows: &mut Vec<Value>) {
        let mut out = BytesMut::new();
        let before = self.text.text.len();
        if !self.is_error {
            // The error is ignored, since the pipeline reports it as well.
            let _ = self.reader.push(raw, &mut self.text);
            self.pipeline.push(raw, &mut out);
        }
        let raw = str::from_utf8(raw).map_or_else(|_| raw.escape_ascii().to_string(), str::to_owned);
        let after = self.text.text.len();
        self.row(&raw, Some((before, after)).filter(|_| after > before), &mut out, rows);
    }

    fn end_of_hop(&mut self, out: &mut BytesMut, rows: &mut Vec<Value>) {
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            self.event(&partial, rows);
        }
        if self.pipeline.state() == State::Open && !self.is_error {
            self.pipeline.finish(out);
        }
        let text = std::mem::take(&mut self.text).text;
        if text.len() > self.max_analysed {
            return;
        }
        let Replay { conversation, rules, formats, hosted, .. } = &self.capture.replay;
        let rules = self.rules.as_ref().unwrap_or(rules);
        let analysis = analysis::analyze(&text, conversation, rules, formats);
        for call in &analysis.calls {
            let mut shown = call.json(self.calls.len() + 1);
            if let Value::Object(shown) = &mut shown {
                let is_hosted = hosted.is_some() && conversation.hosted_tools.contains(&call.name);
                shown.insert("hop".to_owned(), self.hop.into());
                shown.insert("hosted".to_owned(), is_hosted.into());
            }
            self.calls.push(shown);
        }
    }

    /// Adds a row, unless nothing was received and nothing was sent.
    fn row(&mut self, raw: &str, text_at: Option<(usize, usize)>, out: &mut BytesMut, rows: &mut Vec<Value>) {
        let events = self.pipeline.take_events();
        let read = std::mem::take(&mut self.text.read).into_iter();
        let read: Vec<_> = read.map(ReadPart::json).collect();
        if raw.is_empty() && out.is_empty() {
            return;
        }
        if self.n > MAX_ROWS {
            self.is_full = true;
            return;
        }
        let held = self.pipeline.held();
        let frames = out.split().freeze();
        let shown = self.shown(&events, &frames);
        self.held_since = (held > 0).then(|| self.held_since.unwrap_or(self.n));
        let text_at = text_at.map(|(from, upto)| json!([from, upto]));
        rows.push(json!({
            "n": self.n, "hop": self.hop, "t_ms": self.last_millis, "raw": raw, "read": read, "text_at": text_at, "out": shown,
            "held": held, "held_since": self.held_since,
        }));
        self.n += 1;
    }

    /// Returns the events that the client received, each with its part of the stream.
    fn shown(&self, events: &[EmittedEvent], frames: &Bytes) -> Vec<Value> {
        let replay = &self.capture.replay;
        let text = |from: usize, upto: usize| {
            let bytes = frames.get(from..upto).unwrap_or_default();
            let text = str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned);
            // The text may repeat secrets that the client sent.
            replay.redactor.text(&text).into_owned()
        };
        let first = events.first().map_or(frames.len(), |event| event.at);
        let mut shown = Vec::new();
        if first > 0 {
            shown.push(json!({"kind": "frame", "frame": text(0, first)}));
        }
        let ends = events.iter().skip(1).map(|event| event.at).chain([frames.len()]);
        for (event, end) in events.iter().zip(ends) {
            let mut one = json!({"kind": event.kind, "bytes": event.bytes, "frame": text(event.at, end)});
            if let Value::Object(one) = &mut one {
                one.extend(event.call.map(|call| ("call".to_owned(), (call + 1).into())));
                let name = event.name.as_deref().map(|name| replay.redactor.text(name).into_owned());
                one.extend(name.map(|name| ("name".to_owned(), name.into())));
            }
            shown.push(one);
        }
        shown
    }
}

fn text_reader(replay: &Replay) -> Reader {
    let mut reader = replay.upstream.side().reader(&replay.reading);
    let tools = DeclaredTools::new(&replay.conversation, &replay.rules.tool_prefix);
    let stream = replay.answering.stream;
    let several = replay.conversation.choices.is_some_and(|choices| choices > 1);
    let (limits, repair) = (replay.rules.limits, replay.rules.repair);
    reader.expect(Asked { tools, limits, stream, several, repair });
    reader
}

/// Returns the position after the first event in `bytes`.
fn end_of_event(framing: Framing, bytes: &[u8]) -> Option<usize> {
    match framing {
        Framing::Sse => {
            let ends = [&b"\n\n"[..], b"\r\n\r\n"].into_iter();
            ends.filter_map(|end| Some(memmem::find(bytes, end)? + end.len())).min()
        }
        Framing::Lines => memchr::memchr(b'\n', bytes).map(|end| end + 1),
        Framing::Lengths => {
            let length = usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()?;
            Some(length.max(1)).filter(|length| *length <= bytes.len())
        }
        Framing::None => Some(bytes.len()).filter(|len| *len > 0),
    }
}

/// Follows an exchange while it runs, as server-sent events: `row`, `call`, `end`.
#[derive(Debug)]
pub(crate) struct TraceFeed {
    trace: Box<Trace>,
    calls_sent: usize,
    is_over: bool,
}

impl TraceFeed {
    pub(super) fn new(capture: Arc<Capture>) -> Self {
        let trace = Trace { max_analysed: MAX_FOLLOWED, ..Trace::new(capture) };
        Self { trace: Box::new(trace), calls_sent: 0, is_over: false }
    }
}

impl FeedSource for TraceFeed {
    fn poll_events(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Bytes>> {
        use std::task::Poll;
        let mut text = String::new();
        while text.is_empty() && !self.is_over {
            match self.trace.capture.next(self.trace.at, STEPS, Some(cx)) {
                Next::Steps(steps) => {
                    let mut rows = Vec::new();
                    steps.into_iter().for_each(|step| self.trace.step(step, &mut rows));
                    rows.iter().for_each(|row| put_event(&mut text, "row", row));
                    let calls = self.trace.calls.iter().skip(self.calls_sent);
                    calls.for_each(|call| put_event(&mut text, "call", call));
                    self.calls_sent = self.trace.calls.len();
                }
                Next::Wait => return Poll::Pending,
                Next::Over { is_cut } => {
                    put_event(&mut text, "end", &json!({"cut": is_cut || self.trace.is_full}));
                    self.is_over = true;
                }
                Next::Dropped => {
                    put_event(&mut text, "reset", &json!({"reason": "not_kept"}));
                    self.is_over = true;
                }
            }
        }
        Poll::Ready((!text.is_empty()).then(|| text.into()))
    }
}

fn put_event(text: &mut String, name: &str, data: &Value) {
    text.push_str(&format!(
        "event: {name}\ndata: {}\n\n",
        toolwire_net::untrusted_text::printable_json(data)
    ));
}

toolwire_pipeline::wire::debug_fields!(Trace { at });

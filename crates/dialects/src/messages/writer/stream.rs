//! Writes a response as a stream of events.

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value, json};

use super::{
    Head,
    block::{self, Hosted, SERVER_NAME, ToolCounts, client_call},
    deltas::Deltas,
    held::Held,
    members::UpstreamMembers,
};
use crate::{
    Answering, Dialect, StreamForm,
    conversation::Namespaced,
    event::{CallEnd, CallStart, Event, Finish, Reasoning, Runner, Usage},
    failure::Failure,
    messages::error_body,
    opaque::carried,
    summary::SummaryText,
    wire::json::{Json, span},
};

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    begun: bool,
    blocks: usize,
    open: Option<Open>,
    calls: Vec<OpenCall>,
    /// The members of toolsets.
    namespaced: Vec<Namespaced>,
    /// Calls that the client does not run, whose results are written as blocks too.
    hosted: Vec<(u32, Hosted)>,
    /// The calls that the client did not run.
    server_calls: ToolCounts,
    /// Blocks of the upstream for which there are no events: the upstream's index of each, and the client's.
    unknown: Vec<(u64, usize)>,
    refused: bool,
    finish: Option<Finish>,
    usage: Option<Box<Usage>>,
    upstream: UpstreamMembers,
    warnings: Vec<Value>,
    /// The message so far, if it should be stored.
    held: Option<Box<Held>>,
    /// The summary, if the response is a compaction.
    summary: Option<SummaryText>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    deltas: Deltas,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

#[derive(Debug)]
struct OpenCall {
    call: u32,
    deltas: Deltas,
    /// Whether the call was cut off, so that no more of it follows.
    is_cut: bool,
    input: Input,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Streamed,
    /// In deltas that have not arrived yet.
    Due,
    /// In the upstream's event that started the block.
    Given,
}

impl StreamForm for Stream {
    const ONE_BLOCK_AT_A_TIME: bool = true;

    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            begun: false,
            blocks: 0,
            open: None,
            calls: Vec::new(),
            namespaced: answering.namespaced.clone(),
            hosted: Vec::new(),
            server_calls: ToolCounts::default(),
            unknown: Vec::new(),
            refused: false,
            finish: None,
            usage: None,
            upstream: UpstreamMembers::default(),
            warnings: Vec::new(),
            held: answering.stored.then(|| Box::new(Held::new(answering))),
            summary: block::summary(answering),
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        if let Some(held) = &mut self.held {
            held.event(event);
        }
        if !self.summary.as_mut().is_some_and(|summary| summary.takes(event)) {
            self.put(event, out);
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.begin(out);
        let mut reason = self.finish.map(|finish| block::stop_reason(finish, self.refused));
        if let Some(summary) = self.summary.take() {
            self.put_summary(&summary.text, out);
            reason = Some(block::COMPACTION);
        }
        let mut event = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": block::usage(self.usage.as_deref(), self.server_calls),
        });
        if let Some(event) = event.as_object_mut() {
            self.upstream.extend_delta(event);
            if !self.warnings.is_empty() {
                event.insert("toolwire".to_owned(), block::notes(&self.warnings));
            }
        }
        put_event("message_delta", &event, out);
        put_event("message_stop", &json!({"type": "message_stop"}), out);
    }

    /// Writes the error as the last event. Clients raise it and stop reading.
    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        out.put_slice(b"event: error\ndata: ");
        out.put_slice(&error_body(failure));
        out.put_slice(b"\n\n");
    }

    /// Writes a `ping`, or a comment if the message has not started.
    fn keep_alive(&self, out: &mut BytesMut) {
        match self.begun {
            true => put_event("ping", &json!({"type": "ping"}), out),
            false => out.put_slice(b": keep-alive\n\n"),
        }
    }

    fn kept(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.text.len())
    }

    fn defect(&self) -> Option<Failure> {
        self.summary.as_ref()?.defect(self.finish)
    }

    fn take_response(&mut self) -> Option<String> {
        self.held.take()?.into_message()
    }
}

impl Stream {
    fn put(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Start(start) if !self.begun => self.head.take(start),
            Event::Start(_) | Event::Ping(_) => {}
            Event::Text(text) => self.piece(Kind::Text, text, None, out),
            Event::Refusal(text) => {
                self.refused = true;
                self.piece(Kind::Text, text, None, out);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning, out),
            Event::CallStart(start) => self.call_start(start, out),
            Event::CallArguments { index, piece } => self.arguments(*index, piece, None, out),
            // The block stays open until another one starts or the message ends. If the response fails,
            // clients must not take the call for complete.
            Event::CallEnd { index, end: CallEnd::Cut } => self.call_cut(*index),
            Event::CallEnd { index, .. } => self.call_end(*index, out),
            Event::CallResult(result) => {
                let known = self.hosted.iter().find(|(call, _)| *call == result.index);
                let hosted = known.map_or(Hosted::Other, |(_, hosted)| *hosted);
                self.whole(&hosted.result(&result.id, &result.content, result.is_error), out);
            }
            Event::ServerCall(call) => {
                block::server_call(call).for_each(|block| self.whole(&block, out));
                self.server_calls.add(block::counted(call));
            }
            Event::Annotation(annotation) => {
                let index = self.open(Kind::Text, out).deltas.index;
                let delta = json!({"type": "citations_delta", "citation": block::citation(annotation)});
                put_delta(index, &delta, out);
            }
            // In this API, assistant messages cannot contain images.
            Event::Media(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Warning(warning) => self.warnings.push(block::warning(warning)),
            Event::Finish(finish) => {
                self.begin(out);
                self.close(out);
                self.close_calls(out);
                self.finish = Some(*finish);
            }
            Event::Verbatim { frame, means: Some(event) } => self.verbatim(frame, event, out),
            Event::Verbatim { frame, means: None } => self.unknown(frame, out),
        }
    }

    /// Writes `message_start` if that has not been done yet.
    fn begin(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let message = json!({
            "id": self.head.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": block::usage(self.usage.as_deref(), self.server_calls),
        });
        put_event("message_start", &json!({"type": "message_start", "message": message}), out);
    }

    /// Writes an event, using the upstream's frame if possible.
    fn verbatim(&mut self, frame: &str, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Text(text) => self.piece(Kind::Text, text, Some(frame), out),
            Event::Reasoning(Reasoning { text, signature: None, redacted: false }) => {
                self.piece(Kind::Thinking, text, Some(frame), out);
            }
            Event::CallArguments { index, piece } => self.arguments(*index, piece, Some(frame), out),
            Event::Annotation(_) => self.cited(frame, out),
            Event::CallStart(start) if start.runner != Runner::Client => self.server_call(start, frame, out),
            Event::CallResult(_) => {
                let index = self.block_frame(frame, out);
                put_stop(index, out);
            }
            Event::Finish(finish) => {
                self.upstream.take_stop(frame, *finish);
                self.put(event, out);
            }
            event => self.put(event, out),
        }
    }

    /// Handles a frame for which there is no event: the end of a block of text or thinking, a citation of
    /// something other than a page, or part of a block of an unknown type.
    fn unknown(&mut self, frame: &str, out: &mut BytesMut) {
        let Ok(json) = Json::parse(frame) else { return };
        let kind = json.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
        let theirs = json.get("index").and_then(|index| index.as_u64());
        let known = self.unknown.iter().rposition(|(number, _)| Some(*number) == theirs);
        match (&*kind, theirs, known) {
            ("content_block_start", Some(theirs), known) => {
                if let Some(place) = known {
                    put_stop(self.unknown.remove(place).1, out);
                }
                let index = self.block_frame(frame, out);
                self.unknown.push((theirs, index));
            }
            ("content_block_stop", _, Some(place)) => put_stop(self.unknown.remove(place).1, out),
            ("content_block_delta", _, Some(place)) => {
                let index = self.unknown.get(place).map_or(0, |(_, index)| *index);
                put_frame("content_block_delta", frame, index, out);
            }
            ("content_block_delta", ..) => self.cited(frame, out),
            ("content_block_stop", Some(theirs), None) => {
                let is_open =
                    |open: &Open| u64::try_from(open.deltas.index).is_ok_and(|index| index == theirs);
                if self.open.as_ref().is_some_and(is_open) {
                    self.close(out);
                }
            }
            _ => {}
        }
    }

    fn cited(&mut self, frame: &str, out: &mut BytesMut) {
        let delta = Json::parse(frame).ok().and_then(|event| event.get("delta"));
        if let Some(delta) = delta {
            let index = self.open(Kind::Text, out).deltas.index;
            put_delta(index, &delta.to_value(), out);
        }
    }

    /// Writes a piece of text or thinking. `frame` is the upstream's frame for it.
    fn piece(&mut self, kind: Kind, text: &str, frame: Option<&str>, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        let block = self.open(kind, out);
        match frame {
            Some(frame) => block.deltas.put_frame(frame, text, out),
            None => block.deltas.put(text, out),
        }
    }

    fn reasoning(&mut self, reasoning: &Reasoning<'_>, out: &mut BytesMut) {
        if reasoning.is_end() {
            return self.close(out);
        }
        self.piece(Kind::Thinking, &reasoning.text, None, out);
        if let Some(signature) = &reasoning.signature {
            if reasoning.redacted {
                return self.whole(&block::redacted(signature), out);
            }
            let index = self.open(Kind::Thinking, out).deltas.index;
            put_delta(
                index,
                &json!({"type": "signature_delta", "signature": carried(signature, Dialect::Messages)}),
                out,
            );
            // A signature covers the complete block.
            self.close(out);
        }
    }

    /// Returns the open block of this kind. Closes a block of another kind and starts a new one if
    /// necessary.
    fn open(&mut self, kind: Kind, out: &mut BytesMut) -> &mut Open {
        let open = match self.open.take() {
            Some(open) if open.kind == kind => open,
            other => {
                if let Some(other) = other {
                    put_stop(other.deltas.index, out);
                }
                self.begin_open(kind, out)
            }
        };
        self.open.insert(open)
    }

    fn begin_open(&mut self, kind: Kind, out: &mut BytesMut) -> Open {
        let (block, delta) = match kind {
            Kind::Text => (json!({"type": "text", "text": ""}), ("text_delta", "text")),
            Kind::Thinking => {
                let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                (block, ("thinking_delta", "thinking"))
            }
        };
        let index = self.block_start(&block, out);
        Open { kind, deltas: Deltas::new(index, delta) }
    }

    fn close(&mut self, out: &mut BytesMut) {
        if let Some(open) = self.open.take() {
            put_stop(open.deltas.index, out);
        }
    }

    fn call_start(&mut self, start: &CallStart<'_>, out: &mut BytesMut) {
        self.close(out);
        let empty = Value::Object(Map::new());
        let block = match start.runner {
            Runner::Client => client_call(&start.id, &start.name, &self.namespaced, empty),
            Runner::Upstream | Runner::Toolwire => {
                let hosted = Hosted::of(&start.name);
                self.hosted.push((start.index, hosted));
                hosted.call(&start.id, (&start.name, SERVER_NAME), empty)
            }
        };
        let index = self.block_start(&block, out);
        if start.runner != Runner::Client {
            self.server_calls.add(Hosted::of(&start.name).count());
        }
        let deltas = Deltas::new(index, ("input_json_delta", "partial_json"));
        self.calls.push(OpenCall { call: start.index, deltas, is_cut: false, input: Input::Streamed });
    }

    /// Starts a call that the upstream runs, using the upstream's own block.
    fn server_call(&mut self, start: &CallStart<'_>, frame: &str, out: &mut BytesMut) {
        let index = self.block_frame(frame, out);
        self.hosted.push((start.index, Hosted::of(&start.name)));
        let input = Json::parse(frame).ok().and_then(|event| event.get("content_block")?.get("input"));
        let deltas = Deltas::new(index, ("input_json_delta", "partial_json"));
        let has_input = input.is_some_and(|input| input.members().next().is_some());
        self.calls.push(OpenCall {
            call: start.index,
            deltas,
            is_cut: false,
            input: if has_input { Input::Given } else { Input::Due },
        });
    }

    fn arguments(&mut self, call: u32, piece: &str, frame: Option<&str>, out: &mut BytesMut) {
        let Some(open) = self.calls.iter_mut().find(|open| open.call == call) else { return };
        match frame {
            _ if piece.is_empty() || open.input == Input::Given => {}
            // If there is no input, the upstream sends an empty object.
            None if open.input == Input::Due && piece == "{}" => {}
            Some(frame) => open.deltas.put_frame(frame, piece, out),
            None => open.deltas.put(piece, out),
        }
        if open.input == Input::Due {
            open.input = Input::Streamed;
        }
    }

    fn call_end(&mut self, call: u32, out: &mut BytesMut) {
        if let Some(place) = self.calls.iter().position(|open| open.call == call) {
            put_stop(self.calls.remove(place).deltas.index, out);
        }
    }

    fn call_cut(&mut self, call: u32) {
        if let Some(open) = self.calls.iter_mut().find(|open| open.call == call) {
            open.is_cut = true;
        }
    }

    fn close_calls(&mut self, out: &mut BytesMut) {
        self.calls.drain(..).for_each(|open| put_stop(open.deltas.index, out));
        self.unknown.drain(..).for_each(|(_, index)| put_stop(index, out));
    }

    fn put_summary(&mut self, text: &str, out: &mut BytesMut) {
        let index = self.block_start(&json!({"type": block::COMPACTION, "content": null}), out);
        put_delta(index, &json!({"type": "compaction_delta", "content": text}), out);
        put_stop(index, out);
    }

    /// Writes a block that has no deltas.
    fn whole(&mut self, block: &Value, out: &mut BytesMut) {
        self.close(out);
        let index = self.block_start(block, out);
        put_stop(index, out);
    }

    /// Starts the next block and returns its index.
    fn block_start(&mut self, block: &Value, out: &mut BytesMut) -> usize {
        let index = self.next_block(out);
        let event = json!({"type": "content_block_start", "index": index, "content_block": block});
        put_event("content_block_start", &event, out);
        index
    }

    /// Starts the next block with the upstream's own event and returns its index.
    fn block_frame(&mut self, frame: &str, out: &mut BytesMut) -> usize {
        self.close(out);
        let index = self.next_block(out);
        put_frame("content_block_start", frame, index, out);
        index
    }

    /// The index of the next block. Ends the upstream's blocks and truncated calls that are still open.
    fn next_block(&mut self, out: &mut BytesMut) -> usize {
        self.begin(out);
        for cut in self.calls.extract_if(.., |call| call.is_cut) {
            put_stop(cut.deltas.index, out);
        }
        // The API has only one open block at a time, so the upstream's previous block has ended.
        self.unknown.drain(..).for_each(|(_, index)| put_stop(index, out));
        let index = self.blocks;
        self.blocks += 1;
        index
    }
}

fn put_delta(index: usize, delta: &Value, out: &mut BytesMut) {
    let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
    put_event("content_block_delta", &event, out);
}

/// Writes an event of the upstream with the client's index.
fn put_frame(name: &str, frame: &str, index: usize, out: &mut BytesMut) {
    let theirs = Json::parse(frame).ok().and_then(|event| event.get("index"));
    let theirs = theirs.and_then(|theirs| span(frame, theirs.raw())).unwrap_or_default();
    let (before, after) = (frame.get(..theirs.start), frame.get(theirs.end..));
    for part in ["event: ", name, "\ndata: ", before.unwrap_or_default(), &index.to_string()] {
        out.put_slice(part.as_bytes());
    }
    out.put_slice(after.unwrap_or_default().as_bytes());
    out.put_slice(b"\n\n");
}

fn put_stop(index: usize, out: &mut BytesMut) {
    put_event("content_block_stop", &json!({"type": "content_block_stop", "index": index}), out);
}

fn put_event(name: &str, data: &Value, out: &mut BytesMut) {
    for part in ["event: ", name, "\ndata: ", &data.to_string(), "\n\n"] {
        out.put_slice(part.as_bytes());
    }
}

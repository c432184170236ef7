//! A response as a stream of events.
//!
//! All deltas of a block begin in the same way. That beginning is built with the block; after that a piece of text costs
//! two copies and the escaping of the piece, and allocates nothing.

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value, json};

use super::{
    Head,
    block::{self, Hosted},
};
use crate::{
    dialect::{Answering, Dialect, StreamForm, messages::error_body, opaque::carried},
    event::{CallStart, Event, Finish, Reasoning, Runner, Usage},
    failure::Failure,
    wire::json::escape_into,
};

/// Closes the string, the delta and the event.
const END: &[u8] = b"\"}}\n\n";

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    begun: bool,
    /// How many blocks have begun.
    blocks: usize,
    /// The open block of text or thinking.
    open: Option<Open>,
    /// The blocks of calls that have not ended.
    calls: Vec<OpenCall>,
    /// Calls that the client does not run: their results have blocks, too.
    hosted: Vec<(u32, Hosted)>,
    refused: bool,
    finish: Option<Finish>,
    usage: Option<Box<Usage>>,
    /// Nearly no response has any.
    warnings: Vec<Value>,
}

/// An open block of text or thinking.
#[derive(Debug)]
struct Open {
    kind: Kind,
    index: usize,
    /// The beginning of its deltas.
    prefix: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

/// The open block of a call.
#[derive(Debug)]
struct OpenCall {
    call: u32,
    index: usize,
    prefix: Vec<u8>,
}

impl StreamForm for Stream {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            begun: false,
            blocks: 0,
            open: None,
            calls: Vec::new(),
            hosted: Vec::new(),
            refused: false,
            finish: None,
            usage: None,
            warnings: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Start(start) if !self.begun => self.head.take(start),
            Event::Start(_) | Event::Ping(_) => {}
            Event::Text(text) => self.piece(Kind::Text, text, out),
            Event::Refusal(text) => {
                self.refused = true;
                self.piece(Kind::Text, text, out);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning, out),
            Event::CallStart(start) => self.call_start(start, out),
            Event::CallArguments { index, piece } => self.arguments(*index, piece, out),
            Event::CallEnd { index, .. } => self.call_end(*index, out),
            Event::CallResult(result) => {
                let known = self.hosted.iter().find(|(call, _)| *call == result.index);
                let hosted = known.map_or(Hosted::Other, |(_, hosted)| *hosted);
                self.whole(&hosted.result(&result.id, &result.content, result.is_error), out);
            }
            Event::ServerCall(call) => block::server_call(call).for_each(|block| self.whole(&block, out)),
            Event::Annotation(annotation) => {
                let index = self.open(Kind::Text, out).index;
                let delta = json!({"type": "citations_delta", "citation": block::citation(annotation)});
                put_delta(index, &delta, out);
            }
            // Messages of the assistant have no images in this API.
            Event::Media(_) => {}
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Warning(warning) => self.warnings.push(block::warning(warning)),
            Event::Finish(finish) => {
                self.begin(out);
                self.close(out);
                self.close_calls(out);
                self.finish = Some(*finish);
            }
            Event::Verbatim { means: Some(event), .. } => self.event(event, out),
            Event::Verbatim { means: None, .. } => {}
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.begin(out);
        let reason = self.finish.map(|finish| block::stop_reason(finish, self.refused));
        let mut event = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": block::usage(self.usage.as_deref()),
        });
        if let (Some(event), false) = (event.as_object_mut(), self.warnings.is_empty()) {
            event.insert("toolwire".to_owned(), block::notes(&self.warnings));
        }
        put_event("message_delta", &event, out);
        put_event("message_stop", &json!({"type": "message_stop"}), out);
    }

    /// The error is the last event: the clients raise it and read no further.
    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        out.put_slice(b"event: error\ndata: ");
        out.put_slice(&error_body(failure));
        out.put_slice(b"\n\n");
    }

    /// A `ping`; before the message has begun, a comment.
    fn keep_alive(&self, out: &mut BytesMut) {
        match self.begun {
            true => put_event("ping", &json!({"type": "ping"}), out),
            false => out.put_slice(b": keep-alive\n\n"),
        }
    }
}

impl Stream {
    /// Writes `message_start`, once.
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
            "usage": block::usage(self.usage.as_deref()),
        });
        put_event("message_start", &json!({"type": "message_start", "message": message}), out);
    }

    /// A piece of text or thinking.
    fn piece(&mut self, kind: Kind, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        let block = self.open(kind, out);
        out.put_slice(&block.prefix);
        escape_into(out, text);
        out.put_slice(END);
    }

    fn reasoning(&mut self, reasoning: &Reasoning<'_>, out: &mut BytesMut) {
        self.piece(Kind::Thinking, &reasoning.text, out);
        if let Some(signature) = &reasoning.signature {
            let index = self.open(Kind::Thinking, out).index;
            put_delta(
                index,
                &json!({"type": "signature_delta", "signature": carried(signature, Dialect::Messages)}),
                out,
            );
            // A signature is that of the whole block.
            self.close(out);
        }
    }

    /// The open block of this kind; another one is closed before.
    fn open(&mut self, kind: Kind, out: &mut BytesMut) -> &Open {
        let open = match self.open.take() {
            Some(open) if open.kind == kind => open,
            other => {
                if let Some(other) = other {
                    put_stop(other.index, out);
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
        Open { kind, index, prefix: prefix(index, delta) }
    }

    /// Closes the open block of text or thinking.
    fn close(&mut self, out: &mut BytesMut) {
        if let Some(open) = self.open.take() {
            put_stop(open.index, out);
        }
    }

    fn call_start(&mut self, start: &CallStart<'_>, out: &mut BytesMut) {
        self.close(out);
        let empty = Value::Object(Map::new());
        let block = match start.runner {
            Runner::Client => {
                json!({"type": "tool_use", "id": start.id, "name": start.name, "input": empty})
            }
            Runner::Upstream | Runner::Toolwire => {
                let hosted = Hosted::of(&start.name);
                self.hosted.push((start.index, hosted));
                hosted.call(&start.id, &start.name, empty)
            }
        };
        let index = self.block_start(&block, out);
        let prefix = prefix(index, ("input_json_delta", "partial_json"));
        self.calls.push(OpenCall { call: start.index, index, prefix });
    }

    fn arguments(&mut self, call: u32, piece: &str, out: &mut BytesMut) {
        let Some(open) = self.calls.iter().find(|open| open.call == call) else { return };
        if !piece.is_empty() {
            out.put_slice(&open.prefix);
            escape_into(out, piece);
            out.put_slice(END);
        }
    }

    fn call_end(&mut self, call: u32, out: &mut BytesMut) {
        if let Some(place) = self.calls.iter().position(|open| open.call == call) {
            put_stop(self.calls.remove(place).index, out);
        }
    }

    fn close_calls(&mut self, out: &mut BytesMut) {
        self.calls.drain(..).for_each(|open| put_stop(open.index, out));
    }

    /// A block that has no deltas.
    fn whole(&mut self, block: &Value, out: &mut BytesMut) {
        self.close(out);
        let index = self.block_start(block, out);
        put_stop(index, out);
    }

    /// Begins the next block; returns its index.
    fn block_start(&mut self, block: &Value, out: &mut BytesMut) -> usize {
        self.begin(out);
        let index = self.blocks;
        self.blocks += 1;
        let event = json!({"type": "content_block_start", "index": index, "content_block": block});
        put_event("content_block_start", &event, out);
        index
    }
}

/// The beginning of a delta of one string, up to the string's text.
fn prefix(index: usize, (kind, key): (&str, &str)) -> Vec<u8> {
    let start = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
    format!("{start}{index},\"delta\":{{\"type\":\"{kind}\",\"{key}\":\"").into_bytes()
}

fn put_delta(index: usize, delta: &Value, out: &mut BytesMut) {
    let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
    put_event("content_block_delta", &event, out);
}

fn put_stop(index: usize, out: &mut BytesMut) {
    put_event("content_block_stop", &json!({"type": "content_block_stop", "index": index}), out);
}

fn put_event(name: &str, data: &Value, out: &mut BytesMut) {
    for part in ["event: ", name, "\ndata: ", &data.to_string(), "\n\n"] {
        out.put_slice(part.as_bytes());
    }
}

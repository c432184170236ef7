//! Writes a response as a stream of chunks.
//!
//! All chunks of a response start and end the same way. The start is built once, for the first chunk; after
//! that, writing a piece of text takes three copies and the escaping, but no allocation.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use serde_json::Value;

use super::{
    ID,
    delta::{self, Running, numbered},
    reasoning::ReasoningField,
};
use crate::{
    Answering, StreamForm,
    chat::{error_body, extra},
    custom_tools::Customs,
    event::{CallEnd, CallStart, Event, Usage},
    failure::Failure,
    openai_chunk::{Head, put_frame},
    wire::json::escape_into,
};

const END: &[u8] = b",\"finish_reason\":null}]}\n\n";

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    include_usage: bool,
    legacy_functions: bool,
    reasoning: ReasoningField,
    /// The start of every chunk, up to the delta. Empty before the first chunk.
    prefix: Vec<u8>,
    /// The start of every chunk that contains a piece of text.
    text_prefix: Vec<u8>,
    role_written: bool,
    /// The indexes of the calls that have started but have no arguments yet.
    bare_calls: Vec<u32>,
    /// Number of elements of `tool_results` so far.
    results: usize,
    running: Running,
    annotations: usize,
    images: usize,
    customs: Customs,
    usage: Counts,
    /// Boxed because few responses have notes.
    notes: Option<Box<Notes>>,
}

/// The contents of toolwire's extension field in the last chunk.
#[derive(Debug, Default)]
struct Notes {
    warnings: Vec<Value>,
}

#[derive(Debug)]
enum Counts {
    None,
    Told(Box<Usage>),
    /// The upstream's own chunk with the counts, to be forwarded.
    Frame(Vec<u8>),
}

impl StreamForm for Stream {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering, ID),
            include_usage: answering.include_usage,
            legacy_functions: answering.legacy_functions,
            reasoning: ReasoningField::new(answering.reasoning),
            prefix: Vec::new(),
            text_prefix: Vec::new(),
            role_written: false,
            bare_calls: Vec::new(),
            results: 0,
            running: Running::default(),
            annotations: 0,
            images: 0,
            customs: Customs::new(answering),
            usage: Counts::None,
            notes: None,
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Text(text) => {
                self.begin("\"\"", out);
                out.put_slice(&self.text_prefix);
                escape_into(out, text);
                out.put_slice(b"\"}");
                out.put_slice(END);
            }
            Event::Reasoning(reasoning) if reasoning.text.is_empty() => {}
            Event::Reasoning(reasoning) => self.string(self.reasoning.name(), &reasoning.text, out),
            Event::Refusal(text) => self.string("refusal", text, out),
            Event::CallStart(start) => self.call_start(start, out),
            Event::CallArguments { index, piece } => self.arguments(*index, piece, out),
            Event::CallEnd { index, end } => self.call_end(*index, *end, out),
            Event::CallResult(result) => {
                self.results += 1;
                self.list("tool_results", delta::result(result), out);
            }
            Event::ServerCall(call) => {
                let Some(call) = self.running.whole(call) else { return };
                let element = numbered(delta::server_call(&call), self.results);
                self.results += 1;
                self.list("tool_results", element, out);
            }
            Event::Annotation(annotation) => {
                let element = numbered(delta::annotation(annotation), self.annotations);
                self.annotations += 1;
                self.list("annotations", element, out);
            }
            Event::Media(media) => {
                if let Some(image) = delta::image(media) {
                    let element = numbered(image, self.images);
                    self.images += 1;
                    self.list("images", element, out);
                }
            }
            Event::Start(start) => {
                if self.prefix.is_empty() {
                    self.head.take(start);
                }
            }
            Event::Usage(usage) => self.usage = Counts::Told(Box::new(usage.clone())),
            Event::Finish(finish) => {
                self.begin("\"\"", out);
                out.put_slice(&self.prefix);
                out.put_slice(b"{},\"finish_reason\":\"");
                out.put_slice(delta::finish_word(*finish, self.legacy_functions).as_bytes());
                out.put_slice(b"\"}]");
                if let Some(notes) = self.notes.take() {
                    put_all(out, [",\"toolwire\":", &delta::notes(notes.warnings).to_string()]);
                }
                out.put_slice(b"}\n\n");
            }
            Event::Warning(warning) => {
                self.notes.get_or_insert_default().warnings.push(delta::warning(warning));
            }
            Event::Ping(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::Verbatim { frame, means } => self.verbatim(frame, *means, out),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        match std::mem::replace(&mut self.usage, Counts::None) {
            _ if !self.include_usage => {}
            Counts::None => {}
            Counts::Frame(frame) => put_frame(&frame, out),
            Counts::Told(usage) => self.head.put_usage("chat.completion.chunk", &usage, out),
        }
        put_frame(b"[DONE]", out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        put_frame(&error_body(failure), out);
        put_frame(b"[DONE]", out);
    }

    fn keep_alive(&self, out: &mut BytesMut) {
        out.put_slice(b": keep-alive\n\n");
    }
}

impl Stream {
    /// Forwards a frame unchanged, unless this client needs it in another form, and records what it means.
    fn verbatim(&mut self, frame: &str, means: Option<&Event<'_>>, out: &mut BytesMut) {
        match means {
            None => {}
            Some(Event::Usage(_)) => {
                self.usage = Counts::Frame(frame.as_bytes().to_vec());
                return;
            }
            Some(Event::Start(start)) if !self.role_written => {
                self.head.take(start);
                self.role_written = true;
            }
            Some(Event::Start(_) | Event::Ping(_)) => return,
            Some(event @ (Event::CallStart(_) | Event::CallArguments { .. } | Event::Finish(_)))
                if self.legacy_functions =>
            {
                return self.event(event, out);
            }
            Some(event) if self.reasoning.differs(frame, event) => return self.event(event, out),
            // The client declared this tool as a custom tool, but the upstream calls it as a function.
            Some(event) if self.customs.are_told_otherwise(event) => return self.event(event, out),
            Some(event) => {
                self.begin("\"\"", out);
                self.note(event);
            }
        }
        put_frame(frame.as_bytes(), out);
    }

    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::CallStart(start) if self.customs.begin(start).is_some() => {}
            Event::CallStart(start) => self.bare_calls.push(start.index),
            Event::CallArguments { index, .. } => self.has_arguments(*index),
            _ => {}
        }
    }

    /// Writes what precedes the first content, which is the role. `content` is `null` if no text is expected.
    fn begin(&mut self, content: &str, out: &mut BytesMut) {
        if self.prefix.is_empty() {
            self.prepare();
        }
        if self.role_written {
            return;
        }
        self.role_written = true;
        out.put_slice(&self.prefix);
        out.put_slice(b"{\"role\":\"assistant\",\"content\":");
        out.put_slice(content.as_bytes());
        out.put_slice(b"}");
        out.put_slice(END);
    }

    /// Builds the prefixes, once the upstream's head has arrived or is known to be missing.
    fn prepare(&mut self) {
        let Head { id, created, model } = &self.head;
        let mut prefix = BytesMut::with_capacity(128 + id.len() + model.len());
        prefix.put_slice(b"data: {\"id\":\"");
        escape_into(&mut prefix, id);
        put_all(&mut prefix, ["\",\"object\":\"chat.completion.chunk\",\"created\":", &created.to_string()]);
        prefix.put_slice(b",\"model\":\"");
        escape_into(&mut prefix, model);
        prefix.put_slice(b"\",\"choices\":[{\"index\":0,\"delta\":");
        self.prefix = prefix.into();
        self.text_prefix = [&self.prefix, b"{\"content\":\"".as_slice()].concat();
    }

    fn string(&mut self, key: &str, text: &str, out: &mut BytesMut) {
        self.begin("null", out);
        out.put_slice(&self.prefix);
        put_all(out, ["{\"", key, "\":\""]);
        escape_into(out, text);
        out.put_slice(b"\"}");
        out.put_slice(END);
    }

    fn list(&mut self, key: &str, element: Value, out: &mut BytesMut) {
        self.begin("null", out);
        out.put_slice(&self.prefix);
        put_all(out, ["{\"", key, "\":[", &element.to_string(), "]}"]);
        out.put_slice(END);
    }

    fn call_start(&mut self, start: &CallStart<'_>, out: &mut BytesMut) {
        if self.is_untold(start.index) {
            return;
        }
        self.begin("null", out);
        let is_custom = self.customs.begin(start).is_some();
        if !is_custom {
            self.bare_calls.push(start.index);
        }
        out.put_slice(&self.prefix);
        if self.legacy_functions && !is_custom {
            out.put_slice(b"{\"function_call\":{\"name\":\"");
            escape_into(out, &start.name);
            out.put_slice(b"\",\"arguments\":\"\"}}");
        } else {
            let (kind, arguments) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
            put_index(out, start.index);
            out.put_slice(b",\"id\":\"");
            escape_into(out, &start.id);
            put_all(out, ["\",\"type\":\"", kind, "\",\"", kind, "\":{\"name\":\""]);
            escape_into(out, &start.name);
            put_all(out, ["\",\"", arguments, "\":\"\"}"]);
            if let Some(state) = &start.signature {
                put_all(out, [",\"extra_content\":", &extra::extra_content(state).to_string()]);
            }
            out.put_slice(b"}]}");
        }
        out.put_slice(END);
    }

    fn input(&self, index: u32, piece: &str, out: &mut BytesMut) {
        if piece.is_empty() {
            return;
        }
        out.put_slice(&self.prefix);
        put_index(out, index);
        out.put_slice(b",\"custom\":{\"input\":\"");
        escape_into(out, piece);
        out.put_slice(b"\"}}]}");
        out.put_slice(END);
    }

    fn arguments(&mut self, index: u32, piece: &str, out: &mut BytesMut) {
        if piece.is_empty() || self.is_untold(index) {
            return;
        }
        if let Some(input) = self.customs.get(index) {
            let piece = input.piece(piece);
            return self.input(index, &piece, out);
        }
        self.has_arguments(index);
        out.put_slice(&self.prefix);
        if self.legacy_functions {
            out.put_slice(b"{\"function_call\":{\"arguments\":\"");
            escape_into(out, piece);
            out.put_slice(b"\"}}");
        } else {
            put_index(out, index);
            out.put_slice(b",\"function\":{\"arguments\":\"");
            escape_into(out, piece);
            out.put_slice(b"\"}}]}");
        }
        out.put_slice(END);
    }

    /// Clients parse the joined arguments as JSON, so a complete call without arguments gets an empty object.
    fn call_end(&mut self, index: u32, end: CallEnd, out: &mut BytesMut) {
        if let Some(rest) = self.customs.get(index).map(|input| input.end(end)) {
            return self.input(index, &rest, out);
        }
        if end == CallEnd::Complete && self.bare_calls.contains(&index) {
            self.arguments(index, "{}", out);
        }
    }

    fn has_arguments(&mut self, index: u32) {
        self.bare_calls.retain(|call| *call != index);
    }

    /// Whether the call is not written because `function_call`, used before November 2023, allows only one
    /// call.
    fn is_untold(&self, index: u32) -> bool {
        self.legacy_functions && index > 0
    }
}

fn put_index(out: &mut BytesMut, index: u32) {
    out.put_slice(b"{\"tool_calls\":[{\"index\":");
    // Writing to memory cannot fail.
    let _ = write!(out, "{index}");
}

fn put_all<const N: usize>(out: &mut BytesMut, pieces: [&str; N]) {
    pieces.into_iter().for_each(|piece| out.put_slice(piece.as_bytes()));
}

//! Writes a response as a stream: server-sent events, or the elements of a JSON array.
//!
//! All elements that contain one part start and end the same way. The end is built once; after that, writing a
//! piece of text takes three copies and the escaping, but no allocation.

use bytes::{BufMut, BytesMut};

use super::{
    Asked, Head,
    ending::Ending,
    parts::{self, Call},
};
use crate::{
    Answering, StreamForm,
    event::{CallEnd, Event, Reasoning},
    failure::Failure,
    gemini::error_body,
    google_signatures::signature,
    wire::json::{Encoder, escape_into},
};

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    asked: Asked,
    /// Whether an element has been written.
    begun: bool,
    /// The end of every element that contains one part, after the part.
    suffix: Vec<u8>,
    /// The signature that belongs to the next part.
    signature: Option<String>,
    /// The calls whose arguments are arriving.
    calls: Vec<Call>,
    ending: Ending,
}

/// The start of an element's object, up to the members of its only part.
const PART: &[u8] = b"{\"candidates\":[{\"content\":{\"parts\":[";

impl StreamForm for Stream {
    /// Calls are written when they are complete, in the order in which they began.
    const ONE_BLOCK_AT_A_TIME: bool = true;

    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            asked: Asked::new(answering),
            begun: false,
            suffix: Vec::new(),
            signature: None,
            calls: Vec::new(),
            ending: Ending::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Text(text) => self.text(text, out),
            Event::Refusal(text) => {
                self.ending.note(event);
                self.text(text, out);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning, out),
            Event::CallStart(start) => self.calls.push(Call::new(start)),
            Event::CallArguments { index, piece } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == *index) {
                    call.arguments.push_str(piece);
                }
            }
            Event::CallEnd { index, end } => self.call_end(*index, *end, out),
            Event::CallResult(result) => self.part(|body| parts::result(result, body), out),
            Event::ServerCall(call) => parts::server_call(call, |put| self.part(put, out)),
            Event::Media(media) => self.part(|body| parts::media(media, body), out),
            Event::Start(start) => {
                if self.suffix.is_empty() {
                    self.head.take(start);
                }
            }
            Event::Annotation(_) | Event::Usage(_) | Event::Warning(_) | Event::Finish(_) => {
                self.ending.note(event);
            }
            Event::Ping(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::Verbatim { frame, means } => self.verbatim(frame, *means, out),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let mut body = Encoder::default();
        body.object(|body| {
            body.key("candidates").array(|body| {
                body.object(|body| {
                    // SDKs drop a turn with a response that has no parts from the history of a chat.
                    body.key("content").object(|body| {
                        body.key("parts").array(|body| {
                            body.object(|body| {
                                body.key("text").string("");
                                if let Some(signature) = &self.signature {
                                    body.key("thoughtSignature").string(signature);
                                }
                            });
                        });
                        body.key("role").string("model");
                    });
                    self.ending.put_candidate(body);
                });
            });
            self.ending.put_response(&self.head, body);
        });
        self.element(&body.finish(), out);
        if self.asked.array {
            out.put_slice(b"]");
        }
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        self.element(&error_body(failure), out);
        if self.asked.array {
            out.put_slice(b"]");
        }
    }

    fn content_type(&self) -> &'static str {
        if self.asked.array { "application/json" } else { "text/event-stream; charset=utf-8" }
    }

    /// Writes white space: the SDK for Python takes comments for data.
    fn keep_alive(&self, out: &mut BytesMut) {
        out.put_slice(b"\n");
    }

    fn kept(&self) -> usize {
        self.ending.size() + self.calls.iter().map(Call::size).sum::<usize>()
    }
}

impl Stream {
    /// Forwards a frame unchanged, unless this client needs it in another form, and records what it means.
    fn verbatim(&mut self, frame: &str, means: Option<&Event<'_>>, out: &mut BytesMut) {
        match means {
            Some(Event::Text(text)) if self.signature.is_none() => {
                self.ending.sources.said(text);
                self.element(frame.as_bytes(), out);
            }
            Some(Event::Reasoning(reasoning))
                if self.signature.is_none() && reasoning.signature.is_none() =>
            {
                if !self.asked.text_only {
                    self.element(frame.as_bytes(), out);
                }
            }
            Some(event @ Event::Finish(_)) => {
                self.ending.take_frame(frame);
                self.ending.note(event);
            }
            Some(event) => self.event(event, out),
            None => self.element(frame.as_bytes(), out),
        }
    }

    /// Writes what precedes an element.
    fn begin(&mut self, out: &mut BytesMut) {
        let begun = std::mem::replace(&mut self.begun, true);
        out.put_slice(match (self.asked.array, begun) {
            (false, _) => b"data: ",
            (true, false) => b"[",
            (true, true) => b",\n",
        });
    }

    /// Writes an element.
    fn element(&mut self, json: &[u8], out: &mut BytesMut) {
        self.begin(out);
        out.put_slice(json);
        if !self.asked.array {
            out.put_slice(b"\n\n");
        }
    }

    /// Begins an element with one part.
    fn begin_part(&mut self, out: &mut BytesMut) {
        if self.suffix.is_empty() {
            self.prepare();
        }
        self.begin(out);
        out.put_slice(PART);
    }

    /// Builds the suffix, once the upstream's head has arrived or is known to be missing.
    fn prepare(&mut self) {
        let mut head = Encoder::default();
        head.object(|body| self.head.put(body));
        let head = head.finish();
        let members = head.get(1..).unwrap_or_default();
        let end: &[u8] = if self.asked.array { b"" } else { b"\n\n" };
        self.suffix = [b"],\"role\":\"model\"},\"index\":0}],".as_slice(), members, end].concat();
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        self.ending.sources.said(text);
        self.begin_part(out);
        out.put_slice(b"{\"text\":\"");
        escape_into(out, text);
        out.put_slice(b"\"");
        if let Some(signature) = self.signature.take() {
            out.put_slice(b",\"thoughtSignature\":\"");
            escape_into(out, &signature);
            out.put_slice(b"\"");
        }
        out.put_slice(b"}");
        out.put_slice(&self.suffix);
    }

    /// Writes a part other than text.
    fn part(&mut self, put: impl FnOnce(&mut Encoder), out: &mut BytesMut) {
        let mut body = Encoder::default();
        put(&mut body);
        self.begin_part(out);
        out.put_slice(&body.finish());
        out.put_slice(&self.suffix);
    }

    /// Writes thoughts, if the client has asked for them. State of this dialect belongs to the next part, and
    /// other state to the thoughts.
    fn reasoning(&mut self, reasoning: &Reasoning<'_>, out: &mut BytesMut) {
        let Reasoning { text, signature: state, redacted } = reasoning;
        let state = state.as_ref().filter(|_| !reasoning.is_end());
        if let Some(state) = state.filter(|state| state.dialect == super::DIALECT && !redacted) {
            self.thought(text, None, out);
            self.signature = Some(signature(state, false).into_owned());
            return;
        }
        self.thought(text, state.map(|state| (state, *redacted)), out);
    }

    fn thought(&mut self, text: &str, state: Option<(&crate::event::Opaque<'_>, bool)>, out: &mut BytesMut) {
        if !(self.asked.text_only || text.is_empty() && state.is_none()) {
            self.part(|body| parts::thought(text, state, body), out);
        }
    }

    fn call_end(&mut self, index: u32, end: CallEnd, out: &mut BytesMut) {
        let Some(place) = self.calls.iter().rposition(|call| call.index == index) else { return };
        let call = self.calls.remove(place);
        let mut body = Encoder::default();
        if end != CallEnd::Complete || call.put(self.signature.as_deref(), &mut body).is_err() {
            return self.ending.broken(&call, end);
        }
        self.signature = None;
        self.begin_part(out);
        out.put_slice(&body.finish());
        out.put_slice(&self.suffix);
    }
}

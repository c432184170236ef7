//! Assembles a response as a single object.

use bytes::BytesMut;

use super::{
    Asked, Head,
    ending::Ending,
    parts::{self, Call},
};
use crate::{
    Answering, WholeForm,
    event::{CallEnd, Event, Reasoning},
    failure::Failure,
    gemini::error_body,
    google_signatures::signature,
    wire::json::Encoder,
};

/// The response so far.
#[derive(Debug)]
pub struct Whole {
    head: Head,
    asked: Asked,
    parts: Vec<Part>,
    /// The signature that belongs to the next part.
    signature: Option<String>,
    ending: Ending,
    /// Approximate size of the collected events in bytes.
    kept: usize,
}

#[derive(Debug)]
enum Part {
    Text {
        text: String,
        signature: Option<String>,
    },
    Thought {
        text: String,
        signature: Option<String>,
    },
    /// A call, the signature before it, and how it ended.
    Call {
        call: Call,
        signature: Option<String>,
        end: Option<CallEnd>,
    },
    /// JSON.
    Written(String),
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            asked: Asked::new(answering),
            parts: Vec::new(),
            signature: None,
            ending: Ending::default(),
            kept: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => self.head.take(start),
            Event::Text(text) => self.text(text),
            Event::Refusal(text) => {
                self.ending.note(event);
                self.text(text);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning),
            Event::CallStart(start) => {
                let call = Call::new(start);
                self.kept += call.size();
                let signature = self.signature.take();
                self.parts.push(Part::Call { call, signature, end: None });
            }
            Event::CallArguments { index, piece } => {
                self.kept += piece.len();
                if let Some((call, _)) = self.call(*index) {
                    call.arguments.push_str(piece);
                }
            }
            Event::CallEnd { index, end } => {
                if let Some((_, ended)) = self.call(*index) {
                    *ended = Some(*end);
                }
            }
            Event::CallResult(result) => self.written(|body| parts::result(result, body)),
            Event::ServerCall(call) => parts::server_call(call, |put| self.written(put)),
            Event::Media(media) => self.written(|body| parts::media(media, body)),
            Event::Annotation(_) | Event::Usage(_) | Event::Warning(_) | Event::Finish(_) => {
                self.ending.note(event);
            }
            Event::Ping(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::Verbatim { frame, means } => {
                if matches!(means, None | Some(Event::Finish(_))) {
                    self.ending.take_frame(frame);
                }
                means.iter().for_each(|event| self.event(event));
            }
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let mut body = Encoder::with_capacity(self.kept + 512);
        let parts = std::mem::take(&mut self.parts);
        body.object(|body| {
            body.key("candidates").array(|body| {
                body.object(|body| {
                    body.key("content").object(|body| {
                        body.key("parts").array(|body| {
                            let mut is_empty = true;
                            for part in &parts {
                                is_empty &= !part.put(body, &mut self.ending);
                            }
                            if is_empty || self.signature.is_some() {
                                put_text(body, "", self.signature.as_deref());
                            }
                        });
                        body.key("role").string("model");
                    });
                    self.ending.put_candidate(body);
                });
            });
            self.ending.put_response(&self.head, body);
        });
        out.extend_from_slice(&body.finish());
    }

    /// Approximate size of the collected contents in bytes, without the overhead of storing them.
    fn kept(&self) -> usize {
        self.kept + self.ending.size()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }
}

impl Whole {
    fn text(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        self.kept += piece.len();
        self.ending.sources.said(piece);
        match (self.parts.last_mut(), self.signature.take()) {
            (Some(Part::Text { text, .. }), None) => text.push_str(piece),
            (_, signature) => self.parts.push(Part::Text { text: piece.to_owned(), signature }),
        }
    }

    /// Collects thoughts, if the client has asked for them. State of this dialect belongs to the next part, and
    /// other state to the thoughts.
    fn reasoning(&mut self, reasoning: &Reasoning<'_>) {
        let Reasoning { text: piece, signature: state, redacted } = reasoning;
        let state = state.as_ref().filter(|_| !reasoning.is_end());
        let is_of_next = state.is_some_and(|state| state.dialect == super::DIALECT && !redacted);
        let given = state.map(|state| signature(state, *redacted).into_owned());
        self.kept += piece.len() + given.as_ref().map_or(0, String::len);
        let own = if is_of_next { None } else { given.clone() };
        if !(self.asked.text_only || piece.is_empty() && own.is_none()) {
            match self.parts.last_mut() {
                Some(Part::Thought { text, signature: signature @ None }) if !redacted => {
                    text.push_str(piece);
                    *signature = own;
                }
                _ => self.parts.push(Part::Thought { text: piece.to_string(), signature: own }),
            }
        }
        if is_of_next {
            self.signature = given;
        }
    }

    fn written(&mut self, put: impl FnOnce(&mut Encoder)) {
        let mut body = Encoder::default();
        put(&mut body);
        let part = body.finish_text();
        self.kept += part.len();
        self.parts.push(Part::Written(part));
    }

    fn call(&mut self, index: u32) -> Option<(&mut Call, &mut Option<CallEnd>)> {
        self.parts.iter_mut().rev().find_map(|part| match part {
            Part::Call { call, end, .. } if call.index == index => Some((call, end)),
            _ => None,
        })
    }
}

impl Part {
    /// Writes the part. A call that has no valid arguments is described at the end of the response instead; the
    /// result is then false.
    fn put(&self, body: &mut Encoder, ending: &mut Ending) -> bool {
        match self {
            Self::Text { text, signature } => put_text(body, text, signature.as_deref()),
            Self::Thought { text, signature } => body.object(|body| {
                body.key("text").string(text);
                body.key("thought").value(&true);
                if let Some(signature) = signature {
                    body.key("thoughtSignature").string(signature);
                }
            }),
            Self::Call { call, signature, end } => {
                let end = end.unwrap_or(CallEnd::Cut);
                if end != CallEnd::Complete || call.put(signature.as_deref(), body).is_err() {
                    ending.broken(call, end);
                    return false;
                }
            }
            Self::Written(part) => body.written(part),
        }
        true
    }
}

fn put_text(body: &mut Encoder, text: &str, signature: Option<&str>) {
    body.object(|body| {
        body.key("text").string(text);
        if let Some(signature) = signature {
            body.key("thoughtSignature").string(signature);
        }
    });
}

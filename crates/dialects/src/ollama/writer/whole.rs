//! Assembles a response as a single object.

use bytes::BytesMut;

use super::{
    Head,
    calls::{Call, Calls, Ended},
    last::Last,
};
use crate::{
    Answering, WholeForm, event::Event, failure::Failure, ollama::client::error_body, wire::json::Encoder,
};

/// The response so far.
#[derive(Debug)]
pub struct Whole {
    head: Head,
    text: String,
    thinking: String,
    images: Vec<String>,
    calls: Calls,
    ended: Vec<Call>,
    last: Last,
    /// Size of the collected contents in bytes.
    kept: usize,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            text: String::new(),
            thinking: String::new(),
            images: Vec::new(),
            calls: Calls::default(),
            ended: Vec::new(),
            last: Last::new(answering),
            kept: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => self.head.take(start),
            Event::Verbatim { means, .. } => means.iter().for_each(|event| self.event(event)),
            Event::Text(_) | Event::Reasoning(_) | Event::CallStart(_) | Event::Media(_) => {
                self.last.content();
                self.content(event);
            }
            Event::Refusal(_) => {
                self.last.content();
                self.last.event(event);
                self.content(event);
            }
            Event::CallArguments { index, piece } => self.calls.arguments(*index, piece),
            Event::CallEnd { index, end } => match self.calls.end(*index, *end) {
                Some(Ended::Whole(call)) => {
                    self.kept += call.size();
                    self.ended.push(call);
                }
                Some(Ended::Told(list, call)) => self.last.note(list, call),
                None => {}
            },
            event => self.last.event(event),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.last.note_all(self.calls.rest());
        let mut body = Encoder::with_capacity(self.kept + 512);
        body.object(|body| {
            self.head.put(body);
            if self.head.is_prompt {
                body.key("response").string(&self.text);
                self.members(body);
            } else {
                body.key("message").object(|message| {
                    message.key("role").string("assistant");
                    message.key("content").string(&self.text);
                    self.members(message);
                });
            }
            self.last.put(body);
        });
        out.extend_from_slice(&body.finish());
    }

    fn kept(&self) -> usize {
        self.kept + self.calls.kept() + self.last.kept()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }
}

impl Whole {
    fn content(&mut self, event: &Event<'_>) {
        match event {
            Event::Text(piece) | Event::Refusal(piece) => {
                self.kept += piece.len();
                self.text.push_str(piece);
            }
            Event::Reasoning(reasoning) => {
                self.kept += reasoning.text.len();
                self.thinking.push_str(&reasoning.text);
            }
            Event::CallStart(start) => self.calls.start(start),
            Event::Media(media) if !media.data.is_empty() => {
                self.kept += media.data.len();
                self.images.push(media.data.to_string());
            }
            _ => {}
        }
    }

    /// Writes the members that follow the text.
    fn members(&self, object: &mut Encoder) {
        if !self.thinking.is_empty() {
            object.key("thinking").string(&self.thinking);
        }
        if !self.images.is_empty() {
            object.key("images").array(|images| self.images.iter().for_each(|data| images.string(data)));
        }
        if !self.ended.is_empty() {
            object.key("tool_calls").array(|calls| self.ended.iter().for_each(|call| call.put(calls)));
        }
    }
}

//! Writes a response as JSON Lines.
//!
//! All lines with text start and end the same way. The start is built once; after that, writing a piece of text
//! takes copies and the escaping, but no allocation.

use bytes::{BufMut, BytesMut};

use super::{
    Head, LINES,
    calls::{Call, Calls, Ended},
    last::Last,
};
use crate::{
    Answering, StreamForm,
    event::Event,
    failure::Failure,
    ollama::client::error_body,
    wire::json::{Encoder, escape_into},
};

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    /// The start of every line with a piece of text, up to the text. Empty before the first line.
    text: Vec<u8>,
    thinking: Vec<u8>,
    calls: Calls,
    last: Last,
}

impl StreamForm for Stream {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering),
            text: Vec::new(),
            thinking: Vec::new(),
            calls: Calls::default(),
            last: Last::new(answering),
        }
    }

    fn content_type(&self) -> &'static str {
        LINES
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            Event::Text(text) => self.piece(text, false, out),
            Event::Refusal(text) => {
                self.last.event(event);
                self.piece(text, false, out);
            }
            Event::Reasoning(reasoning) => self.piece(&reasoning.text, true, out),
            Event::CallStart(start) => {
                self.begin();
                self.calls.start(start);
            }
            Event::CallArguments { index, piece } => self.calls.arguments(*index, piece),
            Event::CallEnd { index, end } => match self.calls.end(*index, *end) {
                Some(Ended::Whole(call)) => self.call(&call, out),
                Some(Ended::Told(list, call)) => self.last.note(list, call),
                None => {}
            },
            Event::Media(media) if !media.data.is_empty() => self.image(&media.data, out),
            Event::Start(start) if self.text.is_empty() => self.head.take(start),
            Event::Verbatim { means: Some(means), .. } => self.event(means, out),
            event => self.last.event(event),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.last.note_all(self.calls.rest());
        let mut line = Encoder::default();
        line.object(|line| {
            self.head.put(line);
            match self.head.is_prompt {
                true => line.key("response").string(""),
                false => line.key("message").object(|message| {
                    message.key("role").string("assistant");
                    message.key("content").string("");
                }),
            }
            self.last.put(line);
        });
        out.put_slice(&line.finish());
        out.put_u8(b'\n');
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        out.put_slice(&error_body(failure));
        out.put_u8(b'\n');
    }

    /// Clients parse each line, so a comment is not possible: the line has an empty piece of text.
    fn keep_alive(&self, out: &mut BytesMut) {
        if self.text.is_empty() {
            out.put_slice(&self.prefix(false));
        } else {
            out.put_slice(&self.text);
        }
        out.put_slice(self.end());
    }

    fn kept(&self) -> usize {
        self.calls.kept() + self.last.kept()
    }
}

impl Stream {
    /// Builds the prefixes, once the upstream's head has arrived or is known to be missing.
    fn begin(&mut self) {
        if self.text.is_empty() {
            (self.text, self.thinking) = (self.prefix(false), self.prefix(true));
        }
        self.last.content();
    }

    /// The start of a line, up to a piece of text or of reasoning.
    fn prefix(&self, is_thinking: bool) -> Vec<u8> {
        let mut line = Encoder::default();
        line.object(|line| self.head.put(line));
        let mut line = Vec::from(line.finish());
        line.pop();
        line.extend_from_slice(match (self.head.is_prompt, is_thinking) {
            (false, false) => br#","message":{"role":"assistant","content":""#,
            (false, true) => br#","message":{"role":"assistant","content":"","thinking":""#,
            (true, false) => br#","response":""#,
            (true, true) => br#","response":"","thinking":""#,
        });
        line
    }

    /// What follows a piece of text.
    fn end(&self) -> &'static [u8] {
        match self.head.is_prompt {
            true => b"\",\"done\":false}\n",
            false => b"\"},\"done\":false}\n",
        }
    }

    fn piece(&mut self, text: &str, is_thinking: bool, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        self.begin();
        out.put_slice(if is_thinking { &self.thinking } else { &self.text });
        escape_into(out, text);
        out.put_slice(self.end());
    }

    fn call(&mut self, call: &Call, out: &mut BytesMut) {
        self.begin();
        let mut calls = Encoder::with_capacity(call.size());
        calls.array(|calls| call.put(calls));
        self.member("\"tool_calls\":", &calls.finish(), out);
    }

    fn image(&mut self, data: &str, out: &mut BytesMut) {
        self.begin();
        let mut images = Encoder::with_capacity(data.len());
        images.array(|images| images.string(data));
        self.member("\"images\":", &images.finish(), out);
    }

    /// Writes a line without text and with this member, whose key is written as JSON.
    fn member(&self, key: &str, value: &[u8], out: &mut BytesMut) {
        out.put_slice(&self.text);
        out.put_slice(b"\",");
        out.put_slice(key.as_bytes());
        out.put_slice(value);
        out.put_slice(self.end().strip_prefix(b"\"").unwrap_or_default());
    }
}

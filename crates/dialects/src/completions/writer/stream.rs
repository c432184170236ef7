//! Writes a response as a stream of chunks.
//!
//! All chunks start and end the same way. The start is built once; after that, writing a piece of text takes copies and
//! the escaping, but no allocation.

use bytes::{BufMut, BytesMut};

use super::{ID, OBJECT, finish_word};
use crate::{
    Answering, StreamForm,
    beside::Beside,
    event::{Event, Finish, Usage},
    failure::Failure,
    openai_chunk::{Head, put_frame},
    openai_error::error_body,
    wire::json::{Encoder, escape_into},
};

const END: &[u8] = b"\",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    head: Head,
    include_usage: bool,
    /// The start of every chunk with a piece of text, up to the text. Empty before the first chunk.
    prefix: Vec<u8>,
    usage: Option<Box<Usage>>,
    beside: Beside,
}

impl StreamForm for Stream {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering, ID),
            include_usage: answering.include_usage,
            prefix: Vec::new(),
            usage: None,
            beside: Beside::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match event {
            // The API has no refusals.
            Event::Text(text) | Event::Refusal(text) => self.piece(b"", text, out),
            Event::Reasoning(reasoning) => self.piece(b"\",\"reasoning_content\":\"", &reasoning.text, out),
            Event::Start(start) if self.prefix.is_empty() => self.head.take(start),
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Finish(finish) => self.last(*finish, out),
            Event::Verbatim { frame, .. } => put_frame(frame.as_bytes(), out),
            event => self.beside.event(event),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        if let Some(usage) = self.usage.take().filter(|_| self.include_usage) {
            self.head.put_usage(OBJECT, &usage, out);
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

    fn kept(&self) -> usize {
        self.beside.kept()
    }
}

impl Stream {
    /// Writes a piece of the member that `member` opens behind an empty text, or of the text.
    fn piece(&mut self, member: &[u8], piece: &str, out: &mut BytesMut) {
        if piece.is_empty() {
            return;
        }
        if self.prefix.is_empty() {
            self.prefix = self.prefix();
        }
        out.put_slice(&self.prefix);
        out.put_slice(member);
        escape_into(out, piece);
        out.put_slice(END);
    }

    /// The start of a chunk. It is built once the upstream's head has arrived or is known to be missing.
    fn prefix(&self) -> Vec<u8> {
        let mut chunk = Encoder::default();
        chunk.object(|chunk| self.head.put(OBJECT, chunk));
        let chunk = chunk.finish();
        let head = chunk.strip_suffix(b"}").unwrap_or_default();
        [b"data: ", head, b",\"choices\":[{\"index\":0,\"text\":\""].concat()
    }

    fn last(&mut self, finish: Finish, out: &mut BytesMut) {
        let mut chunk = Encoder::default();
        chunk.object(|chunk| {
            self.head.put(OBJECT, chunk);
            chunk.key("choices").array(|choices| {
                choices.object(|choice| {
                    choice.key("index").value(&0);
                    choice.key("text").string("");
                    choice.key("logprobs").value(&());
                    choice.key("finish_reason").string(finish_word(finish));
                });
            });
            self.beside.put(chunk);
        });
        put_frame(&chunk.finish(), out);
    }
}

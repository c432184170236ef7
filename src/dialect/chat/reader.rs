//! The reader: an upstream's bytes decoded to events.
//!
//! ```text
//! bytes ─▶ what is it? ─event stream─▶ Frames ─▶ AnswerState ─▶ Event
//!                      ├─JSON─▶ kept whole ─────▶ AnswerState ─▶ Event
//!                      └─a page─▶ Failure
//! ```
//!
//! Servers of this API deviate wherever a client library tolerates it, and often where it does not
//! (docs/protocols/chat.md#upstream-deviations). The first byte determines the kind of body; [`answer`] reads
//! the frames; [`chunk`] is the view of one of them.

mod answer;
mod calls;
mod channel;
mod chunk;

use std::ops::ControlFlow;

use super::refusal;
use crate::{
    dialect::{Asked, Skipped},
    event::{Event, Sink},
    failure::{Failure, Kind},
    rules::Limits,
    wire::sse::{Frames, Oversized},
};
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Bytes of one frame, and of a body that is JSON instead of a stream.
    pub max_frame: usize,
    /// The client speaks this dialect too: frames in the canonical form are forwarded as
    /// [`Event::Verbatim`](crate::event::Event::Verbatim).
    pub verbatim: bool,
    /// Each frame repeats the whole text so far.
    pub cumulative: bool,
    /// A body that ends without an end mark is complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, verbatim: false, cumulative: false, tolerate_truncation: false }
    }
}

/// Reads one response of an upstream that speaks Chat Completions, or something close to it.
#[derive(Debug)]
pub struct Reader {
    settings: ReaderSettings,
    body: Body,
    answer: Box<AnswerState>,
    /// The limits of the response if the client wants it whole.
    whole: Option<Limits>,
    /// The response has ended, successfully or not: what follows is ignored.
    over: bool,
}

/// The kinds of body that an upstream sends, distinguished by the first byte.
#[derive(Debug)]
enum Body {
    /// Only white space and this many bytes of a byte order mark have arrived.
    Blank(usize),
    /// An event stream; its first bytes, until a frame is known.
    Stream { frames: Box<Frames>, opening: Vec<u8> },
    /// JSON: a whole completion, or an error.
    Json(Vec<u8>),
    /// Markup: an error page from a server on the path.
    Page(Vec<u8>),
}

/// Bytes of an unexpected body that are kept to be quoted.
const QUOTED: usize = 512;

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        let answer = Box::new(AnswerState::new(settings));
        Self { settings, body: Body::Blank(0), answer, whole: None, over: false }
    }

    /// Sets what was requested: the names that are declared, the limits of the response, and whether the
    /// client wants it whole. Then the upstream's response may also be whole, up to `max_answer` bytes.
    pub(crate) fn expect(&mut self, asked: Asked) {
        self.whole = (!asked.stream).then_some(asked.limits);
        self.answer.expect(asked.tools, asked.limits);
    }

    /// Reads the next bytes of the body, cut anywhere.
    ///
    /// # Errors
    /// What the upstream reported, or how its bytes violate the dialect. What was certain before that has
    /// gone to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        if self.over {
            return Ok(());
        }
        let bytes = self.open(bytes);
        let result = match &mut self.body {
            Body::Blank(_) => Ok(()),
            Body::Stream { frames, opening } => {
                if !self.answer.is_begun() {
                    keep(opening, bytes, QUOTED);
                }
                let mut result = Ok(());
                let fits = frames.push(bytes, |frame| flow(&mut self.answer, frame, &mut result, out));
                result.and(fits.map_err(oversized))
            }
            Body::Json(body) => {
                let limit = self.whole.map_or(self.settings.max_frame, |limits| limits.max_answer);
                if bytes.len() <= limit.saturating_sub(body.len()) {
                    body.extend_from_slice(bytes);
                    Ok(())
                } else {
                    let too_long = |limits: Limits| limits.answer_too_long();
                    Err(self.whole.map_or_else(|| oversized(Oversized { limit }), too_long))
                }
            }
            Body::Page(body) => {
                keep(body, bytes, QUOTED);
                if body.len() < QUOTED { Ok(()) } else { Err(not_a_stream(body)) }
            }
        };
        self.over |= result.is_err() || self.answer.is_done();
        result
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`Kind::Truncated`] if the response was not complete; a description of the body if it was not a
    /// response.
    pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        match &mut self.body {
            Body::Blank(_) => {
                Err(Failure::new(Kind::Truncated, "the upstream closed the stream without sending anything"))
            }
            Body::Stream { frames, opening } => {
                let mut result = Ok(());
                frames.finish(|frame| {
                    result = self.answer.last_frame(frame, out);
                    if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                result?;
                if self.answer.is_done() {
                    return Ok(());
                }
                if !self.answer.is_begun() && self.answer.skipped().is_empty() {
                    return Err(not_a_stream(opening));
                }
                self.answer.end(out)
            }
            Body::Json(body) => {
                let body = std::mem::take(body);
                if self.settings.verbatim && self.whole.is_some() {
                    // The frame is kept for its members that are not events.
                    let frame = std::str::from_utf8(&body).unwrap_or_default();
                    out.event(Event::Verbatim { frame, means: None });
                }
                self.answer.whole(&body, out)?;
                match (self.answer.has_choice(), self.answer.is_whole()) {
                    (false, _) => Err(not_a_completion(&body)),
                    (true, true) => self.answer.close(out),
                    (true, false) => self.answer.end(out),
                }
            }
            Body::Page(body) => Err(not_a_stream(body)),
        }
    }

    /// The end mark has been read, or the response has failed: whatever follows is ignored.
    pub fn is_done(&self) -> bool {
        self.over
    }

    /// The end mark came without a finish reason: what follows is ignored, and the response is complete if
    /// the body ends properly.
    pub(crate) fn awaits_end(&self) -> bool {
        !self.over && self.answer.awaits_end()
    }

    /// Servers of this API leave tools to the client.
    pub(crate) fn runs_tools(&self) -> bool {
        false
    }

    /// What was received and left out, by reason.
    pub fn skipped(&self) -> Skipped {
        self.answer.skipped()
    }

    /// Skips what may precede the first significant byte, and chooses the kind of body by that byte. Returns
    /// what is left to read.
    fn open<'i>(&mut self, bytes: &'i [u8]) -> &'i [u8] {
        let mut rest = bytes;
        while let Body::Blank(bom) = &mut self.body {
            let Some((first, tail)) = rest.split_first() else { break };
            if BOM.get(*bom) == Some(first) {
                *bom += 1;
            } else if !first.is_ascii_whitespace() {
                self.body = match first {
                    b'{' | b'[' => Body::Json(Vec::new()),
                    b'<' => Body::Page(Vec::new()),
                    _ => {
                        let frames = Box::new(Frames::new(self.settings.max_frame));
                        Body::Stream { frames, opening: Vec::new() }
                    }
                };
                break;
            }
            rest = tail;
        }
        rest
    }
}

/// Passes a frame to the response, and stops the stream at its end or failure.
fn flow(
    answer: &mut AnswerState,
    frame: crate::wire::sse::Frame<'_>,
    result: &mut Result<(), Failure>,
    out: &mut impl Sink,
) -> ControlFlow<()> {
    *result = answer.frame(frame, out);
    if result.is_err() || answer.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8], most: usize) {
    kept.extend(bytes.iter().take(most.saturating_sub(kept.len())));
}

fn oversized(error: Oversized) -> Failure {
    Failure::new(Kind::Protocol, format!("the upstream's response cannot be read: {error}"))
}

fn not_a_stream(body: &[u8]) -> Failure {
    Failure::new(
        Kind::Protocol,
        match refusal::first_words(body) {
            Some(words) => {
                format!("the upstream responded with something that is not an event stream: \"{words}\"")
            }
            None => "the upstream responded with something that is not an event stream".to_owned(),
        },
    )
}

fn not_a_completion(body: &[u8]) -> Failure {
    let words = refusal::first_words(body).unwrap_or_default();
    Failure::new(
        Kind::Protocol,
        format!("the upstream responded with JSON that is not a completion: {words}"),
    )
}

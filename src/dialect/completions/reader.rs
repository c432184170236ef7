//! The reader: an upstream's bytes decoded to events.
//!
//! ```text
//! bytes ─▶ what is it? ─event stream─▶ Frames ─▶ AnswerState ─▶ Event
//!                      ├─JSON lines──▶ Lines ──▶ AnswerState ─▶ Event
//!                      └─a page─▶ Failure
//! ```
//!
//! The first byte determines the kind of body. Ollama streams JSON lines; a body of one JSON value, on one line
//! or several, is a response that is not streamed, or an error.

mod answer;
mod chunk;

use std::ops::ControlFlow;

use crate::{
    dialect::{Asked, Skipped, refusal::first_words},
    event::Sink,
    failure::{Failure, Kind},
    rules::Limits,
    wire::{
        json::Json,
        sse::{Frames, Oversized},
    },
};
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Bytes of one frame, and of a body that is JSON instead of a stream.
    pub max_frame: usize,
    /// A body that ends without an end mark is complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads one response of an upstream that completes text.
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
    /// JSON: one value on any number of lines, or a value on each line. Holds what is not read yet.
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
        let answer = Box::new(AnswerState::new(settings.tolerate_truncation));
        Self { settings, body: Body::Blank(0), answer, whole: None, over: false }
    }

    /// Sets what was requested. If the client wants the response whole, the upstream's may also be whole, up to
    /// `max_answer` bytes.
    pub(crate) fn expect(&mut self, asked: Asked) {
        self.whole = (!asked.stream).then_some(asked.limits);
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
        let limit = self.whole.map_or(self.settings.max_frame, |limits| limits.max_answer);
        let result = match &mut self.body {
            Body::Blank(_) => Ok(()),
            Body::Stream { frames, opening } => {
                if !self.answer.is_begun() {
                    keep(opening, bytes);
                }
                let mut result = Ok(());
                let fits = frames.push(bytes, |frame| {
                    result = self.answer.frame(frame, out);
                    let is_over = result.is_err() || self.answer.is_done();
                    if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                result.and(fits.map_err(oversized))
            }
            Body::Json(kept) => {
                let result = json_lines(kept, bytes, limit, &mut self.answer, out);
                match self.whole {
                    Some(limits) if kept.len() > limit => Err(limits.answer_too_long()),
                    _ => result,
                }
            }
            Body::Page(body) => {
                keep(body, bytes);
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
                if !self.answer.is_begun() && self.answer.skipped().is_empty() {
                    return Err(not_a_stream(opening));
                }
                self.answer.end(false, out)
            }
            Body::Json(kept) => {
                let kept = std::mem::take(kept);
                let is_only = !self.answer.is_begun();
                if kept.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    self.answer.last_json(&kept, out)?;
                }
                if !self.answer.has_choice() && self.answer.lines() <= 1 {
                    return Err(not_a_completion(&kept));
                }
                self.answer.end(is_only || self.answer.lines() == 1, out)
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
    pub fn awaits_end(&self) -> bool {
        !self.over && self.answer.awaits_end()
    }

    /// A completion is text; nothing is run.
    pub fn runs_tools(&self) -> bool {
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

/// Reads the values of `bytes` that end with their line. Once the first line is not a whole value, the body is
/// one value on several lines and is kept.
fn json_lines(
    kept: &mut Vec<u8>,
    bytes: &[u8],
    limit: usize,
    answer: &mut AnswerState,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    let mut rest = bytes;
    while !answer.is_several_lines()
        && let Some(end) = memchr::memchr(b'\n', rest)
    {
        let (line, tail) = rest.split_at_checked(end + 1).unwrap_or((rest, &[]));
        extend(kept, line, limit)?;
        rest = tail;
        if answer.lines() == 0 && !is_whole_value(kept) {
            answer.expect_several_lines();
            break;
        }
        let line = std::mem::take(kept);
        answer.json_line(&line, out)?;
        if answer.is_done() {
            return Ok(());
        }
    }
    extend(kept, rest, limit)
}

fn is_whole_value(line: &[u8]) -> bool {
    Json::parse_bytes(line.trim_ascii()).is_ok()
}

fn extend(kept: &mut Vec<u8>, bytes: &[u8], limit: usize) -> Result<(), Failure> {
    if bytes.len() > limit.saturating_sub(kept.len()) {
        return Err(oversized(Oversized { limit }));
    }
    kept.extend_from_slice(bytes);
    Ok(())
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend(bytes.iter().take(QUOTED.saturating_sub(kept.len())));
}

fn oversized(error: Oversized) -> Failure {
    Failure::new(Kind::Protocol, format!("the upstream's response cannot be read: {error}"))
}

fn not_a_stream(body: &[u8]) -> Failure {
    let words = first_words(body).map_or_else(String::new, |words| format!(": \"{words}\""));
    let message = format!("the upstream responded with something that is not an event stream{words}");
    Failure::new(Kind::Protocol, message)
}

fn not_a_completion(body: &[u8]) -> Failure {
    let words = first_words(body).unwrap_or_default();
    let message = format!("the upstream responded with JSON that is not a completion: {words}");
    Failure::new(Kind::Protocol, message)
}

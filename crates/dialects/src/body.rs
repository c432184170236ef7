//! [`BodyReader`]: reads the body of an upstream's response, whatever kind it is, and splits it into the data
//! that a dialect interprets.
//!
//! ```text
//! bytes ─▶ what is it? ─event stream─▶ data of each event ─▶ ResponseState ─▶ Event
//!                      ├─Amazon's frames─▶ each frame ─▶ ResponseState ─▶ Event
//!                      ├─JSON─▶ each line or element, or all of it ─▶ ResponseState ─▶ Event
//!                      └─a page─▶ Failure
//! ```
//!
//! The first byte shows which kind of body it is. The dialect's [`ResponseState`] interprets the data.

use std::{mem, ops::ControlFlow, str};

use memchr::memchr;

use super::{
    Asked, ReasoningField, ResponseState, Skip, Skipped,
    json_array::{ElementError, JsonArray},
    refusal::{first_words, reported_event},
    skipped_parts::is_sign_of_life,
};
#[cfg(feature = "bedrock")]
use crate::wire::amazon_frames;
use crate::{
    event::{Event, Sink},
    failure::{Failure, Kind},
    rules::Limits,
    wire::{
        json::Json,
        sse::{Frame, Frames, Message, Oversized},
    },
};

/// The kinds of JSON bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonBody {
    /// A single value.
    Value,
    /// One value per line, or a single value on any number of lines.
    Lines,
    /// An array, read element by element, or a single value of another type.
    Elements,
}

/// Reads the body of one response.
#[derive(Debug)]
pub struct BodyReader<R> {
    max_frame: usize,
    body: Body,
    /// The first bytes of the body, until data has been read.
    opening: Vec<u8>,
    /// Boxed because the readers of all dialects are variants of one enum.
    response: Box<R>,
    /// The limits of the response, if the client did not ask for a stream.
    whole: Option<Limits>,
    has_begun: bool,
    /// Whether the response has ended or failed, so that further input is ignored.
    is_over: bool,
}

#[derive(Debug)]
enum Body {
    /// So far only white space, and this many bytes of a byte order mark.
    Blank(usize),
    /// An event stream.
    Stream(Box<Frames>),
    /// JSON Lines: the number of lines that have been read, and the start of the next one.
    Lines { count: usize, partial: Vec<u8> },
    /// An array that is read element by element.
    Elements(JsonArray),
    /// A single JSON value: a complete response, or an error.
    Value(Vec<u8>),
    /// Amazon's frames.
    #[cfg(feature = "bedrock")]
    Binary(Box<amazon_frames::Frames>),
    /// Markup: an error page, probably from a server between toolwire and the upstream.
    Page,
}

/// Maximum bytes of an unexpected body that are retained for the error message.
const QUOTED: usize = 512;

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

impl<R: ResponseState> BodyReader<R> {
    /// Creates a reader that passes data to `response`. `max_frame` limits the size of a frame and of a JSON
    /// value, in bytes.
    pub(super) fn with_state(response: R, max_frame: usize) -> Self {
        Self {
            max_frame,
            body: Body::Blank(0),
            opening: Vec::new(),
            response: Box::new(response),
            whole: None,
            has_begun: false,
            is_over: false,
        }
    }

    /// Sets what the request asked for. If the client did not ask for a stream, the upstream may also respond
    /// without one, with up to `max_answer` bytes.
    pub(crate) fn expect(&mut self, asked: Asked) {
        self.whole = (!asked.stream).then_some(asked.limits);
        self.response.expect(asked);
    }

    /// Reads the next bytes of the body. They may be split anywhere.
    ///
    /// # Errors
    /// The upstream's error, or a description of how its bytes violate the dialect. Everything that was
    /// certain before the error has been passed to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        if self.is_over {
            return Ok(());
        }
        let bytes = self.open(bytes);
        if !self.has_begun {
            self.opening.extend(bytes.iter().take(QUOTED.saturating_sub(self.opening.len())));
        }
        let result = match &mut self.body {
            Body::Blank(_) => Ok(()),
            Body::Stream(frames) => {
                let Self { response, has_begun, .. } = self;
                let mut result = Ok(());
                let fits = frames.push(bytes, |frame| {
                    *has_begun = true;
                    result = read_frame(&mut **response, frame, out);
                    let is_over = result.is_err() || response.progress().is_done;
                    if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                result.and(fits.map_err(oversized))
            }
            Body::Lines { .. } => self.push_lines(bytes, out),
            Body::Elements(_) => self.push_elements(bytes, out),
            Body::Value(_) => self.push_value(bytes),
            #[cfg(feature = "bedrock")]
            Body::Binary(_) => self.push_binary(bytes, out),
            Body::Page if self.opening.len() < QUOTED => Ok(()),
            Body::Page => Err(not_a_stream(&self.opening)),
        };
        self.is_over |= result.is_err() || self.response.progress().is_done;
        result
    }

    /// Handles the end of the body.
    ///
    /// # Errors
    /// [`Kind::Truncated`] if the response was incomplete. If the body was not a response at all, the error
    /// describes what it was.
    pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        match mem::replace(&mut self.body, Body::Blank(0)) {
            Body::Blank(_) => {
                Err(Failure::new(Kind::Truncated, "the upstream closed the stream without sending anything"))
            }
            Body::Stream(mut frames) => {
                let mut result = Ok(());
                frames.finish(|frame| {
                    self.has_begun = true;
                    result = read_last_frame(&mut *self.response, frame, out);
                    if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                result?;
                if !self.has_begun && self.response.skipped().is_empty() {
                    return Err(not_a_stream(&self.opening));
                }
                self.response.end(false, out)
            }
            Body::Lines { count: 0, partial: value } | Body::Value(value) => self.finish_value(&value, out),
            Body::Lines { count, partial } => self.finish_lines(count, &partial, out),
            Body::Elements(array) => {
                if array.is_closed() && !self.response.progress().has_choice {
                    return Err(not_a_completion(&self.opening));
                }
                self.response.end(false, out)
            }
            // A frame that the end of the body has truncated is ignored, like the end of any other body.
            #[cfg(feature = "bedrock")]
            Body::Binary(_) => self.response.end(false, out),
            Body::Page => Err(not_a_stream(&self.opening)),
        }
    }

    /// Whether the end marker has been read or the response has failed. Further input is then ignored.
    pub fn is_done(&self) -> bool {
        self.is_over
    }

    /// Whether only one of the finish reason and the end marker has arrived. If the body then ends properly,
    /// the response is complete.
    pub(crate) fn awaits_end(&self) -> bool {
        !self.is_over && self.response.progress().awaits_end()
    }

    /// Whether the finish reason has arrived without the end marker. The response is then complete even if
    /// the body does not end.
    pub(crate) fn lacks_only_mark(&self) -> bool {
        !self.is_over && self.response.progress().lacks_only_mark()
    }

    pub(crate) fn has_content(&self) -> bool {
        self.response.progress().has_content
    }

    pub(crate) fn runs_tools(&self) -> bool {
        R::RUNS_TOOLS
    }

    /// See [`ResponseState::reasoning_field`].
    pub(crate) fn reasoning_field(&self) -> Option<ReasoningField> {
        self.response.reasoning_field()
    }

    /// The parts of the response that were left out, by reason.
    pub fn skipped(&self) -> Skipped {
        self.response.skipped()
    }

    /// Skips white space and a byte order mark, and chooses the kind of body by the first byte after them.
    /// Returns the rest of `bytes`.
    fn open<'i>(&mut self, bytes: &'i [u8]) -> &'i [u8] {
        let mut rest = bytes;
        while let Body::Blank(bom) = &mut self.body {
            let Some((first, tail)) = rest.split_first() else { break };
            if BOM.get(*bom) == Some(first) {
                *bom += 1;
            } else if !first.is_ascii_whitespace() {
                self.body = match (first, R::JSON) {
                    // The length of a frame. No text begins with such a byte.
                    #[cfg(feature = "bedrock")]
                    (..b'\t', _) if R::IS_BINARY => {
                        Body::Binary(Box::new(amazon_frames::Frames::new(self.max_frame)))
                    }
                    (b'{' | b'[', JsonBody::Value) => Body::Value(Vec::new()),
                    (b'[', JsonBody::Elements) => Body::Elements(JsonArray::default()),
                    (b'{', JsonBody::Elements) => Body::Value(Vec::new()),
                    (b'{' | b'[', JsonBody::Lines) => Body::Lines { count: 0, partial: Vec::new() },
                    (b'<', _) => Body::Page,
                    _ => Body::Stream(Box::new(Frames::new(self.max_frame))),
                };
                break;
            }
            rest = tail;
        }
        rest
    }

    /// Reads the lines that end in `bytes`. If the first line is not a complete value, the body is a single
    /// value that spans several lines.
    fn push_lines(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let limit = self.limit();
        let mut rest = bytes;
        while let Body::Lines { count, partial } = &mut self.body
            && let Some(end) = memchr(b'\n', rest)
        {
            let (line, tail) = rest.split_at_checked(end + 1).unwrap_or((rest, &[]));
            if line.len() > limit.saturating_sub(partial.len()) {
                return Err(self.too_long());
            }
            let line = if partial.is_empty() {
                line
            } else {
                partial.extend_from_slice(line);
                &*partial
            };
            if *count == 0 && Json::parse_bytes(line.trim_ascii()).is_err() {
                self.body = Body::Value(line.to_vec());
            } else {
                *count += usize::from(!line.trim_ascii().is_empty());
                self.has_begun = true;
                read_data(&mut *self.response, line, false, out)?;
                partial.clear();
            }
            rest = tail;
            if self.response.progress().is_done {
                return Ok(());
            }
        }
        self.push_value(rest)
    }

    /// Reads the elements that end in `bytes`.
    fn push_elements(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let limit = self.limit();
        let Self { body: Body::Elements(array), response, has_begun, .. } = self else { return Ok(()) };
        let mut result = Ok(());
        let read = array.push(bytes, limit, |element| {
            result = read_data(&mut **response, element, false, out);
            // The body may have to be quoted in an error until a response has started.
            *has_begun = response.progress().has_choice;
            let is_over = result.is_err() || response.progress().is_done;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result?;
        read.map_err(|error| match error {
            ElementError::TooLong => self.too_long(),
            ElementError::NotJson => {
                Failure::new(Kind::Protocol, "the upstream sent an array with an element that is not JSON")
            }
        })
    }

    /// Reads the frames that end in `bytes`.
    #[cfg(feature = "bedrock")]
    fn push_binary(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let Self { body: Body::Binary(frames), response, has_begun, .. } = self else { return Ok(()) };
        let mut result = Ok(());
        let read = frames.push(bytes, |frame| {
            *has_begun = true;
            result = response.frame(frame, out);
            let is_over = result.is_err() || response.progress().is_done;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result?;
        read.map_err(|defect| {
            Failure::new(Kind::Protocol, format!("the upstream's response cannot be read: {defect}"))
        })
    }

    fn push_value(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let limit = self.limit();
        if let Body::Value(kept) | Body::Lines { partial: kept, .. } = &mut self.body {
            if bytes.len() > limit.saturating_sub(kept.len()) {
                return Err(self.too_long());
            }
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Handles the end of a body that is a single JSON value.
    fn finish_value(&mut self, value: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        if !breaks_off(value) {
            self.response.value(utf8(value)?, out)?;
        }
        if !self.response.progress().has_choice {
            return Err(not_a_completion(value));
        }
        self.response.end(true, out)
    }

    /// Handles the end of JSON Lines. The last line need not end with a line break.
    fn finish_lines(&mut self, count: usize, last: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let is_value = count == 1 && last.trim_ascii().is_empty();
        read_last(&mut *self.response, last, out)?;
        if is_value && !self.response.progress().has_choice {
            return Err(not_a_completion(&self.opening));
        }
        self.response.end(is_value, out)
    }

    fn limit(&self) -> usize {
        self.whole.map_or(self.max_frame, |limits| limits.max_answer)
    }

    fn too_long(&self) -> Failure {
        let oversized = || oversized(Oversized { limit: self.max_frame });
        self.whole.map_or_else(oversized, |limits| limits.answer_too_long())
    }
}

/// Passes data to the response. Data after the end marker is ignored, even if the body goes on.
fn read_data(
    response: &mut impl ResponseState,
    data: &[u8],
    is_last: bool,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    let data = utf8(data)?;
    if response.progress().is_marked { Ok(()) } else { response.data(data, is_last, out) }
}

fn read_frame(
    response: &mut impl ResponseState,
    frame: Frame<'_>,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    match frame {
        Frame::Event(Message { event: b"error", data, .. }) => Err(reported_event(data)),
        Frame::Event(Message { data, .. }) => read_data(response, data, false, out),
        Frame::Comment(text) => {
            out.event(Event::Ping(str::from_utf8(text).unwrap_or_default().into()));
            Ok(())
        }
        Frame::Retry(_) => Ok(()),
    }
}

/// Reads the final frame if it is not followed by a blank line.
fn read_last_frame(
    response: &mut impl ResponseState,
    frame: Frame<'_>,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    match frame {
        Frame::Event(Message { data, .. }) if breaks_off(data) => Ok(()),
        Frame::Event(Message { event, data, .. }) if event != b"error" => read_last(response, data, out),
        frame => read_frame(response, frame, out),
    }
}

/// Reads data that the end of the body may have truncated. If it ends inside a character, it was truncated
/// and is ignored.
fn read_last(response: &mut impl ResponseState, data: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
    if breaks_off(data) { Ok(()) } else { read_data(response, data, true, out) }
}

/// Whether `data` ends inside a UTF-8 character.
fn breaks_off(data: &[u8]) -> bool {
    str::from_utf8(data).is_err_and(|error| error.error_len().is_none())
}

pub(super) fn utf8(data: &[u8]) -> Result<&str, Failure> {
    str::from_utf8(data).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("the upstream sent a frame that is not UTF-8 (at its byte {at})");
        Failure::new(Kind::Protocol, message)
    })
}

/// Handles data that is not JSON. If part of the response may be lost (`is_loss`), this is an error, unless
/// the data is only a keep-alive. Otherwise, the data is skipped.
pub(super) fn not_json(data: &str, is_loss: bool, skipped: &mut Skipped) -> Result<(), Failure> {
    if is_loss && !data.starts_with(':') && !is_sign_of_life(data) {
        let words = first_words(data.as_bytes()).unwrap_or_default();
        let message = format!("the upstream sent a frame that is not JSON: \"{words}\"");
        return Err(Failure::new(Kind::Protocol, message));
    }
    skipped.add(Skip::NotJson);
    Ok(())
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

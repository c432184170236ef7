//! [`Reader`]: reads Lumo's stream, in which v1 and v2 may be mixed and bytes may be split anywhere.
//!
//! Lumo deviates from the event stream standard, so this module finds the frames itself instead of using the
//! decoder in `wire` (docs/protocols/lumo.md#deviations). Every `data` line is parsed on its own, and joined
//! with the following lines only if it is incomplete JSON. JSON without `data:` is accepted as well. JSON of
//! an unknown kind is counted and skipped, and so is a frame that is not JSON before or after a response.
//! Within a response, such a frame is an error, because part of the response would be lost.

use std::{ops::ControlFlow, str};

use super::{
    RequestKey,
    answer::AnswerState,
    lenient, refusal,
    shapes::{Shapes, Token},
    target::Target,
    u2l::Unsealer,
    unfinished_frame::{Joined, UnfinishedFrame},
    v1::{self, Read},
    v2::{self, Frame},
};
use crate::{
    Asked, Skip, Skipped,
    event::{Event, Sink},
    failure::{Failure, Kind},
    refusal::told,
    skipped_parts::is_sign_of_life,
    wire::{
        json::{Json, Kind as JsonKind, MAX_DEPTH},
        sse::{Line, Lines, Oversized, parse_line},
    },
};

/// What a [`Reader`] needs to know about the request. This does not include the client's tools, because a
/// later stage decides which calls are meant for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a tool payload joined from several frames, in bytes. Exceeding it
    /// fails the response.
    pub max_frame: usize,
    /// The target of the request. Content belongs to it unless the content names another target.
    pub target: String,
    /// Whether a response without an end marker is complete if it has content.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, target: "message".to_owned(), tolerate_truncation: false }
    }
}

/// Reads one response.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    /// Boxed because a reader is moved into an enum with smaller variants.
    body: Box<Body>,
    failed: bool,
}

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        let target = Target::named(&settings.target);
        Self {
            lines: Lines::new(settings.max_frame),
            body: Box::new(Body {
                answer: AnswerState::new(target, settings.max_frame),
                unfinished: UnfinishedFrame::new(),
                shapes: Shapes::default(),
                is_last: false,
                unsealer: None,
                max_frame: settings.max_frame,
                tolerate_truncation: settings.tolerate_truncation,
            }),
            failed: false,
        }
    }

    /// Reads the next bytes of the body. They may be split anywhere.
    ///
    /// # Errors
    /// The upstream's error, or a description of how its bytes violate the protocol. Everything that was
    /// certain before the error has been passed to `out`. Further input is ignored.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        if self.is_done() {
            return Ok(());
        }
        let Self { lines, body, .. } = self;
        let mut outcome = Ok(());
        let framed = lines.push(bytes, |line| body.take(line, &mut outcome, out));
        let outcome = outcome.and_then(|()| framed.map_err(oversized));
        self.settle(outcome, out)
    }

    /// Handles the end of the body.
    ///
    /// # Errors
    /// [`Kind::Truncated`] if neither a finish reason nor an end marker has been read. [`Kind::Protocol`] if
    /// no part of the body was understood.
    pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if self.is_done() {
            return Ok(());
        }
        let Self { lines, body, .. } = self;
        let mut outcome = Ok(());
        body.is_last = true;
        lines.finish(|line| match last_line(line) {
            [] => ControlFlow::Break(()),
            line => body.take(line, &mut outcome, out),
        });
        let outcome = outcome.and_then(|()| self.body.finish(out));
        self.settle(outcome, out)
    }

    /// Whether the end marker has been read or the response has failed. Further input is then ignored.
    pub fn is_done(&self) -> bool {
        self.failed || self.body.answer.is_done()
    }

    /// Sets the limits of the response. The client's tools do not matter here: a later stage decides which
    /// calls are meant for the client.
    pub(crate) fn expect(&mut self, asked: Asked) {
        self.body.answer.expect(asked.limits, asked.repair);
    }

    /// Sets the key that decrypts the response, if it is encrypted. Must be called before the first bytes.
    pub(crate) fn decrypt(&mut self, key: Option<RequestKey>) {
        self.body.unsealer = key.map(|key| Unsealer::new(key, self.body.max_frame));
    }

    /// Always true: Lumo runs tools itself.
    pub(crate) fn runs_tools(&self) -> bool {
        true
    }

    /// Whether the finish reason has arrived without the end marker. In this dialect, the end marker alone
    /// ends a response.
    pub(crate) fn awaits_end(&self) -> bool {
        self.body.answer.is_finished() && !self.is_done()
    }

    pub(crate) fn has_content(&self) -> bool {
        self.body.answer.has_content()
    }

    /// The same as [`Reader::awaits_end`].
    pub(crate) fn lacks_only_mark(&self) -> bool {
        self.awaits_end()
    }

    /// The parts of the response that were left out, by reason.
    pub fn skipped(&self) -> Skipped {
        self.body.answer.skipped()
    }

    fn settle(&mut self, outcome: Result<(), Failure>, out: &mut impl Sink) -> Result<(), Failure> {
        if outcome.is_err() {
            self.failed = true;
            self.body.answer.abort(out);
        }
        outcome
    }
}

#[derive(Debug)]
struct Body {
    answer: AnswerState,
    unfinished: UnfinishedFrame,
    shapes: Shapes,
    /// Whether the current line has no line break. If it is not JSON, the body was cut off there.
    is_last: bool,
    unsealer: Option<Unsealer>,
    max_frame: usize,
    tolerate_truncation: bool,
}

impl Body {
    fn take(
        &mut self,
        line: &[u8],
        outcome: &mut Result<(), Failure>,
        out: &mut impl Sink,
    ) -> ControlFlow<()> {
        *outcome = self.line(line, out);
        if outcome.is_err() || self.answer.is_done() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn line(&mut self, line: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let begins_object = || line.trim_ascii_start().first() == Some(&b'{');
        match parse_line(line) {
            Line::Blank => self.drop_unfinished(),
            Line::Comment(text) => {
                let text = str::from_utf8(text).unwrap_or_default();
                out.event(Event::Ping(text.trim_ascii().into()));
                Ok(())
            }
            Line::Field { name: b"data", value } => self.data(value, out),
            Line::Field { name: b"event" | b"id" | b"retry", .. } => Ok(()),
            Line::Field { .. } if lenient::begun(line).len() < line.len() => {
                self.line(lenient::begun(line), out)
            }
            Line::Field { .. } if begins_object() || !self.unfinished.is_empty() => self.data(line, out),
            Line::Field { .. } if self.answer.has_begun() => {
                self.answer.skip(Skip::NotJson);
                Ok(())
            }
            Line::Field { .. } => Err(no_stream(line)),
        }
    }

    fn data(&mut self, data: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        let text = str::from_utf8(data)
            .map_err(|_| Failure::new(Kind::Protocol, "the upstream sent bytes that are not UTF-8"))?;
        if self.unfinished.is_empty()
            && let Some((target, body)) = self.shapes.token(text)
        {
            return self.answer.content(target, body, out);
        }
        if self.unfinished.is_empty()
            && let Ok((json, frame)) = Frame::parse(text)
        {
            if let Some(token) = self.value(json, &frame, out)? {
                self.shapes.learn(text, token);
            }
            return Ok(());
        }
        let text = &*lenient::mended(text);
        if text.trim_ascii() == "[DONE]" {
            self.drop_unfinished()?;
            self.end_encryption(out)?;
            return self.answer.end(out);
        }
        if self.unfinished.is_empty()
            && let Ok((json, frame)) = Frame::parse(text)
        {
            return self.value(json, &frame, out).map(|_| ());
        }
        self.join(text, out)
    }

    /// Handles a line that is incomplete JSON, or that follows such a line.
    fn join(&mut self, line: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let mut rest = line;
        while !rest.trim_ascii().is_empty() && !self.answer.is_done() {
            let alone = self.unfinished.is_empty();
            if rest.len() > self.max_frame.saturating_sub(self.unfinished.len()) {
                return Err(oversized(Oversized { limit: self.max_frame }));
            }
            match self.unfinished.push(rest) {
                Joined::More => return Ok(()),
                Joined::Value(text, tail) => {
                    if let Ok((json, frame)) = Frame::parse(&text) {
                        self.value(json, &frame, out)?;
                    }
                    rest = tail;
                }
                Joined::Broken => {
                    self.unreadable(if alone { rest } else { "" })?;
                    // Only the earlier lines are known to be broken, so try this line on its own.
                    rest = if alone { "" } else { line };
                }
            }
        }
        Ok(())
    }

    /// Handles a frame. Returns its token if the frame contains nothing else.
    fn value<'a>(
        &mut self,
        json: Json<'a>,
        frame: &Frame<'a>,
        out: &mut impl Sink,
    ) -> Result<Option<Token<'a>>, Failure> {
        if let Some(unsealer) = &mut self.unsealer {
            let frames = unsealer.open(json.raw())?;
            return self.plain(&frames, out).map(|()| None);
        }
        self.dispatch(json, frame, out)
    }

    fn plain(&mut self, frames: &[String], out: &mut impl Sink) -> Result<(), Failure> {
        for text in frames {
            let parsed = Frame::parse(text);
            let (json, frame) =
                parsed.map_err(|_| Failure::new(Kind::Internal, "a decrypted frame is not JSON"))?;
            self.dispatch(json, &frame, out)?;
        }
        Ok(())
    }

    /// Handles the frames that the decryption still holds when the response has ended.
    fn end_encryption(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        let Some(unsealer) = &mut self.unsealer else { return Ok(()) };
        let frames = unsealer.finish()?;
        self.plain(&frames, out)
    }

    /// Handles a frame according to its version. Returns its token if the frame contains nothing else.
    fn dispatch<'a>(
        &mut self,
        json: Json<'a>,
        frame: &Frame<'a>,
        out: &mut impl Sink,
    ) -> Result<Option<Token<'a>>, Failure> {
        if json.kind() != JsonKind::Object {
            self.answer.skip(Skip::NotAChunk);
            return Ok(None);
        }
        let mut read = match &frame.v1 {
            Some(kind) => v1::read(kind, json, &mut self.answer, out)?,
            None => Read::Foreign,
        };
        if let Read::Foreign = read {
            read = v2::read(frame, &mut self.answer, out)?;
        }
        match read {
            Read::Token(token) => return Ok(Some(token)),
            Read::Taken => {}
            Read::Foreign => {
                let by_type = || frame.v1.as_deref().and_then(|kind| v1::failure(kind, json));
                if let Some(failure) = refusal::described(json, 200).or_else(by_type) {
                    return Err(failure);
                }
                self.answer.skip(Skip::NotAChunk);
                return told(json.raw()).map_or(Ok(None), Err);
            }
        }
        Ok(None)
    }

    fn drop_unfinished(&mut self) -> Result<(), Failure> {
        if self.unfinished.is_empty() {
            return Ok(());
        }
        self.unfinished.clear();
        self.unreadable("")
    }

    /// Handles a frame that is not JSON. Within a response this is an error, because part of the response is
    /// lost. A frame that is nested too deep is always an error.
    fn unreadable(&mut self, frame: &str) -> Result<(), Failure> {
        let is_sign_of_life = is_sign_of_life(frame.trim_ascii());
        let is_inside = self.answer.has_begun() && !self.answer.is_finished();
        if is_inside && !is_sign_of_life && !self.is_last {
            return Err(Failure::new(Kind::Protocol, "the upstream sent a frame that cannot be read"));
        }
        if nests_too_deep(frame) {
            let message = format!("the upstream sent a frame that is nested more than {MAX_DEPTH} deep");
            return Err(Failure::new(Kind::Protocol, message));
        }
        self.answer.skip(Skip::NotJson);
        Ok(())
    }

    /// Decides how the response ends, now that the body has ended.
    fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        let understood = self.answer.skipped().malformed() == 0;
        if !self.unfinished.is_empty() {
            self.unfinished.clear();
            self.answer.skip(Skip::NotJson);
        }
        if self.answer.is_finished() {
            return self.answer.end(out);
        }
        if self.tolerate_truncation && self.answer.has_begun() {
            self.end_encryption(out)?;
            return self.answer.end_tolerated(out);
        }
        Err(match (self.answer.has_begun(), understood) {
            (true, _) => Failure::new(Kind::Truncated, "the upstream's response broke off"),
            (false, true) => Failure::new(Kind::Truncated, "the upstream's response ended before it began"),
            (false, false) => {
                Failure::new(Kind::Protocol, "nothing in the upstream's response could be understood")
            }
        })
    }
}

/// Whether `text` exceeds the nesting depth allowed in a frame.
fn nests_too_deep(text: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
        in_string ^= byte == b'"' && !escaped;
        escaped = in_string && byte == b'\\' && !escaped;
    }
    false
}

/// The usable part of a last line without a line break: without an incomplete character, and nothing if it is
/// only the start of a field name.
fn last_line(line: &[u8]) -> &[u8] {
    match str::from_utf8(line) {
        Ok(name) if "data".starts_with(name) => &[],
        Err(error) if error.error_len().is_none() => line.get(..error.valid_up_to()).unwrap_or(line),
        _ => line,
    }
}

fn oversized(oversized: Oversized) -> Failure {
    Failure::new(Kind::Protocol, format!("the upstream sent a frame of more than {} bytes", oversized.limit))
}

/// The failure for a body that does not start like an event stream.
fn no_stream(line: &[u8]) -> Failure {
    let found = match (line.trim_ascii_start().first(), str::from_utf8(line)) {
        (Some(b'<'), _) => "an HTML page".to_owned(),
        (Some(b'['), _) => "a JSON array".to_owned(),
        (_, Ok(text)) => format!("`{}`", text.chars().take(60).collect::<String>()),
        (_, Err(_)) => "bytes that are not text".to_owned(),
    };
    Failure::new(Kind::Protocol, format!("the upstream responded with {found} instead of an event stream"))
}

#[cfg(test)]
mod tests;

//! [`Reader`]: Lumo's stream, v1 and v2 mixed, bytes in any cut.
//!
//! Lumo bends the standard of event streams, so frames are found here and not by the decoder of `wire` (Lumo 1.8):
//! every `data` line is tried alone, and only one that is no complete JSON is joined with those that follow; JSON
//! without `data:` in front is taken too. What is not understood is counted and passed over, unless nothing before it
//! was understood: then it is no event stream.

use std::{ops::ControlFlow, str};

use super::{
    answer::{Answer, Target},
    refusal,
    v1::{self, Read},
    v2,
};
use crate::{
    event::{Event, Sink},
    failure::{Failure, Kind},
    wire::{
        json::{self, Json, Kind as JsonKind, MAX_DEPTH, Progress, Scanner, Shape},
        sse::{Line, Lines, Oversized, parse_line},
    },
};

/// What a [`Reader`] has to know of the request. It does not know the client's tools: whose call a call is, is decided
/// behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Bytes of one upstream frame, and of one tool payload put together from several. Beyond: the answer fails.
    pub max_frame: usize,
    /// The target that the request asked for: content that names none is for it.
    pub target: String,
    /// An upstream that closes without an end mark has ended well, if it said anything at all.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, target: "message".to_owned(), tolerate_truncation: false }
    }
}

/// Reads one answer.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    /// Boxed: a reader lies in an enum beside smaller ones, and is moved there.
    body: Box<Body>,
    failed: bool,
}

impl Reader {
    /// A reader at the start of an answer.
    pub fn new(settings: ReaderSettings) -> Self {
        let target = Target::named(&settings.target);
        Self {
            lines: Lines::new(settings.max_frame),
            body: Box::new(Body {
                answer: Answer::new(target, settings.max_frame),
                unfinished: Unfinished::new(),
                shapes: Shapes::default(),
                malformed: 0,
                max_frame: settings.max_frame,
                tolerate_truncation: settings.tolerate_truncation,
            }),
            failed: false,
        }
    }

    /// Reads the next bytes of the body, cut anywhere.
    ///
    /// # Errors
    /// What the upstream reported, or what its bytes broke. What was certain before it has gone to `out`; whatever
    /// follows is ignored.
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

    /// The body has ended.
    ///
    /// # Errors
    /// [`Kind::Truncated`] if neither a finish reason nor an end mark has been read; [`Kind::Protocol`] if nothing of
    /// the body could be understood.
    pub fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        if self.is_done() {
            return Ok(());
        }
        let Self { lines, body, .. } = self;
        let mut outcome = Ok(());
        lines.finish(|line| body.take(line, &mut outcome, out));
        let outcome = outcome.and_then(|()| self.body.finish(out));
        self.settle(outcome, out)
    }

    /// The end mark has been read, or the answer has failed; whatever follows is ignored.
    pub fn is_done(&self) -> bool {
        self.failed || self.body.answer.is_done()
    }

    /// Frames, or things in them, that were not understood and passed over.
    pub fn malformed(&self) -> u64 {
        self.body.malformed + self.body.answer.malformed()
    }

    /// Results of server tools whose call was never told; they are left out.
    pub fn orphan_results(&self) -> u64 {
        self.body.answer.orphan_results()
    }

    fn settle(&mut self, outcome: Result<(), Failure>, out: &mut impl Sink) -> Result<(), Failure> {
        if outcome.is_err() {
            self.failed = true;
            self.body.answer.abort(out);
        }
        outcome
    }
}

/// Where a token lies that is all that a frame says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) target: Target,
    /// The body of a JSON string.
    pub(super) body: &'a str,
    /// A number in the frame that tells nothing, but varies.
    pub(super) number: Option<&'a str>,
}

/// The lines of a body and what they say.
#[derive(Debug)]
struct Body {
    answer: Answer,
    unfinished: Unfinished,
    shapes: Shapes,
    malformed: u64,
    max_frame: usize,
    tolerate_truncation: bool,
}

impl Body {
    /// Reads a line; says whether to go on.
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
            Line::Blank => {
                self.drop_unfinished();
                Ok(())
            }
            Line::Comment(text) => {
                let text = str::from_utf8(text).unwrap_or_default();
                out.event(Event::Ping(text.trim_ascii().into()));
                Ok(())
            }
            Line::Field { name: b"data", value } => self.data(value, out),
            Line::Field { name: b"event" | b"id" | b"retry", .. } => Ok(()),
            Line::Field { .. } if begins_object() || !self.unfinished.is_empty() => self.data(line, out),
            Line::Field { .. } if self.answer.has_begun() => {
                self.malformed += 1;
                Ok(())
            }
            Line::Field { .. } => Err(no_stream(line)),
        }
    }

    /// Reads the data of a line.
    fn data(&mut self, data: &[u8], out: &mut impl Sink) -> Result<(), Failure> {
        if self.unfinished.is_empty()
            && let Some((target, body)) = self.shapes.token(data)
        {
            return self.answer.content(target, body, out);
        }
        let text = str::from_utf8(data)
            .map_err(|_| Failure::new(Kind::Protocol, "the upstream sent bytes that are not UTF-8"))?;
        if text.trim_ascii() == "[DONE]" {
            self.drop_unfinished();
            self.answer.end(out);
            return Ok(());
        }
        if self.unfinished.is_empty()
            && let Ok(json) = Json::parse(text)
        {
            if let Some(token) = self.value(json, out)? {
                self.shapes.learn(text, token);
            }
            return Ok(());
        }
        self.join(text, out)
    }

    /// Reads a line that is no complete JSON, or that follows such a one.
    fn join(&mut self, line: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let mut rest = line;
        while !rest.trim_ascii().is_empty() && !self.answer.is_done() {
            let alone = self.unfinished.is_empty();
            if rest.len() > self.max_frame.saturating_sub(self.unfinished.text.len()) {
                return Err(oversized(Oversized { limit: self.max_frame }));
            }
            match self.unfinished.push(rest) {
                Joined::More => return Ok(()),
                Joined::Value(text, tail) => {
                    if let Ok(json) = Json::parse(&text) {
                        self.value(json, out)?;
                    }
                    rest = tail;
                }
                Joined::Broken => {
                    self.malformed += 1;
                    // What was broken were the lines before, not necessarily this one.
                    rest = if alone { "" } else { line };
                }
            }
        }
        Ok(())
    }

    /// Gives a frame to whom it concerns; says where its token lies if there is nothing else in it.
    fn value<'a>(&mut self, json: Json<'a>, out: &mut impl Sink) -> Result<Option<Token<'a>>, Failure> {
        if json.kind() != JsonKind::Object {
            self.malformed += 1;
            return Ok(None);
        }
        let kind = json.get("type").and_then(|kind| kind.as_str());
        let mut read = match kind {
            Some(kind) => v1::read(&kind, json, &mut self.answer, out)?,
            None => Read::Foreign,
        };
        if let Read::Foreign = read {
            read = v2::read(json, &mut self.answer, out)?;
        }
        match read {
            Read::Token(token) => return Ok(Some(token)),
            Read::Taken => {}
            Read::Foreign => match refusal::described(json, 200) {
                Some(failure) => return Err(failure),
                None => self.malformed += 1,
            },
        }
        Ok(None)
    }

    fn drop_unfinished(&mut self) {
        if !self.unfinished.is_empty() {
            self.unfinished.clear();
            self.malformed += 1;
        }
    }

    /// Decides what the end of the body means.
    fn finish(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.drop_unfinished();
        if self.answer.is_finished() || (self.tolerate_truncation && self.answer.has_begun()) {
            self.answer.end(out);
            return Ok(());
        }
        Err(match (self.answer.has_begun(), self.malformed) {
            (true, _) => Failure::new(Kind::Truncated, "the upstream's answer ended in the middle"),
            (false, 0) => Failure::new(Kind::Truncated, "the upstream's answer ended before it began"),
            (false, _) => {
                Failure::new(Kind::Protocol, "nothing in the upstream's answer could be understood")
            }
        })
    }
}

/// A frame that came over several `data` lines, as far as it has come.
#[derive(Debug)]
struct Unfinished {
    text: String,
    scanner: Scanner,
}

/// What a line made of an [`Unfinished`] frame.
enum Joined<'l> {
    /// It goes on.
    More,
    /// It is complete; the second is the rest of the line.
    Value(String, &'l str),
    /// It is no JSON object.
    Broken,
}

impl Unfinished {
    fn new() -> Self {
        Self { text: String::new(), scanner: Scanner::new(MAX_DEPTH) }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.scanner = Scanner::new(MAX_DEPTH);
    }

    fn push<'l>(&mut self, line: &'l str) -> Joined<'l> {
        let line = if self.is_empty() { line.trim_ascii_start() } else { line };
        if self.is_empty() && !line.starts_with('{') {
            return Joined::Broken;
        }
        let (taken, mut progress) = self.scanner.push(line.as_bytes());
        let (taken, rest) = line.split_at_checked(taken).unwrap_or((line, ""));
        self.text.push_str(taken);
        if progress == Progress::More {
            self.text.push('\n');
            progress = self.scanner.push(b"\n").1;
        }
        match progress {
            Progress::More => Joined::More,
            Progress::End => {
                let text = std::mem::take(&mut self.text);
                self.clear();
                Joined::Value(text, rest)
            }
            _ => {
                self.clear();
                Joined::Broken
            }
        }
    }
}

/// The fast path: frames that are known from earlier ones, all but their token.
///
/// A shape is learnt from a frame that said nothing but its token, so a frame of that shape says nothing else either.
#[derive(Debug, Default)]
struct Shapes {
    /// Text and reasoning may take turns.
    known: [Option<(Shape, Target)>; 2],
    next: usize,
    /// Shapes learnt since one last was of use.
    idle: u32,
}

impl Shapes {
    /// Shapes learnt in vain until no more are: a stream whose frames are all different would pay for each.
    const MAX_IDLE: u32 = 16;

    fn token<'a>(&mut self, frame: &'a [u8]) -> Option<(Target, &'a str)> {
        let found =
            self.known.iter().flatten().find_map(|(shape, target)| Some((*target, shape.body(frame)?)));
        if found.is_some() {
            self.idle = 0;
        }
        found
    }

    fn learn(&mut self, frame: &str, token: Token<'_>) {
        if self.idle >= Self::MAX_IDLE {
            return;
        }
        self.idle += 1;
        let number = token.number.and_then(|number| json::span(frame, number));
        let Some(body) = json::span(frame, token.body) else { return };
        let Some(shape) = Shape::learn(frame, body, number) else { return };
        if let Some(place) = self.known.get_mut(self.next) {
            *place = Some((shape, token.target));
        }
        self.next = (self.next + 1) % self.known.len();
    }
}

fn oversized(oversized: Oversized) -> Failure {
    Failure::new(Kind::Protocol, format!("the upstream sent a frame of more than {} bytes", oversized.limit))
}

/// The body begins with something that no event stream begins with.
fn no_stream(line: &[u8]) -> Failure {
    let found = match (line.trim_ascii_start().first(), str::from_utf8(line)) {
        (Some(b'<'), _) => "an HTML page".to_owned(),
        (Some(b'['), _) => "a JSON array".to_owned(),
        (_, Ok(text)) => format!("`{}`", text.chars().take(60).collect::<String>()),
        (_, Err(_)) => "bytes that are no text".to_owned(),
    };
    Failure::new(Kind::Protocol, format!("the upstream answered with {found} instead of an event stream"))
}

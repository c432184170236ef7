//! [`Channel`]: an answer that is a row of messages, each with a header that says where its body goes.
//!
//! ```text
//! opener header body-marker  text | reasoning | arguments  end  opener header …
//! ```
//!
//! A header is a guess until its route is known: till then all is source, and a false start comes out byte for byte.
//! From then on bodies go out as they come, and markers are framing. A header that begins inside a spoken body and
//! turns out to be none is part of that body. After a message's end there are blanks, ends and openers; anything else
//! is the text behind the last message.

use super::{
    body::{Fed, JsonBody},
    envelope::{Envelope, Parsed, Piece, Rules},
    gate::Waiting,
    params::ParamsWalk,
    region::Passed,
    tag::Scan,
    text::{head, tail},
};
use crate::{
    event::CallEnd,
    format::{CallBody, Channels, Place, Route, Voice},
};

/// Longest header, in bytes.
const MAX_HEADER: usize = 512;

#[derive(Debug)]
enum Phase {
    /// In a header; [`Channel::source`] is it with its opener.
    Header,
    /// Behind the header of a call, before its arguments. `Voice`: what it is without any.
    Opened {
        name: String,
        otherwise: Option<Voice>,
    },
    Said(Voice),
    Arguments(JsonBody),
    /// The arguments stopped short; whole all the same if only brackets are missing before an end.
    Broken(JsonBody),
    Envelope(Box<Envelope>),
    Params(Box<ParamsWalk>),
    /// Behind a message.
    Between,
    Failed,
}

/// Messages being read.
#[derive(Debug)]
pub(super) struct Channel {
    channels: &'static Channels,
    phase: Phase,
    /// The opener and header being read.
    source: String,
    /// What may be a marker.
    markup: String,
    /// The spoken body in which the header stands.
    inside: Option<Voice>,
    /// White space of reasoning since its last visible character; its first goes out with nothing before it.
    blank: String,
    begun: bool,
    waits: bool,
    waiting: Vec<Waiting>,
    /// A message has been read.
    found: bool,
}

/// What a character may be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Begins,
    End,
    Open(&'static str),
}

impl Channel {
    /// Begins behind a header's opener; in the header if that is empty.
    pub(super) fn new(channels: &'static Channels, open: &'static str, waits: bool, quoted: bool) -> Self {
        Self {
            channels,
            phase: if quoted { Phase::Failed } else { Phase::Header },
            source: open.to_owned(),
            markup: String::new(),
            inside: None,
            blank: String::new(),
            begun: false,
            waits,
            waiting: Vec::new(),
            found: false,
        }
    }

    /// What is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        match &self.phase {
            Phase::Said(_) => true,
            Phase::Header | Phase::Opened { .. } => self.inside.is_some(),
            Phase::Arguments(_) => !self.waits,
            Phase::Envelope(envelope) => !self.waits && envelope.is_open(),
            Phase::Params(walk) => !self.waits && walk.is_open(),
            Phase::Broken(_) | Phase::Between | Phase::Failed => false,
        }
    }

    /// A call has begun that waits for its end.
    pub(super) fn has_begun(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        let own = if self.inside.is_some() { self.source.len() } else { 0 };
        let said = if matches!(self.phase, Phase::Said(_)) { self.markup.len() } else { 0 };
        let envelope = if let Phase::Envelope(envelope) = &self.phase { envelope.kept() } else { 0 };
        let params = if let Phase::Params(walk) = &self.phase { walk.kept() } else { 0 };
        own + said + envelope + params + self.blank.len()
    }

    /// The call that waited.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Reads on.
    pub(super) fn feed(&mut self, text: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Passed {
        let mut at = 0;
        while at < text.len() {
            let rest = tail(text, at);
            let (taken, passed) = match &self.phase {
                Phase::Header => self.header(rest, rules, out),
                Phase::Opened { .. } => self.opened(rest, rules, out),
                Phase::Said(voice) => self.said(rest, *voice, out),
                Phase::Arguments(_) => self.arguments(rest, rules, out),
                Phase::Envelope(_) => self.envelope(rest, rules, out),
                Phase::Params(_) => self.params(rest, rules, out),
                Phase::Broken(_) => self.broken(rest, out),
                Phase::Between => self.between(rest),
                Phase::Failed => (0, Some(self.failed())),
            };
            at += taken;
            match passed {
                Some(Passed::Certain(_)) => return Passed::Certain(at),
                Some(Passed::Left { rescan, .. }) => return Passed::Left { taken: at, rescan },
                Some(Passed::Failed { rescan, .. }) => return Passed::Failed { taken: at, rescan },
                _ => {}
            }
        }
        Passed::More
    }

    /// The text stops here: whether all of it was messages. `stopped`: the model was done.
    pub(super) fn finish(
        &mut self,
        stopped: bool,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Between) {
            Phase::Failed => false,
            Phase::Header => {
                self.unsaid(out);
                self.found
            }
            Phase::Opened { name, .. } => {
                self.start(&name, rules, out);
                self.end(CallEnd::Cut, out)
            }
            Phase::Said(voice) => {
                let markup = std::mem::take(&mut self.markup);
                self.say(voice, &markup, out);
                true
            }
            Phase::Arguments(mut body) | Phase::Broken(mut body) => {
                let whole = stopped && (rules.repair || !self.waits) && self.close(&mut body, out);
                self.end(if whole { CallEnd::Complete } else { CallEnd::Cut }, out)
            }
            Phase::Envelope(mut envelope) => {
                let (waits, waiting) = (self.waits, &mut self.waiting);
                let end = envelope.finish(stopped, &mut |piece| gate(waits, waiting, piece, out));
                self.settled(end, out) && envelope.found()
            }
            Phase::Params(mut walk) => {
                let (waits, waiting) = (self.waits, &mut self.waiting);
                let stopped = stopped && (rules.repair || !waits);
                let end = walk.finish(stopped, &mut |piece| gate(waits, waiting, piece, out));
                self.settled(end, out) && walk.found()
            }
            Phase::Between => true,
        }
    }

    /// How many of the last bytes of what was fed may still be no part of the call that streams.
    pub(super) fn unsure(&self) -> usize {
        if let Phase::Params(walk) = &self.phase { walk.rest().len() } else { 0 }
    }

    /// The header was none: if it stands in a spoken body, it is part of that.
    fn unsaid(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        if let Some(voice) = self.inside.take() {
            let source = std::mem::take(&mut self.source);
            self.say(voice, &source, out);
        }
    }

    /// One character of a header.
    fn header(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        // An opener may be the body's marker, too.
        if self.markup.is_empty()
            && let Some(&body) = self.channels.body.iter().find(|body| **body == self.source)
        {
            return (0, self.routed(body, rules, out));
        }
        let Some(character) = text.chars().next() else { return (0, None) };
        self.source.push(character);
        let legal = character.is_alphanumeric() || "_-.:/= \t\"".contains(character);
        if self.markup.is_empty() && legal && self.source.len() <= MAX_HEADER {
            return (character.len_utf8(), None);
        }
        self.markup.push(character);
        let (markup, channels) = (self.markup.as_str(), self.channels);
        if let Some(&body) = channels.body.iter().find(|body| **body == markup) {
            self.markup.clear();
            return (character.len_utf8(), self.routed(body, rules, out));
        }
        if channels.inner.contains(&markup) {
            self.markup.clear();
            return (character.len_utf8(), None);
        }
        let mut markers = channels.body.iter().chain(channels.inner);
        if self.source.len() <= MAX_HEADER && markers.any(|marker| marker.starts_with(markup)) {
            return (character.len_utf8(), None);
        }
        self.refuse(out)
    }

    /// The header cannot go on with the last character of its source, which is read again.
    fn refuse(&mut self, out: &mut impl FnMut(Piece<'_>)) -> (usize, Option<Passed>) {
        self.markup.pop();
        self.source.pop();
        let Some(voice) = self.inside.take() else { return (0, Some(self.failed())) };
        // What may have been a marker of the header may be one of the body.
        let source = std::mem::take(&mut self.source);
        let markup = self.markup.len();
        self.phase = Phase::Said(voice);
        self.say(voice, head(&source, source.len() - markup), out);
        self.settle(voice, out);
        (0, None)
    }

    /// What is held is no message: all but its first character is read again.
    fn failed(&mut self) -> Passed {
        self.phase = Phase::Failed;
        let first = if self.found { 0 } else { self.source.chars().next().map_or(0, char::len_utf8) };
        Passed::Failed { taken: 0, rescan: self.source.len() - first }
    }

    /// The header is whole.
    fn routed(
        &mut self,
        body: &'static str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Option<Passed> {
        let source = std::mem::take(&mut self.source);
        let route = (self.channels.route)(source.strip_suffix(body).unwrap_or(&source), body);
        let (name, otherwise) = match route {
            Some(Route::Call(written, otherwise)) => match rules.name(written) {
                Some(name) => (name.to_owned(), otherwise),
                None => return self.no_message(source, out),
            },
            Some(Route::Params(written, calls)) => {
                let (Some(name), CallBody::Params(params)) = (rules.name(written), &calls.body) else {
                    return self.no_message(source, out);
                };
                let walk = ParamsWalk::named(calls, params, name, rules);
                self.begin(out);
                self.phase = Phase::Params(Box::new(walk));
                return Some(Passed::Certain(0));
            }
            Some(Route::Envelope) => {
                self.begin(out);
                self.phase = Phase::Envelope(Box::new(Envelope::new(rules, false)));
                return Some(Passed::Certain(0));
            }
            Some(Route::Said(voice)) => {
                self.begin(out);
                self.phase = Phase::Said(voice);
                return Some(Passed::Certain(0));
            }
            Some(Route::Nothing) => {
                self.begin(out);
                self.phase = Phase::Between;
                return Some(Passed::Certain(0));
            }
            None => return self.no_message(source, out),
        };
        self.phase = Phase::Opened { name, otherwise };
        self.source = source;
        None
    }

    /// `source` looked like a header and is none.
    fn no_message(&mut self, source: String, out: &mut impl FnMut(Piece<'_>)) -> Option<Passed> {
        if let Some(voice) = self.inside.take() {
            self.phase = Phase::Said(voice);
            self.say(voice, &source, out);
            return None;
        }
        self.source = source;
        Some(self.failed())
    }

    /// A message is certain.
    fn begin(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        if !self.found {
            out(Piece::Framed);
        }
        self.found = true;
        self.inside = None;
        self.source.clear();
        self.markup.clear();
        self.blank.clear();
        self.begun = false;
    }

    fn start(&mut self, name: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> JsonBody {
        self.begin(out);
        gate(self.waits, &mut self.waiting, Piece::Start { name, id: "" }, out);
        JsonBody::new(rules.repair, rules.max_depth)
    }

    /// The call has ended: whether it goes out. One that waits does if it is whole.
    fn end(&mut self, end: CallEnd, out: &mut impl FnMut(Piece<'_>)) -> bool {
        gate(self.waits, &mut self.waiting, Piece::End(end), out);
        self.settled(Some(end), out)
    }

    fn settled(&mut self, end: Option<CallEnd>, out: &mut impl FnMut(Piece<'_>)) -> bool {
        let waiting = self.take_waiting();
        if self.waits && end == Some(CallEnd::Cut) {
            return false;
        }
        waiting.iter().for_each(|waiting| out(waiting.as_piece()));
        true
    }

    /// Writes the brackets that are missing, if nothing else is.
    fn close(&mut self, body: &mut JsonBody, out: &mut impl FnMut(Piece<'_>)) -> bool {
        let (waits, waiting) = (self.waits, &mut self.waiting);
        body.close(&mut |text: &str| gate(waits, waiting, Piece::Arguments(text), out))
    }

    /// Before a call's arguments.
    fn opened(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        let Phase::Opened { name, otherwise } = &self.phase else { return (0, None) };
        let (name, otherwise, len) = (name.clone(), *otherwise, character.len_utf8());
        if self.markup.is_empty() && character == '{' {
            let certain = if self.inside.is_some() { Some(Passed::Certain(0)) } else { self.certain() };
            self.phase = Phase::Arguments(self.start(&name, rules, out));
            return (0, certain);
        }
        self.source.push(character);
        if self.markup.is_empty() && character.is_whitespace() {
            return (len, None);
        }
        self.markup.push(character);
        match self.mark() {
            Mark::Begins => (len, None),
            Mark::End => {
                self.start(&name, rules, out);
                gate(self.waits, &mut self.waiting, Piece::Arguments("{}"), out);
                self.end(CallEnd::Complete, out);
                self.phase = Phase::Between;
                (len, Some(Passed::Certain(0)))
            }
            Mark::None | Mark::Open(_) => match otherwise {
                Some(voice) => {
                    let markup = std::mem::take(&mut self.markup);
                    self.begin(out);
                    self.phase = Phase::Said(voice);
                    self.markup = markup;
                    self.settle(voice, out);
                    (len, Some(Passed::Certain(0)))
                }
                None => {
                    self.markup.clear();
                    let source = std::mem::take(&mut self.source);
                    (len, self.no_message(source, out))
                }
            },
        }
    }

    /// A spoken body.
    fn said(&mut self, text: &str, voice: Voice, out: &mut impl FnMut(Piece<'_>)) -> (usize, Option<Passed>) {
        if self.markup.is_empty() {
            let begins = |byte: u8| {
                let markers = self.channels.open.iter().map(|(open, _)| open).chain(self.channels.end);
                markers.filter_map(|marker| marker.as_bytes().first()).any(|&first| first == byte)
            };
            let run = text.bytes().position(begins).unwrap_or(text.len());
            if run > 0 {
                self.say(voice, head(text, run), out);
                return (run, None);
            }
        }
        let Some(character) = text.chars().next() else { return (0, None) };
        self.markup.push(character);
        (character.len_utf8(), self.settle(voice, out))
    }

    /// Lets go of what is no marker in a spoken body.
    fn settle(&mut self, voice: Voice, out: &mut impl FnMut(Piece<'_>)) -> Option<Passed> {
        while !self.markup.is_empty() {
            match self.mark() {
                Mark::Begins => return None,
                Mark::End => {
                    self.markup.clear();
                    self.blank.clear();
                    self.phase = Phase::Between;
                    return Some(Passed::Certain(0));
                }
                Mark::Open(open) => {
                    self.markup.clear();
                    self.source.clear();
                    self.source.push_str(open);
                    self.inside = Some(voice);
                    self.phase = Phase::Header;
                    return None;
                }
                Mark::None => {
                    let first = self.markup.chars().next().map_or(0, char::len_utf8);
                    let rest = tail(&self.markup, first).to_owned();
                    let markup = std::mem::replace(&mut self.markup, rest);
                    self.say(voice, head(&markup, first), out);
                }
            }
        }
        None
    }

    /// What the held markup is.
    fn mark(&self) -> Mark {
        let markup = self.markup.as_str();
        let anywhere = |&&(_, place): &&(&str, Place)| place == Place::Anywhere;
        if self.channels.end.contains(&markup) {
            return Mark::End;
        }
        let mut open = self.channels.open.iter().filter(anywhere).map(|&(open, _)| open);
        if let Some(open) = open.clone().find(|open| *open == markup) {
            return Mark::Open(open);
        }
        let begins = |marker: &str| marker.starts_with(markup);
        if open.any(begins) || self.channels.end.iter().any(|end| begins(end)) {
            return Mark::Begins;
        }
        Mark::None
    }

    fn say(&mut self, voice: Voice, text: &str, out: &mut impl FnMut(Piece<'_>)) {
        if text.is_empty() {
            return;
        }
        if voice == Voice::Text {
            return out(Piece::Said(voice, text));
        }
        let text = if self.begun { text } else { text.trim_start() };
        let visible = text.trim_end();
        if !visible.is_empty() {
            self.blank.push_str(visible);
            out(Piece::Said(voice, &self.blank));
            self.blank.clear();
            self.begun = true;
        }
        self.blank.push_str(tail(text, visible.len()));
    }

    fn certain(&self) -> Option<Passed> {
        (!self.waits).then_some(Passed::Certain(0))
    }

    /// A call's arguments.
    fn arguments(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let Phase::Arguments(body) = &mut self.phase else { return (0, None) };
        let (waits, waiting) = (self.waits, &mut self.waiting);
        match body.feed(text, &mut |text: &str| gate(waits, waiting, Piece::Arguments(text), out)) {
            Fed::More => (text.len(), None),
            Fed::Done(len) => {
                self.end(CallEnd::Complete, out);
                self.phase = Phase::Between;
                (len, Some(Passed::Certain(0)))
            }
            Fed::Fault(len) => {
                let body = std::mem::replace(body, JsonBody::new(rules.repair, rules.max_depth));
                self.phase = Phase::Broken(body);
                (len, self.certain())
            }
        }
    }

    /// Behind arguments that stopped short.
    fn broken(&mut self, text: &str, out: &mut impl FnMut(Piece<'_>)) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        self.markup.push(character);
        let mark = self.mark();
        if mark == Mark::Begins {
            return (character.len_utf8(), None);
        }
        let Phase::Broken(mut body) = std::mem::replace(&mut self.phase, Phase::Between) else {
            return (0, None);
        };
        let whole = mark != Mark::None && self.close(&mut body, out);
        if mark == Mark::None {
            self.markup.pop();
        }
        let rescan = self.markup.len();
        self.markup.clear();
        self.source.clear();
        if !self.end(if whole { CallEnd::Complete } else { CallEnd::Cut }, out) {
            self.phase = Phase::Failed;
            return (
                if mark == Mark::None { 0 } else { character.len_utf8() },
                Some(Passed::Failed { taken: 0, rescan }),
            );
        }
        match mark {
            Mark::End => (character.len_utf8(), Some(Passed::Certain(0))),
            Mark::Open(open) => {
                self.source.push_str(open);
                self.phase = Phase::Header;
                (character.len_utf8(), None)
            }
            // The text goes on behind the call that was cut.
            Mark::None | Mark::Begins => (0, Some(Passed::Failed { taken: 0, rescan })),
        }
    }

    /// A JSON object with name and arguments.
    fn envelope(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let Phase::Envelope(envelope) = &mut self.phase else { return (0, None) };
        let (waits, waiting) = (self.waits, &mut self.waiting);
        let parsed = envelope.feed(text, rules, &mut |piece| gate(waits, waiting, piece, out));
        match parsed {
            Parsed::More => (text.len(), None),
            Parsed::CallEnded(len) => (len, self.certain()),
            Parsed::End(len) => {
                self.settled(Some(CallEnd::Complete), out);
                self.phase = Phase::Between;
                (len, Some(Passed::Certain(0)))
            }
            Parsed::Stop(len) => {
                let end = envelope.finish(false, &mut |piece| gate(waits, waiting, piece, out));
                let found = envelope.found();
                self.phase = Phase::Between;
                let certain = self.settled(end, out) && found;
                if !certain {
                    self.phase = Phase::Failed;
                }
                (len, Some(if certain { Passed::Certain(0) } else { Passed::Failed { taken: 0, rescan: 0 } }))
            }
        }
    }

    /// A call with tagged arguments.
    fn params(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let Phase::Params(walk) = &mut self.phase else { return (0, None) };
        let (waits, waiting) = (self.waits, &mut self.waiting);
        let parsed = walk.feed(text, rules, &mut |piece| gate(waits, waiting, piece, out));
        let rescan = walk.rest().len();
        let (found, open) = (walk.found(), walk.is_open());
        match parsed {
            Parsed::More => (text.len(), None),
            Parsed::CallEnded(len) => (len, self.certain()),
            Parsed::End(len) => {
                self.settled(Some(CallEnd::Complete), out);
                self.phase = Phase::Between;
                let left = Passed::Left { taken: 0, rescan };
                (len, Some(if rescan > 0 { left } else { Passed::Certain(0) }))
            }
            Parsed::Stop(len) => {
                if open {
                    walk.finish(false, &mut |piece| gate(waits, waiting, piece, out));
                }
                let certain = found && self.settled(open.then_some(CallEnd::Cut), out);
                self.phase = Phase::Failed;
                let left = Passed::Left { taken: 0, rescan };
                (len, Some(if certain { left } else { Passed::Failed { taken: 0, rescan } }))
            }
        }
    }

    /// Behind a message.
    fn between(&mut self, text: &str) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        let len = character.len_utf8();
        if self.markup.is_empty() && character.is_whitespace() {
            return (len, None);
        }
        self.markup.push(character);
        match self.mark() {
            Mark::Begins => (len, None),
            Mark::End => {
                self.markup.clear();
                (len, Some(Passed::Certain(0)))
            }
            Mark::Open(open) => {
                self.markup.clear();
                self.source.clear();
                self.source.push_str(open);
                self.phase = Phase::Header;
                (len, None)
            }
            Mark::None => {
                self.markup.pop();
                (0, Some(Passed::Failed { taken: 0, rescan: self.markup.len() }))
            }
        }
    }
}

/// Sends a piece on, or keeps it where calls wait.
fn gate(waits: bool, waiting: &mut Vec<Waiting>, piece: Piece<'_>, out: &mut impl FnMut(Piece<'_>)) {
    if waits { waiting.push(Waiting::of(piece)) } else { out(piece) }
}

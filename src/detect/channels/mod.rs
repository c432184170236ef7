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

mod body;
mod header;

use super::{
    body::JsonBody,
    envelope::{CallRules, Piece},
    gate::{Gate, Wait, Waiting},
    gated::Passed,
    string_fast_path::StringFastPath,
    text::tail,
    trimmed::Trimmed,
    walker::{Out, Walker},
};
use crate::{
    event::CallEnd,
    format::{Channels, Place, Voice},
};

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
    /// In the body of a call that has its name or its arguments' grammar to itself.
    Call(Box<Walker>),
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
    /// The reasoning that is being read.
    reasoning: Trimmed,
    /// The spoken body is the argument of a call.
    raw: bool,
    gate: Gate,
    /// A message has been read.
    found: bool,
    /// Bytes fed since the last point up to which everything is certain. They may still be text.
    uncertain: usize,
    /// Where in them the header begins.
    header_at: usize,
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
    pub(super) fn new(
        channels: &'static Channels,
        open: &'static str,
        (waits, quoted): (bool, bool),
        max_blank: usize,
    ) -> Self {
        Self {
            channels,
            phase: if quoted { Phase::Failed } else { Phase::Header },
            source: open.to_owned(),
            markup: String::new(),
            inside: None,
            reasoning: Trimmed::new(max_blank),
            raw: false,
            gate: Gate::new(if waits { Wait::CallEnd } else { Wait::Nothing }),
            found: false,
            uncertain: open.len(),
            header_at: 0,
        }
    }

    /// What is fed is certain as it comes. While a call waits, nothing is.
    pub(super) fn is_streaming(&self) -> bool {
        self.gate.is_empty()
            && match &self.phase {
                Phase::Said(_) | Phase::Arguments(_) => true,
                Phase::Call(walker) if walker.found() => walker.is_open(),
                Phase::Header | Phase::Opened { .. } | Phase::Call(_) => self.inside.is_some(),
                Phase::Broken(_) | Phase::Between | Phase::Failed => false,
            }
    }

    /// In a string of arguments that goes out as it comes.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        match &self.phase {
            _ if !self.gate.streams() => None,
            Phase::Arguments(body) => body.flow(),
            Phase::Call(walker) => walker.string(),
            _ => None,
        }
    }

    /// A call has begun that waits for its end.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.is_empty()
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        let call = if let Phase::Call(walker) = &self.phase { walker.kept() } else { 0 };
        call + self.reasoning.held()
    }

    /// The call that waited.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.gate.take()
    }

    /// Reads on.
    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        let mut at = 0;
        while at < text.len() {
            let rest = tail(text, at);
            let (taken, passed) = match &self.phase {
                Phase::Header => self.header(rest, rules, out),
                Phase::Opened { .. } => self.opened(rest, rules, out),
                Phase::Said(voice) => self.said(rest, *voice, out),
                Phase::Arguments(_) => self.arguments(rest, rules, out),
                Phase::Call(_) => self.call(rest, rules, out),
                Phase::Broken(_) => self.broken(rest, rules, out),
                Phase::Between => self.between(rest),
                Phase::Failed => (0, Some(self.failed())),
            };
            at += taken;
            self.uncertain += taken;
            let certain = matches!(passed, Some(Passed::Certain(_))) && self.gate.is_empty();
            if certain || self.is_streaming() {
                self.certain_but(self.pending());
            }
            match passed {
                Some(Passed::Certain(_)) => return Passed::Certain(at),
                Some(Passed::Again { rest, certain, .. }) => {
                    self.certain_but(0);
                    return Passed::Again { taken: at, rest, certain };
                }
                Some(Passed::Failed { rescan, .. }) => return Passed::Failed { taken: at, rescan },
                _ => {}
            }
        }
        Passed::More
    }

    /// The text stops here: whether all of it was messages. `stopped`: the model was done.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        let ended = match std::mem::replace(&mut self.phase, Phase::Between) {
            Phase::Failed => false,
            Phase::Header => {
                self.unsaid(out);
                self.found
            }
            Phase::Call(walker) if !walker.stops_in_call() => self.unsaid(out),
            Phase::Opened { .. } => self.unsaid(out),
            Phase::Said(voice) => {
                let markup = std::mem::take(&mut self.markup);
                self.say(voice, &markup, out);
                true
            }
            Phase::Arguments(mut body) | Phase::Broken(mut body) => {
                let whole = stopped && self.mends(rules) && self.close(&mut body, out);
                self.end(if whole { CallEnd::Complete } else { CallEnd::Cut }, out)
            }
            Phase::Call(mut walker) => {
                if !walker.found() {
                    self.begin(out);
                }
                let stopped = stopped && self.mends(rules);
                let end = walker.finish(stopped, &mut |piece| self.gate.pass(piece, out));
                self.gate.settle(end, out)
            }
            Phase::Between => true,
        };
        if self.raw { self.end_raw(stopped, out) } else { ended }
    }

    /// How many of the last bytes of what was fed may still be text.
    pub(super) fn undecided(&self) -> usize {
        self.uncertain
    }

    /// How many of the last bytes of what was fed belong to no message yet, where everything before them is certain.
    fn pending(&self) -> usize {
        match &self.phase {
            Phase::Said(_) | Phase::Between | Phase::Broken(_) => self.markup.len(),
            Phase::Arguments(_) => 0,
            Phase::Call(walker) if walker.found() => walker.undecided(),
            Phase::Header | Phase::Opened { .. } | Phase::Call(_) | Phase::Failed => {
                self.uncertain.saturating_sub(self.header_at)
            }
        }
    }

    /// Everything that was fed is certain except for its last `pending` bytes.
    fn certain_but(&mut self, pending: usize) {
        self.header_at = self.header_at.saturating_sub(self.uncertain.saturating_sub(pending));
        self.uncertain = pending;
    }

    /// Where the held markup begins in the uncertain bytes, before the next character is taken.
    fn markup_at(&self) -> usize {
        self.uncertain.saturating_sub(self.markup.len())
    }

    /// A header begins with its opener, which stands at `at` in the uncertain bytes.
    fn open(&mut self, open: &str, at: usize) {
        self.markup.clear();
        self.source.clear();
        self.source.push_str(open);
        self.header_at = at;
        self.phase = Phase::Header;
    }

    /// The header was none: if it stands in a spoken body, it is part of that, and nothing is left.
    fn unsaid(&mut self, out: &mut Out<'_>) -> bool {
        let Some(voice) = self.inside.take() else { return false };
        let source = std::mem::take(&mut self.source);
        self.say(voice, &source, out);
        true
    }

    /// What is held is no message: all but its first character is read again.
    fn failed(&mut self) -> Passed {
        self.phase = Phase::Failed;
        let first = if self.found { 0 } else { self.source.chars().next().map_or(0, char::len_utf8) };
        Passed::Failed { taken: 0, rescan: self.source.len() - first }
    }

    /// A message begins that is not a call.
    fn begin_said(&mut self, out: &mut Out<'_>) {
        self.begin(out);
        self.gate.settle(None, out);
    }

    /// A message is certain. If it is a call, it may still have to wait.
    fn begin(&mut self, out: &mut Out<'_>) {
        self.end_raw(true, out);
        if self.inside.is_some() {
            // The message in which the header stands has ended before it.
            self.certain_but(self.uncertain.saturating_sub(self.header_at));
        }
        if !self.found {
            self.gate.pass(Piece::Framed, out);
        }
        self.found = true;
        self.inside = None;
        self.source.clear();
        self.markup.clear();
        self.reasoning.end();
    }

    fn start(&mut self, name: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> JsonBody {
        self.begin(out);
        self.gate.pass(Piece::Start { name, id: "" }, out);
        JsonBody::new(rules.repair, rules.max_depth)
    }

    /// The body is all there is of the call's argument: whether it goes out.
    fn end_raw(&mut self, whole: bool, out: &mut Out<'_>) -> bool {
        if !std::mem::take(&mut self.raw) {
            return true;
        }
        if !whole {
            return self.end(CallEnd::Cut, out);
        }
        self.gate.pass(Piece::Arguments("\"}"), out);
        self.end(CallEnd::Complete, out)
    }

    /// The call has ended: whether it goes out. One that waits does if it is whole.
    fn end(&mut self, end: CallEnd, out: &mut Out<'_>) -> bool {
        self.gate.pass(Piece::End(end), out);
        self.gate.settle(Some(end), out)
    }

    /// Whether the brackets that are missing may be written. A waiting call that is not whole can be text instead.
    fn mends(&self, rules: &CallRules<'_>) -> bool {
        rules.repair || self.gate.streams()
    }

    /// Writes the brackets that are missing, if nothing else is.
    fn close(&mut self, body: &mut JsonBody, out: &mut Out<'_>) -> bool {
        body.close(&mut |text: &str| self.gate.pass(Piece::Arguments(text), out))
    }

    /// A marker may begin with this.
    fn begins_mark(&self, character: char) -> bool {
        let openers = self.channels.open.iter().map(|(open, _)| open);
        openers.chain(self.channels.end).any(|marker| marker.starts_with(character))
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

    fn certain(&self) -> Option<Passed> {
        self.gate.streams().then_some(Passed::Certain(0))
    }

    /// Behind a message.
    fn between(&mut self, text: &str) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        let len = character.len_utf8();
        if self.markup.is_empty() && character.is_whitespace() {
            return (len, None);
        }
        let at = self.markup_at();
        self.markup.push(character);
        match self.mark() {
            Mark::Begins => (len, None),
            Mark::End => {
                self.markup.clear();
                (len, Some(Passed::Certain(0)))
            }
            Mark::Open(open) => {
                self.open(open, at);
                (len, None)
            }
            Mark::None => {
                self.markup.pop();
                (0, Some(Passed::Failed { taken: 0, rescan: self.markup.len() }))
            }
        }
    }
}

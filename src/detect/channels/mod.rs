//! [`Channel`]: a response that is a sequence of messages, each with a header that says where its body goes.
//!
//! ```text
//! opener header body-marker  text | reasoning | arguments  end  opener header …
//! ```
//!
//! A header is a guess until its route is known. Until then everything is kept as source, and a false start
//! is released byte for byte. From then on bodies stream and markers are framing. A header that begins inside
//! a spoken body and turns out not to be one is part of that body. After a message's end, blanks, end markers
//! and openers are expected; anything else is text after the last message.

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
    /// In a header; [`Channel::source`] holds the header with its opener.
    Header,
    /// After the header of a call, before its arguments. `Voice`: how the body is read if there are no
    /// arguments.
    Opened {
        name: String,
        otherwise: Option<Voice>,
    },
    Said(Voice),
    Arguments(JsonBody),
    /// The arguments stopped short. They are still complete if only brackets are missing before an end
    /// marker.
    Broken(JsonBody),
    /// In the body of a call that holds its name, or whose arguments have their own grammar.
    Call(Box<Walker>),
    /// After a message.
    Between,
    Failed,
}

/// Reads a sequence of messages.
#[derive(Debug)]
pub(super) struct Channel {
    channels: &'static Channels,
    phase: Phase,
    /// The opener and header read so far.
    source: String,
    /// Text that may be a marker.
    markup: String,
    /// The spoken body that contains the header.
    inside: Option<Voice>,
    /// The reasoning being read.
    reasoning: Trimmed,
    /// The spoken body is a call's argument.
    raw: bool,
    gate: Gate,
    /// A message has been read.
    found: bool,
    /// Bytes fed since the last point up to which everything is certain. They may still be text.
    uncertain: usize,
    /// Offset of the header in the uncertain bytes.
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
    /// Begins after a header's opener, or inside the header if the opener is empty.
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

    /// Whether bytes are certain as soon as they are fed. While a call waits, none are.
    pub(super) fn is_streaming(&self) -> bool {
        self.gate.is_empty()
            && match &self.phase {
                Phase::Said(_) | Phase::Arguments(_) => true,
                Phase::Call(walker) if walker.found() => walker.is_open(),
                Phase::Header | Phase::Opened { .. } | Phase::Call(_) => self.inside.is_some(),
                Phase::Broken(_) | Phase::Between | Phase::Failed => false,
            }
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        match &self.phase {
            _ if !self.gate.streams() => None,
            Phase::Arguments(body) => body.flow(),
            Phase::Call(walker) => walker.string(),
            _ => None,
        }
    }

    /// A call that waits for its end has begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.is_empty()
    }

    /// Bytes held in addition to the source.
    pub(super) fn kept(&self) -> usize {
        let call = if let Phase::Call(walker) = &self.phase { walker.kept() } else { 0 };
        call + self.reasoning.held()
    }

    /// Takes the waiting call.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.gate.take()
    }

    /// Reads the next piece.
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

    /// The text stops here; returns whether all of it was messages. `stopped`: the model finished.
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

    /// How many of the last bytes fed may still be text.
    pub(super) fn undecided(&self) -> usize {
        self.uncertain
    }

    /// How many of the last bytes fed do not belong to a message yet; everything before them is certain.
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

    /// Marks everything fed as certain except for the last `pending` bytes.
    fn certain_but(&mut self, pending: usize) {
        self.header_at = self.header_at.saturating_sub(self.uncertain.saturating_sub(pending));
        self.uncertain = pending;
    }

    /// Offset of the held markup in the uncertain bytes, before the next character is taken.
    fn markup_at(&self) -> usize {
        self.uncertain.saturating_sub(self.markup.len())
    }

    /// Starts a header with its opener, which is at `at` in the uncertain bytes.
    fn open(&mut self, open: &str, at: usize) {
        self.markup.clear();
        self.source.clear();
        self.source.push_str(open);
        self.header_at = at;
        self.phase = Phase::Header;
    }

    /// The text was not a header. If it is in a spoken body, it becomes part of that body and nothing is left
    /// over.
    fn unsaid(&mut self, out: &mut Out<'_>) -> bool {
        let Some(voice) = self.inside.take() else { return false };
        let source = std::mem::take(&mut self.source);
        self.say(voice, &source, out);
        true
    }

    /// The held text is not a message: everything after its first character is read again.
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
            // The message that contains the header has ended before it.
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

    /// The body is the whole argument of the call. Returns whether the call is sent.
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

    /// The call has ended. Returns whether it is sent; a waiting call is sent if it is complete.
    fn end(&mut self, end: CallEnd, out: &mut Out<'_>) -> bool {
        self.gate.pass(Piece::End(end), out);
        self.gate.settle(Some(end), out)
    }

    /// Whether missing brackets may be written. A waiting call that is incomplete can become text instead.
    fn mends(&self, rules: &CallRules<'_>) -> bool {
        rules.repair || self.gate.streams()
    }

    /// Writes the missing brackets, if nothing else is missing.
    fn close(&mut self, body: &mut JsonBody, out: &mut Out<'_>) -> bool {
        body.close(&mut |text: &str| self.gate.pass(Piece::Arguments(text), out))
    }

    /// Whether a marker may begin with this character.
    fn begins_mark(&self, character: char) -> bool {
        let openers = self.channels.open.iter().map(|(open, _)| open);
        openers.chain(self.channels.end).any(|marker| marker.starts_with(character))
    }

    /// Classifies the held markup.
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

    /// Reads the text after a message.
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

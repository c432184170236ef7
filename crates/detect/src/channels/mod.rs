//! [`Channel`]: reads a response that is a sequence of messages, each with a header that says what its body is.
//!
//! ```text
//! opener header body-marker  text | reasoning | arguments  end  opener header …
//! ```
//!
//! A header is uncertain until its route is known, and the header of a call remains uncertain until the call has
//! started. Until then, no step takes any part of the header, so that it can still become text. Afterwards,
//! bodies are streamed, and markers are framing. If text inside a body starts like a header but turns out not to
//! be one, it is part of that body. Between messages, only white space, end markers and openers may occur.
//! Anything else is text after the last message.

mod header;
mod named_json;

use self::header::{Header, Opens};
use super::{
    broken::{BrokenCall, EndedBy, Rest, Skipped},
    openers::ends,
    pattern::Fit,
    string_fast_path::StringFastPath,
    text::{head, tail},
    trimmer::Trimmer,
    walk::{CallRules, Out, Piece, Step, Surroundings, Walk, step},
};
use crate::{
    format::{Channels, Place, Voice},
    wire::json::escape_str,
};

#[derive(Debug)]
enum Phase {
    /// Before the first message, which has this opener.
    Start(&'static str),
    /// In the body of a message with text or reasoning.
    Said(Voice),
    /// In the body of a message that is left out.
    LeftOut,
    /// In a body that is the only argument of a call.
    Raw,
    Call(Box<dyn Walk>),
    /// In the rest of a broken call, which ends with its message.
    Broken(BrokenCall, Box<dyn Walk>),
    Between,
}

#[derive(Debug)]
pub(super) struct Channel {
    channels: &'static Channels,
    phase: Phase,
    /// The possible header at the start of the text.
    header: Option<Header>,
    reasoning: Trimmer,
    /// Whether the last message is reasoning.
    reasons: bool,
    /// Whether the message is to a tool, and its body is text or reasoning all the same.
    to_tool: bool,
    /// Whether the last header is complete, but not that of a message that is read.
    unread: bool,
    /// Whether to read only reasoning, so that the first other message ends the sequence.
    only_reasoning: bool,
    /// Whether the call that a step could not continue may be broken.
    mends: bool,
    /// How many bytes the rest of a broken call may have.
    max_rest: usize,
}

impl Walk for Channel {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if let Some(header) = self.header.take() {
            return self.header(header, text, rules, out);
        }
        if let Phase::Call(call) = &mut self.phase {
            let step = step(call.as_mut(), text, rules, out);
            return self.called(step, rules);
        }
        if let Phase::Broken(..) = self.phase {
            return self.rest(text, rules, out);
        }
        let blank = text.len() - text.trim_start().len();
        if matches!(self.phase, Phase::Between) && blank > 0 {
            return Step::Took(blank);
        }
        let first = match self.phase {
            Phase::Start(_) => return self.say("", out),
            Phase::Between => (0, mark(self.channels, text, false)),
            _ => first_mark(self.channels, text, self.is_said()),
        };
        match first {
            (0, Mark::Begins) => Step::Hold,
            (0, Mark::End(len)) => self.end_message(len, out),
            (0, Mark::Open(open)) => {
                let header = Header::new(self.channels, open, false);
                self.header = Some(header.only_reasoning(self.only_reasoning));
                Step::Took(0)
            }
            (at, _) => self.say(head(text, at), out),
        }
    }

    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        match (&mut self.phase, &mut self.header) {
            (Phase::Raw, _) => {
                self.say(held, out);
                if stopped {
                    self.end_message(0, out);
                }
                stopped
            }
            (Phase::Call(call), _) => call.close(held, stopped, out),
            (_, Some(header)) => header.close(held, stopped, out),
            _ => false,
        }
    }

    fn ends_outside(&mut self, held: &str, out: &mut Out<'_>) -> bool {
        match &self.phase {
            Phase::Start(_) => false,
            Phase::Said(_) | Phase::Raw => {
                let ended = self.channels.call_end.contains(&held.trim_end());
                self.say(if ended { "" } else { held }, out);
                true
            }
            Phase::Call(call) => call.is_in_call(),
            Phase::Broken(..) | Phase::LeftOut => true,
            // A header that was cut off is text.
            Phase::Between => self.header.is_none(),
        }
    }

    fn string(&self) -> Option<StringFastPath> {
        if let Phase::Call(call) = &self.phase { call.string() } else { None }
    }

    fn kept(&self) -> usize {
        let call = if let Phase::Call(call) = &self.phase { call.kept() } else { 0 };
        call + self.header.as_ref().map_or(0, Header::kept) + self.reasoning.held()
    }

    fn starts_at_end(&self) -> bool {
        !matches!(self.phase, Phase::Raw) && self.header.as_ref().is_some_and(Header::starts_at_end)
    }

    fn ends_with_text(&self) -> bool {
        matches!(self.phase, Phase::Raw)
    }

    fn recover(&mut self, open: bool) -> bool {
        if !std::mem::take(&mut self.mends) {
            return false;
        }
        let Phase::Call(mut call) = std::mem::replace(&mut self.phase, Phase::Between) else { return false };
        // Every message ends with a marker, so brackets do not matter.
        let rest = if open { Rest { brackets: None, ..call.breaks() } } else { Rest::default() };
        self.phase = Phase::Broken(BrokenCall::new(rest, self.max_rest), call);
        true
    }

    fn is_broken(&self) -> bool {
        matches!(self.phase, Phase::Broken(..))
    }

    fn abandon(&mut self, out: &mut Out<'_>) {
        if let Phase::Broken(broken, _) = &mut self.phase {
            broken.abandon(out);
        }
    }

    fn surroundings(&mut self, _cut: bool) -> Surroundings {
        if self.unread { Surroundings::Message } else { Surroundings::Prose }
    }
}

impl Channel {
    /// Creates a reader that starts at the opener of the first header or, if `open` is empty, inside that header.
    /// If `quoted` is set, the text cannot be a header.
    pub(super) fn new(
        channels: &'static Channels,
        open: &'static str,
        quoted: bool,
        max_blank: usize,
    ) -> Self {
        let header = (!quoted).then(|| Header::new(channels, open, true));
        let reasoning = Trimmer::new(max_blank);
        Self {
            channels,
            phase: Phase::Start(open),
            header,
            reasoning,
            reasons: false,
            to_tool: false,
            unread: false,
            only_reasoning: false,
            mends: false,
            max_rest: 0,
        }
    }

    /// Returns the reader with `only_reasoning` set: the headers of other messages are text. The exception is the
    /// header of a message to the user right after reasoning. It is dropped, and the reader ends before that
    /// message.
    pub(super) fn only_reasoning(mut self, only_reasoning: bool) -> Self {
        self.only_reasoning = only_reasoning;
        self.header = self.header.map(|header| header.only_reasoning(only_reasoning));
        self
    }

    /// Reads the header at the start of `text`, and as much of the following text as it takes to confirm it.
    fn header(&mut self, mut header: Header, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let raw = matches!(self.phase, Phase::Raw);
        let mut begin = |piece: Piece<'_>| {
            if !raw {
                out(piece);
            }
        };
        match header.read(text, rules, &mut begin) {
            Opens::More => {
                self.header = Some(header);
                Step::Hold
            }
            Opens::Nothing(len) => {
                self.unread = header.is_complete();
                self.say(head(text, len), out)
            }
            Opens::Unread(len) if matches!(self.phase, Phase::Start(_) | Phase::Between) => {
                self.unread = true;
                Step::Stop(len)
            }
            Opens::Unread(len) => self.say(head(text, len), out),
            // The call ends first, and then the header is read again.
            Opens::Message(..) if raw => self.end_message(0, out),
            Opens::Message(Phase::Said(Voice::Text), Step::Certain(len)) if self.only_reasoning => {
                self.reasoning.end();
                Step::End(len)
            }
            Opens::Message(phase, step) => {
                self.to_tool = header.is_complete();
                let reasons = matches!(phase, Phase::Said(Voice::Reasoning));
                match reasons && self.reasons {
                    true => self.reasoning.end_line(),
                    false => self.reasoning.end(),
                }
                (self.reasons, self.phase) = (reasons, phase);
                self.called(step, rules)
            }
        }
    }

    /// Whether the text is part of a message with text or reasoning that is not to a tool.
    fn is_said(&self) -> bool {
        matches!(self.phase, Phase::Said(_)) && !self.to_tool
    }

    /// Handles `text` at the start of the input as text rather than markup.
    fn say(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        match self.phase {
            // Only the first character is certain to be text, since what follows it may begin a marker.
            Phase::Start(open) => Step::Stop(open.chars().next().map_or(0, char::len_utf8)),
            Phase::Said(Voice::Reasoning) => {
                self.reasoning.put(text, |text| out(Piece::Said(Voice::Reasoning, text)));
                Step::Certain(text.len())
            }
            Phase::Said(voice) => {
                out(Piece::Said(voice, text));
                Step::Certain(text.len())
            }
            Phase::LeftOut => Step::Certain(text.len()),
            Phase::Raw => {
                let mut escaped = String::with_capacity(text.len());
                escape_str(&mut escaped, text);
                out(Piece::Arguments(&escaped));
                Step::Took(text.len())
            }
            Phase::Call(_) | Phase::Broken(..) | Phase::Between => Step::Stop(0),
        }
    }

    /// Ends the message. Its end marker has `len` bytes.
    fn end_message(&mut self, len: usize, out: &mut Out<'_>) -> Step {
        if matches!(self.phase, Phase::Raw) {
            out(Piece::Arguments("\"}"));
        }
        self.reasoning.end();
        self.phase = Phase::Between;
        Step::Certain(len)
    }

    /// Handles a step of the call. The end of the call ends the message, whether or not the call is complete.
    fn called(&mut self, step: Step, rules: &CallRules<'_>) -> Step {
        let in_call = matches!(&self.phase, Phase::Call(call) if call.is_in_call());
        let step = match step {
            Step::End(len) | Step::EndMessage(len) => Step::Certain(len),
            Step::Stop(_) => {
                self.mends = in_call && may_mend(rules);
                self.max_rest = rules.max_hold;
                return step;
            }
            step => return step,
        };
        self.phase = Phase::Between;
        step
    }

    /// Reads the rest of a broken call.
    fn rest(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let channels = self.channels;
        let Phase::Broken(broken, call) = &mut self.phase else { return Step::Stop(0) };
        let marker = |text: &str| match mark(channels, text, false) {
            Mark::None => Fit::No,
            Mark::Begins => Fit::Begins,
            Mark::End(len) => Fit::Whole(len),
            Mark::Open(open) => Fit::Whole(open.len()),
        };
        let (len, by) = match broken.step(text, marker, out) {
            Skipped::Took(len) => return Step::Took(len),
            Skipped::Hold => return Step::Hold,
            Skipped::Ended(len, by) => (len, by),
        };
        let mended = by == EndedBy::MarkerAtOnce && may_mend(rules) && call.mend(out);
        if !mended {
            broken.abandon(out);
        }
        self.phase = Phase::Between;
        let end = if let Mark::End(end) = mark(channels, tail(text, len), false) { end } else { 0 };
        if mended { Step::Certain(len + end) } else { Step::Broken(len + end) }
    }
}

/// Whether missing brackets may be added. Without repair, a call that waits for its end becomes text instead.
fn may_mend(rules: &CallRules<'_>) -> bool {
    rules.repair || !rules.whole
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Begins,
    End(usize),
    Open(&'static str),
}

/// Returns the openers that are recognised inside a message.
fn openers(channels: &'static Channels) -> impl Iterator<Item = &'static str> {
    channels.open.iter().filter(|(_, place)| *place == Place::Anywhere).map(|&(open, _)| open)
}

fn may_begin(channels: &'static Channels, byte: u8) -> bool {
    openers(channels).chain(ends(channels)).any(|marker| marker.as_bytes().first() == Some(&byte))
}

/// The maximum length of white space between the end of a call and what shows that it also ends text, in bytes.
const MAX_BLANK: usize = 64;

/// Returns the marker at the start of `text`. In a message with text or reasoning, `is_said` is set: a marker that
/// ends calls then counts only if what follows it cannot be part of the message.
fn mark(channels: &'static Channels, text: &str, is_said: bool) -> Mark {
    if let Some(end) = ends(channels).find(|end| text.starts_with(end)) {
        if !is_said || !channels.call_end.contains(&end) {
            return Mark::End(end.len());
        }
        let rest = tail(text, end.len());
        let marker = rest.trim_ascii_start();
        return match mark(channels, marker, false) {
            _ if rest.len() - marker.len() > MAX_BLANK => Mark::None,
            Mark::End(_) | Mark::Open(_) => Mark::End(end.len()),
            other => other,
        };
    }
    if let Some(open) = openers(channels).find(|open| text.starts_with(open)) {
        return Mark::Open(open);
    }
    let begins = ends(channels).chain(openers(channels)).any(|marker| marker.starts_with(text));
    if begins { Mark::Begins } else { Mark::None }
}

fn first_mark(channels: &'static Channels, text: &str, is_said: bool) -> (usize, Mark) {
    let candidates = text.bytes().enumerate().filter(|&(_, byte)| may_begin(channels, byte));
    let mut marks = candidates.map(|(at, _)| (at, mark(channels, tail(text, at), is_said)));
    marks.find(|(_, mark)| *mark != Mark::None).unwrap_or((text.len(), Mark::None))
}

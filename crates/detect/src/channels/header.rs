//! [`Header`]: reads the header of a message, and as much of the following text as it takes to confirm the header.

use super::{Mark, Phase, mark, may_begin, named_json::NamedJson};
use crate::{
    envelope::Envelope,
    format::{CallBody, Channels, Route, Voice},
    params::ParamsWalk,
    text::{head, tail},
    walk::{CallRules, Out, Piece, Step, Walk, bounded, step},
    wire::json::escape_str,
};

/// The maximum number of markers in a header, including openers. Text is read again after a failed header at most
/// once per marker, so this limits the work.
const MAX_INNER: usize = 4;

#[derive(Debug)]
enum Part {
    /// In the opener, words, and the markers between them.
    Words,
    /// After the header of a call, before its arguments. `otherwise` says how to read the body if there are no
    /// arguments.
    Named { name: String, otherwise: Option<Voice> },
    /// In the body of a call that has not started yet.
    Body(Box<dyn Walk>),
}

#[derive(Debug)]
pub(super) struct Header {
    channels: &'static Channels,
    part: Part,
    /// How many bytes have been read.
    read: usize,
    /// The length of the opener, or 0 if it is in the prompt.
    open_len: usize,
    /// How many markers have been read, including the opener.
    inner: usize,
    /// Whether no text precedes the header in the message.
    first: bool,
    /// Whether only reasoning may follow the header. Unless this is the first header, a message to the user may
    /// follow as well.
    only_reasoning: bool,
}

/// What a possible header turned out to be.
#[derive(Debug)]
pub(super) enum Opens {
    /// Undecided, since it depends on the text that follows.
    More,
    /// Not a header. This many bytes have been read.
    Nothing(usize),
    /// A header of this many bytes, whose message stays text as it is written.
    Unread(usize),
    /// A message. Its first step starts at the opener.
    Message(Phase, Step),
}

impl Header {
    pub(super) fn new(channels: &'static Channels, open: &str, first: bool) -> Self {
        let inner = usize::from(channels.inner.contains(&open));
        let (read, open_len) = (open.len(), open.len());
        Self { channels, part: Part::Words, read, open_len, inner, first, only_reasoning: false }
    }

    /// Returns the reader with `only_reasoning` set: only channels with reasoning are accepted.
    pub(super) fn only_reasoning(self, only_reasoning: bool) -> Self {
        Self { only_reasoning, ..self }
    }

    /// Continues reading. Looks at most one byte beyond the part of `text` that may be held.
    pub(super) fn read(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Opens {
        let text = bounded(text, rules.max_hold);
        loop {
            let opens = match self.part {
                Part::Words => self.words(text, rules, out),
                Part::Named { .. } => self.named(text, rules, out),
                Part::Body(_) => Some(self.body(text, rules, out)),
            };
            match opens {
                None => {}
                Some(Opens::More) if text.len() > rules.max_hold => return Opens::Nothing(text.len()),
                Some(opens) => return opens,
            }
        }
    }

    /// Whether the header of a call is complete.
    pub(super) fn is_complete(&self) -> bool {
        !matches!(self.part, Part::Words)
    }

    /// Reads words and markers up to the body's marker.
    fn words(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Opens> {
        // The opener may also be the body's marker.
        if let Some(body) = self.channels.body.iter().find(|body| **body == head(text, self.read)) {
            return self.routed(text, body, rules, out);
        }
        loop {
            let rest = tail(text, self.read);
            let Some(character) = rest.chars().next() else { return Some(Opens::More) };
            let room = rules.max_markup.saturating_sub(self.read);
            let legal = character.is_alphanumeric()
                || "_-.:/= \t\"".contains(character)
                || (matches!(character, '\n' | '\r') && !self.channels.body.contains(&"\n"));
            if self.is_two_words(character, text) {
                return Some(Opens::Nothing(self.read));
            }
            if legal && character.len_utf8() <= room {
                self.read += character.len_utf8();
                continue;
            }
            let whole = |marker: &&&str| rest.starts_with(**marker) && marker.len() <= room + 1;
            if let Some(body) = self.channels.body.iter().find(whole) {
                self.read += body.len();
                return self.routed(text, body, rules, out);
            }
            match self.channels.inner.iter().find(whole) {
                Some(inner) if self.inner < MAX_INNER => {
                    self.inner += 1;
                    self.read += inner.len();
                }
                Some(_) => return Some(Opens::Nothing(self.read)),
                None => {
                    let mut markers = self.channels.body.iter().chain(self.channels.inner);
                    let begins = rest.len() <= room && markers.any(|marker| marker.starts_with(rest));
                    return Some(if begins { Opens::More } else { Opens::Nothing(self.read) });
                }
            }
        }
    }

    /// Whether `character` would begin a second word. A header whose opener is in the prompt consists of one word
    /// here, so that ordinary text is not held.
    fn is_two_words(&self, character: char, text: &str) -> bool {
        let begun = self.first && self.open_len == 0 && self.inner == 0;
        begun && character.is_alphanumeric() && head(text, self.read).ends_with(char::is_whitespace)
    }

    /// Handles a complete header, which ends with the body's marker `body`.
    fn routed(&mut self, text: &str, body: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Opens> {
        let header = head(text, self.read);
        let (nothing, unread) = (Some(Opens::Nothing(self.read)), Some(Opens::Unread(self.read)));
        let route = (self.channels.route)(header.strip_suffix(body).unwrap_or(header), body);
        let named = |written| rules.name(written).map(str::to_owned);
        let counts = match route {
            Some(Route::Said(Voice::Reasoning)) => true,
            Some(Route::Said(Voice::Text)) => !self.first,
            _ => false,
        };
        self.part = match route {
            None => return nothing,
            Some(_) if self.only_reasoning && !counts => return unread,
            Some(Route::Said(voice)) => return Some(self.spoken(Phase::Said(voice), out)),
            Some(Route::Nothing) if rules.tools.is_empty() && self.read > body.len() => return unread,
            Some(Route::Nothing) if rules.tools.is_empty() => {
                return Some(self.spoken(Phase::Said(Voice::Text), out));
            }
            Some(Route::Nothing) => return Some(self.spoken(Phase::Between, out)),
            Some(Route::Envelope) => Part::Body(Box::new(Envelope::new(rules, false))),
            Some(Route::Raw(written)) => {
                let Some(name) = rules.name(written) else { return unread };
                return Some(self.raw(name, rules.tools.text_parameter(name).unwrap_or("code"), out));
            }
            Some(Route::Call(written, otherwise)) => {
                let Some(name) = named(written) else { return unread };
                Part::Named { name, otherwise }
            }
            Some(Route::Params(written, calls)) => {
                let (Some(name), CallBody::Params(params)) = (rules.name(written), &calls.body) else {
                    return unread;
                };
                Part::Body(Box::new(ParamsWalk::named(calls, params, name, rules)))
            }
        };
        None
    }

    /// Begins a message that is not a call.
    fn spoken(&self, phase: Phase, out: &mut Out<'_>) -> Opens {
        self.begin(out);
        Opens::Message(phase, Step::Certain(self.read))
    }

    fn raw(&self, name: &str, key: &str, out: &mut Out<'_>) -> Opens {
        self.begin(out);
        out(Piece::Start { name, id: "" });
        let mut opening = String::from("{\"");
        escape_str(&mut opening, key);
        opening.push_str("\": \"");
        out(Piece::Arguments(&opening));
        Opens::Message(Phase::Raw, Step::Took(self.read))
    }

    /// Confirms that this is a message, which makes white space before it framing.
    fn begin(&self, out: &mut Out<'_>) {
        if self.first {
            out(Piece::Framed);
        }
    }

    fn named(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Opens> {
        let Part::Named { name, otherwise } = &self.part else { return None };
        let rest = tail(text, self.read).trim_start();
        self.read = text.len() - rest.len();
        let Some(first) = rest.bytes().next() else { return Some(Opens::More) };
        let mark = mark(self.channels, rest, false);
        if first == b'{' || matches!(mark, Mark::End(_)) {
            self.part = Part::Body(Box::new(NamedJson::new(name, rules)));
            return None;
        }
        let is_text = !self.channels.common && !may_begin(self.channels, first);
        let key = rules.tools.only_string(name).filter(|_| is_text);
        Some(match (mark, key, otherwise) {
            (_, Some(key), _) => self.raw(name, key, out),
            (Mark::Begins, ..) => Opens::More,
            // A message to a declared tool is a call, even if its arguments are broken.
            (_, None, Some(Voice::Text)) if rules.tools.resolve(name).is_some() => {
                self.part = Part::Body(Box::new(NamedJson::new(name, rules)));
                return None;
            }
            // The body may be meant for a tool that the model was trained with, and is nothing for the reader.
            (_, None, Some(Voice::Text)) => {
                self.begin(out);
                out(Piece::LeftOut(name));
                Opens::Message(Phase::LeftOut, Step::Certain(self.read))
            }
            (_, None, Some(voice)) => self.spoken(Phase::Said(*voice), out),
            (_, None, None) => Opens::Nothing(self.read),
        })
    }

    fn body(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Opens {
        while let Part::Body(walk) = &mut self.part
            && self.read < text.len()
        {
            let (at, mut begins, mut started) = (self.read, self.first, false);
            let step = step(walk.as_mut(), tail(text, at), rules, &mut |piece| {
                if std::mem::take(&mut begins) {
                    out(Piece::Framed);
                }
                started = true;
                out(piece);
            });
            match (step, std::mem::replace(&mut self.part, Part::Words)) {
                (step, Part::Body(walk)) if started => {
                    return Opens::Message(Phase::Call(walk), step.map(|len| at + len));
                }
                (Step::Took(len), part) => (self.part, self.read) = (part, at + len),
                (Step::Hold, part) => {
                    self.part = part;
                    return Opens::More;
                }
                (Step::Stop(len), part) => {
                    self.part = part;
                    return Opens::Nothing(at + len);
                }
                (_, part) => {
                    self.part = part;
                    return Opens::Nothing(text.len());
                }
            }
        }
        Opens::More
    }

    pub(super) fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        self.begin(out);
        let Part::Body(walk) = &mut self.part else { return false };
        walk.close(tail(held, self.read), stopped, out)
    }

    pub(super) fn starts_at_end(&self) -> bool {
        matches!(&self.part, Part::Body(walk) if walk.starts_at_end())
    }

    pub(super) fn kept(&self) -> usize {
        if let Part::Body(walk) = &self.part { walk.kept() } else { 0 }
    }
}

//! [`HeaderWalk`]: a call whose name stands before its arguments: `NAME[ARGS]{…}`, `functions.NAME:0<|sep|>{…}`.
//!
//! The header is captured up to one of its ends, and tells name and id; the arguments are then JSON text. Around them
//! a format may have literals (a fence, a constrain mark), which are framing where they stand, and a closer.

use super::{
    bare_text::{BareText, Reached},
    body::{Fed, JsonBody},
    envelope::{CallRules, Parsed, Piece},
    pattern::fit_any,
    string_fast_path::StringFastPath,
    text::tail,
};
use crate::{
    event::CallEnd,
    format::{Header, HeaderEnd},
};

#[derive(Debug)]
enum At {
    /// In the header; what may be one of its ends is part of [`HeaderWalk::captured`].
    Name,
    /// Before the arguments: blanks and the format's literals.
    Before,
    Arguments,
    /// In a text in place of the arguments; what may close it is [`HeaderWalk::markup`].
    Text(BareText),
    /// Behind the arguments: blanks, literals, the closer.
    After,
    Done,
}

/// One call with a header.
#[derive(Debug)]
pub(super) struct HeaderWalk {
    header: &'static Header,
    at: At,
    captured: String,
    /// The bytes of [`HeaderWalk::captured`] that are certain to be name: no end begins among them.
    legal: usize,
    /// What may be framing behind the header.
    markup: String,
    /// How many bytes of [`HeaderWalk::markup`] are blanks before the first visible character.
    blank: usize,
    body: JsonBody,
    started: bool,
    ended: bool,
}

impl HeaderWalk {
    pub(super) fn new(header: &'static Header, rules: &CallRules<'_>) -> Self {
        Self {
            header,
            at: At::Name,
            captured: String::new(),
            legal: 0,
            markup: String::new(),
            blank: 0,
            body: JsonBody::new(rules.repair, rules.max_depth),
            started: false,
            ended: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.started && !self.ended
    }

    /// In a string of arguments.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        if matches!(self.at, At::Arguments) { self.body.flow() } else { None }
    }

    pub(super) fn found(&self) -> bool {
        self.started
    }

    pub(super) fn feed(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Parsed {
        let mut at = 0;
        while let Some(character) = tail(text, at).chars().next() {
            match self.at {
                At::Name => match self.name(character, rules) {
                    Some(taken) => at += if taken { character.len_utf8() } else { 0 },
                    None => return Parsed::Stop(at),
                },
                At::Before | At::After => {
                    let before = matches!(self.at, At::Before);
                    if before && self.markup.is_empty() && character == '{' {
                        self.start(rules, out);
                        self.at = At::Arguments;
                        continue;
                    }
                    match self.literal(character, before) {
                        Some(true) => {
                            if before {
                                self.empty(rules, out);
                            }
                            return Parsed::End(at + character.len_utf8());
                        }
                        Some(false) => at += character.len_utf8(),
                        None if before && self.markup.is_empty() && self.begin_text(rules) => {}
                        None => return self.left(at),
                    }
                }
                At::Text(_) => match self.text(tail(text, at), rules, out) {
                    Reached::More(_) => return Parsed::More,
                    Reached::End(len) => return Parsed::CallEnded(at + len),
                    Reached::Foreign => return Parsed::Stop(at),
                },
                At::Arguments => {
                    match self.body.feed(tail(text, at), &mut |text: &str| out(Piece::Arguments(text))) {
                        Fed::More => return Parsed::More,
                        Fed::Done(len) => {
                            self.at = At::After;
                            self.ended = true;
                            out(Piece::End(CallEnd::Complete));
                            return Parsed::CallEnded(at + len);
                        }
                        Fed::Fault(len) => return Parsed::Stop(at + len),
                    }
                }
                At::Done => return Parsed::End(at),
            }
        }
        Parsed::More
    }

    /// The call is closed without any arguments.
    fn empty(&mut self, rules: &CallRules<'_>, out: &mut impl FnMut(Piece<'_>)) {
        self.start(rules, out);
        self.ended = true;
        out(Piece::Arguments("{}"));
        out(Piece::End(CallEnd::Complete));
    }

    /// What stands in place of the arguments may be a text.
    fn begin_text(&mut self, rules: &CallRules<'_>) -> bool {
        let name = (self.header.read)(self.captured.trim()).and_then(|(_, name)| rules.dotted_name(name));
        let certain = !matches!(self.header.end, HeaderEnd::MarkersThenBrace(_));
        let text = name.and_then(|name| BareText::new(name, certain, rules));
        let Some(text) = text.filter(|_| !self.header.close.is_empty()) else { return false };
        self.at = At::Text(text);
        true
    }

    /// Reads on in a text; `End` behind what was taken of this piece.
    fn text(&mut self, text: &str, rules: &CallRules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Reached {
        let header = self.header;
        let At::Text(bare) = &mut self.at else { return Reached::Foreign };
        let before = self.markup.len();
        self.markup.push_str(text);
        let closers = || header.after.iter().chain(header.close).copied();
        match bare.read(&self.markup, |text| fit_any(closers(), text)) {
            Reached::More(taken) => {
                self.markup.drain(..taken);
                Reached::More(text.len())
            }
            Reached::End(len) => {
                let read = (header.read)(self.captured.trim());
                if let Some((id, name)) = read.and_then(|(id, name)| Some((id, rules.dotted_name(name)?))) {
                    bare.call(name, id, out);
                }
                (self.started, self.ended, self.at) = (true, true, At::After);
                // What of the closer had come before is read on behind it.
                self.markup.drain(..len);
                let held = before.saturating_sub(len);
                self.markup.truncate(held);
                self.blank = self.markup.len() - self.markup.trim_start().len();
                Reached::End((len + held).saturating_sub(before))
            }
            Reached::Foreign => {
                self.markup.truncate(before);
                bare.give_back(&std::mem::take(&mut self.markup));
                Reached::Foreign
            }
        }
    }

    /// Something stands here that is no part of the call.
    fn left(&mut self, at: usize) -> Parsed {
        if self.ended {
            self.at = At::Done;
            return Parsed::End(at);
        }
        Parsed::Stop(at)
    }

    /// What may be framing; after the call's end or failure, what looked like framing and is none.
    pub(super) fn rest(&self) -> &str {
        if let At::Text(bare) = &self.at { bare.source() } else { &self.markup }
    }

    /// How many of the last bytes of what was fed may be no part of the call.
    pub(super) fn unsure(&self) -> usize {
        let text = if let At::Text(bare) = &self.at { bare.source().len() } else { 0 };
        text + self.markup.len()
    }

    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        if !self.is_open() {
            return None;
        }
        let whole = stopped && self.body.close(&mut |text: &str| out(Piece::Arguments(text)));
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        self.ended = true;
        out(Piece::End(end));
        Some(end)
    }

    /// One character of the header: whether it was taken; `None` if this is no header.
    fn name(&mut self, character: char, rules: &CallRules<'_>) -> Option<bool> {
        let (ends, brace) = match self.header.end {
            HeaderEnd::Markers(ends) | HeaderEnd::MarkersThenBrace(ends) => (ends, false),
            HeaderEnd::MarkersOrBrace(ends) => (ends, character == '{'),
        };
        if !brace {
            self.captured.push(character);
        }
        let end = ends.iter().find(|end| self.captured.ends_with(**end)).map(|end| end.len());
        let Some(end) = end.or(brace.then_some(0)) else {
            return self.may_go_on(ends, rules.max_markup).then_some(true);
        };
        self.captured.truncate(self.captured.len() - end);
        let (_, name) = (self.header.read)(self.captured.trim())?;
        rules.dotted_name(name)?;
        self.at = At::Before;
        Some(!brace)
    }

    /// The header is certain.
    fn start(&mut self, rules: &CallRules<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if let Some((id, name)) = (self.header.read)(self.captured.trim()).filter(|_| !self.started)
            && let Some(name) = rules.dotted_name(name)
        {
            out(Piece::Start { name, id });
            self.started = true;
        }
    }

    /// What is captured may be a header, or one and the beginning of its end. Where an end may begin only moves on
    /// as the header grows, so each character is checked once.
    fn may_go_on(&mut self, ends: &[&str], most: usize) -> bool {
        if self.captured.len() > most {
            return false;
        }
        let rest = tail(&self.captured, self.legal);
        for (at, character) in rest.char_indices() {
            if ends.iter().any(|end| end.starts_with(tail(rest, at))) {
                self.legal += at;
                return true;
            }
            let legal = character.is_alphanumeric()
                || "_-.:/ \t\r\n".contains(character)
                || self.header.legal.contains(character);
            if !legal {
                return false;
            }
        }
        self.legal = self.captured.len();
        true
    }

    /// One character of framing: `Some(true)` for the last of the closer, `None` if it is none. Blanks behind the
    /// arguments are framing if a literal or the closer follows.
    fn literal(&mut self, character: char, before: bool) -> Option<bool> {
        if self.markup.len() == self.blank && character.is_ascii_whitespace() {
            if !before {
                self.markup.push(character);
                self.blank += 1;
            }
            return Some(false);
        }
        self.markup.push(character);
        let markup = tail(&self.markup, self.blank);
        let header = self.header;
        let closes = header.close.contains(&markup);
        let (opening, behind) = if before { (header.before, &[][..]) } else { (&[][..], header.after) };
        if closes || opening.contains(&markup) || behind.contains(&markup) {
            self.markup.clear();
            self.blank = 0;
            return Some(closes);
        }
        let mut literals = opening.iter().chain(behind).chain(header.close);
        let begins = literals.any(|literal| literal.starts_with(markup));
        if begins {
            return Some(false);
        }
        self.markup.pop();
        None
    }
}

//! Transitions out of prose: finds where an opener may begin, decides whether it is one, and chooses how to read
//! what follows.

use super::{
    Detector, State,
    channels::Channel,
    fence::{Fence, Opener, Opening},
    gate::{Gate, Wait},
    gated_container::GatedContainer,
    openers::{self, Entry},
    pattern::Fit,
    quote::{Quote, Quoting},
    reading::{Reading, Rivals},
    region::{Region, RegionKind},
    search::{Begins, Fenced, Unmarked},
    section::Section,
    text::{head, is_blank, slice, tail},
    thinking::Thinking,
};
use crate::{
    event::Sink,
    format::{Format, Place, TagKind, is_token},
    rules::QuotedCalls,
};

impl Detector {
    /// Returns the offset in `text` at which an opener may begin.
    pub(super) fn opener(&self, text: &str) -> Option<usize> {
        let here = self.here_in(self.prose.here());
        let mut from = 0;
        loop {
            let at = self.search.sought.first_opening(text, from, here)?;
            if self.opens(text, at) {
                return Some(at);
            }
            from = at + 1;
        }
    }

    /// Whether something other than text may begin at `at`.
    fn opens(&self, text: &str, at: usize) -> bool {
        let byte = text.as_bytes().get(at).copied().unwrap_or_default();
        if self.turns_quoting(text, at, byte) {
            return true;
        }
        match self.search.sought.begins(byte) {
            None => false,
            Some(Begins::Bracket) => self.may_be_value(tail(text, at)),
            Some(Begins::Fence) => self.prose.starts_line(head(text, at)),
            Some(Begins::Marker(place)) => {
                let (rest, markers) = (tail(text, at), &self.search.sought.markers);
                markers.may_be(rest) && {
                    let here = self.place_behind(head(text, at));
                    place <= here && markers.may_stand(rest, here)
                }
            }
        }
    }

    /// Whether the bracket at the start of `rest` may begin a call. The object of a call starts with a quoted key,
    /// so braces in code and prose are ruled out here, before anything is allocated for them.
    fn may_be_value(&self, rest: &str) -> bool {
        let Some(inside) = rest.strip_prefix('{') else { return true };
        let key = inside.bytes().find(|byte| !is_blank(*byte)).is_none_or(|byte| byte == b'"');
        key || self.search.sought.markers.first(b'{').is_some()
    }

    /// Returns the [`Place`] after `before`, which has not been sent yet.
    fn place_behind(&self, before: &str) -> Place {
        match self.prose.starts_line(before) {
            true if self.prose.starts_message() && before.trim().is_empty() => Place::MessageStart,
            true => Place::LineStart,
            false => Place::Anywhere,
        }
    }

    pub(super) fn here(&self, starts_line: bool) -> Place {
        match starts_line {
            true if self.prose.starts_message() => Place::MessageStart,
            true => Place::LineStart,
            false => Place::Anywhere,
        }
    }

    pub(super) fn prose_text(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let Some(at) = self.opener(text) else {
            self.prose.put(text, out);
            return text.len();
        };
        let before = head(text, at);
        let starts_line = self.prose.starts_line(before);
        let last = self.prose.last(before);
        self.prose.put(before, out);
        let byte = text.as_bytes().get(at).copied().unwrap_or_default();
        let quote = self.quote(starts_line);
        let marker = self.search.sought.markers.may_begin(byte, self.here(starts_line));
        match byte {
            b'>' | b'\n' | b'-' if !marker && self.turns_quoting(text, at, byte) => {
                self.prose.put(slice(text, at, at + 1), out);
                self.quoting_byte(byte, starts_line, last);
                at + 1
            }
            tick @ (b'`' | b'~') => {
                self.held.push(char::from(tick));
                self.state = State::Opener(Opener::new(tick));
                at + 1
            }
            _ if marker => {
                self.state = State::Marker { place: 0, starts_line, quote };
                at
            }
            _ if self.enter_unmarked(byte, 0, starts_line, quote) => at,
            _ => {
                let len = tail(text, at).chars().next().map_or(0, char::len_utf8);
                self.prose.put(slice(text, at, at + len), out);
                at + len
            }
        }
    }

    /// Tries to read the text from this byte on as calls without a marker. Formats before the index `from` have
    /// already failed.
    pub(super) fn enter_unmarked(&mut self, byte: u8, from: usize, starts_line: bool, quote: Quote) -> bool {
        let quoted = quote.has_marks();
        let may_begin = |unmarked: &Unmarked| match unmarked.list {
            Some(_) => byte == b'[' && !quoted,
            None => matches!(byte, b'{' | b'['),
        };
        let rest = self.search.sought.unmarked.get(from..).unwrap_or_default();
        let Some(place) = rest.iter().position(may_begin).map(|at| from + at) else { return false };
        let Some(&Unmarked { format, list }) = self.search.sought.unmarked.get(place) else { return false };
        let container = match list {
            Some(calls) => {
                let wait = self.search.wait(quoted, false);
                let section = Section::naked(calls, "", wait, &self.search.rules(false));
                GatedContainer::new(section, Gate::new(wait), "")
            }
            None => region(RegionKind::Bare, quoted, self.search.wait(quoted, false), false),
        };
        let rivals = Rivals::Unmarked { next: place + 1 };
        let marked = false;
        self.state = State::Calls(Box::new(Reading {
            format,
            starts_line,
            takes_line: starts_line,
            quote,
            marked,
            container,
            rivals,
            found: false,
            is_text: false,
            behind: None,
            punctuation: 0,
            has_messages: false,
            watch: self.watch(quote),
        }));
        true
    }

    fn enter(&mut self, format: &'static Format, container: RegionKind, starts_line: bool, quote: Quote) {
        let quoted = quote.has_marks();
        let watch = match container {
            RegionKind::Fence(_) => self.watch_fence(quote),
            RegionKind::Tag(_) | RegionKind::Bare => self.watch(quote),
        };
        let container = region(container, quoted, self.search.wait(quoted, false), false);
        self.state = State::Calls(Box::new(Reading {
            format,
            starts_line,
            takes_line: starts_line,
            quote,
            marked: false,
            container,
            rivals: Rivals::None,
            found: false,
            is_text: false,
            behind: None,
            punctuation: 0,
            has_messages: false,
            watch,
        }));
    }

    /// Reads one character of a possible marker.
    pub(super) fn marker(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Marker { place: from, starts_line, quote } = self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        let here = self.here(starts_line);
        let Some((place, whole)) = self.search.sought.markers.find(&self.held, here, from) else {
            self.held.pop();
            if !self.held.is_empty() {
                self.false_start(starts_line, quote, out);
                return 0;
            }
            // No opener that is recognised here begins with this character.
            self.state = State::Prose;
            let byte = u8::try_from(character).unwrap_or_default();
            if self.enter_unmarked(byte, 0, starts_line, quote) {
                return 0;
            }
            let last = self.prose.last("");
            self.prose.put(head(text, character.len_utf8()), out);
            self.quoting_byte(byte, starts_line, last);
            return character.len_utf8();
        };
        if !whole {
            self.state = State::Marker { place, starts_line, quote };
        } else if self.search.sought.markers.is_comment(place) {
            self.state = State::Prose;
            self.begin_comment();
            self.release(0, out);
        } else if !self.bare_marker(place, here, out) {
            self.enter_at(place, starts_line, quote, out);
        }
        character.len_utf8()
    }

    fn begin_comment(&mut self) {
        if self.search.quoted_calls != QuotedCalls::Call {
            self.prose.begin_quoting(Quoting::Comment(false));
        }
    }

    /// Handles a byte that has just been sent as text. It may begin or end a quotation. `last` is the character
    /// before it.
    fn quoting_byte(&mut self, byte: u8, starts_line: bool, last: char) {
        if self.prose.is_quoting() {
            self.prose.quoted_byte(byte, last);
        } else if byte == b'>' && starts_line && self.search.quoted_calls != QuotedCalls::Call {
            self.prose.begin_quoting(Quoting::Line);
        }
    }

    /// Adds the flag for visible quotations to `here`.
    fn here_in(&self, here: u8) -> u8 {
        here | self.search.quotations
    }

    /// Handles held text that is not a marker. If it is not a bare value either, its first character is sent as
    /// text, and what follows is read again.
    fn false_start(&mut self, starts_line: bool, quote: Quote, out: &mut impl Sink) {
        self.state = State::Prose;
        let byte = self.held.bytes().next().unwrap_or_default();
        if self.enter_unmarked(byte, 0, starts_line, quote) {
            let held = std::mem::take(&mut self.held);
            self.text(&held, out);
        } else {
            self.quoting_byte(byte, starts_line, self.prose.last(""));
            self.release_first(out);
        }
    }

    /// Sends the first held character as text, and reads the rest again.
    fn release_first(&mut self, out: &mut impl Sink) {
        self.state = State::Prose;
        let first = self.held.chars().next().map_or(0, char::len_utf8);
        self.release(self.held.len().saturating_sub(first), out);
    }

    /// Whether a marker is text because it is quoted, or because it closes nothing.
    fn is_text(&self, entry: Entry, quoted: bool) -> bool {
        match entry {
            Entry::Thought(_) | Entry::Frame | Entry::TurnEnd => quoted,
            Entry::CallCloser => quoted || !self.prose.has_call(),
            _ => false,
        }
    }

    /// Starts reading what follows an opener.
    pub(super) fn enter_at(&mut self, place: usize, starts_line: bool, quote: Quote, out: &mut impl Sink) {
        let quoted = quote.has_marks();
        let Some(opener) = self.search.sought.markers.get(place).copied() else { return };
        let kept = self.keeps_end && opener.is_message_end() && std::mem::take(&mut self.keeps_end);
        if kept || self.is_text(opener.entry, quote.has_backtick()) {
            return self.release_first(out);
        }
        let mut marked = true;
        let wait = self.search.wait(quoted, true);
        let container = match opener.entry {
            Entry::Tag(tag) => match tag.kind {
                TagKind::Html => {
                    self.state = State::Attributes { place, starts_line, quote };
                    return;
                }
                TagKind::Marked | TagKind::Special(_) => {
                    let alone = starts_line && !tag.close.is_empty() && !tag.special().common;
                    let may_be_empty = is_token(tag.open) || alone;
                    region(RegionKind::Tag(tag), quoted, wait, may_be_empty)
                }
            },
            Entry::Thought(thought) => {
                self.held.clear();
                let thinking = Thinking::new(thought, self.search.max_hold);
                self.state = State::Reasoning(thinking.following(self.prose.is_behind_reasoning()));
                self.prose.framed();
                return;
            }
            Entry::Frame | Entry::CallCloser => return self.drop_frame(&opener, out),
            Entry::TurnEnd => {
                self.state = State::Ending { ended: self.held.len() };
                return;
            }
            Entry::Closer | Entry::Mention | Entry::Comment => return,
            Entry::Channel(channels, open) => {
                marked = !channels.common;
                let only_reasoning = self.search.sought.reads_only_reasoning(opener.format);
                let channel = Channel::new(channels, open, quote.has_backtick(), self.search.max_hold);
                GatedContainer::new(channel.only_reasoning(only_reasoning), Gate::new(wait), open)
            }
            Entry::Section(calls, close) => {
                let markers = &self.search.sought.markers;
                let is_shared = markers.find(opener.text, self.here(starts_line), place + 1).is_some();
                let section = Section::new(calls, close, wait, self.search.max_hold);
                let section = section.opened_by(opener.text, starts_line, is_shared);
                GatedContainer::new(section, Gate::new(wait), "")
            }
            Entry::Call(calls) => {
                let section = Section::naked(calls, &self.held, wait, &self.search.rules(true));
                GatedContainer::new(section, Gate::new(wait), "")
            }
        };
        self.state = State::Calls(Box::new(Reading {
            format: opener.format,
            starts_line,
            takes_line: false,
            quote,
            marked,
            container,
            rivals: Rivals::Marked { opener: self.held.len(), next: place + 1 },
            found: false,
            is_text: false,
            behind: None,
            punctuation: 0,
            has_messages: matches!(opener.entry, Entry::Channel(..)),
            watch: self.watch(quote),
        }));
    }

    /// Drops the held marker `opener`. The character after it showed that no longer marker begins here.
    fn drop_frame(&mut self, opener: &openers::Opener, out: &mut impl Sink) {
        let fit = opener.fit(&self.held, Place::MessageStart);
        let len = if let Fit::Whole(len) = fit { len } else { self.held.len() };
        let rest = self.held.split_off(len);
        self.held.clear();
        self.state = State::Prose;
        self.prose.frame(opener.closes());
        self.text(&rest, out);
    }

    /// Starts reading what follows the opener of a call in reasoning.
    pub(super) fn enter_from_reasoning(&mut self, mut thinking: Thinking, place: usize, out: &mut impl Sink) {
        let markers = &self.search.sought.markers;
        let ends = markers.get(place).is_some_and(|opener| markers.ends_reasoning(opener.format));
        self.held = thinking.take_markup();
        if !ends {
            return self.enter_tentative(thinking, place, out);
        }
        self.doubted = Some(thinking);
        self.enter_at(place, false, Quote::None, out);
    }

    pub(super) fn attributes(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Attributes { place, starts_line, quote } = self.state else { return 0 };
        let Some((format, Entry::Tag(tag))) =
            self.search.sought.markers.get(place).map(|opener| (opener.format, opener.entry))
        else {
            return 0;
        };
        let Some(character) = text.chars().next() else { return 0 };
        let first = self.held.len() == tag.open.len();
        if character == '<'
            || (first && !matches!(character, '>' | ' ' | '\t'))
            || self.held.len() > self.search.max_markup
        {
            self.state = State::Prose;
            self.release(0, out);
            return 0;
        }
        self.held.push(character);
        if character == '>' {
            self.enter(format, RegionKind::Tag(tag), starts_line, quote);
        }
        character.len_utf8()
    }

    /// Reads one byte of a fence's opener.
    pub(super) fn fence_opener(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Opener(opener) = &mut self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        let byte = text.bytes().next().unwrap_or_default();
        match opener.feed(byte, &self.search.sought.infos) {
            Opening::More if self.held.len() >= self.search.max_markup => self.leave_fence(None, out),
            Opening::More => {
                self.held.push(character);
                return character.len_utf8();
            }
            Opening::Calls => {
                let (info, fences) = (opener.info(), &self.search.sought.fences);
                let named = fences.iter().find(|fenced| fenced.infos.contains(&info));
                let Some(&Fenced { format, code, .. }) = named.or(fences.last()) else {
                    self.leave_fence(None, out);
                    return 0;
                };
                let fence = Fence { code, ..opener.fence() };
                let quote = if self.prose.is_quoting() { Quote::Place } else { Quote::None };
                self.enter(format, RegionKind::Fence(fence), true, quote);
            }
            Opening::Foreign => self.leave_fence(None, out),
            Opening::None => {
                self.state = State::Prose;
                self.release(0, out);
            }
        }
        0
    }
}

/// Creates the reader for calls in a container. `may_be_empty` is set if it may contain no call.
fn region(container: RegionKind, quoted: bool, wait: Wait, may_be_empty: bool) -> GatedContainer {
    let no_tool = if let RegionKind::Tag(tag) = container { tag.special().no_tool } else { &[] };
    let gate = Gate::new(wait).dropping(no_tool);
    GatedContainer::new(Region::new(container, quoted, wait).may_be_empty(may_be_empty), gate, "")
}

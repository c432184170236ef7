//! [`Openers`]: the openers of a list of formats, which are found by their first bytes.

use super::{
    after_call::call_closers,
    pattern::{Case, Fit, fit_cased, is_literal, literal},
};
use crate::format::{
    Calls, Channels, Format, Grammar, Place, SENTENCE_END, THINK, TURN_ENDS, Tag, TagKind, Thought, is_token,
};

/// Which parts of formats are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) calls: bool,
    /// Reasoning markers and, if calls are not detected, channels and frames.
    pub(super) reasoning: bool,
}

impl Reads {
    #[cfg(test)]
    pub(super) const ALL: Self = Self { calls: true, reasoning: true };

    pub(super) fn grammar(self, grammar: &Grammar) -> bool {
        match grammar {
            Grammar::Reasoning(_) => self.reasoning,
            // In a format without openers, only messages that are calls can be detected.
            Grammar::Channels(channels) => self.calls || (self.reasoning && !channels.open.is_empty()),
            Grammar::Frame(_) => self.calls || self.reasoning,
            _ => self.calls,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A container of JSON calls.
    Tag(&'static Tag),
    /// A header in a format with channels.
    Channel(&'static Channels, &'static str),
    Thought(&'static Thought),
    /// The closer of reasoning whose opener has not appeared.
    Closer,
    /// The opener of reasoning at a place where it is text.
    Mention,
    /// Markup without meaning.
    Frame,
    /// An HTML comment.
    Comment,
    /// Markup without meaning at the end of the text.
    TurnEnd,
    /// The closer of a call or a section, which is markup if the message has calls.
    CallCloser,
    /// A section of calls, with its closer.
    Section(&'static Calls, &'static str),
    /// A call outside of any section.
    Call(&'static Calls),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) text: &'static str,
    pub(super) format: &'static Format,
    pub(super) entry: Entry,
    case: Case,
    pub(super) place: Place,
    is_literal: bool,
}

impl Opener {
    fn new(text: &'static str, format: &'static Format, entry: Entry, case: Case, place: Place) -> Self {
        Self { text, format, entry, case, place, is_literal: is_literal(text) }
    }

    pub(super) fn fit(&self, text: &str, here: Place) -> Fit {
        match self.place > here {
            true => Fit::No,
            false if self.is_literal => literal(self.text, text, self.case),
            false => fit_cased(self.text, text, self.case),
        }
    }

    /// Whether the marker ends something.
    pub(super) fn closes(&self) -> bool {
        ["</", "<|END_", "[END "].iter().any(|start| self.text.starts_with(start))
    }

    pub(super) fn is_call(&self) -> bool {
        match self.entry {
            Entry::Section(..) | Entry::Call(_) => true,
            Entry::Tag(tag) => tag.kind != TagKind::Html,
            Entry::Channel(..)
            | Entry::Thought(_)
            | Entry::Closer
            | Entry::Mention
            | Entry::Frame
            | Entry::Comment
            | Entry::TurnEnd
            | Entry::CallCloser => false,
        }
    }

    /// Returns the marker as it counts in formats that were not chosen by name, in any text.
    pub(super) fn in_any_text(self) -> Option<Self> {
        match self.entry {
            Entry::Frame if self.place == Place::Anywhere && !is_token(self.text) => None,
            // The end of a message ends it in the middle of the text only if the format is known.
            Entry::Frame if self.is_message_end() => Some(Self { entry: Entry::TurnEnd, ..self }),
            Entry::Thought(thought) if thought.chosen => None,
            _ => Some(self),
        }
    }

    /// Whether the marker ends messages outside of any message.
    pub(super) fn is_message_end(&self) -> bool {
        let frame = matches!(self.entry, Entry::Frame | Entry::TurnEnd);
        frame
            && self.format.grammars.iter().any(|grammar| match grammar {
                Grammar::Channels(channels) => ends(channels).any(|end| end == self.text),
                _ => false,
            })
    }

    /// Whether the marker means nothing, wherever it is.
    pub(super) fn is_frame(&self) -> bool {
        matches!(self.entry, Entry::Frame) && self.place == Place::Anywhere
    }

    /// Whether both entries are the same pair of markers.
    pub(super) fn reads_as(&self, other: &Self) -> bool {
        match (self.entry, other.entry) {
            (Entry::Frame | Entry::TurnEnd, Entry::Frame | Entry::TurnEnd) => {
                self.text == other.text && self.place == other.place
            }
            (Entry::CallCloser, Entry::CallCloser) => self.text == other.text,
            (Entry::Tag(one), Entry::Tag(other)) => one == other,
            (Entry::Thought(one), Entry::Thought(other)) => one == other,
            (Entry::Closer, Entry::Closer) | (Entry::Mention, Entry::Mention) => self.text == other.text,
            (Entry::Comment, Entry::Comment) => true,
            _ => false,
        }
    }

    /// Returns the bytes with which the opener may begin.
    pub(super) fn first_bytes(&self) -> impl Iterator<Item = u8> {
        let first = self.text.bytes().next();
        let other = first
            .map(|byte| byte.to_ascii_uppercase())
            .filter(|other| self.case == Case::Any && Some(*other) != first);
        first.into_iter().chain(other)
    }

    /// Returns the possible second bytes in upper and lower case, or `None` if any byte that may begin a name or a
    /// namespace is possible.
    fn second_bytes(&self) -> Option<[u8; 2]> {
        match (self.text.as_bytes().get(1)?, self.case) {
            (b'*' | b'~' | b'%', _) => None,
            (byte, Case::Any) => Some([byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]),
            (byte, _) => Some([*byte; 2]),
        }
    }

    /// Whether a wildcard in second position matches this byte.
    fn may_have_wild(&self, byte: u8) -> bool {
        let first = self.text.as_bytes().first().copied().unwrap_or_default();
        let text = [first, byte];
        std::str::from_utf8(&text).is_ok_and(|text| fit_cased(self.text, text, self.case) != Fit::No)
    }
}

/// The openers that begin with the same byte. Most openers begin with `<`, and in most text the next byte rules out
/// all of them at once.
#[derive(Debug)]
pub(super) struct Group {
    /// The least restrictive place at which one of these openers is recognised.
    pub(super) place: Place,
    /// For each byte, whether one of the openers may have it in second position.
    second: [bool; 256],
    /// The indices of these openers in [`Openers::all`].
    places: Vec<usize>,
}

impl Group {
    fn add(group: &mut Option<Box<Self>>, at: usize, opener: &Opener) {
        let new = || Box::new(Self { place: opener.place, second: [false; 256], places: Vec::new() });
        let group = group.get_or_insert_with(new);
        group.place = group.place.min(opener.place);
        group.places.push(at);
        match opener.second_bytes() {
            // A wildcard follows. It still rules out second bytes that cannot begin a name, such as another `<`.
            None => {
                for (byte, second) in (0..=u8::MAX).zip(&mut group.second) {
                    *second |= opener.may_have_wild(byte);
                }
            }
            Some(bytes) => {
                for byte in bytes {
                    if let Some(second) = group.second.get_mut(usize::from(byte)) {
                        *second = true;
                    }
                }
            }
        }
    }

    /// Whether `text` may begin with one of these openers. The first byte is known to match.
    fn may_be(&self, text: &str) -> bool {
        let second = text.as_bytes().get(1);
        second.is_none_or(|byte| self.second.get(usize::from(*byte)).copied().unwrap_or_default())
    }
}

/// The openers of a list of formats.
#[derive(Debug)]
pub(super) struct Openers {
    pub(super) all: Vec<Opener>,
    /// The openers grouped by their first byte.
    groups: [Option<Box<Group>>; 256],
}

impl Openers {
    /// Collects the openers of `formats`. `chosen` is true if these formats were chosen explicitly, be it by name
    /// or because of the model's name.
    pub(super) fn new(formats: &[&'static Format], reads: Reads, chosen: bool) -> Self {
        let mut all: Vec<Opener> = Vec::new();
        for opener in formats.iter().flat_map(|format| openers(format, reads)) {
            let opener = if chosen { Some(opener) } else { opener.in_any_text() };
            // Many formats share a pair of markers, and reading fails either for all of them or for none.
            all.extend(opener.filter(|opener| !all.iter().any(|known| known.reads_as(opener))));
        }
        let turn_ends = turn_ends(if chosen { std::slice::from_ref(&SENTENCE_END) } else { TURN_ENDS });
        for opener in turn_ends {
            all.extend(Some(opener).filter(|opener| !all.iter().any(|known| known.reads_as(opener))));
        }
        let comment = |&format| Opener::new("<!--", format, Entry::Comment, Case::Exact, Place::Anywhere);
        all.extend(formats.first().filter(|_| reads.calls).map(comment));
        let mut groups = [const { None }; 256];
        for (at, opener) in all.iter().enumerate() {
            for byte in opener.first_bytes() {
                if let Some(group) = groups.get_mut(usize::from(byte)) {
                    Group::add(group, at, opener);
                }
            }
        }
        Self { all, groups }
    }

    pub(super) fn group(&self, byte: u8) -> Option<&Group> {
        self.groups.get(usize::from(byte)).and_then(Option::as_deref)
    }

    /// Returns the openers with an index of at least `from` that may match `text`, judging by its first two bytes,
    /// and their indices.
    pub(super) fn candidates(&self, text: &str, from: usize) -> impl Iterator<Item = (usize, &Opener)> {
        let group = text.bytes().next().and_then(|byte| self.group(byte)).filter(|group| group.may_be(text));
        let places = group.map_or(&[][..], |group| &group.places);
        let places = places.get(places.partition_point(|place| *place < from)..).unwrap_or_default();
        places.iter().filter_map(|&place| Some((place, self.all.get(place)?)))
    }

    /// Returns those openers with an index of at least `from` that match `text` and are apt, and their indices.
    pub(super) fn matches(
        &self,
        text: &str,
        here: Place,
        from: usize,
        is_apt: impl Fn(&Opener) -> bool,
    ) -> impl Iterator<Item = (usize, &Opener, Fit)> {
        let apt = self.candidates(text, from).filter(move |(_, opener)| is_apt(opener));
        let fits = apt.map(move |(place, opener)| (place, opener, opener.fit(text, here)));
        fits.filter(|(_, _, fit)| *fit != Fit::No)
    }
}

/// Returns the openers for these tokens, which belong to no format.
pub(super) fn turn_ends(tokens: &'static [&'static str]) -> impl Iterator<Item = Opener> {
    tokens.iter().map(|text| Opener::new(text, &THINK, Entry::TurnEnd, Case::Exact, Place::Anywhere))
}

/// Returns the markers that end messages.
pub(super) fn ends(channels: &'static Channels) -> impl Iterator<Item = &'static str> {
    channels.end.iter().chain(channels.call_end).copied()
}

/// Returns the openers of the parts of a format that are detected.
pub(super) fn openers(format: &'static Format, reads: Reads) -> Vec<Opener> {
    let grammars = || format.grammars.iter().filter(|grammar| reads.grammar(grammar));
    let closers =
        grammars().flat_map(call_closers).filter(|closer| is_token(closer) && !closer.contains(['~', '%']));
    let closers =
        closers.map(|text| Opener::new(text, format, Entry::CallCloser, Case::Exact, Place::Anywhere));
    grammars().flat_map(|grammar| grammar_openers(format, grammar)).chain(closers).collect()
}

/// Whether the format drops this marker anywhere.
fn is_frame(format: &'static Format, marker: &str) -> bool {
    format.grammars.iter().any(|grammar| matches!(grammar, Grammar::Frame(marks) if marks.contains(&marker)))
}

fn grammar_openers(format: &'static Format, grammar: &'static Grammar) -> Vec<Opener> {
    let opener = |text, entry, case, place| Opener::new(text, format, entry, case, place);
    match grammar {
        Grammar::Tagged(tags) => {
            let case = |tag: &Tag| if tag.kind == TagKind::Html { Case::Any } else { Case::Exact };
            tags.iter().map(|tag| opener(tag.open, Entry::Tag(tag), case(tag), tag.place())).collect()
        }
        Grammar::Reasoning(thoughts) => thoughts
            .iter()
            .flat_map(|thought| {
                let open = opener(thought.open, Entry::Thought(thought), Case::Any, thought.place);
                let bare = thought.close.iter().filter(|_| thought.bare);
                let bare = bare.map(move |close| opener(close, Entry::Frame, Case::Any, Place::MessageStart));
                // Where an opener is text, its closer is text too. Other closers open the answer.
                let closes = thought
                    .close
                    .iter()
                    .take(1)
                    .filter(|close| thought.closes_anywhere() && !is_frame(format, close));
                let closes =
                    closes.map(move |close| opener(close, Entry::Closer, Case::Any, Place::Anywhere));
                let is_restricted = thought.closes_anywhere() && thought.place != Place::Anywhere;
                let mention = opener(thought.open, Entry::Mention, Case::Any, Place::Anywhere);
                let mention = Some(mention).filter(|_| is_restricted);
                std::iter::once(open).chain(mention).chain(bare).chain(closes)
            })
            .collect(),
        Grammar::Channels(channels) => {
            let header = |&(open, place)| opener(open, Entry::Channel(channels, open), Case::Exact, place);
            let end = ends(channels).map(|end| opener(end, Entry::Frame, Case::Exact, Place::Anywhere));
            channels.open.iter().map(header).chain(end).collect()
        }
        Grammar::Frame(marks) => {
            marks.iter().map(|mark| opener(mark, Entry::Frame, Case::Exact, Place::Anywhere)).collect()
        }
        Grammar::Calls(calls) if calls.place != Place::Bracket => {
            let sections = calls.sections.iter().map(|&(open, close)| (open, Entry::Section(calls, close)));
            let naked = calls.open.iter().filter(|_| calls.naked).map(|&open| (open, Entry::Call(calls)));
            let openers = sections.chain(naked);
            openers.map(|(text, entry)| opener(text, entry, Case::Exact, calls.place)).collect()
        }
        Grammar::Calls(_) | Grammar::Fenced { .. } | Grammar::Code { .. } | Grammar::Bare => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ALL;

    #[test]
    fn no_opener_is_the_beginning_of_another() {
        let openers: Vec<_> = ALL.iter().flat_map(|format| openers(format, Reads::ALL)).collect();
        for one in &openers {
            assert!(!one.text.is_empty());
            for other in &openers {
                // A frame is tried after the other markers of its format.
                let framed = matches!(one.entry, Entry::Frame);
                let longer = !framed && other.text.len() > one.text.len() && other.text.starts_with(one.text);
                assert!(!longer, "{} begins {}", one.text, other.text);
            }
        }
    }
}

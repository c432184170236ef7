//! [`Markers`]: the openers of all formats that are looked for, and what begins at each.
//!
//! Matching is by prefix over what is held: no opener is the proper beginning of another (a test over all formats
//! holds that), so a full match is never in doubt, and a byte that goes on no opener fails the held one at once. What
//! was held is then read again from its second character, since a real opener may begin inside a false start
//! (`<<tool_call>`). Openers are short, so a byte is read a bounded number of times. Several formats may share an
//! opener; they are tried in the order in which they are configured.

use std::iter;

use super::pattern::{Fit, fit};
use crate::format::{Calls, Channels, Format, Grammar, Place, Tag, TagKind, Thought};

/// What begins at an opener.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A container of JSON calls.
    Tag(&'static Tag),
    /// A header of a channel format.
    Channel(&'static Channels, &'static str),
    /// Reasoning.
    Thought(&'static Thought),
    /// Markup that means nothing.
    Frame,
    /// A section of calls, with its closer.
    Section(&'static Calls, &'static str),
    /// A call outside any section.
    Call(&'static Calls, &'static str),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) text: &'static str,
    pub(super) format: &'static Format,
    pub(super) entry: Entry,
    any_case: bool,
    place: Place,
}

impl Opener {
    fn fit(&self, held: &str, here: Place) -> Fit {
        if self.place > here {
            return Fit::No;
        }
        if self.any_case {
            return fit(&self.text.to_ascii_lowercase(), &held.to_ascii_lowercase());
        }
        fit(self.text, held)
    }

    /// It begins a call, or a section of them.
    fn is_call(&self) -> bool {
        match self.entry {
            Entry::Section(..) | Entry::Call(..) => true,
            Entry::Tag(tag) => tag.kind != TagKind::Html,
            Entry::Channel(..) | Entry::Thought(_) | Entry::Frame => false,
        }
    }

    /// Both are the same pair of markers.
    fn reads_as(&self, other: &Self) -> bool {
        match (self.entry, other.entry) {
            (Entry::Tag(one), Entry::Tag(other)) => one == other,
            (Entry::Thought(one), Entry::Thought(other)) => one == other,
            _ => false,
        }
    }
}

/// The openers of one request.
#[derive(Debug)]
pub(super) struct Markers {
    openers: Vec<Opener>,
    /// First bytes of openers, by value.
    first: [bool; 256],
    /// First bytes of those that begin a message.
    first_of_all: [bool; 256],
    /// The formats that are chosen by name.
    named: Vec<&'static Format>,
}

impl Markers {
    /// The openers of `formats`, of which `named` are chosen by name or by the model's, not as all there are.
    pub(super) fn new(formats: &[&'static Format], named: &[&'static Format]) -> Self {
        let mut all: Vec<Opener> = Vec::new();
        for opener in formats.iter().flat_map(|format| openers(format)) {
            let passed_over = !named.contains(&opener.format)
                && match opener.entry {
                    Entry::Frame => opener.place == Place::Anywhere,
                    Entry::Thought(thought) => thought.chosen,
                    _ => false,
                };
            // Many formats have the same pair of markers: what fails as one of them fails as all.
            if !passed_over && !all.iter().any(|known| known.reads_as(&opener)) {
                all.push(opener);
            }
        }
        let first_bytes = |at_start: bool| {
            let of = all.iter().filter(|opener| (opener.place == Place::MessageStart) == at_start);
            let mut first = [false; 256];
            for (opener, byte) in of.filter_map(|opener| Some((opener, *opener.text.as_bytes().first()?))) {
                let other = if opener.any_case {
                    [byte.to_ascii_uppercase(), byte.to_ascii_lowercase()]
                } else {
                    [byte; 2]
                };
                for byte in other {
                    if let Some(slot) = first.get_mut(usize::from(byte)) {
                        *slot = true;
                    }
                }
            }
            first
        };
        Self {
            first: first_bytes(false),
            first_of_all: first_bytes(true),
            openers: all,
            named: named.to_vec(),
        }
    }

    /// Some format's calls may end reasoning.
    pub(super) fn calls_end_reasoning(&self) -> bool {
        self.named.iter().any(|format| format.ends_reasoning())
    }

    /// Calls of `format` may end reasoning.
    pub(super) fn ends_reasoning(&self, format: &'static Format) -> bool {
        format.ends_reasoning() && self.named.contains(&format)
    }

    /// An opener may begin with this byte.
    pub(super) fn may_begin(&self, byte: u8) -> bool {
        self.first.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// An opener that begins a message may begin with this byte.
    pub(super) fn may_begin_message(&self, byte: u8) -> bool {
        self.first_of_all.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// The place of the first opener from `from` on that begins with `held`, and whether `held` is all of it.
    pub(super) fn find(&self, held: &str, here: Place, from: usize) -> Option<(usize, bool)> {
        self.find_of(held, here, from, |_| true)
    }

    /// As [`Markers::find`], among the openers of calls that end reasoning.
    pub(super) fn call(&self, held: &str) -> Option<(usize, bool)> {
        self.find_of(held, Place::MessageStart, 0, |opener| {
            opener.is_call() && self.ends_reasoning(opener.format)
        })
    }

    fn find_of(
        &self,
        held: &str,
        here: Place,
        from: usize,
        of: impl Fn(&Opener) -> bool,
    ) -> Option<(usize, bool)> {
        let rest = self.openers.iter().enumerate().skip(from).filter(|(_, opener)| of(opener));
        rest.map(|(place, opener)| (place, opener.fit(held, here)))
            .find(|(_, fit)| *fit != Fit::No)
            .map(|(place, fit)| (place, matches!(fit, Fit::Whole(_))))
    }

    /// All reasoning that is looked for.
    pub(super) fn thoughts(&self) -> Vec<&'static Thought> {
        let thought =
            |opener: &Opener| if let Entry::Thought(thought) = opener.entry { Some(thought) } else { None };
        self.openers.iter().filter_map(thought).collect()
    }

    /// The opener at a place that [`Markers::find`] gave.
    pub(super) fn get(&self, place: usize) -> Option<&Opener> {
        self.openers.get(place)
    }
}

/// A format's openers.
fn openers(format: &'static Format) -> Vec<Opener> {
    format.grammars.iter().flat_map(|grammar| grammar_openers(format, grammar)).collect()
}

fn grammar_openers(format: &'static Format, grammar: &'static Grammar) -> Vec<Opener> {
    let opener = |text, entry, any_case, place| Opener { text, format, entry, any_case, place };
    match grammar {
        Grammar::Tagged(tags) => {
            let html = |tag: &Tag| tag.kind == TagKind::Html;
            tags.iter().map(|tag| opener(tag.open, Entry::Tag(tag), html(tag), tag.place())).collect()
        }
        Grammar::Reasoning(thoughts) => thoughts
            .iter()
            .flat_map(|thought| {
                let open = opener(thought.open, Entry::Thought(thought), true, thought.place);
                let bare = thought.close.iter().filter(|_| thought.bare);
                let bare = bare.map(move |close| opener(close, Entry::Frame, true, Place::MessageStart));
                iter::once(open).chain(bare)
            })
            .collect(),
        Grammar::Channels(channels) => {
            let header = |&(open, place)| opener(open, Entry::Channel(channels, open), false, place);
            channels.open.iter().map(header).collect()
        }
        Grammar::Frame(marks) => {
            marks.iter().map(|mark| opener(mark, Entry::Frame, false, Place::Anywhere)).collect()
        }
        Grammar::Calls(calls) => {
            let sections = calls.sections.iter().map(|&(open, close)| (open, Entry::Section(calls, close)));
            let naked =
                calls.open.iter().filter(|_| calls.naked).map(|&open| (open, Entry::Call(calls, open)));
            sections.chain(naked).map(|(text, entry)| opener(text, entry, false, calls.place)).collect()
        }
        Grammar::Fenced { .. } | Grammar::Bare => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ALL;

    #[test]
    fn no_opener_is_the_beginning_of_another() {
        let openers: Vec<_> = ALL.iter().flat_map(|format| openers(format)).collect();
        for one in &openers {
            assert!(!one.text.is_empty());
            for other in &openers {
                let longer = other.text.len() > one.text.len() && other.text.starts_with(one.text);
                assert!(!longer, "{} begins {}", one.text, other.text);
            }
        }
    }
}

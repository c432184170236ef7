//! [`Markers`]: the openers of all formats that are looked for, and what begins at each.
//!
//! Matching is by prefix over what is held: no opener is the proper beginning of another (a test over all formats
//! holds that), so a full match is never in doubt, and a byte that goes on no opener fails the held one at once. What
//! was held is then read again from its second character, since a real opener may begin inside a false start
//! (`<<tool_call>`). Openers are short, so a byte is read a bounded number of times. Several formats may share an
//! opener; they are tried in the order in which they are configured.

use super::pattern::{Fit, fit};
use crate::format::{Calls, Format, Grammar, Place, Tag, TagKind};

/// What begins at an opener.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A container of JSON calls, or reasoning.
    Tag(&'static Tag),
    /// A section of calls, with its closer.
    Section(&'static Calls, &'static str),
    /// A call outside any section.
    Call(&'static Calls),
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
    /// `held`, of which this is known to begin with, is all of it.
    pub(super) fn is_whole(&self, held: &str) -> bool {
        if self.any_case {
            held.len() == self.text.len()
        } else {
            fit(self.text, held) == Fit::Whole(held.len())
        }
    }

    /// Both are the same pair of markers.
    fn reads_as(&self, other: &Self) -> bool {
        matches!((self.entry, other.entry), (Entry::Tag(one), Entry::Tag(other)) if one == other)
    }

    /// `rest` begins with this, or may once more of it has come.
    fn may_begin(&self, rest: &str) -> bool {
        if !self.any_case {
            return fit(self.text, rest) != Fit::No;
        }
        let known = self.text.len().min(rest.len());
        let (text, rest) = (self.text.as_bytes().get(..known), rest.as_bytes().get(..known));
        text.zip(rest).is_some_and(|(text, rest)| text.eq_ignore_ascii_case(rest))
    }

    fn begins_with(&self, held: &str, starts_line: bool) -> bool {
        let same = if self.any_case {
            let start = self.text.as_bytes().get(..held.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(held.as_bytes()))
        } else {
            fit(self.text, held) == Fit::Begins || self.is_whole(held)
        };
        same && (self.place != Place::LineStart || starts_line)
    }
}

/// The openers of one request.
#[derive(Debug)]
pub(super) struct Markers {
    openers: Vec<Opener>,
    /// First bytes of openers, by value.
    first: [bool; 256],
}

impl Markers {
    pub(super) fn new(formats: &[&'static Format]) -> Self {
        let mut all: Vec<Opener> = Vec::new();
        for opener in formats.iter().flat_map(|format| openers(format)) {
            // Many formats have the same pair of markers: what fails as one of them fails as all.
            if !all.iter().any(|known| known.reads_as(&opener)) {
                all.push(opener);
            }
        }
        let mut first = [false; 256];
        for opener in &all {
            let mut mark = |byte: u8| {
                if let Some(slot) = first.get_mut(usize::from(byte)) {
                    *slot = true;
                }
            };
            if let Some(&byte) = opener.text.as_bytes().first() {
                mark(byte);
                if opener.any_case {
                    mark(byte.to_ascii_uppercase());
                    mark(byte.to_ascii_lowercase());
                }
            }
        }
        Self { openers: all, first }
    }

    /// An opener may begin with this byte.
    pub(super) fn may_begin(&self, byte: u8) -> bool {
        self.first.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// An opener may begin where `rest` does. What `rest` itself refutes need not be held, nor its frame be rewritten.
    pub(super) fn may_stand(&self, rest: &str) -> bool {
        self.openers.iter().any(|opener| opener.may_begin(rest))
    }

    /// The place of the first opener from `from` on that begins with `held`.
    pub(super) fn find(&self, held: &str, starts_line: bool, from: usize) -> Option<usize> {
        let rest = self.openers.get(from..).unwrap_or_default();
        rest.iter().position(|opener| opener.begins_with(held, starts_line)).map(|at| from + at)
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
        Grammar::Tagged(tags) | Grammar::Reasoning(tags) => tags
            .iter()
            .map(|tag| {
                opener(
                    tag.open,
                    Entry::Tag(tag),
                    matches!(tag.kind, TagKind::Html | TagKind::Reasoning),
                    tag.place(),
                )
            })
            .collect(),
        Grammar::Calls(calls) if calls.place != Place::Bracket => {
            let sections = calls.sections.iter().map(|&(open, close)| (open, Entry::Section(calls, close)));
            let naked = calls.open.iter().filter(|_| calls.naked).map(|&open| (open, Entry::Call(calls)));
            sections.chain(naked).map(|(text, entry)| opener(text, entry, false, calls.place)).collect()
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

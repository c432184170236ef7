//! [`Markers`]: the openers of all formats that are being detected, and what each of them opens.
//!
//! Held text is matched as a prefix. No opener is a proper prefix of another (which a test checks for all formats),
//! so a complete match is unambiguous, and a match fails at the first byte that does not continue any opener. The
//! held text is then read again from its second character on, since a real opener may begin inside a failed one, as
//! in `<<tool_call>`. Openers are short, so each byte is read a limited number of times. Several formats may share
//! an opener. They are tried in the order in which they are configured.

use std::iter;

use super::{
    openers::{Entry, Opener, Openers, Reads},
    pattern::{Fit, contains_any},
};
use crate::format::{Format, Place, Thought};

/// The openers of all formats that are being detected.
#[derive(Debug)]
pub(super) struct Markers {
    /// The openers of the formats that are tried first.
    first: Openers,
    /// The openers of other formats, which are tried next. They are collected once and shared.
    behind: Option<&'static Openers>,
    named: Vec<&'static Format>,
    /// For each byte, a bit that says whether markup of the named formats that counts in reasoning may begin with
    /// it.
    in_reasoning: [u64; 4],
}

impl Markers {
    /// Collects the openers of `formats`, followed by those in `behind`. `chosen` is true if `formats` were chosen
    /// explicitly, be it by name or because of the model's name.
    pub(super) fn new(
        formats: &[&'static Format],
        reads: Reads,
        chosen: bool,
        behind: Option<&'static Self>,
    ) -> Self {
        let first = Openers::new(formats, reads, chosen);
        let mut in_reasoning = [0; 4];
        let counts = |opener: &&Opener| chosen && (opener.is_call() || opener.is_frame());
        for byte in first.all.iter().filter(counts).flat_map(Opener::first_bytes) {
            if let Some(bits) = in_reasoning.get_mut(usize::from(byte / 64)) {
                *bits |= 1 << (byte % 64);
            }
        }
        Self {
            first,
            behind: behind.map(|behind| &behind.first),
            named: if chosen { formats.to_vec() } else { Vec::new() },
            in_reasoning,
        }
    }

    /// Returns the bytes with which the openers that are tried first may begin.
    pub(super) fn first_bytes(&self) -> impl Iterator<Item = u8> {
        self.first.all.iter().flat_map(Opener::first_bytes)
    }

    /// Whether markup that counts in reasoning may begin with this byte: a call or a frame of a named format.
    pub(super) fn may_begin_in_reasoning(&self, byte: u8) -> bool {
        self.in_reasoning.get(usize::from(byte / 64)).is_some_and(|bits| bits >> (byte % 64) & 1 == 1)
    }

    pub(super) fn is_named(&self, format: &'static Format) -> bool {
        self.named.contains(&format)
    }

    pub(super) fn ends_reasoning(&self, format: &'static Format) -> bool {
        format.reasoning.ended_by_calls && self.is_named(format)
    }

    /// Returns the least restrictive place at which an opener that begins with this byte is recognised, if there is
    /// such an opener.
    pub(super) fn first(&self, byte: u8) -> Option<Place> {
        let groups = [self.first.group(byte), self.behind.and_then(|behind| behind.group(byte))];
        groups.into_iter().flatten().map(|group| group.place).min()
    }

    /// Returns those openers with an index of at least `from` that match `text` and are apt, and their indices.
    fn matches(
        &self,
        text: &str,
        here: Place,
        from: usize,
        is_apt: impl Fn(&Opener) -> bool + Copy,
    ) -> impl Iterator<Item = (usize, &Opener, Fit)> {
        let first = self.first.all.len();
        let from_behind = from.saturating_sub(first);
        let behind = self.behind.into_iter();
        let behind = behind.flat_map(move |behind| behind.matches(text, here, from_behind, is_apt));
        let others = behind.filter(|(_, opener, _)| !self.comes_first(opener));
        let others = others.map(move |(place, opener, fit)| (first + place, opener, fit));
        self.first.matches(text, here, from, is_apt).chain(others)
    }

    /// Whether `opener`, which is tried later, is also among the openers that are tried first.
    fn comes_first(&self, opener: &Opener) -> bool {
        let named = self.is_named(opener.format) && !matches!(opener.entry, Entry::TurnEnd);
        named || self.first.all.iter().any(|known| known.reads_as(opener))
    }

    /// Whether `rest` may begin with an opener, judging by its first two bytes.
    pub(super) fn may_be(&self, rest: &str) -> bool {
        let behind = self.behind.is_some_and(|behind| behind.candidates(rest, 0).next().is_some());
        behind || self.first.candidates(rest, 0).next().is_some()
    }

    /// Whether an opener that is recognised here may begin with this byte.
    pub(super) fn may_begin(&self, byte: u8, here: Place) -> bool {
        self.first(byte).is_some_and(|place| place <= here)
    }

    /// Whether `rest` may begin with an opener that is recognised here. If not, `rest` need not be held, and its
    /// frame can be forwarded.
    pub(super) fn may_stand(&self, rest: &str, here: Place) -> bool {
        self.matches(rest, here, 0, |_| true).next().is_some()
    }

    /// Returns the index of the first opener from `from` on that begins with `held`, and whether `held` is all of
    /// it.
    pub(super) fn find(&self, held: &str, here: Place, from: usize) -> Option<(usize, bool)> {
        first_match(self.matches(held, here, from, |_| true))
    }

    /// Whether `text` begins with the opener of a call, or of a message that may be one.
    pub(super) fn opens_call(&self, text: &str) -> bool {
        let is_call = |opener: &Opener| {
            matches!(opener.entry, Entry::Tag(_) | Entry::Channel(..) | Entry::Section(..) | Entry::Call(_))
        };
        let mut openers = self.matches(text, Place::MessageStart, 0, is_call);
        openers.any(|(_, _, fit)| matches!(fit, Fit::Whole(_)))
    }

    /// Like [`Markers::find`], but only finds openers of calls in the named formats. Formats whose calls end
    /// reasoning come first.
    pub(super) fn call(&self, held: &str) -> Option<(usize, bool)> {
        let named = |ends| {
            let is_apt = |opener: &Opener| opener.is_call() && opener.format.reasoning.ended_by_calls == ends;
            first_match(self.named_matches(held, is_apt))
        };
        named(true).or_else(|| named(false))
    }

    /// How `held` matches the meaningless markers of the named formats.
    pub(super) fn frame(&self, held: &str) -> Fit {
        let frame = self.named_matches(held, Opener::is_frame).next();
        frame.map_or(Fit::No, |(_, _, fit)| fit)
    }

    /// How `text` matches the markers without meaning, which may be at the end of the text.
    pub(super) fn turn_end(&self, text: &str) -> Fit {
        let ends = |opener: &Opener| matches!(opener.entry, Entry::Frame | Entry::TurnEnd);
        let frames = self.matches(text, Place::MessageStart, 0, ends);
        frames.fold(Fit::No, |best, (_, _, fit)| match (best, fit) {
            (Fit::Whole(len), _) | (_, Fit::Whole(len)) => Fit::Whole(len),
            (Fit::Begins, _) | (_, Fit::Begins) => Fit::Begins,
            _ => Fit::No,
        })
    }

    /// Returns those openers of the named formats that match `text` at the start of the message and are apt. The
    /// openers that are tried first belong to the named formats, if there are any.
    fn named_matches(
        &self,
        text: &str,
        is_apt: impl Fn(&Opener) -> bool,
    ) -> impl Iterator<Item = (usize, &Opener, Fit)> {
        let first = Some(&self.first).filter(|_| !self.named.is_empty());
        first.map(|first| first.matches(text, Place::MessageStart, 0, is_apt)).into_iter().flatten()
    }

    /// Whether the opener at this index begins a comment.
    pub(super) fn is_comment(&self, place: usize) -> bool {
        self.get(place).is_some_and(|opener| matches!(opener.entry, Entry::Comment))
    }

    /// Returns all reasoning markers that are being detected.
    pub(super) fn thoughts(&self) -> Vec<&'static Thought> {
        let behind = self.behind.into_iter().flat_map(|behind| &behind.all);
        let others = behind.filter(|opener| !self.comes_first(opener));
        let thought =
            |opener: &Opener| if let Entry::Thought(thought) = opener.entry { Some(thought) } else { None };
        self.first.all.iter().chain(others).filter_map(thought).collect()
    }

    /// Whether `text` contains a closer that may appear without its opener.
    pub(super) fn has_closer(&self, text: &str) -> bool {
        let all = iter::once(&self.first).chain(self.behind).flat_map(|openers| &openers.all);
        let closers = all.filter(|opener| matches!(opener.entry, Entry::Closer)).map(|opener| opener.text);
        contains_any(text, &closers.collect::<Vec<_>>())
    }

    /// Returns the opener at an index that [`Markers::find`] has returned.
    pub(super) fn get(&self, place: usize) -> Option<&Opener> {
        match place.checked_sub(self.first.all.len()) {
            None => self.first.all.get(place),
            Some(place) => self.behind?.all.get(place),
        }
    }
}

/// Returns the index of the first of these openers, and whether the text is all of it.
fn first_match<'o>(mut openers: impl Iterator<Item = (usize, &'o Opener, Fit)>) -> Option<(usize, bool)> {
    openers.next().map(|(place, _, fit)| (place, matches!(fit, Fit::Whole(_))))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::{prelude::*, sample::subsequence};

    use super::*;
    use crate::{
        format::{self, ALL, SENTENCE_END, TURN_ENDS},
        openers::{openers, turn_ends},
    };

    static AUTO: LazyLock<Markers> = LazyLock::new(|| Markers::new(&format::auto(), Reads::ALL, false, None));

    /// Collects the openers of `first` one by one, followed by those of all formats that are safe in any text.
    fn listed(first: &[&'static Format]) -> Vec<Opener> {
        let mut all: Vec<Opener> = Vec::new();
        let others = format::auto().into_iter().filter(|format| !first.contains(format));
        let of = |format: &&'static Format| openers(format, Reads::ALL);
        let sentence_end = turn_ends(std::slice::from_ref(&SENTENCE_END));
        let chosen = first.iter().flat_map(of).chain(sentence_end);
        let others = others.flat_map(|format| of(&format)).filter_map(Opener::in_any_text);
        for opener in chosen.chain(others).chain(turn_ends(TURN_ENDS)) {
            if !all.iter().any(|known| known.reads_as(&opener)) {
                all.push(opener);
            }
        }
        all
    }

    fn told(opener: &Opener) -> (&'static str, &'static str, Place) {
        (opener.format.name, opener.text, opener.place)
    }

    proptest! {
        #[test]
        fn named_formats_precede_automatic_ones_as_in_one_list(
            first in subsequence(ALL.to_vec(), 0..6).prop_shuffle(),
        ) {
            let (markers, listed) = (Markers::new(&first, Reads::ALL, true, Some(&AUTO)), listed(&first));
            for byte in 0..=u8::MAX {
                let group = listed.iter().filter(|opener| opener.first_bytes().any(|first| first == byte));
                prop_assert_eq!(markers.first(byte), group.map(|opener| opener.place).min());
            }
            for text in listed.iter().map(|opener| opener.text) {
                let fits = |opener: &&Opener| opener.fit(text, Place::MessageStart) != Fit::No;
                let wanted: Vec<_> = listed.iter().filter(fits).map(told).collect();
                let mut found = Vec::new();
                let mut from = 0;
                while let Some((place, _)) = markers.find(text, Place::MessageStart, from) {
                    found.extend(markers.get(place).map(told));
                    from = place + 1;
                }
                prop_assert_eq!(found, wanted);
            }
            let thoughts = listed.iter().filter_map(|opener| match opener.entry {
                Entry::Thought(thought) => Some(thought),
                _ => None,
            });
            prop_assert_eq!(markers.thoughts(), thoughts.collect::<Vec<_>>());
        }
    }
}

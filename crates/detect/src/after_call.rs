//! Handles the text right after a call: stray closers, and results that the model invented.
//!
//! Small models close a call twice, close something that they never opened, or continue with the result that they
//! expect. All of this is framing if only white space separates it from a call, and text anywhere else. The closers
//! and result markers are those of the formats being detected.

use super::{
    Detector, State,
    pattern::{Fit, fit, fit_any},
    text::{head, is_blank, tail},
};
use crate::{
    event::Sink,
    format::{CallBody, Calls, Format, Grammar, SENTENCE_END, Special, TURN_ENDS},
    openers::ends,
};

/// Markup that is framing right after a call.
#[derive(Debug, Default)]
pub(super) struct Framing {
    closers: Vec<&'static str>,
    /// The openers and closers of results.
    results: Vec<(&'static str, &'static str)>,
}

/// Result markers that occur in training data. toolwire does not use them to show results, since they begin like
/// calls.
const TRAINED_RESULTS: &[(&str, &str)] = &[
    ("<tool_response>", "</tool_response>"),
    ("<longcat_tool_response>", "</longcat_tool_response>"),
    ("<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
    ("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    ("```tool_output", "\n```"),
];

/// How the text after a call is classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Text,
    Begins,
    Closer,
    /// A result that ends with this closer.
    Result(&'static str),
}

impl Framing {
    /// Collects the closers and result markers of `formats`.
    pub(super) fn new(formats: &[&'static Format]) -> Self {
        let mut framing = Self { closers: Vec::new(), results: TRAINED_RESULTS.to_vec() };
        for format in formats {
            let closers = format.grammars.iter().flat_map(closers);
            framing.closers.extend(closers.filter(|closer| is_markup(closer)));
            framing.results.extend(format.teach.and_then(|teach| teach.form.result_markers()));
        }
        framing
            .closers
            .extend(framing.results.iter().map(|(_, close)| *close).filter(|close| is_markup(close)));
        framing.closers.extend(TURN_ENDS.iter().chain([&SENTENCE_END]));
        // A closer that also opens something is not stray.
        let mut openers: Vec<_> = formats.iter().flat_map(|format| format.openers()).collect();
        openers.extend(formats.iter().flat_map(|format| headers(format)));
        framing.closers.retain(|closer| !openers.contains(closer));
        framing.results.retain(|(open, _)| !openers.iter().any(|opener| open.starts_with(opener)));
        framing.closers.sort_unstable();
        framing.closers.dedup();
        framing.results.sort_unstable();
        framing.results.dedup();
        framing
    }

    /// Collects the closers of reasoning in `formats`, in which calls are not looked for.
    pub(super) fn of_reasoning(formats: &[&'static Format]) -> Self {
        let grammars = formats.iter().flat_map(|format| format.grammars);
        let reasoning = grammars.filter(|grammar| matches!(grammar, Grammar::Reasoning(_)));
        let closers = reasoning.flat_map(closers).filter(|closer| is_markup(closer));
        Self { closers: closers.collect(), results: Vec::new() }
    }

    pub(super) fn add(&mut self, others: &Self) {
        self.closers.extend(&others.closers);
        self.results.extend(&others.results);
    }

    fn stands(&self, text: &str) -> Stands {
        for &(open, close) in &self.results {
            if open == text {
                return Stands::Result(close);
            }
        }
        match fit_any(self.closers.iter().copied(), text) {
            Fit::Whole(_) => Stands::Closer,
            Fit::Begins => Stands::Begins,
            Fit::No if self.results.iter().any(|(open, _)| open.starts_with(text)) => Stands::Begins,
            Fit::No => Stands::Text,
        }
    }
}

/// Returns the markers with which messages start.
fn headers(format: &'static Format) -> impl Iterator<Item = &'static str> {
    format
        .grammars
        .iter()
        .flat_map(|grammar| match grammar {
            Grammar::Channels(channels) => channels.open,
            _ => &[],
        })
        .map(|&(open, _)| open)
}

/// Whether the closer is long and distinctive enough not to occur in ordinary text.
fn is_markup(closer: &str) -> bool {
    let special = closer.starts_with("</") || closer.starts_with(['<', '[', ']']) && closer.len() > 6;
    special && !closer.contains('%')
}

fn closers(grammar: &'static Grammar) -> Vec<&'static str> {
    match grammar {
        Grammar::Channels(channels) => ends(channels).collect(),
        Grammar::Reasoning(thoughts) => thoughts
            .iter()
            .filter(|thought| thought.bare)
            .flat_map(|thought| thought.close)
            .copied()
            .collect(),
        _ => call_closers(grammar),
    }
}

/// Returns the closers of calls and of their sections.
pub(super) fn call_closers(grammar: &'static Grammar) -> Vec<&'static str> {
    match grammar {
        Grammar::Tagged(tags) => {
            let inner =
                |special: Special| special.inner.iter().copied().filter(|inner| inner.starts_with("</"));
            tags.iter().flat_map(|tag| std::iter::once(tag.close).chain(inner(tag.special()))).collect()
        }
        Grammar::Calls(Calls { sections, body, .. }) => {
            let mut closers: Vec<_> = sections.iter().map(|&(_, close)| close).collect();
            match body {
                // Brackets of calls that may be ordinary text are no closers anywhere else.
                CallBody::Header(header) if header.common => {}
                CallBody::Header(header) => closers.extend(header.after.iter().chain(header.close)),
                CallBody::Params(params) => {
                    closers.push(params.close);
                    closers.extend(params.end);
                }
                CallBody::Elements(elements) => {
                    closers.extend(elements.end);
                    closers.extend(elements.around.iter().map(|&(_, close)| close));
                }
                CallBody::Attributes { .. } | CallBody::Raw(..) => {}
                CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::Dictionaries | CallBody::React => {}
            }
            closers
        }
        // A call may have ended the reasoning.
        Grammar::Reasoning(thoughts) => thoughts.iter().flat_map(|thought| thought.close).copied().collect(),
        _ => Vec::new(),
    }
}

impl Detector {
    /// Returns to prose, or to the state after a call if nothing visible has followed the call.
    pub(super) fn go_on(&mut self) {
        self.state = if self.prose.is_behind_call() { State::Behind } else { State::Prose };
    }

    /// Reads a run of white space, or one character of possible framing, after a call.
    pub(super) fn behind(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let blank = text.bytes().position(|byte| !is_blank(byte)).unwrap_or(text.len());
        if self.held.is_empty() && blank > 0 {
            self.prose.put(head(text, blank), out);
            return blank;
        }
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        match self.search.sought.framing.stands(&self.held) {
            Stands::Begins => {}
            Stands::Closer => self.held.clear(),
            Stands::Result(close) => {
                self.held.clear();
                self.state = State::Invented(close);
            }
            Stands::Text => {
                self.held.pop();
                self.leave_call(out);
                return 0;
            }
        }
        character.len_utf8()
    }

    /// Reads a run of white space, or one character, after markup that is dropped at the end of the text.
    pub(super) fn ending(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Ending { ended } = self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        let between = ended == self.held.len();
        self.held.push(character);
        let marker = tail(&self.held, ended);
        let fit = match between && u8::try_from(character).is_ok_and(is_blank) {
            true => Fit::Whole(1),
            false => self.search.sought.markers.turn_end(marker),
        };
        match fit {
            _ if self.held.len() > self.search.max_hold => {}
            Fit::Whole(_) => {
                self.state = State::Ending { ended: self.held.len() };
                return character.len_utf8();
            }
            Fit::Begins => return character.len_utf8(),
            Fit::No => {}
        }
        self.held.pop();
        self.state = State::Prose;
        self.release(self.held.len().saturating_sub(ended), out);
        0
    }

    /// Releases the text held after a call, which is not framing.
    pub(super) fn leave_call(&mut self, out: &mut impl Sink) {
        self.prose.leave_call();
        self.state = State::Prose;
        self.release(self.held.len(), out);
    }

    pub(super) fn invented(&mut self, text: &str) -> usize {
        let State::Invented(close) = self.state else { return 0 };
        let first = close.as_bytes().first().copied().unwrap_or_default();
        if self.held.is_empty() {
            let run = memchr::memchr(first, text.as_bytes()).unwrap_or(text.len());
            if run > 0 {
                return run;
            }
        }
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        loop {
            match fit(close, &self.held) {
                Fit::Begins => break,
                Fit::Whole(_) => {
                    self.held.clear();
                    self.state = State::Behind;
                    break;
                }
                Fit::No => {
                    // The closer may start later in the held text.
                    let next = memchr::memchr(first, tail(&self.held, 1).as_bytes());
                    self.held.drain(..next.map_or(self.held.len(), |at| at + 1));
                    if self.held.is_empty() {
                        break;
                    }
                }
            }
        }
        character.len_utf8()
    }
}

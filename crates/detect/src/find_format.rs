//! Finds the format in which a text contains calls, among all formats, for people whose calls arrive as text.
//!
//! Each format reads the text alone. The best reading has no broken call and leaves the least text, since what another
//! format does not know of a call stays text.

use std::{cmp::Reverse, collections::HashSet};

use crate::{
    Detector,
    conversation::{Conversation, Tool},
    event::{CallEnd, Event, Finish},
    format::{Format, Grammar, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// The number of names that are guessed in a text. More of them are not names of tools.
const MAX_NAMES: usize = 256;

/// How sure it is that the model writes this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The calls are incomplete, or not all of them can be read.
    Possible,
    /// The calls are complete, but have no marker of the format, or another format reads other calls.
    Likely,
    /// The calls are complete, begin with the format's marker, and each format that reads as much reads the same.
    Certain,
}

impl Confidence {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// A call that a format reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON, as far as they go.
    pub arguments: String,
    /// Whether the request declares the tool.
    pub is_declared: bool,
    /// Whether the arguments are complete.
    pub is_complete: bool,
}

/// A format in which a text contains calls.
#[derive(Debug)]
pub struct FoundFormat {
    /// The format.
    pub format: &'static Format,
    /// How sure it is.
    pub confidence: Confidence,
    /// The calls that it reads, at least one.
    pub calls: Vec<FoundCall>,
    /// A marker of the format that the text contains.
    pub marker: Option<&'static str>,
    /// The number of bytes that stay text, without white space.
    pub text: usize,
    /// Other formats that read the same calls.
    pub equals: Vec<&'static str>,
    /// Whether `detect = "auto"` reads the same calls.
    pub is_automatic: bool,
}

/// What one search reads in a text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    calls: Vec<FoundCall>,
    text: usize,
}

impl Reading {
    fn broken(&self) -> usize {
        self.calls.iter().filter(|call| !call.is_complete).count()
    }
}

/// Returns the formats in which `text` contains calls of these tools, or in a format with markers of any. The best is
/// first.
pub fn find_formats(text: &str, tools: &DeclaredTools, known: &KnownFormats) -> Vec<FoundFormat> {
    find(text, tools, tools, known)
}

/// Like [`find_formats`], for calls of the tools that `conversation` declares and of any other whose name may be in the
/// text.
pub fn find_formats_of_any_tool(
    text: &str,
    conversation: &Conversation,
    known: &KnownFormats,
) -> Vec<FoundFormat> {
    let any = DeclaredTools::new(&with_guessed_names(conversation, text), "");
    find(text, &any, &DeclaredTools::new(conversation, ""), known)
}

/// Reads the text as a response to a request with `tools`, of which the client has `declared` some.
fn find(
    text: &str,
    tools: &DeclaredTools,
    declared: &DeclaredTools,
    known: &KnownFormats,
) -> Vec<FoundFormat> {
    let read = |detect: Detect| reading(text, tools, declared, detect, known);
    let automatic = read(Detect::Auto);
    let formats = known.all().filter(|format| has_calls(format));
    let mut found: Vec<_> = formats
        .map(|format| (format, read(Detect::Formats(vec![format.name]))))
        .filter(|(_, reading)| !reading.calls.is_empty())
        .map(|(format, reading)| (format, marker(format, text), reading))
        .collect();
    found.sort_by_key(|(format, marker, reading)| {
        (reading.broken(), reading.text, Reverse(marker.map_or(0, str::len)), !format.auto)
    });
    // Without a marker, a format says little against one that has its own.
    let rivals = |reading: &Reading| {
        found.iter().any(|(_, marker, other)| {
            marker.is_some()
                && (other.broken(), other.text) <= (reading.broken(), reading.text)
                && other.calls != reading.calls
        })
    };
    let equals = |format: &Format, reading: &Reading| {
        let same = found.iter().filter(|(other, _, read)| *other != format && read.calls == reading.calls);
        same.map(|(other, ..)| other.name).collect()
    };
    let described = found.iter().map(|(format, marker, reading)| FoundFormat {
        format,
        confidence: match () {
            () if reading.broken() > 0 => Confidence::Possible,
            () if marker.is_none() || rivals(reading) => Confidence::Likely,
            () => Confidence::Certain,
        },
        calls: reading.calls.clone(),
        marker: *marker,
        text: reading.text,
        equals: equals(format, reading),
        is_automatic: automatic == *reading,
    });
    described.collect()
}

/// Whether the format is one of calls, and not only of reasoning or of framing.
pub fn has_calls(format: &Format) -> bool {
    !format.grammars.iter().all(|grammar| matches!(grammar, Grammar::Reasoning(_) | Grammar::Frame(_)))
}

/// The longest of the format's markers that is in the text.
fn marker(format: &Format, text: &str) -> Option<&'static str> {
    let channels = format.grammars.iter().filter_map(|grammar| match grammar {
        Grammar::Channels(channels) => Some(channels),
        _ => None,
    });
    let headers = channels.flat_map(|channels| {
        let openers = channels.open.iter().map(|(open, _)| *open).filter(|_| !channels.common);
        openers.chain(channels.inner.iter().copied()).chain(channels.body.iter().copied())
    });
    let markers = format.openers().into_iter().chain(headers);
    markers
        .filter(|marker| !marker.trim().is_empty() && text.contains(marker))
        .max_by_key(|marker| marker.len())
}

/// Adds each word of the text that may be the name of a tool, with any arguments.
fn with_guessed_names(conversation: &Conversation, text: &str) -> Conversation {
    let mut guessed = conversation.clone();
    let mut known: HashSet<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    let words = text.split(|char: char| !(char.is_alphanumeric() || matches!(char, '_' | '-' | '.')));
    let names = words.map(|word| word.trim_matches(['.', '-'])).filter(|word| {
        word.starts_with(|first: char| first.is_alphabetic() || first == '_') && known.insert(word)
    });
    guessed.tools.extend(names.take(MAX_NAMES).map(Tool::named));
    guessed
}

fn reading(
    text: &str,
    tools: &DeclaredTools,
    declared: &DeclaredTools,
    detect: Detect,
    known: &KnownFormats,
) -> Reading {
    let rules = Rules { detect, ..Rules::default() };
    let mut reading = Reading::default();
    let Some(mut detector) = Detector::once(tools.clone(), &rules, known) else { return reading };
    let mut events: Vec<Event<'static>> = Vec::new();
    detector.event(Event::Text(text.into()), &mut events);
    detector.event(Event::Finish(Finish::Stop), &mut events);
    for event in events {
        match event {
            Event::Text(text) => {
                reading.text += text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count()
            }
            Event::CallStart(start) => reading.calls.push(FoundCall {
                is_declared: declared.resolve(&start.name).is_some(),
                name: start.name.into_owned(),
                arguments: String::new(),
                is_complete: false,
            }),
            Event::CallArguments { piece, .. } => {
                if let Some(call) = reading.calls.last_mut() {
                    call.arguments.push_str(&piece);
                }
            }
            Event::CallEnd { end, .. } => {
                if let Some(call) = reading.calls.last_mut() {
                    call.is_complete = end == CallEnd::Complete;
                }
            }
            _ => {}
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    fn found(text: &str) -> Vec<FoundFormat> {
        find_formats_of_any_tool(text, &Conversation::default(), KnownFormats::built_in())
    }

    #[test]
    fn every_example_is_read_best_by_its_own_format() {
        for format in format::ALL.iter().filter(|format| has_calls(format)) {
            let found = found(format.example);
            let best = found.first().unwrap_or_else(|| panic!("{}: nothing", format.name));
            let is_own = best.format == *format || best.equals.contains(&format.name);
            assert!(is_own, "{}: {best:?}", format.name);
        }
    }

    #[test]
    fn text_without_calls_has_no_format() {
        for text in ["", "Hello.", "Is it (fine)? `let x = f(y);`", "{\"a\": 1}", "```python\nprint(1)\n```"]
        {
            assert!(found(text).is_empty(), "{text}: {:?}", found(text));
        }
    }

    #[test]
    fn confidence_says_what_is_known() {
        let confidence = |text| found(text).first().map(|best| (best.format.name, best.confidence));
        let marked = "Well.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
        assert_eq!(confidence(marked), Some(("hermes", Confidence::Certain)));
        assert_eq!(confidence("[f(x=1)]"), Some(("pythonic", Confidence::Likely)));
        assert_eq!(
            confidence("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": "),
            Some(("hermes", Confidence::Possible))
        );
    }

    #[test]
    fn names_are_guessed_only_where_that_is_asked_for() {
        let none = DeclaredTools::new(&Conversation::default(), "");
        assert!(find_formats("[f(x=1)]", &none, KnownFormats::built_in()).is_empty());
        let tools = vec![Tool::named("f")];
        let f = DeclaredTools::new(&Conversation { tools, ..Conversation::default() }, "");
        let found = find_formats("[f(x=1)]", &f, KnownFormats::built_in());
        assert!(
            found.first().is_some_and(|best| best.calls.iter().all(|call| call.is_declared)),
            "{found:?}"
        );
    }
}

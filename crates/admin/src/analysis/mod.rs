//! Analyses a model's text: which events it produces, at which byte each of them appears, and what each part means.
//!
//! A [`Detector`] reads the text character by character. The client's response never depends on how the upstream's
//! bytes were split (law 1 in the documentation of `toolwire_detect`), so each event appears at the earliest place
//! where it is certain.
//!
//! ```text
//! text ─character by character─▶ Detector ─Event─▶ Walk ─▶ events, each with its place ─▶ parts: ranges of the text
//! ```

mod parts;
mod rejected_formats;

use std::ops::Range;

use memchr::memmem;

use self::parts::{FoundCall, Located};
pub(crate) use self::{
    parts::{CallParts, Part},
    rejected_formats::{RejectedFormat, rejected},
};
use toolwire_pipeline::{
    conversation::Conversation,
    detect::{DETECTED, Detector},
    event::{CallEnd, Event, Finish, Source},
    format::KnownFormats,
    rules::Rules,
    tools::DeclaredTools,
    wire::text::slice,
};

/// Maximum number of events and of parts. Without this limit, text in which two kinds of characters alternate would
/// produce an event and a part for each character.
const MAX_ITEMS: usize = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// In order of appearance.
    pub(crate) events: Vec<TimedEvent>,
    /// In text order, without gaps.
    pub(crate) parts: Vec<Part>,
    pub(crate) calls: Vec<CallParts>,
    /// Whether events or parts are missing because [`MAX_ITEMS`] was reached.
    pub(crate) is_cut: bool,
}

/// An event and where it appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimedEvent {
    pub(crate) kind: EventKind,
    /// Depending on the kind: text, the name of a call, a piece of its arguments, or the finish reason.
    pub(crate) text: String,
    /// Number of input bytes read when the event appeared. If `step` is 1, the number read when its first byte
    /// appeared.
    pub(crate) at: usize,
    /// 1 if each further byte of input revealed one more byte of the event; 0 if the event appeared all at once.
    pub(crate) step: usize,
    /// The number of the event's call, starting at 1.
    pub(crate) call: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum EventKind {
    Text,
    Reasoning,
    CallStart,
    Arguments,
    CallEnd(CallEnd),
    Finish,
}

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// Analyses `text` as the response to `conversation`.
pub(crate) fn analyze(
    text: &str,
    conversation: &Conversation,
    rules: &Rules,
    known: &KnownFormats,
) -> Analysis {
    let tools = DeclaredTools::new(conversation, &rules.tool_prefix);
    let mut walk = Walk::new(text, tools.clone());
    let mut out = Vec::new();
    match Detector::new(tools, rules, known) {
        Some(mut detector) => {
            for (start, char) in text.char_indices() {
                let end = start + char.len_utf8();
                detector.event(Event::Text(slice(text, start, end).into()), &mut out);
                walk.step(end, detector.held(), &mut out);
            }
            detector.event(Event::Finish(Finish::Stop), &mut out);
        }
        None => {
            out.push(Event::Text(text.to_owned().into()));
            out.push(Event::Finish(Finish::Stop));
        }
    }
    walk.step(text.len(), 0, &mut out);
    walk.finish(known)
}

/// Assigns events to positions in the text.
struct Walk<'t> {
    text: &'t str,
    tools: DeclaredTools,
    analysis: Analysis,
    /// Emitted ranges of text and of reasoning.
    located: Vec<Located>,
    calls: Vec<FoundCall>,
    /// All text before this position has been assigned to a part or an event.
    cursor: usize,
}

impl<'t> Walk<'t> {
    fn new(text: &'t str, tools: DeclaredTools) -> Self {
        Self { text, tools, analysis: Analysis::default(), located: Vec::new(), calls: Vec::new(), cursor: 0 }
    }

    /// Records the events that appeared after `at` bytes were read, while `held` of these bytes were still held back.
    fn step(&mut self, at: usize, held: usize, out: &mut Vec<Event<'static>>) {
        let shown = |event: &Event<'_>| match event {
            Event::Text(text) => text.len(),
            Event::Reasoning(reasoning) => reasoning.text.len(),
            _ => 0,
        };
        let mut behind: usize = held + out.iter().map(shown).sum::<usize>();
        for event in out.drain(..) {
            behind = behind.saturating_sub(shown(&event));
            self.take(event, at, at.saturating_sub(behind));
        }
    }

    /// Records one event. Its text ends at `end` in the input, or earlier if the detector dropped text after it.
    fn take(&mut self, event: Event<'static>, at: usize, end: usize) {
        match event {
            Event::Text(text) => self.said(EventKind::Text, &text, at, end),
            Event::Reasoning(reasoning) => self.said(EventKind::Reasoning, &reasoning.text, at, end),
            Event::CallStart(call) => {
                let Source::Format(format) = call.source else { return };
                let is_declared = self.tools.resolve(&call.name).is_some();
                self.calls.push(FoundCall::new(&call.name, format, is_declared, self.cursor, at));
                self.put(EventKind::CallStart, &call.name, at, 0);
            }
            Event::CallArguments { index, piece } => {
                self.put(EventKind::Arguments, &piece, at, piece.len());
                self.arguments(number(index), &piece, at);
            }
            Event::CallEnd { index, end } => {
                if let Some(call) = self.calls.get_mut(number(index)) {
                    call.end_at = Some(at);
                    self.cursor = self.cursor.max(call.arguments.as_ref().map_or(0, |range| range.end));
                }
                self.put(EventKind::CallEnd(end), "", at, 0);
            }
            Event::Finish(_) => self.put(EventKind::Finish, "", at, 0),
            _ => {}
        }
    }

    fn said(&mut self, kind: EventKind, text: &str, at: usize, end: usize) {
        if text.is_empty() {
            return;
        }
        self.put(kind, text, at, text.len());
        let range = self.find(text, self.cursor, at, end);
        self.cursor = range.as_ref().map_or(at, |range| range.end);
        let Some(range) = range else { return };
        let is_full = self.located.len() >= MAX_ITEMS;
        match self.located.last_mut().filter(|last| last.kind == kind && last.range.end == range.start) {
            Some(last) => last.range.end = range.end,
            None if is_full => self.analysis.is_cut = true,
            None => self.located.push(Located { kind, range }),
        }
    }

    /// Locates a piece of arguments in the text.
    fn arguments(&mut self, place: usize, piece: &str, at: usize) {
        let Some(call) = self.calls.get(place).filter(|call| !call.is_rewritten) else { return };
        let from = call.arguments.as_ref().map_or(call.begin, |range| range.end);
        // Each later piece must directly follow the previous one in the text.
        let found = match call.arguments {
            Some(_) => Some(from..from + piece.len()).filter(|range| self.is_at(piece, range)),
            None => self.find(piece, from, at, at),
        };
        let Some(call) = self.calls.get_mut(place) else { return };
        match (found, &mut call.arguments) {
            (Some(found), Some(arguments)) => arguments.end = found.end,
            (Some(found), None) => call.arguments = Some(found),
            (None, _) => call.is_rewritten = true,
        }
        call.written.push_str(piece);
    }

    /// Locates `piece` in the text: at the range that ends at `end` if it is there, otherwise at its first occurrence
    /// between `from` and `upto`.
    fn find(&self, piece: &str, from: usize, upto: usize, end: usize) -> Option<Range<usize>> {
        let start = end.checked_sub(piece.len()).filter(|start| *start >= from);
        let expected = start.map(|start| start..end).filter(|range| self.is_at(piece, range));
        expected.or_else(|| {
            let start = from + memmem::find(slice(self.text, from, upto).as_bytes(), piece.as_bytes())?;
            Some(start..start + piece.len())
        })
    }

    fn is_at(&self, piece: &str, range: &Range<usize>) -> bool {
        self.text.as_bytes().get(range.clone()) == Some(piece.as_bytes())
    }

    /// Adds an event. `shown` is the number of its bytes that come from the model.
    fn put(&mut self, kind: EventKind, text: &str, at: usize, shown: usize) {
        let call = match kind {
            EventKind::CallStart | EventKind::Arguments | EventKind::CallEnd(_) => Some(self.calls.len()),
            _ => None,
        };
        // If the event is exactly the last character read, it counts as having appeared at that character's first byte.
        let char = slice(self.text, 0, at).chars().next_back().map_or(0, char::len_utf8);
        let is_one = shown > 0 && shown == char;
        let begins = if is_one { at + 1 - shown } else { at };
        if let Some(last) = self.analysis.events.last_mut()
            && is_one
            && last.step == 1
            && (last.kind, last.call) == (kind, call)
            && last.at + last.text.len() == begins
        {
            last.text.push_str(text);
        } else if self.analysis.events.len() < MAX_ITEMS {
            let event =
                TimedEvent { kind, text: text.to_owned(), at: begins, step: usize::from(is_one), call };
            self.analysis.events.push(event);
        } else {
            self.analysis.is_cut = true;
        }
    }

    fn finish(mut self, known: &KnownFormats) -> Analysis {
        self.analysis.calls = parts::of_calls(self.text, self.calls, &self.located, known);
        self.analysis.parts = parts::of_text(self.text, &self.located, &self.analysis.calls);
        if self.analysis.parts.len() > MAX_ITEMS {
            self.analysis.parts.truncate(MAX_ITEMS);
            self.analysis.is_cut = true;
        }
        self.analysis
    }
}

/// Converts a detected call's index to its index in the text.
fn number(index: u32) -> usize {
    usize::try_from(index & !DETECTED).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolwire_pipeline::{
        detect::find_format::find_formats_of_any_tool, dialect::ClientDialect, format, rules::Detect,
    };

    fn conversation(tools: &[&str]) -> Conversation {
        let tools: Vec<_> =
            tools.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        let request = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools});
        ClientDialect::Chat.side().decode(request.to_string().as_bytes()).unwrap()
    }

    fn analyzed(text: &str) -> Analysis {
        let conversation = conversation(&["web_search", "get_weather"]);
        analyze(text, &conversation, &Rules::default(), KnownFormats::built_in())
    }

    fn said(analysis: &Analysis, kind: EventKind) -> String {
        analysis.events.iter().filter(|event| event.kind == kind).map(|event| event.text.as_str()).collect()
    }

    fn part<'t>(text: &'t str, range: &Option<Range<usize>>) -> &'t str {
        range.as_ref().map_or("", |range| slice(text, range.start, range.end))
    }

    #[test]
    fn call_has_the_ranges_of_its_parts() {
        let text = "I will look it up.\n<tool_call>{\"name\": \"web_search\", \"arguments\": {\"query\": \"rust\"}}\n</tool_call>";
        let analysis = analyzed(text);
        let [call] = &analysis.calls[..] else { panic!("{analysis:?}") };
        assert_eq!((call.name.as_str(), call.format, call.is_declared), ("web_search", "hermes", true));
        assert_eq!(part(text, &call.opener), "<tool_call>");
        assert_eq!(part(text, &call.name_range), "web_search");
        assert_eq!(part(text, &call.arguments), "{\"query\": \"rust\"}");
        assert_eq!(part(text, &call.closer), "</tool_call>");
        assert_eq!(said(&analysis, EventKind::Text), "I will look it up.");
        assert_eq!(said(&analysis, EventKind::Arguments), "{\"query\": \"rust\"}");
        let first = &analysis.events[0];
        assert_eq!((first.kind, first.at, first.step, &*first.text), (EventKind::Text, 1, 1, "I"));
        let second = &analysis.events[1];
        assert_eq!((second.at, second.step, &*second.text), (3, 0, " w"), "white space may precede a call");
        let start = analysis.events.iter().find(|event| event.kind == EventKind::CallStart).unwrap();
        assert!(start.at > 50 && start.at <= 67, "{start:?}");
    }

    #[test]
    fn parts_cover_the_text_of_every_example() {
        for format in format::ALL {
            let text = format!("Well. {}\nDone, é.", format.example);
            let (conversation, rules) = (
                conversation(&["get_weather"]),
                Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() },
            );
            let analysis = analyze(&text, &conversation, &rules, KnownFormats::built_in());
            let mut at = 0;
            for part in &analysis.parts {
                assert_eq!(part.range.start, at, "{}: {:?}", format.name, analysis.parts);
                assert!(text.is_char_boundary(part.range.end) && part.range.end > at, "{}", format.name);
                at = part.range.end;
            }
            assert_eq!(at, text.len(), "{}", format.name);
            for event in &analysis.events {
                assert!(event.at <= text.len(), "{}: {event:?}", format.name);
            }
        }
    }

    /// Concatenates the text that has appeared once `cut` bytes are read.
    fn out_at(analysis: &Analysis, cut: usize) -> String {
        let mut shown = String::new();
        for event in analysis.events.iter().filter(|event| event.at <= cut && event.kind == EventKind::Text) {
            let len =
                if event.step == 1 { (cut + 1 - event.at).min(event.text.len()) } else { event.text.len() };
            shown.push_str(slice(&event.text, 0, event.text.floor_char_boundary(len)));
        }
        shown
    }

    #[test]
    fn places_are_those_of_the_text_up_to_there_alone() {
        let text = "é <tool_ is not <tool_call>{\"name\": \"web_search\", \"arguments\": {}}</tool_call> x";
        let analysis = analyzed(text);
        let conversation = conversation(&["web_search", "get_weather"]);
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let tools = DeclaredTools::new(&conversation, "");
            let mut detector = Detector::new(tools, &Rules::default(), KnownFormats::built_in()).unwrap();
            let mut out = Vec::new();
            detector.event(Event::Text(slice(text, 0, cut).into()), &mut out);
            let mut expected = String::new();
            for event in &out {
                if let Event::Text(text) = event {
                    expected.push_str(text);
                }
            }
            assert_eq!(out_at(&analysis, cut), expected, "after {cut} bytes");
        }
    }

    #[test]
    fn hostile_texts_give_bounded_results() {
        for piece in [
            "<",
            "<tool_call>",
            "{\"name\":\"web_search\",\"arguments\":{",
            "\u{1f600}",
            "```\n",
            "<think>",
            "\0\r\n",
            "a<b ",
        ] {
            let text = piece.repeat(16 << 10);
            let analysis = analyzed(&text);
            assert!(analysis.events.len() <= MAX_ITEMS && analysis.parts.len() <= MAX_ITEMS, "{piece:?}");
        }
    }

    #[test]
    fn formats_that_do_not_match_say_why() {
        let text = "<tool_call>{\"name\": \"web_search\", \"arguments\": {}}</tool_call>";
        let analysis = analyzed(text);
        let known = KnownFormats::built_in();
        let found = find_formats_of_any_tool(text, &conversation(&["web_search"]), known);
        let rejected = rejected(text, &Detect::Auto, known, &analysis, &found);
        let why =
            |name: &str| rejected.iter().find(|rejected| rejected.format == name).map(|it| it.why.as_str());
        assert_eq!(why("hermes"), None, "it matched");
        assert_eq!(why("fenced"), Some("there is no code fence"));
        assert!(why("glm45").is_some_and(|why| why.contains("<tool_call>")), "{rejected:?}");
        assert!(why("kimi_k2").is_some_and(|why| why.starts_with("there is no")), "{rejected:?}");
        for RejectedFormat { format, why, .. } in &rejected {
            let mut markers: Vec<_> = why.split(" and no ").collect();
            let count = markers.len();
            markers.dedup();
            assert_eq!(markers.len(), count, "{format}: {why}");
        }
    }
}

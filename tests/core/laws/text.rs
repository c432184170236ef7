//! Tests laws 1 to 3 for any kind of text.

use proptest::prelude::*;
use serde_json::value::RawValue;
use toolwire::{
    event::{CallEnd, Finish},
    format::{self, ALL, Format, Grammar},
    rules::{Detect, UnknownCalls},
};

use crate::fuzz::checks::{has_markup, is_said};
use crate::laws::{
    detector::{Traced, all, find, find_in_any_split, finish, known, settings},
    soup::{cut_text, cuts, prose, soup},
    tries,
};
use crate::support::cuts::by_characters;

/// Whether `part` is a subsequence of `whole`.
fn is_left_of(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|character| rest.any(|other| other == character))
}

/// Openers of reasoning. Some are only the beginning of an opener.
const REASONING: &[&str] = &[
    "<think",
    "</think",
    "<mm:think>",
    "</mm:think>",
    "<seed:think>",
    "</seed:think>",
    "<reasoning>",
    "<scratch_pad>",
    "<analysis>",
    "<|start_thinking|>",
    "<|end_thinking|>",
    "<channel|>",
    "<|plamo:end_think:plamo|>",
    "</ifm|think",
    "<|close|>think<|sep|>",
    "<|channel>thought",
    "<|plamo:begin_think:plamo|>",
    "<ifm|think",
    "<|open|>think<|sep|>",
    "<|channel|>analysis",
    "<|content_thinking|>",
    "to=self",
];

/// Formats in which only the name distinguishes a call from text.
const UNMARKED: &[&str] =
    &["pre", "fenced", "bare", "openai_function_call", "cline", "react", "gemma3_toolcode"];

/// Generates formats that only remove calls and reasoning from the text.
fn plain() -> impl Strategy<Value = Detect> {
    let split = |grammar: &Grammar| matches!(grammar, Grammar::Channels(_) | Grammar::Frame(_));
    let plain = |format: &&'static Format| !format.grammars.iter().any(split) && format.name != "react";
    let plain: Vec<_> = ALL.iter().copied().filter(plain).collect();
    prop::sample::subsequence(plain.clone(), 1..=plain.len())
        .prop_map(|formats| Detect::Formats(format::names(&formats)))
}

/// Whether `text` contains reasoning, or a reasoning marker that would be removed.
fn reasons(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    REASONING.iter().any(|marker| text.contains(marker)) || text.contains("[think]")
}

/// Whether `held` may be held back: it must be white space followed by what may still become a call, reasoning or a
/// comment.
fn may_be_held(held: &str, before: &str) -> bool {
    let begun = held.trim_start_matches([' ', '\t', '\r', '\n']);
    let blanks = &held[..held.len() - begun.len()];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let starts_line = blanks.contains('\n') || line.trim().is_empty();
    let lower = begun.to_ascii_lowercase();
    let markers = ["<tool_call>", "<tool_calls>", "<function_call>", "<pre", "<!--"];
    let others: Vec<_> = other_openers().collect();
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    let markers = markers.iter().chain(REASONING).chain(&others);
    match begun.chars().next() {
        None => true,
        Some('<') => markers.clone().any(|marker| marker.starts_with(&lower) || lower.starts_with(marker)),
        Some('{') => opens_call(&begun[1..]),
        Some('[') => {
            let element = begun[1..].trim_start();
            element.is_empty()
                || "[think]".starts_with(&lower)
                || "[/think]".starts_with(&lower)
                || element.strip_prefix('{').is_some_and(opens_call)
                || others.iter().any(|marker| marker.starts_with(begun) || begun.starts_with(marker))
        }
        Some(tick @ ('`' | '~')) => {
            let behind = begun.trim_start_matches(tick);
            let ticks = begun.len() - behind.len();
            starts_line && (behind.is_empty() || ticks >= 3)
        }
        Some(_) => others.iter().any(|marker| marker.starts_with(begun) || begun.starts_with(marker)),
    }
}

/// Returns the openers of reasoning and channels in formats that are safe in any text. They are detected no matter
/// which formats are listed.
fn other_openers() -> impl Iterator<Item = String> {
    let grammars = ALL.iter().filter(|format| format.auto).flat_map(|format| format.grammars);
    let openers = grammars.flat_map(|grammar| match grammar {
        Grammar::Channels(channels) => {
            let ends = channels.end.iter().chain(channels.call_end);
            channels.open.iter().map(|(open, _)| open).chain(ends).copied().collect()
        }
        Grammar::Reasoning(thoughts) => {
            thoughts.iter().flat_map(|thought| thought.close.iter().chain([&thought.open])).copied().collect()
        }
        Grammar::Frame(marks) => marks.to_vec(),
        _ => Vec::new(),
    });
    let openers = openers.chain(format::TURN_ENDS.iter().copied()).chain([format::SENTENCE_END]);
    openers.map(|open| open.split('*').next().unwrap_or_default().to_ascii_lowercase())
}

/// Whether an object whose inside starts with `behind` may be a call: its first key must be a prefix of a call's
/// key.
fn opens_call(behind: &str) -> bool {
    const KEYS: [&str; 19] = [
        "name",
        "tool_name",
        "tool",
        "function_name",
        "action",
        "arguments",
        "parameters",
        "args",
        "input",
        "params",
        "tool_input",
        "action_input",
        "id",
        "tool_call_id",
        "call_id",
        "type",
        "function",
        "function_call",
        "tool_calls",
    ];
    let behind = behind.trim_start();
    let Some(key) = behind.strip_prefix('"') else { return behind.is_empty() };
    let key: String = key.chars().take_while(|c| *c != '"').collect();
    key.contains('\\') || KEYS.iter().any(|known| known.starts_with(&key))
}

/// Checks properties that hold for any text and any split.
fn holds(text: &str, found: &Traced, finish: Finish, any_name: bool) -> Result<(), TestCaseError> {
    prop_assert!(is_left_of(&found.text, text), "invented: {:?}", found.text);
    if found.calls.is_empty() && !reasons(text) && !has_markup(text) {
        prop_assert!(is_said(&found.text, text, finish), "{:?}", found.text);
    }
    for call in &found.calls {
        let marked = !["pre", "fenced", "bare"].contains(&call.format);
        let declared = ["a", "b", "get_weather"].contains(&call.name.as_str());
        prop_assert!(declared || (marked && any_name), "{:?}", call);
        if call.end == Some(CallEnd::Complete) {
            // Not parsed as a value: half a surrogate pair is valid JSON, but not valid text.
            let arguments = serde_json::from_str::<&RawValue>(&call.arguments);
            prop_assert!(arguments.is_ok_and(|it| marked || it.get().starts_with('{')), "{:?}", call);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(tries(1500))]

    /// Law 1, and what law 3 says about text with calls.
    #[test]
    fn splits_make_no_difference(text in soup(16), cuts in cuts(), settings in settings(known()), finish in finish()) {
        let whole = find_in_any_split(&settings, &text, &cuts, finish)?;
        holds(&text, &whole, finish, settings.unknown_calls == UnknownCalls::Forward)?;
    }

    /// Law 1 for all formats.
    #[test]
    fn splits_make_no_difference_to_any_format(text in soup(16), cuts in cuts(), settings in settings(all())) {
        find_in_any_split(&settings, &text, &cuts, Finish::Stop)?;
    }

    /// Law 3 for all formats that do not split text into channels: text outside calls is unchanged, and the
    /// arguments of complete calls are JSON. Also law 5: an undeclared name is a call only after a marker.
    #[test]
    fn nothing_is_lost_in_any_format(text in soup(12), settings in settings(plain()), finish in finish()) {
        let found = find(&settings, &[&text], finish);
        prop_assert!(is_left_of(&found.text, &text), "invented: {:?}", found.text);
        if found.calls.is_empty() && found.reasoning.is_empty() && !reasons(&text) && !has_markup(&text) {
            prop_assert!(is_said(&found.text, &text, finish), "{:?}", found.text);
        }
        for call in &found.calls {
            let declared = ["a", "b", "get_weather"].contains(&call.name.as_str());
            prop_assert!(declared || settings.unknown_calls == UnknownCalls::Forward, "{:?}", call);
            prop_assert!(declared || !UNMARKED.contains(&call.format), "{:?}", call);
            if call.end == Some(CallEnd::Complete) {
                prop_assert!(serde_json::from_str::<&RawValue>(&call.arguments).is_ok(), "{:?}", call);
            }
        }
    }

    /// Law 2: until a call is found, the released and the held text together are the complete text, and only text
    /// that may become a call is held.
    #[test]
    fn only_possible_openers_are_held(text in soup(12), settings in settings(known()), finish in finish()) {
        let pieces = by_characters(&text, 1);
        let found = find(&settings, &pieces, finish);
        if !found.reasoning.is_empty() || reasons(&text) || has_markup(&text) {
            return Ok(());
        }
        let mut fed = 0;
        for (piece, (out, calls, _)) in pieces.iter().zip(&found.trace) {
            fed += piece.len();
            if *calls {
                break;
            }
            let (out, held) = text[..fed].split_at(*out);
            prop_assert!(found.text.starts_with(out), "{:?} is out", out);
            prop_assert!(may_be_held(held, out), "{:?} is held after {:?}", held, out);
        }
    }

    /// Law 2 for text in which no marker can begin: only white space is held, and it is released later.
    #[test]
    fn prose_holds_only_blanks(text in prose(), cuts in cuts(), settings in settings(known())) {
        let pieces = cut_text(&text, &cuts);
        let found = find(&settings, &pieces, Finish::Stop);
        prop_assert_eq!(&found.text, &text);
        let mut fed = String::new();
        for (piece, (out, _, held)) in pieces.iter().zip(&found.trace) {
            fed.push_str(piece);
            prop_assert_eq!(*out, fed.trim_end_matches([' ', '\t', '\r', '\n']).len());
            prop_assert_eq!(out + held, fed.len());
        }
    }
}

//! Tests calls whose arguments are broken at a random character.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, value::RawValue};
use toolwire::{
    event::{CallEnd, Finish},
    rules::{ArgumentDelivery, Rules},
};

use super::{cut, cuts, looking_for, renderer, tries, with_text};
use crate::rendered::{
    found::{Found, find},
    scene::{Call, Group, Scene},
    value::{Json, Style},
    write::Renderer,
};
use crate::support::cuts::by_characters;

const LAST: &str = "The end.";

/// What is done to a character.
#[derive(Debug, Clone, Copy)]
enum Change {
    Replaced(char),
    Deleted,
    Inserted(char),
}

fn change() -> impl Strategy<Value = Change> {
    let character = || prop::sample::select("\"'{}[](),:<>\\=ox \n|".chars().collect::<Vec<_>>());
    prop_oneof![
        character().prop_map(Change::Replaced),
        Just(Change::Deleted),
        character().prop_map(Change::Inserted),
    ]
}

/// Returns a page with one or two calls and text after them.
fn page(renderer: &Renderer) -> String {
    let call = |city: &str, days: &'static str| Call {
        name: "get_weather",
        arguments: vec![("city".into(), Json::Text(city.into())), ("days".into(), Json::Number(days))],
        style: Style::COMPACT,
        way: 0,
    };
    let calls = [call("Oslo", "15"), call("Rome", "3")].into_iter().take(renderer.carries.most.max(1));
    let group = Group { before: String::new(), gaps: ("", "\n"), calls: calls.collect(), way: 0 };
    let last = if renderer.carries.after { LAST } else { "" };
    renderer.page(&Scene { reasoning: None, groups: vec![group], last: last.into() }).source()
}

/// A page whose first call has been changed.
struct Broken {
    text: String,
    /// Whether the limits of a string or a tag have moved, so that the next call may be inside a value.
    moves_limits: bool,
    /// Whether a bracket is missing or too many, so that only a marker shows where the call ends.
    moves_brackets: bool,
    /// Whether a marker stands behind the first call's arguments.
    is_marked: bool,
    /// Whether a marker stands between the calls.
    is_next_marked: bool,
}

/// Changes a character of the first call's values, or between them.
fn broken(page: &str, openers: &[&str], at: Index, change: Change) -> Option<Broken> {
    let from = page.find("Oslo")?;
    let to = from + page[from..].find("15")? + 2;
    let places: Vec<(usize, char)> = page[from..to].char_indices().collect();
    let (at, old) = *places.get(at.index(places.len()))?;
    let at = from + at;
    let (before, after) = (&page[..at], &page[at + old.len_utf8()..]);
    let text = match change {
        Change::Replaced(new) => format!("{before}{new}{after}"),
        Change::Deleted => format!("{before}{after}"),
        Change::Inserted(new) => format!("{before}{new}{old}{after}"),
    };
    let has_marker = |text: &str| {
        text.contains(['<', '`']) || openers.iter().any(|open| !open.is_empty() && text.contains(open))
    };
    let next = page[to..].find("Rome").map_or(page.len(), |next| to + next);
    Some(Broken {
        text,
        moves_limits: moves(change, old, "\"'\\<>|") || before.ends_with('\\') || is_delimited(page, from),
        moves_brackets: moves(change, old, "()[]{}"),
        is_marked: has_marker(&page[to..]),
        is_next_marked: has_marker(&page[to..next]),
    })
}

/// Whether the change adds or removes one of these characters.
fn moves(change: Change, old: char, limits: &str) -> bool {
    match change {
        Change::Replaced(new) => limits.contains(new) || limits.contains(old),
        Change::Deleted => limits.contains(old),
        Change::Inserted(new) => limits.contains(new),
    }
}

/// Whether the string at `from` is between two equal markers, of which any character may have been changed.
fn is_delimited(page: &str, from: usize) -> bool {
    let behind = &page[from + "Oslo".len()..];
    let mark = behind.split_inclusive('>').next().unwrap_or_default();
    mark.starts_with('<') && page[..from].ends_with(mark)
}

fn holds(broken: &Broken, found: &Found, most: usize) -> Result<(), TestCaseError> {
    for call in &found.calls {
        let is_json = serde_json::from_str::<&RawValue>(&call.arguments).is_ok();
        prop_assert_eq!(is_json, call.end == Some(CallEnd::Complete), "{:?}", call);
    }
    if found.calls.first().is_none_or(|call| call.end != Some(CallEnd::Broken)) {
        return Ok(());
    }
    let said = found.text.trim();
    let may_say = broken.moves_brackets && !broken.is_marked;
    prop_assert!(may_say || said == LAST || said.is_empty(), "markup as text: {:?}", said);
    let may_hide = broken.moves_limits || (broken.moves_brackets && !broken.is_next_marked);
    let next = found.calls.get(1).map(|call| (call.end, serde_json::from_str::<Value>(&call.arguments).ok()));
    let rome = serde_json::json!({"city": "Rome", "days": 3});
    prop_assert!(
        may_hide || most < 2 || next == Some((Some(CallEnd::Complete), Some(rome))),
        "the next call"
    );
    Ok(())
}

/// Checks a call that is broken at a random character. Once it has been announced, its rest is not text, and it is not
/// a complete call. The next call arrives. Where a bracket is missing or too many, both holds if a marker shows where the
/// call ends. If calls wait until they are complete, none is sent in part.
pub(crate) fn broken_calls(name: &str) {
    let (renderer, format) = renderer(name);
    let (page, openers) = (page(renderer), format.openers());
    tries(48, &(any::<Index>(), change(), cuts()), |(at, change, cuts)| {
        let Some(broken) = broken(&page, &openers, at, change) else { return Ok(()) };
        let text = &broken.text;
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            let settings = Rules { arguments, ..looking_for(format) };
            let (found, _) = find(&settings, &[text], Finish::Stop);
            for pieces in [cut(text, &cuts), by_characters(text, 1)] {
                prop_assert_eq!(&find(&settings, &pieces, Finish::Stop).0, &found, "{:?}", pieces);
            }
            let law = match arguments {
                ArgumentDelivery::Stream => holds(&broken, &found, renderer.carries.most),
                ArgumentDelivery::Whole => {
                    let is_whole = found.calls.iter().all(|call| call.end == Some(CallEnd::Complete));
                    prop_assert!(is_whole, "half a call: {:?}", found);
                    Ok(())
                }
            };
            law.map_err(|error| with_text(error, text, &found))?;
        }
        Ok(())
    });
}

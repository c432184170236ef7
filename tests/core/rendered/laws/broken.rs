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

/// Changes a character of the first call's values, or between them. Also returns the character that was there.
fn broken(page: &str, at: Index, change: Change) -> Option<(String, char)> {
    let from = page.find("Oslo")?;
    let to = from + page[from..].find("15")? + 2;
    let places: Vec<(usize, char)> = page[from..to].char_indices().collect();
    let (at, old) = *places.get(at.index(places.len()))?;
    let at = from + at;
    let (before, after) = (&page[..at], &page[at + old.len_utf8()..]);
    Some(match change {
        Change::Replaced(new) => (format!("{before}{new}{after}"), old),
        Change::Deleted => (format!("{before}{after}"), old),
        Change::Inserted(new) => (format!("{before}{new}{old}{after}"), old),
    })
}

/// Whether the change moves the limits of a string or a tag, so that the next call may be inside a value.
fn is_ambiguous(change: Change, old: char) -> bool {
    let limits = |c: char| "\"'\\<>|".contains(c);
    match change {
        Change::Replaced(new) => limits(new) || limits(old),
        Change::Deleted => limits(old),
        Change::Inserted(new) => limits(new),
    }
}

fn holds(text: &str, found: &Found, most: usize, ambiguous: bool) -> Result<(), TestCaseError> {
    for call in &found.calls {
        let is_json = serde_json::from_str::<&RawValue>(&call.arguments).is_ok();
        prop_assert_eq!(is_json, call.end == Some(CallEnd::Complete), "{:?}", call);
    }
    if found.calls.first().is_none_or(|call| call.end != Some(CallEnd::Broken)) {
        return Ok(());
    }
    let said = found.text.trim();
    prop_assert!(said == LAST || said.is_empty(), "markup as text: {:?}", said);
    let next = found.calls.get(1).map(|call| (call.end, serde_json::from_str::<Value>(&call.arguments).ok()));
    let rome = serde_json::json!({"city": "Rome", "days": 3});
    prop_assert!(ambiguous || most < 2 || next == Some((Some(CallEnd::Complete), Some(rome))), "{}", text);
    Ok(())
}

/// Checks a call that is broken at a random character. Once it has been announced, its rest is not text, and it is not
/// a complete call. The next call arrives. If calls wait until they are complete, none is sent in part.
pub(crate) fn broken_calls(name: &str) {
    let (renderer, format) = renderer(name);
    let page = page(renderer);
    tries(48, &(any::<Index>(), change(), cuts()), |(at, change, cuts)| {
        let Some((text, old)) = broken(&page, at, change) else { return Ok(()) };
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            let settings = Rules { arguments, ..looking_for(format) };
            let (found, _) = find(&settings, &[&text], Finish::Stop);
            for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
                prop_assert_eq!(&find(&settings, &pieces, Finish::Stop).0, &found, "{:?}", pieces);
            }
            let law = match arguments {
                ArgumentDelivery::Stream => {
                    // A marker as delimiter may break too.
                    let ambiguous = is_ambiguous(change, old) || matches!(name, "functiongemma" | "gemma4");
                    holds(&text, &found, renderer.carries.most, ambiguous)
                }
                ArgumentDelivery::Whole => {
                    let is_whole = found.calls.iter().all(|call| call.end == Some(CallEnd::Complete));
                    prop_assert!(is_whole, "half a call: {:?}", found);
                    Ok(())
                }
            };
            law.map_err(|error| with_text(error, &text, &found))?;
        }
        Ok(())
    });
}

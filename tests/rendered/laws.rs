//! What must hold of every format.

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, value::RawValue};
use toolwire::{
    event::{CallEnd, Finish},
    format::{self, Format},
    pipeline::{Detect, Settings},
};

use crate::{
    found::{Found, find},
    fragments::trouble as fragment,
    page::{Meant, Page},
    scene::{Scene, scene},
    support::cuts::by_characters,
    value::{Json, Style},
    write::{Renderer, renderers},
};

/// Tries `law` so many times, or as often as `PROPTEST_CASES` says.
fn tries<S: Strategy>(cases: u32, of: &S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let set = std::env::var_os("PROPTEST_CASES").is_some();
    let config = Config { failure_persistence: None, ..Config::default() };
    let config = if set { config } else { Config { cases, ..config } };
    if let Err(error) = TestRunner::new(config).run(of, law) {
        panic!("{error}");
    }
}

fn renderer(name: &str) -> (&'static Renderer, &'static Format) {
    let renderer = renderers().find(|renderer| renderer.name == name).expect("a renderer");
    (renderer, format::by_name(name).expect("a format"))
}

fn looking_for(format: &'static Format) -> Settings {
    Settings { detect: Detect::Formats(vec![format, &format::THINK]), ..Settings::default() }
}

/// `text` cut between characters.
fn cut<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut places: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    places.sort_unstable();
    let from = [0].into_iter().chain(places.iter().copied());
    let to = places.iter().copied().chain([text.len()]);
    from.zip(to).map(|(from, to)| &text[from..to]).collect()
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..6)
}

/// JSON text in one spelling, the members in their order, numbers as they are written.
fn canonical(json: &str) -> Result<String, TestCaseError> {
    let value: Value =
        serde_json::from_str(json).map_err(|error| TestCaseError::fail(format!("{error}: {json}")))?;
    prop_assert!(value.is_object(), "arguments are an object: {}", json);
    Ok(value.to_string())
}

fn is_meant(call: &crate::found::Call, meant: &Meant) -> Result<(), TestCaseError> {
    prop_assert_eq!(&call.name, meant.call.name);
    prop_assert_eq!(&call.id, &meant.id);
    prop_assert_eq!(call.end, Some(CallEnd::Complete));
    if meant.how.exact {
        prop_assert_eq!(&call.arguments, &meant.call.json());
    }
    let written = Json::Object(meant.call.arguments.clone()).written(Style::COMPACT);
    prop_assert_eq!(canonical(&call.arguments)?, canonical(&written)?);
    Ok(())
}

/// All that was written is found, and nothing else, at any cut.
pub(crate) fn found(name: &str) {
    let (renderer, format) = renderer(name);
    let settings = looking_for(format);
    tries(48, &(scene(&renderer.carries), cuts()), |(scene, cuts)| {
        let page = renderer.page(&scene);
        let text = page.source();
        let (whole, _) = find(&settings, &[&text], Finish::Stop);
        is_found(&page, &whole).map_err(|error| told(error, &text, &whole))?;
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            let (parts, held) = find(&settings, &pieces, Finish::Stop);
            prop_assert_eq!(&parts, &whole, "{:?}", pieces);
            prop_assert!(held <= cap(&scene), "{} bytes held of {:?}", held, text);
        }
        Ok(())
    });
}

fn told(error: TestCaseError, text: &str, found: &Found) -> TestCaseError {
    TestCaseError::fail(format!("{error}\nwritten: {text:?}\n{text}\nfound: {found:?}"))
}

fn is_found(page: &Page, found: &Found) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.calls.len(), page.calls.len());
    for (call, meant) in found.calls.iter().zip(&page.calls) {
        is_meant(call, meant)?;
    }
    prop_assert_eq!(found.reasoning.trim(), &page.reasoning);
    let visible = page.visible();
    // Line ends behind reasoning are framing.
    let visible = if page.reasoning.is_empty() { &visible } else { visible.trim_start() };
    let text = if page.reasoning.is_empty() { &found.text } else { found.text.trim_start() };
    prop_assert_eq!(text, visible);
    Ok(())
}

/// What may be held: a marker with its header, and what must be whole before it is known what it is, which are
/// arguments that stand before the name, and values that only their schema tells the type of.
fn cap(scene: &Scene) -> usize {
    let calls = scene.groups.iter().flat_map(|group| &group.calls);
    let longest = calls.map(|call| 2 * call.json().len()).max().unwrap_or_default();
    512 + longest
}

/// A page cut off anywhere: what is out of a call is a beginning of what was written, and it is whole only if all of
/// it is out; nothing is invented.
fn cut_off(name: &str, page: &Page, at: Index, stopped: bool) -> Result<(), TestCaseError> {
    let (renderer, format) = renderer(name);
    let settings = looking_for(format);
    let text = page.source();
    let (whole, _) = find(&settings, &[&text], Finish::Stop);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    if ends.is_empty() {
        return Ok(());
    }
    let cut = &text[..ends[at.index(ends.len())]];
    let finish = if stopped { Finish::Stop } else { Finish::Length };
    let (found, _) = find(&settings, &[cut], finish);
    let holds = || {
        prop_assert!(found.calls.len() <= whole.calls.len());
        for ((call, meant), written) in found.calls.iter().zip(&whole.calls).zip(&page.calls) {
            prop_assert_eq!((&call.name, &call.id), (&meant.name, &meant.id));
            let is_whole = call.end == Some(CallEnd::Complete);
            if is_whole && stopped && call.arguments != meant.arguments {
                is_closed(&call.arguments, &meant.arguments)?;
                continue;
            }
            prop_assert!(meant.arguments.starts_with(&call.arguments), "{:?}", call);
            prop_assert!(is_whole <= (call.arguments == meant.arguments), "{:?}", call);
            // A string with the arguments' JSON in it must have ended, too.
            let may_be_cut = is_whole || call.arguments != meant.arguments || written.is_packed();
            prop_assert!(may_be_cut, "{:?}", call);
        }
        text_is_left(renderer, &found, &whole, cut)
    };
    holds().map_err(|error| told(error, cut, &found))
}

/// Arguments that were closed at the end of a text whose model had stopped: nothing but brackets was added, behind a
/// value that cannot go on.
fn is_closed(arguments: &str, meant: &str) -> Result<(), TestCaseError> {
    let value = arguments.trim_end_matches([']', '}', ' ', '\n']);
    canonical(arguments)?;
    prop_assert!(meant.starts_with(value), "{} of {}", arguments, meant);
    let ends = value.chars().next_back().unwrap_or_default();
    let next = meant[value.len()..].chars().next().unwrap_or_default();
    let goes_on = ends.is_ascii_alphanumeric() && (next.is_ascii_alphanumeric() || "+-.".contains(next));
    prop_assert!(!goes_on, "{} of {}", arguments, meant);
    Ok(())
}

/// The text of a page that was cut off is that of the page, as far as it goes, and what was held then.
fn text_is_left(renderer: &Renderer, found: &Found, whole: &Found, cut: &str) -> Result<(), TestCaseError> {
    let silent = found.calls.is_empty() && found.reasoning.is_empty() && whole.reasoning.is_empty();
    if silent && !renderer.frames_text() {
        prop_assert_eq!(&found.text, cut);
        return Ok(());
    }
    let same = found.text.chars().zip(whole.text.chars()).take_while(|(one, other)| one == other);
    let same: usize = same.map(|(one, _)| one.len_utf8()).sum();
    let held = found.text[same..].trim_start();
    prop_assert!(cut.trim_end().ends_with(held.trim_end()), "invented: {:?}", held);
    Ok(())
}

pub(crate) fn cut_calls(name: &str) {
    let (renderer, _) = renderer(name);
    let of = (scene(&renderer.carries), prop::collection::vec(any::<Index>(), 8), any::<bool>());
    tries(32, &of, |(scene, places, stopped)| {
        let page = renderer.page(&scene);
        places.into_iter().try_for_each(|at| cut_off(name, &page, at, stopped))
    });
}

/// Pieces of pages in this format, in any order, among other trouble.
fn soup(renderer: &'static Renderer) -> impl Strategy<Value = String> {
    let piece = (scene(&renderer.carries), any::<Index>(), any::<Index>()).prop_map(|(scene, from, to)| {
        let text = renderer.page(&scene).source();
        let pieces = cut(&text, &[from, to]);
        pieces.get(1).copied().unwrap_or_default().to_owned()
    });
    let part = prop_oneof![1 => piece, 1 => fragment()];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
}

/// Whether `part` is what is left of `whole` when some of it is taken away.
fn is_left_of(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|character| rest.any(|other| other == character))
}

/// Of a text that is broken in any way, nothing is lost where there is no call, and nothing is invented; what is found
/// does not depend on the cuts; a call that is whole has JSON for its arguments.
pub(crate) fn trouble(name: &str) {
    let (renderer, format) = renderer(name);
    let of = (soup(renderer), cuts(), any::<bool>(), prop::bool::weighted(0.1));
    tries(48, &of, |(text, cuts, stopped, auto)| {
        let detect = if auto { Detect::AutoAnd(vec![format]) } else { Detect::Formats(vec![format]) };
        let settings = Settings { detect, ..Settings::default() };
        let finish = if stopped { Finish::Stop } else { Finish::Length };
        let (whole, _) = find(&settings, &[&text], finish);
        let silent = whole.calls.is_empty() && whole.reasoning.is_empty() && !text.contains("think");
        if silent && !renderer.frames_text() {
            prop_assert_eq!(&whole.text, &text);
        }
        prop_assert!(is_left_of(&whole.text, &text), "invented: {:?} of {:?}", whole, text);
        for call in whole.calls.iter().filter(|call| call.end == Some(CallEnd::Complete)) {
            // Raw, since half a surrogate pair is JSON, too, though no text.
            let is_json = serde_json::from_str::<&RawValue>(&call.arguments).is_ok();
            prop_assert!(is_json, "{:?} of {:?}", call, text);
        }
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            let (parts, _) = find(&settings, &pieces, finish);
            prop_assert_eq!(&parts, &whole, "{:?}", pieces);
        }
        Ok(())
    });
}

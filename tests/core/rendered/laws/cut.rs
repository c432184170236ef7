//! Tests answers that break off.

use proptest::{prelude::*, sample::Index};
use toolwire::event::{CallEnd, Finish};

use super::{canonical, looking_for, renderer, tries, with_text};
use crate::fuzz::checks::{has_markup, is_said};
use crate::rendered::{
    found::{Found, find},
    page::Page,
    scene::scene,
    write::Renderer,
};

/// Checks a page that is cut off at `at`: the client gets a prefix of each call, a call is complete only if all of
/// it was sent, and nothing is invented.
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
                is_closed(&call.arguments, &meant.arguments, cut)?;
                continue;
            }
            prop_assert!(meant.arguments.starts_with(&call.arguments), "{:?}", call);
            prop_assert!(is_whole <= (call.arguments == meant.arguments), "{:?}", call);
            // A string of packed JSON can be complete while the JSON's own closing quote is still missing.
            let may_be_cut = is_whole || call.arguments != meant.arguments || written.is_packed();
            prop_assert!(may_be_cut, "{:?}", call);
        }
        text_is_left(renderer, &found, &whole, cut)
    };
    holds().map_err(|error| with_text(error, cut, &found))
}

/// Checks arguments that were closed because the model had stopped: brackets may be added only after a complete
/// value.
fn is_closed(arguments: &str, meant: &str, cut: &str) -> Result<(), TestCaseError> {
    let value = arguments.trim_end_matches([']', '}', ' ', '\n']);
    // If a string contains something that looks like the end of the call, and the page is cut off right after it,
    // the call ends there.
    let quoted = value.strip_suffix('"').and_then(|text| meant.strip_prefix(text));
    let next = cut.rsplit_once('>').map(|(_, next)| next.trim_start());
    let closed = next.is_some_and(|next| next.is_empty() || next.starts_with('<'));
    if closed && quoted.is_some_and(|rest| rest.starts_with('<')) {
        return Ok(());
    }
    canonical(arguments)?;
    prop_assert!(meant.starts_with(value), "{} of {}", arguments, meant);
    let ends = value.chars().next_back().unwrap_or_default();
    let next = meant[value.len()..].chars().next().unwrap_or_default();
    let goes_on = ends.is_ascii_alphanumeric() && (next.is_ascii_alphanumeric() || "+-.".contains(next));
    prop_assert!(!goes_on, "{} of {}", arguments, meant);
    Ok(())
}

/// Checks that the text of a truncated page is a prefix of the page's text, except for text that is still held.
fn text_is_left(renderer: &Renderer, found: &Found, whole: &Found, cut: &str) -> Result<(), TestCaseError> {
    let silent = found.calls.is_empty() && found.reasoning.is_empty() && whole.reasoning.is_empty();
    if silent && !renderer.frames_text() {
        let is_left = is_said(&found.text, cut, Finish::Length) || has_markup(cut);
        prop_assert!(is_left, "{:?} of {:?}", found.text, cut);
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

//! Tests texts that are malformed in arbitrary ways.

use proptest::{prelude::*, sample::Index};
use serde_json::value::RawValue;
use toolwire::{
    event::{CallEnd, Finish},
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{cut, cuts, renderer, tries};
use crate::fuzz::checks::{has_markup, is_said};
use crate::rendered::{found::find, fragments::trouble as fragment, scene::scene, write::Renderer};
use crate::support::cuts::by_characters;

/// Generates parts of pages in this format, mixed with other troublesome fragments.
fn soup(renderer: &'static Renderer) -> impl Strategy<Value = String> {
    let piece = (scene(&renderer.carries), any::<Index>(), any::<Index>()).prop_map(|(scene, from, to)| {
        let text = renderer.page(&scene).source();
        let pieces = cut(&text, &[from, to]);
        pieces.get(1).copied().unwrap_or_default().to_owned()
    });
    let part = prop_oneof![1 => piece, 1 => fragment()];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
}

/// Markers that frame a message or an answer.
const FRAMES: &[&str] = &["<|message|>", "<|content_", "<|open|>response", "RESPONSE", "TEXT|>", "answer>"];

/// Formats that put such markers around answers, although they do not consist of messages.
const FRAMED: &[&str] = &["apriel", "hunyuan_a13b", "command_r7b"];

/// Whether `part` is a subsequence of `whole`.
fn is_left_of(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|character| rest.any(|other| other == character))
}

/// Checks a malformed text: no text outside calls is lost, nothing is invented, splits do not change the results,
/// and the arguments of complete calls are JSON.
pub(crate) fn trouble(name: &str) {
    let (renderer, format) = renderer(name);
    let of = (soup(renderer), cuts(), any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    tries(48, &of, |(text, cuts, stopped, auto, whole)| {
        let detect =
            if auto { Detect::AutoAnd(vec![format.name]) } else { Detect::Formats(vec![format.name]) };
        let arguments = if whole { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream };
        let settings = Rules { detect, arguments, ..Rules::default() };
        let finish = if stopped { Finish::Stop } else { Finish::Length };
        let (whole, _) = find(&settings, &[&text], finish);
        let silent = whole.calls.is_empty() && whole.reasoning.is_empty() && !text.contains("think");
        // If all formats are detected, message markers are too.
        let framed = (auto || FRAMED.contains(&name)) && FRAMES.iter().any(|frame| text.contains(frame));
        // Half a call that waits is left out if the response was cut off.
        let left_out = arguments == ArgumentDelivery::Whole && !stopped;
        if silent && !framed && !left_out && !renderer.frames_text() && !has_markup(&text) {
            prop_assert!(is_said(&whole.text, &text, finish), "{:?} of {:?}", whole.text, text);
        }
        prop_assert!(is_left_of(&whole.text, &text), "invented: {:?} of {:?}", whole, text);
        for call in whole.calls.iter().filter(|call| call.end == Some(CallEnd::Complete)) {
            // Not parsed as a value: half a surrogate pair is valid JSON, but not valid text.
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

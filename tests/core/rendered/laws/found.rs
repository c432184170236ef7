//! Checks that the detector finds the calls and texts that were written.

use proptest::{prelude::*, sample::Index};
use serde_json::json;
use toolwire::{
    event::{CallEnd, Finish},
    format::Format,
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{canonical, cut, cuts, looking_for, renderer, tries, with_text};
use crate::rendered::{
    found::{Call, Found, find},
    page::{Meant, Page},
    scene::{Scene, scene},
    tools::declared,
    value::{Json, Style},
};
use crate::support::{
    cuts::by_characters,
    exchange::{Exchange, request},
    upstream::Speech,
};

/// Formats that are detected only if chosen by name: they mark reasoning with ordinary words, or the answer with
/// reasoning tags.
const CHOSEN: &[&str] = &["granite3", "apriel", "hunyuan_a13b"];

/// Detects the format alone or together with all others, with streamed or complete arguments.
fn settings(format: &'static Format) -> impl Strategy<Value = Rules> {
    let together = Detect::AutoAnd(vec![format.name]);
    let auto = if format.auto && !CHOSEN.contains(&format.name) { Detect::Auto } else { together.clone() };
    let detect = prop_oneof![8 => Just(looking_for(format).detect), 1 => Just(together), 1 => Just(auto)];
    let arguments = prop_oneof![3 => Just(ArgumentDelivery::Stream), 1 => Just(ArgumentDelivery::Whole)];
    (detect, arguments).prop_map(|(detect, arguments)| Rules { detect, arguments, ..Rules::default() })
}

/// Checks that the detector finds everything that was written and nothing else, no matter how the text is split.
pub(crate) fn found(name: &str) {
    let (renderer, format) = renderer(name);
    tries(48, &(scene(&renderer.carries), cuts(), settings(format)), |(scene, cuts, settings)| {
        let page = renderer.page(&scene);
        let text = page.source();
        let (whole, _) = find(&settings, &[&text], Finish::Stop);
        is_found(&page, &whole).map_err(|error| with_text(error, &text, &whole))?;
        let waits = settings.arguments == ArgumentDelivery::Whole;
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            let (parts, held) = find(&settings, &pieces, Finish::Stop);
            prop_assert_eq!(&parts, &whole, "{:?}", pieces);
            prop_assert!(waits || held <= cap(&scene), "{} bytes held of {:?}", held, text);
        }
        if let Some(rest) = page.behind_reasoning_opener() {
            let settings = Rules { starts_in_reasoning: true, ..settings };
            let (rest_found, _) = find(&settings, &[&rest], Finish::Stop);
            prop_assert_eq!(&rest_found, &whole, "the prompt has opened the reasoning: {:?}", rest);
        }
        Ok(())
    });
}

/// Like [`found`], but through the complete pipeline, from the upstream's bytes to the client's.
pub(crate) fn exchanged(name: &str) {
    let (renderer, format) = renderer(name);
    let conversation = request(&json!({"tools": declared()}));
    let bytes = prop::collection::vec(any::<Index>(), 0..40);
    tries(4, &(scene(&renderer.carries), cuts(), bytes), |(scene, cuts, places)| {
        let page = renderer.page(&scene);
        let text = page.source();
        let exchange = Exchange::new(conversation.clone(), looking_for(format), Speech::Chat);
        let stream = Speech::Chat.says(&cut(&text, &cuts), "stop");
        let mut places: Vec<usize> = places.iter().map(|place| place.index(stream.len())).collect();
        places.sort_unstable();
        let from = [0].into_iter().chain(places.iter().copied());
        let pieces = from.zip(places.iter().copied().chain([stream.len()]));
        let (answer, _) = exchange.run(pieces.map(|(from, to)| &stream[from..to]));
        let (found, _) = find(&looking_for(format), &[&text], Finish::Stop);
        prop_assert_eq!((&answer.text, &answer.reasoning), (&found.text, &found.reasoning));
        let calls = answer.calls.iter().map(|call| (&call.name, &call.arguments));
        let wanted = found.calls.iter().map(|call| (&call.name, &call.arguments));
        prop_assert_eq!(calls.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        let finish = if page.calls.is_empty() { "stop" } else { "tool_calls" };
        prop_assert_eq!(answer.finish.as_deref(), Some(finish));
        Ok(())
    });
}

fn is_meant(call: &Call, meant: &Meant) -> Result<(), TestCaseError> {
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

fn is_found(page: &Page, found: &Found) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.calls.len(), page.calls.len());
    for (call, meant) in found.calls.iter().zip(&page.calls) {
        is_meant(call, meant)?;
    }
    prop_assert_eq!(found.reasoning.trim(), &page.reasoning);
    let visible = page.visible();
    // Line endings after reasoning are framing.
    let visible = if page.reasoning.is_empty() { &visible } else { visible.trim_start() };
    let text = if page.reasoning.is_empty() { &found.text } else { found.text.trim_start() };
    prop_assert_eq!(text, visible);
    Ok(())
}

/// The maximum number of held bytes: a marker with its header, arguments before the name, and values whose type is
/// only known at their end.
fn cap(scene: &Scene) -> usize {
    let calls = scene.groups.iter().flat_map(|group| &group.calls);
    let longest = calls.map(|call| 2 * call.json().len()).max().unwrap_or_default();
    512 + longest
}

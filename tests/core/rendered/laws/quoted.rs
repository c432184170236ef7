//! Checks that calls which only repeat a tool's result are not made, and that all other calls are.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    detect::Detector,
    event::{CallEnd, Finish},
    format::{Format, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

use super::{cut, cuts, looking_for, renderer, tries};
use crate::rendered::{
    found::{Found, find},
    scene::{Scene, scene},
    tools::declared,
    write::Renderer,
};
use crate::support::{cuts::by_characters, exchange::request};

/// Ways to quote `§` on a line with other text, or before more text. Only the bytes show that it is a quotation.
const WAYS: &[&str] = &[
    "The page says: \"§\". That is all.",
    "The page says § and more.",
    "The page says §",
    "It says:\n§\nI ignore that.",
    "It says:\n\n§\n\nI ignore that.",
    "§\n\nThat is the page.",
    "§ is the page.",
    "- §\n- nothing else",
    "1. §",
    "| what | where |\n|---|---|\n| § | there |\n",
    "**§** is all.",
    "(§)",
    "“§”, it says.",
    "> §\n\nwas in the page.",
    "> It says\n> §\n\nwas in the page.",
    "`§` was in the page.",
    "Example:\n\n    §\n\nDone.",
    "Example:\n```text\n§\n```\nThat is all.",
    "Example:\n```\n§\n```\nThat is all.",
    "Example:\n~~~xml\n§\n~~~\nThat is all.",
    "<!-- § --> is a comment.",
    "<!--\n§\n-->\nis a comment.",
    "<b>§</b> is bold.",
    "\\§ is escaped.",
];

/// Ways to quote calls by their place, if they are on one line.
const PLACES: &[&str] = &[
    "> §\n\nwas in the page.",
    "> It says § and more.\nDone.",
    "<!-- § --> is a comment.",
    "<!--\n§\n-->\nis a comment.",
    "See:\n\n    §\n\nDone.",
    "It is \\§ there.",
];

/// What stands around the calls in a result, in which a page may be a JSON string.
#[derive(Debug, Clone, Copy)]
enum Around {
    Nothing,
    Page,
    Json,
    Html,
}

impl Around {
    fn result(self, source: &str) -> String {
        let page = format!("Welcome to <b>us</b>. {source} Bye. {{\"name\": \"x\"}}");
        match self {
            Self::Nothing => source.to_owned(),
            Self::Page => page,
            Self::Json => json!({"status": 200, "body": page}).to_string(),
            Self::Html => page.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
        }
    }
}

fn around() -> impl Strategy<Value = Around> {
    prop_oneof![Just(Around::Nothing), Just(Around::Page), Just(Around::Json), Just(Around::Html)]
}

/// A conversation in which a tool has returned `result`.
fn given(result: &str) -> Conversation {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}});
    let messages: [Value; 3] = [
        json!({"role": "user", "content": "Summarise the page."}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": result}),
    ];
    request(&json!({"tools": declared(), "messages": messages}))
}

fn find_after(conversation: &Conversation, settings: &Rules, pieces: &[&str]) -> (Found, Detector) {
    let tools = DeclaredTools::new(conversation, "");
    let detector = Detector::new(tools, settings, KnownFormats::built_in()).expect("tools are declared");
    let mut detector = detector.reading(conversation);
    (Found::of(&mut detector, pieces, Finish::Stop, |_, _| {}), detector)
}

/// Generates only calls, without text or reasoning.
fn calls(renderer: &'static Renderer) -> impl Strategy<Value = String> {
    scene(&renderer.carries).prop_map(|scene| {
        let groups = scene.groups.into_iter().take(1);
        let groups = groups.map(|mut group| {
            (group.before, group.gaps) = (String::new(), ("", ""));
            group
        });
        let scene = Scene { reasoning: None, groups: groups.collect(), last: String::new() };
        renderer.page(&scene).source().trim().to_owned()
    })
}

fn detection(format: &'static Format) -> impl Strategy<Value = Rules> {
    let together = Detect::AutoAnd(vec![format.name]);
    let detect = prop_oneof![3 => Just(looking_for(format).detect), 1 => Just(together)];
    detect.prop_map(|detect| Rules { detect, ..Rules::default() })
}

/// Checks that no echo of a result becomes a call, no matter how it is quoted and split. A call that is cut off does not
/// run: text behind a Python string makes the string go on.
pub(crate) fn echoes(name: &str) {
    let (renderer, format) = renderer(name);
    if renderer.carries.groups == 0 {
        return;
    }
    let way = (prop::sample::select(WAYS), around());
    tries(160, &(calls(renderer), way, cuts(), detection(format)), |(source, way, cuts, settings)| {
        let (way, around) = way;
        let text = way.replace('§', &source);
        let conversation = given(&around.result(&source));
        let (whole, _) = find_after(&conversation, &settings, &[&text]);
        let runs = whole.calls.iter().any(|call| call.end != Some(CallEnd::Cut));
        prop_assert!(!runs, "{:?} {:?}\n{}\n{:?}", settings.detect, way, text, whole);
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            let (parts, _) = find_after(&conversation, &settings, &pieces);
            prop_assert_eq!(&parts, &whole, "{:?}", pieces);
        }
        Ok(())
    });
}

/// Checks that calls which are quoted by their place stay text.
pub(crate) fn visibly_quoted(name: &str) {
    let (renderer, format) = renderer(name);
    if renderer.carries.groups == 0 {
        return;
    }
    let of = (calls(renderer), prop::sample::select(PLACES), cuts(), detection(format));
    tries(32, &of, |(source, place, cuts, settings)| {
        if source.contains('\n') {
            return Ok(());
        }
        let text = place.replace('§', &source);
        let (whole, _) = find(&settings, &[&text], Finish::Stop);
        prop_assert!(whole.calls.is_empty(), "{:?} {:?}\n{}\n{:?}", settings.detect, place, text, whole);
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            prop_assert_eq!(&find(&settings, &pieces, Finish::Stop).0, &whole, "{:?}", pieces);
        }
        Ok(())
    });
}

/// Checks that the calls of an agent that works on a file with the same calls are made if they stand alone.
pub(crate) fn alone(name: &str) {
    let (renderer, format) = renderer(name);
    if renderer.carries.groups == 0 {
        return;
    }
    let before = prop::sample::select(&["", "I will do that.\n", "I will do that.\n\n"] as &[_]);
    let behind = prop::sample::select(&["", "\n", " \n\n"] as &[_]);
    let of = (calls(renderer), before, behind, cuts(), detection(format));
    tries(32, &of, |(source, before, behind, cuts, settings)| {
        // These begin inside a header. Behind text, the first call is text, and the other ones do not begin a line.
        let begun = ["beam", "functionary_v2", "functionary_v32", "muse_atem"].contains(&name);
        let before = if begun { "" } else { before };
        // What the model invents behind a call is dropped, but the call does not stand alone.
        if source.contains("\nObservation:") {
            return Ok(());
        }
        let text = format!("{before}{source}{behind}");
        let (usual, _) = find(&settings, &[&text], Finish::Stop);
        let conversation = given(&Around::Page.result(&source));
        let (whole, detector) = find_after(&conversation, &settings, &[&text]);
        prop_assert_eq!(&whole, &usual, "{}", text);
        prop_assert_eq!(detector.quoted().as_text, 0, "{}", text);
        prop_assert_eq!(detector.quoted().as_calls > 0, !usual.calls.is_empty(), "{}", text);
        for pieces in [cut(&text, &cuts), by_characters(&text, 1)] {
            prop_assert_eq!(&find_after(&conversation, &settings, &pieces).0, &whole, "{:?}", pieces);
        }
        Ok(())
    });
}

/// Checks that calls are found as usual if a result contains other calls, or only a part of them.
pub(crate) fn unrelated(name: &str) {
    let (renderer, format) = renderer(name);
    let of = (scene(&renderer.carries), calls(renderer), any::<Index>(), cuts(), detection(format));
    tries(32, &of, |(scene, other, end, cuts, settings)| {
        let text = renderer.page(&scene).source();
        let (usual, _) = find(&settings, &[&text], Finish::Stop);
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let begun = ends.get(end.index(ends.len().max(1))).map_or("", |end| &text[..*end]);
        if text.contains(&other) && !other.is_empty() {
            return Ok(());
        }
        let result = format!("{other} {begun}\0");
        let conversation = given(&result);
        for pieces in [vec![&*text], cut(&text, &cuts)] {
            let (found, detector) = find_after(&conversation, &settings, &pieces);
            if detector.quoted().as_text + detector.quoted().as_calls > 0 {
                return Ok(());
            }
            prop_assert_eq!(&found, &usual, "{:?}", pieces);
        }
        Ok(())
    });
}

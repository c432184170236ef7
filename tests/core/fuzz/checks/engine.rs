//! Checks the engine with arbitrary text: splits do not change the result, text outside calls is unchanged,
//! complete calls have valid JSON, and held bytes stay within the limit.

use std::sync::LazyLock;

use toolwire::{
    event::Finish,
    format::{self, Format, Grammar, KnownFormats, Route},
    rules::{ArgumentDelivery, Detect, Limits, Rules, UnknownCalls},
};

use super::{
    detected::Found,
    found::find,
    input::Input,
    markup::{has_markup, is_said},
};

/// Formats without a dedicated call marker, in which only declared names are calls.
const UNMARKED: [&str; 3] = ["pre", "fenced", "bare"];

/// How many bytes may be held beyond the limits, for markers, words and white space.
const FIXED: usize = 1500;

/// The first seven bytes are choices; the text follows.
pub(crate) fn engine(data: &[u8]) {
    let mut input = Input::new(data);
    let (settings, finish) = settings(&mut input);
    let seed = input.byte();
    let text = input.text();
    let found = find(&settings, &text, seed, finish, most(&settings.limits));
    assert!(is_left_of(&found.text, &text), "invented: {:?} of {text:?}", found.text);
    let begins_as_text = !settings.starts_in_reasoning && !begins_in_header(&settings, &text);
    if found.calls.is_empty() && begins_as_text && !takes_away(&text) {
        assert!(
            is_said(&found.text, &text, finish),
            "without calls, text is text: {:?} of {text:?}",
            found.text
        );
        assert_eq!(found.reasoning, "");
    }
    declared(&found, &settings);
}

fn declared(found: &Found, settings: &Rules) {
    for call in &found.calls {
        let declared = ["a", "b", "python", "get_weather", "set"].contains(&call.name.as_str());
        let marked = !UNMARKED.contains(&call.format);
        assert!(declared || (marked && settings.unknown_calls == UnknownCalls::Forward), "{call:?}");
    }
}

fn settings(input: &mut Input<'_>) -> (Rules, Finish) {
    let flags = input.byte();
    let on = |bit: u8| flags >> bit & 1 == 1;
    let detect = match input.byte() % 4 {
        0 => Detect::Auto,
        1 => Detect::Formats(chosen(input, 1)),
        2 => Detect::Formats(chosen(input, 2)),
        _ => Detect::AutoAnd(chosen(input, 1)),
    };
    let small = Limits {
        max_hold: 300,
        max_arguments: 300,
        max_depth: 5,
        max_name: 20,
        max_markup: 100,
        ..Limits::default()
    };
    let settings = Rules {
        detect,
        arguments: if on(0) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        unknown_calls: if on(1) { UnknownCalls::Text } else { UnknownCalls::Forward },
        starts_in_reasoning: on(6),
        repair: !on(2),
        tool_prefix: if on(3) { "user:".to_owned() } else { String::new() },
        limits: if on(5) { small } else { Limits::default() },
        ..Rules::default()
    };
    (settings, if on(4) { Finish::Length } else { Finish::Stop })
}

fn chosen(input: &mut Input<'_>, count: usize) -> Vec<&'static str> {
    let mut formats: Vec<&'static Format> =
        (0..count).filter_map(|_| input.of(format::ALL, |format: &Format| format.name)).collect();
    formats.dedup();
    format::names(&formats)
}

/// The maximum number of held bytes: two holds, the arguments of a call that is not yet complete (as source and as
/// JSON), and a fixed part.
fn most(limits: &Limits) -> usize {
    2 * limits.max_hold + 2 * limits.max_arguments + FIXED
}

/// Whether `part` is a subsequence of `whole`.
pub(super) fn is_left_of(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|character| rest.any(|other| other == character))
}

/// Lower-case markers that a format removes even from text without calls: reasoning, frames, message headers, and
/// calls without a name.
static SIGNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let grammars = format::ALL.iter().flat_map(|format| format.grammars);
    let signs = grammars.flat_map(|grammar| -> Vec<&str> {
        match grammar {
            Grammar::Reasoning(thoughts) => {
                thoughts.iter().flat_map(|it| it.close.iter().copied().chain([it.open])).collect()
            }
            Grammar::Frame(marks) => marks.to_vec(),
            Grammar::Channels(channels) => channels.open.iter().map(|(open, _)| *open).collect(),
            Grammar::Tagged(tags) => tags.iter().flat_map(|tag| tag.special().no_tool).copied().collect(),
            _ => Vec::new(),
        }
    });
    // Keeps what precedes a wildcard.
    signs.filter_map(|sign| sign.split('*').next()).map(str::to_ascii_lowercase).collect()
});

/// Whether `text` starts inside a header whose opener is in the prompt. Such a header is removed even if the
/// message is not a call.
fn begins_in_header(settings: &Rules, text: &str) -> bool {
    let (Detect::Formats(formats) | Detect::AutoAnd(formats)) = &settings.detect else { return false };
    let formats = KnownFormats::built_in().named(formats);
    formats.iter().flat_map(|format| format.grammars).any(|grammar| {
        let Grammar::Channels(channels) = grammar else { return false };
        let ends =
            channels.body.iter().filter_map(|body| text.split_once(body).map(|(header, _)| (header, *body)));
        let first = ends.min_by_key(|(header, _)| header.len());
        let route = first.and_then(|(header, body)| (channels.route)(header, body));
        let spoken = matches!(route, Some(Route::Said(_) | Route::Nothing | Route::Call(_, Some(_))));
        channels.begins_in_header && spoken
    })
}

fn takes_away(text: &str) -> bool {
    if has_markup(text) {
        return true;
    }
    let text = text.to_ascii_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}

//! Runs the detector by itself, and records its results and how much text it holds back.

use std::ops::Deref;

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    detect::Detector,
    event::Finish,
    format::{self, Format, KnownFormats},
    rules::{ArgumentDelivery, Detect, Rules, UnknownCalls},
    tools::DeclaredTools,
};

use crate::{
    fuzz::checks::Found,
    laws::soup::cut_text,
    support::{
        cuts::by_characters,
        exchange::{request, tools},
    },
};

/// The results for a text, and when they appeared.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Traced {
    found: Found,
    /// After each piece: the length of the released text, whether a call was released, and the number of held
    /// bytes.
    pub(crate) trace: Vec<(usize, bool, usize)>,
}

impl Deref for Traced {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.found
    }
}

impl Traced {
    /// Returns the results, which do not depend on splits.
    pub(crate) fn sum(&self) -> &Found {
        &self.found
    }
}

pub(crate) fn find(settings: &Rules, pieces: &[&str], finish: Finish) -> Traced {
    let conversation: Conversation = request(&json!({"tools": declared()}));
    let tools = DeclaredTools::new(&conversation, &settings.tool_prefix);
    let mut detector = Detector::new(tools, settings, KnownFormats::built_in()).expect("tools are declared");
    let mut trace = Vec::new();
    let found = Found::of(&mut detector, pieces, finish, |found, held| {
        trace.push((found.text.len(), !found.calls.is_empty(), held));
    });
    Traced { found, trace }
}

/// Returns the results for `text`. Asserts that they are the same for pieces split at `cuts` and for single
/// characters.
pub(crate) fn find_in_any_split(
    settings: &Rules,
    text: &str,
    cuts: &[Index],
    finish: Finish,
) -> Result<Traced, TestCaseError> {
    let whole = find(settings, &[text], finish);
    let pieces = cut_text(text, cuts);
    let cut = find(settings, &pieces, finish);
    prop_assert_eq!(cut.sum(), whole.sum(), "{:?}", pieces);
    let cut = find(settings, &by_characters(text, 1), finish);
    prop_assert_eq!(cut.sum(), whole.sum(), "by characters");
    Ok(whole)
}

fn declared() -> Value {
    tools(["a", "b", "get_weather"], &Value::Null)
}

/// The formats whose openers the law tests know.
pub(crate) const KNOWN: [&Format; 5] =
    [&format::PRE, &format::FENCED, &format::BARE, &format::HERMES, &format::THINK];

/// Generates a non-empty selection of `formats`.
fn some(formats: &[&'static Format]) -> impl Strategy<Value = Detect> + use<> {
    prop::sample::subsequence(formats.to_vec(), 1..=formats.len())
        .prop_map(|formats| Detect::Formats(format::names(&formats)))
}

/// Generates the default detection or a selection of all formats.
pub(crate) fn all() -> impl Strategy<Value = Detect> {
    prop_oneof![Just(Detect::Auto), some(format::ALL)]
}

/// Generates all of the known formats or a selection of them.
pub(crate) fn known() -> impl Strategy<Value = Detect> {
    prop_oneof![Just(Detect::Formats(format::names(&KNOWN))), some(&KNOWN)]
}

pub(crate) fn settings(detect: impl Strategy<Value = Detect>) -> impl Strategy<Value = Rules> {
    let unknown_calls = prop_oneof![Just(UnknownCalls::Forward), Just(UnknownCalls::Text)];
    let arguments = prop_oneof![Just(ArgumentDelivery::Stream), Just(ArgumentDelivery::Whole)];
    (detect, arguments, unknown_calls, any::<bool>(), any::<bool>()).prop_map(
        |(detect, arguments, unknown_calls, repair, prefix)| Rules {
            detect,
            arguments,
            unknown_calls,
            repair,
            tool_prefix: if prefix { "user:".to_owned() } else { String::new() },
            ..Rules::default()
        },
    )
}

pub(crate) fn finish() -> impl Strategy<Value = Finish> {
    prop_oneof![2 => Just(Finish::Stop), 1 => Just(Finish::Length)]
}

//! Checks that splits do not change the detector's results.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use toolwire::{
    conversation::Conversation, detect::Detector, dialect::chat, event::Finish, format::KnownFormats,
    rules::Rules, tools::DeclaredTools,
};

use super::{
    detected::Found,
    input::{characters, cut_text},
};

/// The tools declared in every check: some without a schema, and one with parameters of all types.
const DECLARED: &str = r#"{"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [
    {"type": "function", "function": {"name": "a"}},
    {"type": "function", "function": {"name": "b", "parameters": {"type": "object", "properties": {"y": {}}}}},
    {"type": "function", "function": {"name": "python", "parameters": {"type": "object", "required": ["code"],
        "properties": {"code": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "set", "parameters": {"type": "object", "required": ["s"], "properties": {
        "s": {"type": "string"}, "n": {"type": ["string", "null"]}, "i": {"type": "integer"}, "f": {"type": "number"},
        "l": {"type": "boolean"}, "o": {"type": "object"}, "t": {"type": "array", "items": {"type": "string"}},
        "u": {"anyOf": [{"type": "number"}, {"type": "string"}]}}}}}
]}"#;

pub(super) static CONVERSATION: LazyLock<Conversation> =
    LazyLock::new(|| chat::request::decode(DECLARED.as_bytes()).expect("a request"));

fn detect(
    conversation: &Conversation,
    settings: &Rules,
    pieces: &[&str],
    finish: Finish,
    most: usize,
) -> Found {
    let tools = DeclaredTools::new(conversation, &settings.tool_prefix);
    let detector = Detector::new(tools, settings, KnownFormats::built_in()).expect("tools are declared");
    let mut detector = detector.reading(conversation);
    Found::of(&mut detector, pieces, finish, |_, held| assert!(held <= most, "{held} held of at most {most}"))
}

/// Returns the results for `text`. Asserts that no split changes them, that at most `most` bytes are held, and that
/// the arguments of complete calls are JSON.
pub(crate) fn find(settings: &Rules, text: &str, seed: u8, finish: Finish, most: usize) -> Found {
    find_in(&CONVERSATION, settings, text, seed, finish, most)
}

/// Like [`find`], in the response to `conversation`.
pub(super) fn find_in(
    conversation: &Conversation,
    settings: &Rules,
    text: &str,
    seed: u8,
    finish: Finish,
    most: usize,
) -> Found {
    let detect = |pieces: &[&str]| detect(conversation, settings, pieces, finish, most);
    let whole = detect(&[text]);
    for (how, pieces) in [("characters", characters(text)), ("pieces", cut_text(text, seed))] {
        let cut = detect(&pieces);
        assert_eq!(cut, whole, "{text:?} in {how} (left) and whole (right)");
    }
    for call in whole.calls.iter().filter(|call| call.is_complete()) {
        // Not parsed as a value: half a surrogate pair is valid JSON, but not valid text.
        assert!(serde_json::from_str::<&RawValue>(&call.arguments).is_ok(), "{text:?}: {call:?}");
    }
    whole
}

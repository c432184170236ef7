//! Runs the detector on a text and collects the results.

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Tool},
    detect::Detector,
    event::Finish,
    format::KnownFormats,
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

use crate::fuzz::checks::Found;

fn tools() -> DeclaredTools {
    let tool = |(name, properties): (&str, Value)| Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: Some(json!({"type": "object", "properties": properties}).into()),
        strict: None,
        declared: None,
    };
    let tools = [
        ("get_weather", json!({"city": {"type": "string"}})),
        ("add", json!({"x": {"type": "number"}, "y": {"type": "number"}})),
        ("now", json!({})),
        ("search", json!({"query": {"type": "string"}})),
        (
            "set_light",
            json!({
                "room": {"type": "string"},
                "level": {"type": "number"},
                "on": {"type": "boolean"},
                "scene": {"type": ["string", "null"]},
                "hours": {"type": "array", "items": {"type": "integer"}},
                "color": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "mix": {"type": "array", "items": {"type": "string"}},
                }},
            }),
        ),
    ];
    let conversation = Conversation {
        tools: tools.into_iter().map(tool).collect(),
        parallel_calls: true,
        ..Conversation::default()
    };
    DeclaredTools::new(&conversation, "")
}

/// Runs a detector of the built-in formats on `pieces`.
pub(crate) fn find<'t>(detect: Detect, pieces: impl IntoIterator<Item = &'t str>) -> Found {
    find_among(KnownFormats::built_in(), detect, pieces)
}

fn find_among<'t>(known: &KnownFormats, detect: Detect, pieces: impl IntoIterator<Item = &'t str>) -> Found {
    let settings = Rules { detect, ..Rules::default() };
    let mut detector = Detector::new(tools(), &settings, known).expect("tools are declared");
    let pieces: Vec<&str> = pieces.into_iter().collect();
    Found::of(&mut detector, &pieces, Finish::Stop, |_, _| {})
}

/// Like [`find`], but asserts that no two-way split of `text` changes the result.
pub(crate) fn find_at_every_cut(detect: &Detect, text: &str) -> Found {
    find_among_at_every_cut(KnownFormats::built_in(), detect, text)
}

/// Like [`find_at_every_cut`], but for the formats in `known`.
pub(crate) fn find_among_at_every_cut(known: &KnownFormats, detect: &Detect, text: &str) -> Found {
    let whole = find_among(known, detect.clone(), [text]);
    for (at, _) in text.char_indices() {
        let (one, other) = text.split_at(at);
        assert_eq!(find_among(known, detect.clone(), [one, other]), whole, "{one:?} | {other:?}");
    }
    whole
}

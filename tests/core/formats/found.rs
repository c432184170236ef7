//! What the detector finds in a text.

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Tool},
    detect::Detector,
    event::{CallEnd, Event, Finish},
    format::Known,
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// What came out of a text.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Name, id, arguments; whether it is whole.
    pub(crate) calls: Vec<(String, String, String, bool)>,
}

impl Found {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => {
                self.calls.push((start.name.into_owned(), start.id.into_owned(), String::new(), false));
            }
            Event::CallArguments { piece, .. } => self.calls.last_mut().unwrap().2.push_str(&piece),
            Event::CallEnd { end, .. } => self.calls.last_mut().unwrap().3 = end == CallEnd::Complete,
            _ => {}
        }
    }

    /// The calls with their arguments read.
    pub(crate) fn read(&self) -> Vec<(&str, Value)> {
        let read = |arguments: &String| {
            serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{arguments}: {e}"))
        };
        self.calls.iter().map(|(name, _, arguments, _)| (name.as_str(), read(arguments))).collect()
    }
}

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

/// Runs `pieces` through a detector of built-in formats.
pub(crate) fn find<'t>(detect: Detect, pieces: impl IntoIterator<Item = &'t str>) -> Found {
    find_among(Known::built_in(), detect, pieces)
}

fn find_among<'t>(known: &Known, detect: Detect, pieces: impl IntoIterator<Item = &'t str>) -> Found {
    let settings = Rules { detect, ..Rules::default() };
    let mut detector = Detector::new(tools(), &settings, known).expect("tools are declared");
    let mut found = Found::default();
    let mut events: Vec<Event<'static>> = Vec::new();
    for piece in pieces {
        detector.event(Event::Text(piece.into()), &mut events);
        events.drain(..).for_each(|event| found.take(event));
    }
    detector.event(Event::Finish(Finish::Stop), &mut events);
    events.drain(..).for_each(|event| found.take(event));
    found
}

/// The same from the text at once and from every cut in two.
pub(crate) fn find_at_every_cut(detect: &Detect, text: &str) -> Found {
    find_among_at_every_cut(Known::built_in(), detect, text)
}

/// The same where these formats are known.
pub(crate) fn find_among_at_every_cut(known: &Known, detect: &Detect, text: &str) -> Found {
    let whole = find_among(known, detect.clone(), [text]);
    for (at, _) in text.char_indices() {
        let (one, other) = text.split_at(at);
        assert_eq!(find_among(known, detect.clone(), [one, other]), whole, "{one:?} | {other:?}");
    }
    whole
}

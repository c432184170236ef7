//! What the detector finds in a text, put together as a client would, and that no cut makes a difference to it.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use toolwire::{
    conversation::Conversation,
    detect::Detector,
    dialect::chat,
    event::{CallEnd, Event, Finish, Source},
    format::Known,
    rules::Rules,
    tools::DeclaredTools,
};

use super::input::{characters, cut_text};

/// What is declared in every check: names only, and arguments of all types.
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

static CONVERSATION: LazyLock<Conversation> =
    LazyLock::new(|| chat::request::decode(DECLARED.as_bytes()).expect("a request"));

/// A call as a client has it at the end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) end: Option<CallEnd>,
    pub(crate) format: &'static str,
}

/// What came out of a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

impl Found {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => {
                assert!(self.calls.iter().all(|call| call.end.is_some()), "one call after the other");
                assert!(!start.name.is_empty(), "a call has a name");
                let Source::Format(format) = start.source else { panic!("{start:?}") };
                let name = start.name.into_owned();
                self.calls.push(Call { name, arguments: String::new(), end: None, format });
            }
            Event::CallArguments { piece, .. } => {
                let call = self.calls.last_mut().expect("a call");
                assert_eq!(call.end, None, "nothing behind the end");
                call.arguments.push_str(&piece);
            }
            Event::CallEnd { end, .. } => {
                assert_eq!(self.calls.last_mut().expect("a call").end.replace(end), None, "one end");
            }
            Event::Finish(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn of(settings: &Rules, pieces: &[&str], finish: Finish, most: usize) -> Self {
        let tools = DeclaredTools::new(&CONVERSATION, &settings.tool_prefix);
        let mut detector = Detector::new(tools, settings, Known::built_in()).expect("tools are declared");
        let mut found = Self::default();
        let mut events: Vec<Event<'static>> = Vec::new();
        for piece in pieces {
            detector.event(Event::Text((*piece).into()), &mut events);
            events.drain(..).for_each(|event| found.take(event));
            assert!(detector.held() <= most, "{} held of at most {most}", detector.held());
        }
        detector.event(Event::Finish(finish), &mut events);
        events.drain(..).for_each(|event| found.take(event));
        assert_eq!(detector.held(), 0, "nothing is held after the end");
        assert!(found.calls.iter().all(|call| call.end.is_some()), "all calls end");
        found
    }
}

/// What is found in `text`, the same for every cut, and never with more than `most` bytes held. What a whole call has
/// for arguments is JSON.
pub(crate) fn find(settings: &Rules, text: &str, seed: u8, finish: Finish, most: usize) -> Found {
    let whole = Found::of(settings, &[text], finish, most);
    for (how, pieces) in [("characters", characters(text)), ("pieces", cut_text(text, seed))] {
        let cut = Found::of(settings, &pieces, finish, most);
        assert_eq!(cut, whole, "{text:?} in {how} (left) and whole (right)");
    }
    for call in whole.calls.iter().filter(|call| call.end == Some(CallEnd::Complete)) {
        // Raw, since half a surrogate pair is JSON, too, though no text.
        assert!(serde_json::from_str::<&RawValue>(&call.arguments).is_ok(), "{text:?}: {call:?}");
    }
    whole
}

//! The detector alone: its events put together, and what it holds on the way.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    detect::Detector,
    event::{CallEnd, Event, Finish, Source},
    format::{self, Format, Known},
    rules::{ArgumentDelivery, Detect, Rules, UnknownCalls},
    tools::DeclaredTools,
};

use crate::support::exchange::{request, tools};

/// What came out of a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
    /// After each piece: how much text had come out, whether a call had, what was held.
    pub(crate) trace: Vec<(usize, bool, usize)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) end: Option<CallEnd>,
    pub(crate) format: &'static str,
}

impl Found {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => {
                assert!(self.calls.iter().all(|call| call.end.is_some()), "one call after the other");
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
                assert_eq!(self.calls.last_mut().expect("a call").end.replace(end), None);
            }
            Event::Finish(_) => {}
            other => panic!("{other:?}"),
        }
    }

    /// All but what was noted on the way.
    pub(crate) fn sum(&self) -> (&str, &str, &[Call]) {
        (&self.text, &self.reasoning, &self.calls)
    }
}

/// Runs `pieces` through a detector.
pub(crate) fn find(settings: &Rules, pieces: &[&str], finish: Finish) -> Found {
    let conversation: Conversation = request(&json!({"tools": declared()}));
    let tools = DeclaredTools::new(&conversation, &settings.tool_prefix);
    let mut detector = Detector::new(tools, settings, Known::built_in()).expect("tools are declared");
    let mut found = Found::default();
    let mut events: Vec<Event<'static>> = Vec::new();
    for piece in pieces {
        detector.event(Event::Text((*piece).into()), &mut events);
        events.drain(..).for_each(|event| found.take(event));
        found.trace.push((found.text.len(), !found.calls.is_empty(), detector.held()));
    }
    detector.event(Event::Finish(finish), &mut events);
    events.drain(..).for_each(|event| found.take(event));
    assert_eq!(detector.held(), 0, "nothing is held after the end");
    assert!(found.calls.iter().all(|call| call.end.is_some()), "all calls end");
    found
}

/// What every test declares.
fn declared() -> Value {
    tools(["a", "b", "get_weather"], &Value::Null)
}

/// The formats whose openers the laws know by heart.
pub(crate) const KNOWN: [&Format; 5] =
    [&format::PRE, &format::FENCED, &format::BARE, &format::HERMES, &format::THINK];

/// One or more of these formats.
fn some(formats: &[&'static Format]) -> impl Strategy<Value = Detect> + use<> {
    prop::sample::subsequence(formats.to_vec(), 1..=formats.len())
        .prop_map(|formats| Detect::Formats(format::names(&formats)))
}

/// All formats, as the configuration's default looks for them, or some of all.
pub(crate) fn all() -> impl Strategy<Value = Detect> {
    prop_oneof![Just(Detect::Auto), some(format::ALL)]
}

/// Some of the known formats, or all of them.
pub(crate) fn known() -> impl Strategy<Value = Detect> {
    prop_oneof![Just(Detect::Formats(format::names(&KNOWN))), some(&KNOWN)]
}

/// Rules of all kinds.
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

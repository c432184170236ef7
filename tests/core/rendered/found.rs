//! What the detector finds in a text.

use serde_json::json;
use toolwire::{
    detect::Detector,
    event::{CallEnd, Event, Finish},
    format::Known,
    rules::Rules,
    tools::DeclaredTools,
};

use crate::rendered::tools::declared;
use crate::support::exchange::request;

/// What came out of a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) arguments: String,
    pub(crate) end: Option<CallEnd>,
}

impl Found {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => {
                assert!(self.calls.iter().all(|call| call.end.is_some()), "one call after the other");
                let (name, id) = (start.name.into_owned(), start.id.into_owned());
                self.calls.push(Call { name, id, arguments: String::new(), end: None });
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
}

/// Runs `pieces` through a detector; the most bytes that it held behind a piece.
pub(crate) fn find(settings: &Rules, pieces: &[&str], finish: Finish) -> (Found, usize) {
    thread_local!(static TOOLS: DeclaredTools = DeclaredTools::new(&request(&json!({"tools": declared()})), ""));
    let mut detector = Detector::new(TOOLS.with(DeclaredTools::clone), settings, Known::built_in())
        .expect("tools are declared");
    let mut found = Found::default();
    let mut events: Vec<Event<'static>> = Vec::new();
    let mut held = 0;
    for piece in pieces {
        detector.event(Event::Text((*piece).into()), &mut events);
        events.drain(..).for_each(|event| found.take(event));
        held = held.max(detector.held());
    }
    detector.event(Event::Finish(finish), &mut events);
    events.drain(..).for_each(|event| found.take(event));
    assert_eq!(detector.held(), 0, "nothing is held after the end");
    assert!(found.calls.iter().all(|call| call.end.is_some()), "all calls end");
    (found, held)
}

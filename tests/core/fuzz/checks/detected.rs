//! Collects the detector's results like a client would. The file is in this folder because the fuzz targets, a
//! separate package, include it.

use serde_json::Value;
use toolwire::{
    detect::Detector,
    event::{CallEnd, Event, Finish, Source},
};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The ID in the text, or empty.
    pub(crate) id: String,
    pub(crate) arguments: String,
    pub(crate) end: Option<CallEnd>,
    pub(crate) format: &'static str,
}

impl Call {
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(CallEnd::Complete)
    }
}

impl Found {
    /// Runs `detector` on `pieces`. After each piece, `after_piece` gets the results so far and the number of held
    /// bytes.
    pub(crate) fn of(
        detector: &mut Detector,
        pieces: &[&str],
        finish: Finish,
        mut after_piece: impl FnMut(&Self, usize),
    ) -> Self {
        let mut found = Self::default();
        let mut events: Vec<Event<'static>> = Vec::new();
        for piece in pieces {
            detector.event(Event::Text((*piece).into()), &mut events);
            events.drain(..).for_each(|event| found.take(event));
            after_piece(&found, detector.held());
        }
        detector.event(Event::Finish(finish), &mut events);
        events.drain(..).for_each(|event| found.take(event));
        assert_eq!(detector.held(), 0, "nothing is held after the end");
        assert!(found.calls.iter().all(|call| call.end.is_some()), "all calls end");
        found
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => {
                assert!(self.calls.iter().all(|call| call.end.is_some()), "one call after the other");
                assert!(!start.name.is_empty(), "a call has a name");
                let Source::Format(format) = start.source else { panic!("{start:?}") };
                let (name, id) = (start.name.into_owned(), start.id.into_owned());
                self.calls.push(Call { name, id, arguments: String::new(), end: None, format });
            }
            Event::CallArguments { piece, .. } => {
                let call = self.calls.last_mut().expect("a call");
                assert_eq!(call.end, None, "nothing follows the end of a call");
                call.arguments.push_str(&piece);
            }
            Event::CallEnd { end, .. } => {
                assert_eq!(self.calls.last_mut().expect("a call").end.replace(end), None, "one end");
            }
            Event::Finish(_) | Event::Warning(_) => {}
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn parsed_calls(&self) -> Vec<(&str, Value)> {
        let parse = |arguments: &str| {
            serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"))
        };
        self.calls.iter().map(|call| (call.name.as_str(), parse(&call.arguments))).collect()
    }
}

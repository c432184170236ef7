//! [`Last`]: the members of the last line: why the response ended, counts, durations and notes.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::calls::Ended;
use crate::{
    Answering, Clock,
    event::{Annotation, CallResult, Event, Finish, Runner, ServerCall, Usage},
    wire::json::Encoder,
};

#[derive(Debug)]
pub(super) struct Last {
    finish: Option<Finish>,
    usage: Option<Box<Usage>>,
    clock: Clock,
    begun: Duration,
    /// When the first content arrived.
    first: Option<Duration>,
    /// toolwire's own member. Boxed because few responses have one.
    notes: Option<Box<Map<String, Value>>>,
    /// The hosted calls that are still running: their ids and arguments.
    running: Vec<(String, Option<String>)>,
    kept: usize,
}

impl Last {
    pub(super) fn new(answering: &Answering) -> Self {
        let clock = answering.clock;
        let begun = clock.now();
        Self {
            finish: None,
            usage: None,
            clock,
            begun,
            first: None,
            notes: None,
            running: Vec::new(),
            kept: 0,
        }
    }

    /// Must be called at each piece of content.
    pub(super) fn content(&mut self) {
        if self.first.is_none() {
            self.first = Some(self.clock.now());
        }
    }

    /// Records an event that has no line of its own.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Finish(finish) => self.finish = Some(*finish),
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Warning(warning) => {
                self.note("warnings", json!({"code": warning.code, "message": warning.message}));
            }
            Event::Annotation(Annotation { url, title, span }) => {
                let (start, end) = *span;
                self.kept += url.len() + title.len();
                self.note("annotations", json!({"url": url, "title": title, "start": start, "end": end}));
            }
            Event::CallResult(CallResult { index, id, content, is_error }) => {
                self.kept += id.len() + content.len();
                let result = json!({"index": index, "id": id, "content": content, "is_error": is_error});
                self.note("tool_results", result);
            }
            Event::ServerCall(call) => self.server_call(call),
            _ => {}
        }
    }

    /// A call that the upstream or toolwire ran. If toolwire runs it, it is told together with its result.
    fn server_call(&mut self, call: &ServerCall<'_>) {
        let ServerCall { id, name, arguments, content, is_error, .. } = call;
        self.kept += id.len() + name.len();
        self.kept += [arguments, content].into_iter().flatten().map(|text| text.len()).sum::<usize>();
        if call.runner == Runner::Toolwire && content.is_none() {
            return self.running.push((id.to_string(), arguments.as_ref().map(ToString::to_string)));
        }
        let begun = self.running.iter().position(|(running, _)| *running == **id);
        let begun = begun.and_then(|place| self.running.remove(place).1);
        let arguments = arguments.as_deref().or(begun.as_deref());
        let mut told = Map::from_iter([("id".to_owned(), json!(id)), ("name".to_owned(), json!(name))]);
        for (key, text) in [("arguments", arguments), ("content", content.as_deref())] {
            told.extend(text.map(|text| (key.to_owned(), text.into())));
        }
        if *is_error {
            told.insert("is_error".to_owned(), true.into());
        }
        self.note("tool_results", told.into());
    }

    pub(super) fn note_all(&mut self, calls: impl Iterator<Item = Ended>) {
        for call in calls {
            if let Ended::Told(list, call) = call {
                self.note(list, call);
            }
        }
    }

    pub(super) fn note(&mut self, list: &str, element: Value) {
        let list = self.notes.get_or_insert_default().entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(element);
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn put(&self, line: &mut Encoder) {
        line.key("done").value(&true);
        line.key("done_reason").string(match self.finish {
            Some(Finish::Length) => "length",
            Some(Finish::Filter) => "content_filter",
            _ => "stop",
        });
        let usage = self.usage.as_deref();
        let mut put = |key: &str, count: Option<u64>| {
            if let Some(count) = count {
                line.key(key).value(&count);
            }
        };
        let end = self.clock.now();
        let first = self.first.unwrap_or(end);
        let nanoseconds = |duration: Duration| {
            let is_known = self.clock.is_some();
            is_known.then(|| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        };
        put("total_duration", nanoseconds(end.saturating_sub(self.begun)));
        put("load_duration", nanoseconds(Duration::ZERO));
        // Clients add the counts up, so unknown ones are 0.
        put("prompt_eval_count", Some(usage.and_then(|usage| usage.input).unwrap_or(0)));
        put("prompt_eval_duration", nanoseconds(first.saturating_sub(self.begun)));
        put("eval_count", Some(usage.and_then(|usage| usage.output).unwrap_or(0)));
        put("eval_duration", nanoseconds(end.saturating_sub(first)));
        if let Some(notes) = &self.notes {
            line.key("toolwire").value(notes);
        }
    }
}

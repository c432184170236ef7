//! [`Notes`]: what a response contains that the client's API has no place for, as toolwire's own member `toolwire`.

use serde_json::{Map, Value, json};

use crate::{
    event::{Annotation, CallResult, Event, Runner, ServerCall},
    wire::json::Encoder,
};

/// The lists of the member. Each element is an object.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Boxed because few responses have notes.
    lists: Option<Box<Map<String, Value>>>,
    /// The hosted calls that are still running: their ids and arguments.
    running: Vec<(String, Option<String>)>,
    kept: usize,
}

impl Notes {
    /// Records a warning, a citation, a result, or a call that the upstream or toolwire ran. Ignores all other events.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Warning(warning) => {
                self.add("warnings", json!({"code": warning.code, "message": warning.message}));
            }
            Event::Annotation(Annotation { url, title, span }) => {
                let (start, end) = *span;
                self.kept += url.len() + title.len();
                self.add("annotations", json!({"url": url, "title": title, "start": start, "end": end}));
            }
            Event::CallResult(CallResult { index, id, content, is_error }) => {
                self.kept += id.len() + content.len();
                let result = json!({"index": index, "id": id, "content": content, "is_error": is_error});
                self.add("tool_results", result);
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
        self.add("tool_results", told.into());
    }

    /// Adds an element to a list.
    pub(super) fn add(&mut self, list: &str, element: Value) {
        let list = self.lists.get_or_insert_default().entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(element);
        }
    }

    /// Writes the member, if there are notes.
    pub(super) fn put(&self, object: &mut Encoder) {
        if let Some(lists) = &self.lists {
            object.key("toolwire").value(lists);
        }
    }

    /// Size of what upstreams and tools wrote, in bytes.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }
}

//! [`Beside`]: what a response contains that the client's API has no place for, including calls.

use serde_json::json;

use crate::{event::Event, notes::Notes, wire::json::Encoder};

/// [`Notes`], and the calls that are not the client's.
#[derive(Debug, Default)]
pub(super) struct Beside {
    notes: Notes,
    calls: Vec<Call>,
    kept: usize,
}

#[derive(Debug)]
struct Call {
    index: u32,
    id: String,
    name: String,
    arguments: String,
}

impl Beside {
    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::CallStart(start) => {
                self.kept += start.id.len() + start.name.len();
                let (id, name) = (start.id.to_string(), start.name.to_string());
                self.calls.push(Call { index: start.index, id, name, arguments: String::new() });
            }
            Event::CallArguments { index, piece } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == *index) {
                    self.kept += piece.len();
                    call.arguments.push_str(piece);
                }
            }
            Event::Media(media) if !media.data.is_empty() => {
                self.kept += media.data.len();
                self.notes.add("images", json!({"mime": media.mime, "data": media.data}));
            }
            event => self.notes.event(event),
        }
    }

    /// Records a call that did not end properly.
    pub(super) fn broken(&mut self, index: u32, id: &str, name: &str, arguments: &str) {
        self.kept += id.len() + name.len() + arguments.len();
        let call = json!({"index": index, "id": id, "name": name, "arguments": arguments});
        self.notes.add("broken_calls", call);
    }

    /// Writes toolwire's own member, if there is anything.
    pub(super) fn put(&mut self, object: &mut Encoder) {
        for Call { index, id, name, arguments } in self.calls.drain(..) {
            let call = json!({"index": index, "id": id, "name": name, "arguments": arguments});
            self.notes.add("calls", call);
        }
        self.notes.put(object);
    }

    pub(super) fn kept(&self) -> usize {
        self.kept + self.notes.kept()
    }
}

//! [`Summary`]: collects the model's text, which becomes a compaction instead of a message.

use serde_json::{Value, json};

use super::{
    assembly::Assembly,
    events::Events,
    item::{ADDED, Place},
    rope::Rope,
};
use crate::{
    Answering,
    conversation::CompactionForm,
    responses::request::USERS,
    summary::{self, SummaryText},
};

#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: SummaryText,
    /// The user's messages, which a resource repeats.
    users: Vec<Value>,
}

impl Summary {
    /// `None` if the response is not a compaction.
    pub(super) fn new(answering: &Answering) -> Option<Self> {
        let form = answering.compaction?;
        let users = answering.repeated.get(USERS).and_then(Value::as_array);
        let users = users.filter(|_| form == CompactionForm::Resource).cloned().unwrap_or_default();
        Some(Self { text: SummaryText::default(), users })
    }
}

impl Assembly {
    /// Writes the items of a compaction.
    pub(super) fn put_summary(&mut self, summary: Summary, events: &mut Events<'_>) {
        let Summary { text, users } = summary;
        for mut user in users {
            let place = self.next_place("msg", events);
            if let Some(user) = user.as_object_mut() {
                user.insert("id".to_owned(), place.id.clone().into());
            }
            self.put_whole(place, user.to_string().into(), events);
        }
        let place = self.next_place("cmp", events);
        let content = summary::carried(&text.text);
        let item = json!({"id": place.id, "type": "compaction", "encrypted_content": content});
        self.put_whole(place, item.to_string().into(), events);
    }

    /// Writes an item that has no deltas.
    pub(super) fn put_whole(&mut self, place: Place, item: Rope, events: &mut Events<'_>) {
        place.put_item(ADDED, &item, events);
        self.done((place, item), events);
    }
}

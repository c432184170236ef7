//! The items of a search for tools that toolwire ran (docs/protocols/responses.md#tool-search).

use serde_json::{Map, Value, json};

use super::{assembly::Assembly, events::Events, item::Place};
use crate::{
    event::{Runner, ServerCall},
    responses::own_item_id,
};

/// Whether the call is a search for tools, and not a hosted tool of the same name, which has a server.
pub(super) fn is_search(call: &ServerCall<'_>) -> bool {
    call.name == "tool_search" && call.runner == Runner::Toolwire && call.server.is_empty()
}

impl Assembly {
    /// Adds a search and its result. The content of a result without an error is a JSON array of declarations.
    pub(super) fn tool_search(&mut self, call: &ServerCall<'_>, events: &mut Events<'_>) {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        let arguments = call.arguments.as_deref().and_then(parsed).filter(Value::is_object);
        let tools = call.content.as_deref().and_then(parsed).filter(Value::is_array);
        self.whole_item(
            "tsc",
            "tool_search_call",
            ("arguments", arguments.unwrap_or(Map::new().into())),
            events,
        );
        self.whole_item(
            "tso",
            "tool_search_output",
            ("tools", tools.unwrap_or(Vec::<Value>::new().into())),
            events,
        );
    }

    fn whole_item(&mut self, prefix: &str, kind: &str, (key, value): (&str, Value), events: &mut Events<'_>) {
        self.close(true, events);
        let place = self.next_place(prefix, events);
        let id = own_item_id(prefix, self.suffix(), place.index);
        let item = json!({
            "id": id,
            "type": kind,
            "status": "completed",
            "execution": "server",
            "call_id": null,
            key: value,
        });
        let item = item.to_string();
        self.count(item.len());
        self.put_whole(Place { id, ..place }, item.into(), events);
    }
}

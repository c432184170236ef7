//! Items of calls to built-in tools. They begin when their arguments are complete, because clients take them for
//! valid as soon as they have begun.

use serde_json::{Map, Value, json};

use super::{
    events::Events,
    item::{ADDED, Place, quoted},
    rope::Rope,
};
use crate::{event::CallStart, responses::built_in::BuiltInTool};

#[derive(Debug)]
pub(super) struct BuiltInCall {
    /// The index of the call, see [`CallStart::index`].
    pub(super) index: u32,
    id: String,
    name: String,
    tool: BuiltInTool,
    is_native: bool,
}

impl BuiltInCall {
    pub(super) fn new(start: &CallStart<'_>, tool: BuiltInTool, is_native: bool) -> Self {
        let (id, name) = (start.id.to_string(), start.name.to_string());
        Self { index: start.index, id, name, tool, is_native }
    }

    pub(super) fn id_prefix(&self) -> &'static str {
        self.tool.id_prefix()
    }

    /// The members of the item. `None` if no valid item has such arguments.
    pub(super) fn members(&self, arguments: &str) -> Option<Map<String, Value>> {
        self.tool.members(arguments, self.is_native)
    }

    /// The warning for a call without a valid item.
    pub(super) fn unfit_warning(&self) -> Value {
        let kind = self.tool.call_kind();
        let message = format!(
            "the arguments of a call to `{}` do not fit a `{kind}` item, so the call is the text of a message",
            self.name
        );
        json!({"code": "unfit_arguments", "message": message})
    }

    /// The warning for a call that was cut off.
    pub(super) fn cut_warning(&self) -> Value {
        let message = format!("a call to `{}` was cut off and left out", self.name);
        json!({"code": "cut_call", "message": message})
    }

    /// Writes the events of the item, up to but excluding its end. Returns its position and its JSON.
    pub(super) fn write(
        &self,
        place: Place,
        members: &Map<String, Value>,
        events: &mut Events<'_>,
    ) -> (Place, Rope) {
        let commands = members.get("action").and_then(|action| action.get("commands")?.as_array());
        match commands.filter(|_| self.tool == BuiltInTool::Shell) {
            Some(commands) => {
                let mut begun = members.clone();
                if let Some(Value::Object(action)) = begun.get_mut("action") {
                    action.insert("commands".to_owned(), json!([]));
                }
                place.put_item(ADDED, &self.item(&place, "in_progress", &begun), events);
                for (index, command) in commands.iter().filter_map(Value::as_str).enumerate() {
                    put_command(&place, index, &quoted(command), events);
                }
            }
            None => place.put_item(ADDED, &self.item(&place, "in_progress", members), events),
        }
        let item = self.item(&place, "completed", members);
        (place, item)
    }

    fn item(&self, place: &Place, status: &str, members: &Map<String, Value>) -> Rope {
        let (id, kind, call) = (&place.id, self.tool.call_kind(), quoted(&self.id));
        let head =
            format!("{{\"id\":\"{id}\",\"type\":\"{kind}\",\"status\":\"{status}\",\"call_id\":{call}");
        let mut item = Rope::from(head);
        for (key, value) in members {
            item.push_string(format!(",{}:{value}", quoted(key)));
        }
        item.push("}");
        item
    }
}

/// Writes the events of a shell's command, which is a JSON string.
fn put_command(place: &Place, index: usize, command: &str, events: &mut Events<'_>) {
    let members = format!("\"output_index\":{},\"command_index\":{index}", place.index);
    events.put("response.shell_call_command.added", &[&members, ",\"command\":\"\""]);
    events.put("response.shell_call_command.delta", &[&members, ",\"delta\":", command]);
    events.put("response.shell_call_command.done", &[&members, ",\"command\":", command]);
}

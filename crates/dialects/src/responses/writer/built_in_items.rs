//! Items of calls to built-in tools. They begin when their arguments are complete, because clients take them for
//! valid as soon as they have begun.

use std::mem;

use serde_json::{Map, Value, json};

use super::{
    events::Events,
    item::{ADDED, Place, quoted},
    rope::Rope,
};
use crate::{
    Answering,
    conversation::BuiltIn,
    event::{CallStart, Source},
    responses::built_in::BuiltInTool,
};

/// The open calls to built-in tools.
#[derive(Debug)]
pub(super) struct BuiltInCalls {
    declared: Vec<BuiltIn>,
    open: Vec<BuiltInCall>,
}

impl BuiltInCalls {
    pub(super) fn new(answering: &Answering) -> Self {
        Self { declared: answering.built_in.clone(), open: Vec::new() }
    }

    pub(super) fn begin(&mut self, start: &CallStart<'_>) {
        let is_native = start.source == Source::NativeBuiltIn;
        let tool = if is_native {
            BuiltInTool::of_function(&start.name)
        } else {
            let declared = self.declared.iter().find(|tool| tool.name == start.name);
            declared.and_then(|tool| BuiltInTool::of_kind(&tool.kind))
        };
        self.open.extend(tool.map(|tool| BuiltInCall::new(start, tool, is_native)));
    }

    /// Whether the call with this index is open.
    pub(super) fn has(&self, index: u32) -> bool {
        self.open.iter().any(|call| call.index == index)
    }

    /// Removes the call with this index.
    pub(super) fn take(&mut self, index: u32) -> Option<BuiltInCall> {
        let place = self.open.iter().position(|call| call.index == index)?;
        Some(self.open.remove(place))
    }

    pub(super) fn take_all(&mut self) -> Vec<BuiltInCall> {
        mem::take(&mut self.open)
    }
}

#[derive(Debug)]
pub(super) struct BuiltInCall {
    /// The index of the call, see [`CallStart::index`].
    index: u32,
    id: String,
    name: String,
    tool: BuiltInTool,
    is_native: bool,
}

impl BuiltInCall {
    fn new(start: &CallStart<'_>, tool: BuiltInTool, is_native: bool) -> Self {
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

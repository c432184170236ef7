//! Items about MCP servers that the client has named, other than calls (docs/protocols/responses.md#mcp-servers).

use serde_json::json;

use super::{
    assembly::Assembly,
    events::Events,
    item::{ADDED, Place, quoted},
    rope::Rope,
};
use crate::{
    event::McpItem,
    responses::{approval_id, own_item_id},
};

impl Assembly {
    pub(super) fn mcp_item(&mut self, item: &McpItem, events: &mut Events<'_>) {
        self.close(true, events);
        self.count(item.size());
        match item {
            McpItem::Tools { server, tools, error } => {
                self.tool_list(server, tools, error.as_deref(), events);
            }
            McpItem::ApprovalRequest { server, tool, arguments, mark } => {
                let place = self.next_place("mcpr", events);
                let id = approval_id(self.suffix(), place.index, mark);
                let item = json!({
                    "id": id,
                    "type": "mcp_approval_request",
                    "server_label": server,
                    "name": tool,
                    "arguments": arguments,
                });
                self.put_whole(Place { id, ..place }, item.to_string().into(), events);
            }
        }
    }

    fn tool_list(&mut self, server: &str, tools: &str, error: Option<&str>, events: &mut Events<'_>) {
        let place = self.next_place("mcpl", events);
        let id = own_item_id("mcpl", self.suffix(), place.index);
        let place = Place { id, ..place };
        let item = |tools: &str, error: Option<&str>| {
            let (id, server) = (&place.id, quoted(server));
            let error = error.map_or_else(|| "null".to_owned(), quoted);
            Rope::from(format!(
                "{{\"id\":\"{id}\",\"type\":\"mcp_list_tools\",\"server_label\":{server},\"tools\":{tools},\"error\":{error}}}"
            ))
        };
        place.put_item(ADDED, &item("[]", None), events);
        let ended = if error.is_none() { "completed" } else { "failed" };
        for word in ["in_progress", ended] {
            events.put(&format!("response.mcp_list_tools.{word}"), &[&place.members()]);
        }
        let whole = item(tools, error);
        self.done((place, whole), events);
    }
}

//! What a history says about the MCP servers that toolwire calls for the client: tools that the client has been told,
//! and calls that it has approved.
//!
//! A call that needs an approval ends the response. The client answers in its next request, which also has the call:
//!
//! | the history | the conversation |
//! |---|---|
//! | request, approved | an [`Approval`]: the call runs before the model is asked |
//! | request, approved, the call with its result | the call and its result |
//! | request, declined or not answered | the call, and a result that says so |
//!
//! The calls have [ids](own_id) of their own form, by which it is known that a response begins with them.

use super::{
    Call, Conversation, Part, Role, Turn,
    own_calls::{own_id, unmarked},
};

/// What a request says about its client's MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpState {
    /// The names of the hosted tools whose calls need the client's approval.
    pub asks: Vec<String>,
    /// The names of the servers whose tools the client has been told.
    pub listed: Vec<String>,
    /// The calls that the client has approved and that have not run, in order.
    pub approved: Vec<Approval>,
    /// The paths of answers to requests that are not in the history.
    pub unknown: Vec<String>,
}

/// A call that the client has approved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approval {
    /// The id of the request for approval.
    pub id: String,
    /// The client's name for the server.
    pub server: String,
    /// The server's name for the tool.
    pub tool: String,
    /// The arguments in the request.
    pub arguments: String,
    /// Distinguishes the server that was meant from others of the same name.
    pub mark: String,
    /// The path of the answer in the client's request.
    pub param: String,
}

/// How the ids of requests for approval begin.
pub const APPROVAL_PREFIX: &str = "mcpr_";

/// The id in a history of the call that the request for approval `id` is about.
pub fn approval_call_id(id: &str) -> String {
    own_id("call", id)
}

/// The name by which the tool of an MCP server is known in a history of approvals.
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("{server}__{tool}")
}

impl Turn {
    /// Whether the turn begins with a call that needed the client's approval. It belongs to the response that follows
    /// the approval, or is no part of the model's turn before it.
    pub fn begins_with_approval(&self) -> bool {
        self.role == Role::Assistant
            && matches!(self.parts.first(), Some(Part::Call(call)) if is_approval_call(call))
    }
}

/// Whether the call needed the client's approval.
pub fn is_approval_call(call: &Call) -> bool {
    unmarked(&call.id).is_some_and(|id| id.starts_with(APPROVAL_PREFIX))
}

impl Conversation {
    /// Appends a turn of approved calls. It continues the model's turn, if that is the last one.
    pub fn add_approved(&mut self, turn: Turn) {
        match self.turns.last_mut() {
            Some(last) if last.role == Role::Assistant => last.parts.extend(turn.parts),
            _ => self.turns.push(turn),
        }
    }
}

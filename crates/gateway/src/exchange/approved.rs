//! Calls that the client has approved, with which a response begins.

use std::borrow::Cow;

use toolwire_execution::{HostedTurn, approved_calls};
use toolwire_pipeline::{
    conversation::{CallOutput, Conversation, Part, Role, Turn},
    failure::{Failure, Kind},
    pipeline::FollowUp,
};

/// The calls that the client has approved. `has_servers` is set if toolwire calls the MCP servers that the request names.
///
/// # Errors
/// The client approves something that it was not asked, or that this request does not offer.
pub(super) fn approved(
    conversation: &Conversation,
    hosted: Option<&HostedTurn>,
    has_servers: bool,
) -> Result<Option<FollowUp>, Failure> {
    if let Some(param) = conversation.mcp.unknown.first().filter(|_| has_servers) {
        let message = format!("`{param}` names no `mcp_approval_request` before it in the input");
        return Err(Failure::new(Kind::Request, message).with_param(param));
    }
    approved_calls(conversation, hosted)
}

/// The conversation that the upstream gets once the calls have run, without their results. What depends on how it ends
/// is known before.
pub(super) fn planned<'c>(conversation: &'c Conversation, calls: Option<&FollowUp>) -> Cow<'c, Conversation> {
    let Some(FollowUp { turns, hosted, .. }) = calls else { return Cow::Borrowed(conversation) };
    let mut planned = conversation.clone();
    turns.iter().for_each(|turn| planned.add_approved(turn.clone()));
    planned.turns.extend(hosted.iter().map(|call| {
        let output =
            CallOutput { id: call.id.clone(), name: String::new(), content: String::new(), is_error: false };
        Turn::of(Role::Tool, vec![Part::Result(output)])
    }));
    Cow::Owned(planned)
}

//! Calls that run only if the client approves them: those of MCP servers that it has named (`require_approval`).

use toolwire_pipeline::{
    conversation::{Approval, Call, Conversation, Part, Role, Turn, mcp_tool_name},
    event::McpItem,
    failure::{Failure, Kind},
    pipeline::{FollowUp, Reason},
};

use super::{
    registry::{Hosted, ShownTool},
    settings::Visibility,
    turn::HostedTurn,
};

/// The calls that the client has approved, to run before the model is asked. `None` if there are none.
///
/// # Errors
/// The request does not offer a tool as it was when the client was asked.
pub fn approved_calls(
    conversation: &Conversation,
    hosted: Option<&HostedTurn>,
) -> Result<Option<FollowUp>, Failure> {
    let approved = &conversation.mcp.approved;
    let calls = approved.iter().map(|approval| match hosted {
        Some(hosted) => hosted.approved(approval),
        None => Err(not_offered(approval)),
    });
    let hosted: Vec<_> = calls.collect::<Result<_, _>>()?;
    let parts = hosted.iter().cloned().map(Part::Call).collect();
    Ok((!hosted.is_empty()).then(|| FollowUp {
        reason: Reason::Hosted,
        turns: vec![Turn::of(Role::Assistant, parts)],
        hosted,
        is_last: false,
    }))
}

fn not_offered(approval: &Approval) -> Failure {
    let Approval { server, tool, param, .. } = approval;
    let (server, tool) = (clipped(server), clipped(tool));
    refused(
        param,
        &format!(
            "approves a call of the tool `{tool}` of the MCP server `{server}`, which this request does not offer"
        ),
    )
}

fn refused(param: &str, why: &str) -> Failure {
    Failure::new(Kind::Request, format!("`{param}` {why}")).with_param(param)
}

/// Shortens a name that a client wrote, for messages.
fn clipped(name: &str) -> String {
    const SHOWN: usize = 128;
    name.chars().filter(|char| !char.is_control()).take(SHOWN).collect()
}

impl Hosted {
    fn is_of(&self, server: &str) -> Option<&ShownTool> {
        self.shown.as_deref().filter(|shown| *shown.server == *server)
    }

    /// Whether calls need the client's approval.
    pub(super) fn needs_approval(&self) -> bool {
        self.shown.as_deref().is_some_and(|shown| shown.needs_approval)
    }
}

impl ShownTool {
    /// Whether this is the tool that a history calls `name`.
    pub(super) fn is_called(&self, name: &str) -> bool {
        *self.tool == *name || mcp_tool_name(&self.server, &self.tool) == name
    }
}

impl HostedTurn {
    /// The call that the client has approved: with the arguments of the request for approval, for the tool as it is now.
    fn approved(&self, approval: &Approval) -> Result<Call, Failure> {
        let tools = || {
            self.offered_tools().filter_map(|(name, hosted)| Some((name, hosted.is_of(&approval.server)?)))
        };
        if let Some((_, shown)) = tools().next()
            && *shown.mark != *approval.mark
        {
            let why =
                "answers a request for approval that was about another `server_url`; ask the model again";
            return Err(refused(&approval.param, why));
        }
        let found = tools().find(|(_, shown)| *shown.tool == *approval.tool);
        let (name, _) = found.ok_or_else(|| not_offered(approval))?;
        Ok(Call::new(&*approval.id, name, &*approval.arguments))
    }

    /// What asks the client to approve the call. `None` if it may run without.
    pub fn approval_request(&self, call: &Call) -> Option<McpItem> {
        let shown = self.tool(&call.name)?.shown.as_deref().filter(|shown| shown.needs_approval)?;
        Some(McpItem::ApprovalRequest {
            server: shown.server.to_string(),
            tool: shown.tool.to_string(),
            arguments: match call.arguments.trim() {
                "" => "{}".to_owned(),
                _ => call.arguments.clone(),
            },
            mark: shown.mark.to_string(),
        })
    }

    /// What clients see of the tool that the model calls by this name.
    pub fn visibility_of(&self, called: &str) -> Visibility {
        let is_item = |hosted: &Hosted| hosted.shown.as_deref().is_some_and(|shown| shown.is_item);
        match self.tool(called).is_some_and(is_item) {
            true => Visibility::Items,
            false => self.visibility(),
        }
    }
}

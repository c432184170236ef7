//! What an input says about calls that need the client's approval, and about the tools of MCP servers.

use std::collections::{HashMap, HashSet};

use crate::{
    conversation::{Approval, Call, CallOutput, McpState, approval_call_id, mcp_tool_name},
    failure::Failure,
    fields::{Fields, Path, missing, wrong_value},
    responses::approval_mark,
    wire::json::{Json, Kind as JsonKind},
};

/// The approvals in an input. Only requests by toolwire count: others are for the upstream.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    /// By the id of the request.
    answers: HashMap<String, Answer>,
    /// The ids of the requests whose calls have run.
    ran: HashSet<String>,
    pub(super) state: McpState,
}

#[derive(Debug)]
struct Answer {
    approves: bool,
    reason: String,
    param: String,
}

impl Approvals {
    /// Reads all answers, which may come long after their requests.
    ///
    /// # Errors
    /// An answer to a request by toolwire cannot be understood.
    pub(super) fn read(path: &Path<'_>, input: Json<'_>) -> Result<Self, Failure> {
        let mut approvals = Self::default();
        if input.kind() != JsonKind::Array || !input.raw().contains("mcp_") {
            return Ok(approvals);
        }
        let mut requests = HashSet::new();
        for (place, item) in input.elements().enumerate() {
            let text = |key: &str| Some(item.get(key)?.as_str()?.into_owned());
            let path = Path::Element(path, place);
            match text("type").as_deref() {
                Some("mcp_approval_request") => {
                    let id = text("id").unwrap_or_default();
                    if approval_mark(&id).is_some() && requests.contains(&id) {
                        let path = Path::Member(&path, "id");
                        return Err(wrong_value(path, "is the id of two requests for approval"));
                    }
                    requests.insert(id);
                }
                Some("mcp_approval_response") => approvals.answer(path, item, &requests)?,
                Some("mcp_call") => approvals.ran.extend(text("approval_request_id")),
                Some("mcp_list_tools") if item.get("error").is_none_or(|error| error.is_null()) => {
                    approvals.state.listed.extend(text("server_label"));
                }
                _ => {}
            }
        }
        Ok(approvals)
    }

    fn answer(&mut self, path: Path<'_>, item: Json<'_>, requests: &HashSet<String>) -> Result<(), Failure> {
        let id = item.get("approval_request_id").and_then(|id| Some(id.as_str()?.into_owned()));
        let (id, at) = (id.unwrap_or_default(), Path::Member(&path, "approval_request_id"));
        let is_known = requests.contains(&id);
        if approval_mark(&id).is_none() {
            if !is_known {
                self.state.unknown.push(at.to_string());
            }
            return Ok(());
        }
        if !is_known {
            return Err(wrong_value(at, "names no `mcp_approval_request` before it in the input"));
        }
        let mut fields = Fields::new(path, item)?;
        let Some(approves) = fields.boolean("approve")? else {
            return Err(missing(fields.at("approve"), "a boolean"));
        };
        let reason = fields.string("reason")?.unwrap_or_default().into_owned();
        let at = fields.at("approval_request_id");
        if self.answers.contains_key(&id) {
            return Err(wrong_value(at, "names a request for approval that is answered already"));
        }
        let answer = Answer { approves, reason, param: at.to_string() };
        self.answers.insert(id, answer);
        Ok(())
    }

    /// Takes a request for approval. Returns its call with a result that says why it has not run, unless it is approved.
    ///
    /// # Errors
    /// The request, which the client may have written itself, lacks a field.
    pub(super) fn request(
        &mut self,
        id: &str,
        request: &mut Fields<'_, '_>,
    ) -> Result<Option<(Call, CallOutput)>, Failure> {
        let (server, tool) = (request.needed_string("server_label")?, request.needed_string("name")?);
        let arguments = request.needed_string("arguments")?;
        if self.ran.contains(id) {
            return Ok(None);
        }
        let why = match self.answers.get(id) {
            Some(Answer { approves: true, param, .. }) => {
                self.state.approved.push(Approval {
                    id: id.to_owned(),
                    server: server.into_owned(),
                    tool: tool.into_owned(),
                    arguments: arguments.into_owned(),
                    mark: approval_mark(id).unwrap_or_default().to_owned(),
                    param: param.clone(),
                });
                return Ok(None);
            }
            Some(Answer { reason, .. }) if reason.is_empty() => {
                "The user declined this call. It was not run.".to_owned()
            }
            Some(Answer { reason, .. }) => {
                format!("The user declined this call. It was not run. The user's reason: {reason}")
            }
            None => "This call was not run, since the user has not approved it.".to_owned(),
        };
        let call = Call::new(approval_call_id(id), mcp_tool_name(&server, &tool), arguments);
        let output = CallOutput { id: call.id.clone(), name: String::new(), content: why, is_error: true };
        Ok(Some((call, output)))
    }
}

/// The id of the request for approval that an item is, or answers, if it is one by toolwire.
pub(super) fn request_id(kind: &str, item: Json<'_>) -> Option<String> {
    let key = match kind {
        "mcp_approval_request" => "id",
        "mcp_approval_response" => "approval_request_id",
        _ => return None,
    };
    let id = item.get(key)?.as_str()?.into_owned();
    approval_mark(&id).is_some().then_some(id)
}

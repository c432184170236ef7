//! Makes a call, and sends it again with answers if the server asks a person.

use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, InputRequest, InputRequests, InputResponses,
        ServerResult,
    },
    service::Peer,
};

use super::{Server, Unanswered, failed, not_a_result, output};
use crate::{Output, ToolError, reports::Reports};

/// How often a server may ask a person before it returns a call's result.
const MAX_ROUNDS: usize = 8;

/// Maximum number of questions to a person at a time.
const MAX_QUESTIONS: usize = 8;

impl Server {
    /// Makes a call. `reports` receives its progress.
    pub(super) async fn call_tool(
        &self,
        peer: &Peer<RoleClient>,
        mut params: CallToolRequestParams,
        reports: &Reports,
    ) -> Result<Output, Unanswered> {
        for _ in 0..=MAX_ROUNDS {
            let mut request = CallToolRequest::new(params.clone());
            request.extensions.insert(reports.clone());
            let result = match self.answer(peer, request.into()).await {
                Err(Unanswered::Pages(error)) if self.people.open_pages(&error).await => continue,
                result => result?,
            };
            match result {
                ServerResult::InputRequiredResult(required) => {
                    params.input_responses = self.input(required.input_requests.unwrap_or_default()).await?;
                    params.request_state = required.request_state;
                }
                ServerResult::CreateTaskResult(task) => return self.await_task(peer, &task, reports).await,
                result => return result_of(result),
            }
        }
        Err(final_failure("The tool asks for input again and again.").into())
    }

    /// Asks a person what a server needs to know.
    pub(super) async fn input(&self, requests: InputRequests) -> Result<Option<InputResponses>, ToolError> {
        if requests.len() > MAX_QUESTIONS {
            return Err(final_failure("The tool asks for too much input."));
        }
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let InputRequest::Elicitation(question) = request else {
                return Err(final_failure("The tool asks for a model or for folders, which it does not get."));
            };
            let params = serde_json::to_value(&question.params).unwrap_or_default();
            let result = self.people.ask(&params).await;
            responses.insert(key, serde_json::to_value(&result).unwrap_or_default());
        }
        Ok((!responses.is_empty()).then_some(responses))
    }
}

/// The output of a call whose result is complete.
pub(super) fn result_of(result: ServerResult) -> Result<Output, Unanswered> {
    match result {
        ServerResult::CallToolResult(result) => Ok(output::of(result)),
        result if is_without_content(&result) => Ok(output::of(CallToolResult::default())),
        _ => Err(not_a_result().into()),
    }
}

/// The error for a call that cannot be completed. The tool may have run, so the call must not be retried.
pub(super) fn final_failure(message: &str) -> ToolError {
    ToolError { is_retryable: false, ..failed(message) }
}

/// Whether a call's result has no content, which its type then does not show.
fn is_without_content(result: &ServerResult) -> bool {
    match result {
        ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => true,
        ServerResult::CustomResult(result) => {
            result.0.as_object().is_some_and(|result| result.keys().all(|key| key == "_meta"))
        }
        _ => false,
    }
}


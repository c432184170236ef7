//! `/admin/prompts`: the prompts of MCP servers.

use serde_json::{Map, Value, json};

use super::{AdminError, AdminResponse, object};
use http::StatusCode;
use toolwire_execution::{ErrorCode, Execution};

pub(super) fn list(execution: Option<&Execution>) -> Value {
    let providers = execution.map(|execution| execution.registry().providers()).unwrap_or_default();
    let prompts = providers
        .iter()
        .flat_map(|(name, provider)| provider.prompts().into_iter().map(move |prompt| prompt.json(name)));
    json!({"prompts": prompts.collect::<Vec<_>>()})
}

/// Fills in a prompt.
pub(super) async fn fill(
    execution: &Execution,
    provider: &str,
    prompt: String,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let arguments = match object(body)?.remove("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(AdminError::invalid("`arguments` is an object", Some("arguments"))),
    };
    let name = provider;
    let provider = execution.provider(name).ok_or_else(|| AdminError::unknown("provider", name))?;
    // The provider's connections belong to the runtime of the execution stage.
    let filling = async move { provider.fill(&prompt, arguments).await };
    let Some(filled) = execution.runtime().run(filling).await else {
        let message = "the hosted tools were stopped";
        return Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", message));
    };
    let filled = filled.map_err(|error| match error.code() {
        ErrorCode::InvalidArguments => AdminError::invalid(error.message(), Some("arguments")),
        code => AdminError::new(StatusCode::BAD_GATEWAY, code.name(), error.message()),
    })?;
    Ok(AdminResponse::json(filled.json()))
}

//! `/admin/reload`: reloads the configuration, and reports the outcome of the last reload.

use http::StatusCode;
use serde_json::{Value, json};

use super::{AdminError, AdminResponse};
use toolwire_config::{Place, Problem};
use toolwire_gateway::reloads::{ReloadError, ReloadReason, Reloaded, Reloads};

/// Reloads the configuration.
///
/// # Errors
/// If the new configuration is invalid. The current one then stays in use.
pub(super) async fn reload(reloads: &Reloads) -> Result<AdminResponse, AdminError> {
    match reloads.reload(ReloadReason::Requested).await {
        Ok(Reloaded { generation, changed, restart_required }) => Ok(AdminResponse::json(json!({
            "generation": generation, "changed": changed, "restart_required": restart_required,
        }))),
        Err(error) => {
            let (status, code) = match &error {
                ReloadError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_configuration"),
                ReloadError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
                ReloadError::Recording => (StatusCode::CONFLICT, "recording"),
            };
            let refused = AdminError::new(status, code, error.to_string());
            Err(match &error {
                ReloadError::Invalid(problems) => refused.with("problems", shown(problems)),
                ReloadError::Stopping | ReloadError::Recording => refused,
            })
        }
    }
}

/// Reports which configuration is in use, and the problems of a newer one that failed to load.
pub(super) fn status(reloads: &Reloads) -> AdminResponse {
    let status = reloads.status();
    let failed = status.failed.map(|(at, problems)| json!({"t": at, "problems": shown(&problems)}));
    AdminResponse::json(json!({
        "generation": status.generation,
        "loaded_at": status.loaded_at,
        "restart_required": status.restart_required,
        "error": failed,
    }))
}

fn shown(problems: &[Problem]) -> Value {
    let shown = problems.iter().map(|problem| {
        let place = (problem.place != Place::Nowhere).then(|| problem.place.to_string());
        json!({"severity": problem.severity.to_string(), "where": place, "message": problem.message})
    });
    Value::Array(shown.collect())
}

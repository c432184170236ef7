//! `/admin/permissions`: open questions, their answers, and remembered rules.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{AdminError, AdminResponse, object, ok, required_switch, switch_of};
use toolwire_execution::{Answer, AnswerError, Execution, Given, NotKept, Question, RememberedRule, Scope};
use toolwire_net::store::StoreError;

/// Lists the questions and the rules, and reports whether all questions are approved automatically.
pub(super) async fn list(execution: Option<&Execution>) -> Value {
    let permissions = execution.map(Execution::permissions);
    if let Some(permissions) = permissions {
        // If the store is unreachable, the last known rules are shown.
        let _ = permissions.follow().await;
    }
    let questions = permissions.map(|permissions| permissions.questions()).unwrap_or_default();
    let rules = permissions.map(|permissions| permissions.rules()).unwrap_or_default();
    json!({
        "auto_approve": permissions.is_some_and(|permissions| permissions.auto_approve()),
        "questions": questions.iter().map(Question::json).collect::<Vec<_>>(),
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(rule: &RememberedRule) -> Value {
    let RememberedRule { id, tool, domain, granted, granted_at, last_used, use_count, definition: _ } = rule;
    json!({
        "id": id, "tool": tool, "domain": domain, "scope": if domain.is_some() { "domain" } else { "global" },
        "granted": granted, "granted_at": granted_at, "last_used": last_used, "use_count": use_count,
    })
}

/// Answers a question. Only its first answer counts.
pub(super) async fn answer(
    execution: &Execution,
    id: &str,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let object = object(body)?;
    if object.contains_key("action") {
        return give(execution, id, &object);
    }
    let scope = match object.get("scope").map(Value::as_str) {
        None | Some(Some("global")) => Scope::Global,
        Some(Some("domain")) => Scope::Domain,
        Some(_) => return Err(AdminError::invalid("`scope` is \"global\" or \"domain\"", Some("scope"))),
    };
    let answer = Answer {
        granted: required_switch(&object, "granted")?,
        remember: switch_of(&object, "remember")?.unwrap_or(false),
        scope,
    };
    match execution.permissions().answer(id, answer).await {
        Ok(kept) => Ok(AdminResponse::json(
            kept.map_err(|error| match error {
                NotKept::Unwritten => not_kept(error),
                NotKept::Away(error) => {
                    store_away("the answer counts for this call, but it is not remembered", &error)
                }
            })?
            .json(),
        )),
        Err(error) => Err(unanswered(error, id)),
    }
}

/// Answers a question for input.
fn give(execution: &Execution, id: &str, object: &Map<String, Value>) -> Result<AdminResponse, AdminError> {
    let given = match (object.get("action").and_then(Value::as_str), object.get("content")) {
        (Some("accept"), None) => Given::Accepted(Map::new()),
        (Some("accept"), Some(Value::Object(values))) => Given::Accepted(values.clone()),
        (Some("accept"), Some(_)) => {
            return Err(AdminError::invalid("`content` is an object", Some("content")));
        }
        (Some("decline"), _) => Given::Declined,
        (Some("cancel"), _) => Given::Dismissed,
        _ => {
            let message = "`action` is \"accept\", \"decline\" or \"cancel\"";
            return Err(AdminError::invalid(message, Some("action")));
        }
    };
    let settled = execution.permissions().give(id, given).map_err(|error| unanswered(error, id))?;
    Ok(AdminResponse::json(settled.json()))
}

fn unanswered(error: AnswerError, id: &str) -> AdminError {
    match error {
        AnswerError::Unknown => AdminError::unknown("question", id),
        AnswerError::Late(winner) => {
            let message = "the question was answered before";
            AdminError::new(StatusCode::CONFLICT, "already_answered", message).with("winner", winner.json())
        }
        AnswerError::NoDomain => {
            AdminError::invalid("this call addresses no domain; its scope is \"global\"", Some("scope"))
        }
        AnswerError::Mismatched => {
            let message = "a question for input is answered with `action`, and any other with `granted`";
            AdminError::invalid(message, None)
        }
        AnswerError::Invalid(fault) => {
            AdminError::invalid(format!("the values do not match the form: {fault}"), Some("content"))
        }
    }
}

/// Extends a question's deadline.
pub(super) fn extend(execution: &Execution, id: &str) -> Result<AdminResponse, AdminError> {
    let expires =
        execution.permissions().extend(id).ok_or_else(|| AdminError::unknown("open question", id))?;
    Ok(AdminResponse::json(json!({"request_id": id, "expires_at": expires})))
}

pub(super) async fn revoke(execution: &Execution, id: &str) -> Result<AdminResponse, AdminError> {
    match execution.permissions().revoke(id).await.map_err(not_kept)? {
        true => Ok(AdminResponse::nothing()),
        false => Err(AdminError::unknown("rule", id)),
    }
}

pub(super) async fn auto_approve(execution: &Execution, body: &[u8]) -> Result<AdminResponse, AdminError> {
    let enabled = required_switch(&object(body)?, "enabled")?;
    execution.permissions().set_auto_approve(enabled).await.map_err(not_kept)?;
    tracing::warn!(enabled, "automatic approval of hosted calls was switched");
    Ok(AdminResponse::json(json!({"enabled": enabled})))
}

/// Adds a rule for each tool, so that all of them may run.
pub(super) async fn allow_all(execution: &Execution) -> Result<AdminResponse, AdminError> {
    let snapshot = execution.registry().snapshot();
    let tools: Vec<_> = snapshot.tools().iter().map(|tool| tool.name.clone()).collect();
    execution.permissions().allow_all(&tools).await.map_err(not_kept)?;
    tracing::warn!("all hosted tools were allowed");
    Ok(ok())
}

/// Converts the error of a change that could not be stored. A change is confirmed only once it is stored, because a
/// revoked rule must not come back after a crash.
fn not_kept(error: NotKept) -> AdminError {
    match error {
        NotKept::Unwritten => {
            let message = "the change is in effect, but it could not be written, so a restart undoes it";
            AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", message)
        }
        NotKept::Away(error) => store_away("the change is not confirmed", &error),
    }
}

fn store_away(what: &str, error: &StoreError) -> AdminError {
    tracing::warn!(%error, "permissions could not be changed");
    let message = format!("{what}: the store that instances share cannot be reached; try again");
    AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
}

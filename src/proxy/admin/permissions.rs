//! `/admin/permissions`: open questions, their answers, and remembered rules.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{AdminError, Said, object, ok, required_switch, switch_of};
use crate::execute::{Answer, AnswerError, Execution, Question, RememberedRule, Scope};

/// Questions, rules, and whether all questions are answered with yes.
pub(super) fn list(execution: Option<&Execution>) -> Value {
    let permissions = execution.map(Execution::permissions);
    let questions = permissions.map(|permissions| permissions.questions()).unwrap_or_default();
    let rules = permissions.map(|permissions| permissions.rules()).unwrap_or_default();
    json!({
        "auto_approve": permissions.is_some_and(|permissions| permissions.auto_approve()),
        "questions": questions.iter().map(Question::json).collect::<Vec<_>>(),
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(rule: &RememberedRule) -> Value {
    let RememberedRule { id, tool, domain, granted, granted_at, last_used, use_count } = rule;
    json!({
        "id": id, "tool": tool, "domain": domain, "scope": if domain.is_some() { "domain" } else { "global" },
        "granted": granted, "granted_at": granted_at, "last_used": last_used, "use_count": use_count,
    })
}

/// Answers a question. The first answer counts.
pub(super) async fn answer(execution: &Execution, id: &str, body: &[u8]) -> Result<Said, AdminError> {
    let object = object(body)?;
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
    match execution.permissions().answer(id, answer) {
        Ok(settled) => {
            saved(execution).await?;
            Ok(Said::json(settled.json()))
        }
        Err(AnswerError::Unknown) => Err(AdminError::unknown("question", id)),
        Err(AnswerError::Late(winner)) => {
            let message = "the question was answered before";
            Err(AdminError::new(StatusCode::CONFLICT, "already_answered", message)
                .with("winner", winner.json()))
        }
        Err(AnswerError::NoDomain) => {
            Err(AdminError::invalid("this call addresses no domain; its scope is \"global\"", Some("scope")))
        }
    }
}

/// Gives a question more time.
pub(super) fn extend(execution: &Execution, id: &str) -> Result<Said, AdminError> {
    let expires =
        execution.permissions().extend(id).ok_or_else(|| AdminError::unknown("open question", id))?;
    Ok(Said::json(json!({"request_id": id, "expires_at": expires})))
}

/// Forgets a remembered rule.
pub(super) async fn revoke(execution: &Execution, id: &str) -> Result<Said, AdminError> {
    if !execution.permissions().revoke(id) {
        return Err(AdminError::unknown("rule", id));
    }
    saved(execution).await?;
    Ok(Said::nothing())
}

/// Sets whether all questions are answered with yes.
pub(super) async fn auto_approve(execution: &Execution, body: &[u8]) -> Result<Said, AdminError> {
    let enabled = required_switch(&object(body)?, "enabled")?;
    execution.permissions().set_auto_approve(enabled);
    tracing::warn!(enabled, "automatic approval of hosted calls was switched");
    saved(execution).await?;
    Ok(Said::json(json!({"enabled": enabled})))
}

/// Remembers that all tools may run.
pub(super) async fn allow_all(execution: &Execution) -> Result<Said, AdminError> {
    let snapshot = execution.registry().snapshot();
    execution.permissions().allow_all(snapshot.tools().iter().map(|tool| tool.name.clone()));
    tracing::warn!("all hosted tools were allowed");
    saved(execution).await?;
    Ok(ok())
}

/// Writes the change before it is confirmed: what was revoked must not be back after a crash.
async fn saved(execution: &Execution) -> Result<(), AdminError> {
    let permissions = Arc::clone(execution.permissions());
    match tokio::task::spawn_blocking(move || permissions.save()).await {
        Ok(Ok(())) => Ok(()),
        _ => {
            let message = "the change is in effect, but it could not be written, so a restart undoes it";
            Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", message))
        }
    }
}

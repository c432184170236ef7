//! `/admin/tools` and `/admin/providers`: lists, switches, runs and tests tools and providers.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{AdminError, AdminResponse, logins, object, ok, required_switch};
use toolwire_execution::{Asker, Execution, Hosted, Injection, Permission, Registrations, Verdict};
use toolwire_gateway::observe::Metrics;
use toolwire_net::store::Owner;
use toolwire_pipeline::conversation::{Call, CallOutput};

const MAX_TEST: Duration = Duration::from_secs(20);

pub(super) fn list(execution: Option<&Execution>, metrics: &Metrics) -> Value {
    let Some(execution) = execution else {
        return json!({"execution": false, "tools": [], "providers": []});
    };
    let snapshot = execution.registry().snapshot();
    let tools: Vec<_> = snapshot.tools().iter().map(|own| tool(execution, metrics, own)).collect();
    let providers = execution.registry().providers().iter().map(|(name, provider)| {
        let tools = snapshot.tools().iter().filter(|tool| tool.provider_name == *name).count();
        let entry = execution.settings().providers.iter().find(|entry| *entry.name == **name);
        let kind = entry.map(|entry| entry.options.kind());
        let status = provider.status();
        let mut shown = json!({
            "name": **name, "kind": kind, "tools": tools, "state": status.state.name(), "reason": status.reason,
        });
        let registrations = provider.clone().registrations();
        if let (Some(shown), Some(registrations)) = (shown.as_object_mut(), registrations) {
            shown.insert("registrations".to_owned(), programs(&registrations));
        }
        let account = provider.account(None).filter(|account| account.wants_person());
        if let (Some(shown), Some(account)) = (shown.as_object_mut(), account) {
            match account.is_per_key() {
                true => shown.insert("logins".to_owned(), logins::of_keys(&**provider, &account)),
                false => shown.insert("login".to_owned(), logins::shown(&account)),
            };
        }
        shown
    });
    json!({"execution": true, "tools": tools, "providers": providers.collect::<Vec<_>>()})
}

fn programs(registrations: &Registrations) -> Value {
    let list = registrations.list().into_iter();
    list.map(|(id, label, tools)| json!({"id": id, "label": label, "tools": tools})).collect()
}

fn tool(execution: &Execution, metrics: &Metrics, tool: &Hosted) -> Value {
    let Hosted { name, spec, provider_name, rules, is_enabled, .. } = tool;
    let permission = execution.permissions().of_tool(name, &tool.aliases);
    json!({
        "name": **name,
        "origin_name": spec.name,
        "aliases": spec.aliases,
        "label": spec.label,
        "description": spec.description,
        "parameters": spec.parameters.view().to_value(),
        "provider": **provider_name,
        "enabled": is_enabled,
        "injection": match rules.injection {
            Injection::Force => "force",
            Injection::Selective => "selective",
            Injection::Off => "off",
        },
        "permission": match permission {
            Permission::Allow => "allow",
            Permission::Ask => "ask",
            Permission::Deny => "deny",
        },
        "idempotent": spec.is_idempotent,
        "timeout_ms": millis(spec.timeout),
        "cache_ttl_ms": rules.cache.ttl(spec.is_idempotent).map(millis),
        "figures": metrics.hosted_figures().of(name),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn switch(execution: &Execution, name: &str, body: &[u8]) -> Result<AdminResponse, AdminError> {
    let enabled = required_switch(&object(body)?, "enabled")?;
    if !execution.registry().set_enabled(name, enabled) {
        return Err(AdminError::unknown("hosted tool", name));
    }
    tracing::info!(tool = name, enabled, "a hosted tool was switched");
    Ok(AdminResponse::json(json!({"name": name, "enabled": enabled})))
}

/// Runs a tool, under the same rules as for a model's call.
pub(super) async fn run(
    execution: &Arc<Execution>,
    name: &str,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let mut object = object(body)?;
    let input = match object.remove("input") {
        None | Some(Value::Null) => json!({}),
        Some(input @ Value::Object(_)) => input,
        Some(_) => return Err(AdminError::invalid("`input` is an object: the arguments", Some("input"))),
    };
    if execution.registry().snapshot().find(name).is_none() {
        return Err(AdminError::unknown("hosted tool", name));
    }
    let id = format!("run_{:016x}", fastrand::u64(..));
    let asker = Asker {
        owner: Owner::default(),
        client: None,
        payer: None,
        model: "".into(),
        exchange: id.as_str().into(),
        describer: None,
    };
    let turn = Arc::new(execution.by_hand(asker));
    let begun = Instant::now();
    let (name_of, arguments) = (name.to_owned(), input.to_string());
    let call = Call { id: id.clone(), name: name_of, arguments, signature: None };
    let ran = turn.run(vec![call]).await.pop().ok_or_else(|| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the tool has no result")
    })?;
    let CallOutput { content, is_error, .. } = ran.output;
    let content = serde_json::from_str(&content).unwrap_or(Value::String(content));
    let mut said =
        json!({"id": id, "tool": name, "ok": !is_error, "result": content, "ms": millis(begun.elapsed())});
    if let (Value::Object(said), false) = (&mut said, ran.details.is_null()) {
        said.insert("details".to_owned(), ran.details);
    }
    Ok(AdminResponse::json(said))
}

/// Cancels a running call. The model gets a result that says so.
pub(super) fn cancel(execution: &Execution, exchange: &str, id: &str) -> Result<AdminResponse, AdminError> {
    match execution.cancels().cancel(exchange, id) {
        true => Ok(AdminResponse::nothing()),
        false => Err(AdminError::unknown("running call", id)),
    }
}

/// Tests whether a provider can be used with `api_key`, or with the configured key if there is none.
pub(super) async fn test(
    execution: &Execution,
    name: &str,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let key = match object(body)?.get("api_key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if !key.is_empty() => Some(SecretString::from(key.as_str())),
        Some(_) => return Err(AdminError::invalid("`api_key` is a key", Some("api_key"))),
    };
    let provider = execution.provider(name).ok_or_else(|| AdminError::unknown("provider", name))?;
    // The provider's connections belong to the runtime of the execution stage.
    let testing = async move { timeout(MAX_TEST, provider.test(key.as_ref())).await };
    let tested = execution.runtime().run(testing).await;
    let verdict = match tested.unwrap_or(Ok(None)).unwrap_or(Some(Verdict::Unreachable)) {
        Some(Verdict::Valid) => "valid",
        Some(Verdict::Invalid) => "invalid",
        Some(Verdict::Unreachable) => "unreachable",
        Some(Verdict::RateLimited) => "rate_limited",
        None => {
            let message = "a provider of this kind has nothing to test";
            return Err(AdminError::new(StatusCode::CONFLICT, "not_testable", message));
        }
    };
    Ok(AdminResponse::json(json!({"provider": name, "verdict": verdict})))
}

pub(super) fn restart(execution: &Execution, name: &str) -> Result<AdminResponse, AdminError> {
    let provider = execution.provider(name).ok_or_else(|| AdminError::unknown("provider", name))?;
    if provider.restart() {
        tracing::info!(provider = name, "a provider is restarted");
        return Ok(ok());
    }
    let message = "a provider of this kind has no process to restart";
    Err(AdminError::new(StatusCode::CONFLICT, "not_restartable", message))
}

/// Returns the recent log lines of a provider's server.
pub(super) fn log(execution: &Execution, name: &str) -> Result<AdminResponse, AdminError> {
    let provider = execution.provider(name).ok_or_else(|| AdminError::unknown("provider", name))?;
    let lines: Vec<_> =
        provider.status().stderr.iter().map(|line| execution.audit().redacted(line)).collect();
    Ok(AdminResponse::json(json!({"provider": name, "lines": lines})))
}

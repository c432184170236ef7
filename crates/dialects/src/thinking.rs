//! Detects whether a client turns the model's thinking on or off with `thinking`, a field of Anthropic's API and of
//! some Chat Completions servers, or with `think` of Ollama's, for upstreams that have other fields for it.

use serde_json::Value;

use super::Dialect;
use crate::{conversation::Conversation, model_facts::takes_effort};

/// Whether `thinking` turns thinking off in a request of a dialect other than `own`.
pub(super) fn is_off(conversation: &Conversation, own: Dialect) -> bool {
    let clients = [Dialect::Messages, Dialect::Chat].into_iter().filter(|client| *client != own);
    let mut rest = clients.filter_map(|client| conversation.rest.from_dialect(client.name()));
    let is_off = rest.any(|rest| {
        rest.get("thinking").and_then(|thinking| thinking.get("type")?.as_str()) == Some("disabled")
    });
    is_off
        || gemini_budget(conversation, own) == Some(0)
        || own != Dialect::Ollama && switch(conversation) == Some(false)
}

/// The `thinkingBudget` in a request of Gemini's API, unless that is the dialect `own`. A negative one lets the model
/// decide.
fn gemini_budget(conversation: &Conversation, own: Dialect) -> Option<i64> {
    let rest = conversation.rest.from_dialect(Dialect::Gemini.name()).filter(|_| own != Dialect::Gemini)?;
    let thinking = rest.get("generationConfig")?.get("thinkingConfig")?;
    thinking.get("thinkingBudget").or_else(|| thinking.get("thinking_budget"))?.as_i64()
}

/// The effort for which `thinking` asks in a request of a dialect other than `own`, if it turns thinking on and the
/// request names no effort.
pub(super) fn asked_effort(conversation: &Conversation, own: Dialect) -> Option<&'static str> {
    if let Some(budget) = gemini_budget(conversation, own) {
        let budget = u64::try_from(budget).ok().filter(|budget| *budget > 0)?;
        return Some(effort_of(Some(budget))).filter(|_| conversation.sampling.reasoning_effort.is_none());
    }
    if own != Dialect::Ollama && switch(conversation) == Some(true) {
        return Some("medium");
    }
    let clients = [Dialect::Messages, Dialect::Chat].into_iter().filter(|client| *client != own);
    let mut rest = clients.filter_map(|client| conversation.rest.from_dialect(client.name()));
    let thinking = rest
        .find_map(|rest| rest.get("thinking"))
        .filter(|_| conversation.sampling.reasoning_effort.is_none())?;
    let is_on = matches!(thinking.get("type")?.as_str()?, "enabled" | "adaptive" | "between_tools");
    is_on.then(|| effort_of(thinking.get("budget_tokens").and_then(Value::as_u64)))
}

/// The effort for a budget in tokens, as efforts become budgets where only those exist.
fn effort_of(budget: Option<u64>) -> &'static str {
    match budget {
        Some(..4096) => "low",
        None | Some(..16_384) => "medium",
        Some(_) => "high",
    }
}

/// Removes `thinking` from the fields that are reported as dropped, if what it says is sent in another field.
pub(super) fn tell_carried(conversation: &Conversation, dropped: &mut Vec<String>) {
    let is_in_effort = conversation.sampling.reasoning_effort.is_some();
    if is_in_effort || is_off(conversation, Dialect::Gemini) {
        dropped.retain(|field| field != "thinking" && field != THINK);
    }
}

/// The switch of Ollama's API.
const THINK: &str = "think";

/// Whether a request of Ollama's API turns thinking on or off.
fn switch(conversation: &Conversation) -> Option<bool> {
    conversation.rest.from_dialect(Dialect::Ollama.name())?.get(THINK)?.as_bool()
}

/// Whether an OpenAI model accepts the effort `none`.
pub(super) fn takes_none(model: &str) -> bool {
    takes_effort(model, "none")
}

/// The effort for a model of Google's in a request of the dialect `own`.
pub(super) fn gemini_effort<'c>(
    conversation: &'c Conversation,
    model: &str,
    own: Dialect,
) -> Option<&'c str> {
    let can_be_off = gemini_can_be_off(model);
    if can_be_off && is_off(conversation, own) {
        return Some("none");
    }
    // Some of these models do not think unless they are asked to.
    let asked = || asked_effort(conversation, own).filter(|_| can_be_off);
    conversation.sampling.reasoning_effort.as_deref().or_else(asked)
}

/// Like [`tell_carried`], for a model of Google's in a request of the dialect `own`.
pub(super) fn tell_carried_to_gemini(
    conversation: &Conversation,
    model: &str,
    own: Dialect,
    dropped: &mut Vec<String>,
) {
    if gemini_can_be_off(model) {
        tell_carried(conversation, dropped);
        if asked_effort(conversation, own).is_some() {
            dropped.retain(|field| field != "thinking");
        }
    }
}

fn gemini_can_be_off(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    model.contains("flash") && !["gemini-1", "gemini-2.0"].iter().any(|older| model.contains(older))
}

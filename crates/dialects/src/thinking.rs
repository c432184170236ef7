//! Detects whether a client turns the model's thinking off with `thinking`, a field of Anthropic's API and of
//! some Chat Completions servers, for upstreams that have other fields for it.

use super::Dialect;
use crate::conversation::Conversation;

/// Whether `thinking` turns thinking off in a request of a dialect other than `own`.
pub(super) fn is_off(conversation: &Conversation, own: Dialect) -> bool {
    let clients = [Dialect::Messages, Dialect::Chat].into_iter().filter(|client| *client != own);
    let mut rest = clients.filter_map(|client| conversation.rest.from_dialect(client.name()));
    rest.any(|rest| {
        rest.get("thinking").and_then(|thinking| thinking.get("type")?.as_str()) == Some("disabled")
    })
}

/// Removes `thinking` from the fields that are reported as dropped, if what it says is sent in another field.
pub(super) fn tell_carried(conversation: &Conversation, dropped: &mut Vec<String>) {
    if is_off(conversation, Dialect::Gemini) {
        dropped.retain(|field| field != "thinking");
    }
}

/// Whether an OpenAI model accepts the effort `none`. GPT-5.1 and later models do, except for the large
/// models and the models for code (docs/protocols/responses.md#upstreams).
pub(super) fn takes_none(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let Some((_, version)) = model.rsplit_once("gpt-5.") else { return false };
    let is_numbered = version.starts_with(|char: char| char.is_ascii_digit() && char != '0');
    is_numbered && !["codex", "pro", "chat"].iter().any(|kind| version.contains(kind))
}

pub(super) fn gemini_can_be_off(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    model.contains("flash") && !["gemini-1", "gemini-2.0"].iter().any(|older| model.contains(older))
}

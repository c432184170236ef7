//! Finds out which API there is at a URL, and below which path, for people who give nothing but the URL.

use std::time::Duration;

use http::{StatusCode, Uri};
use serde_json::Value;

use super::MAX_BODY;
use crate::{catalogue, upstream::Get, upstream::GetError};
use toolwire_config::Upstream;
use toolwire_pipeline::dialect::Dialect;

/// Time limit for each request.
const LIMIT: Duration = Duration::from_secs(5);

/// Providers whose API is known, with the path of its base URL.
const PROVIDERS: [(&str, Dialect, &str); 4] = [
    ("api.anthropic.com", Dialect::Messages, "/v1"),
    ("generativelanguage.googleapis.com", Dialect::Gemini, "/v1beta"),
    ("lumo.proton.me", Dialect::Lumo, "/api"),
    ("api.openai.com", Dialect::Chat, "/v1"),
];

/// An API at a base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundUpstream {
    pub dialect: Dialect,
    pub base_url: String,
}

/// Asks the server of `upstream`, whose dialect is not known, for what only one API has. Chat Completions if it says
/// nothing that is known.
pub async fn find_upstream(upstream: &Upstream) -> FoundUpstream {
    let given = upstream.base_url.to_string();
    let given = given.trim_end_matches('/');
    let path = upstream.base_url.path().trim_end_matches('/');
    let root = given.strip_suffix(path).unwrap_or(given);
    let is_bare = path.is_empty();
    let found = |dialect, base_url: String| FoundUpstream { dialect, base_url };
    let provider = PROVIDERS.iter().find(|(host, ..)| upstream.base_url.host() == Some(*host));
    if let Some((_, dialect, own)) = provider {
        return found(*dialect, if is_bare { format!("{root}{own}") } else { given.to_owned() });
    }
    let usual = || found(Dialect::Chat, if is_bare { format!("{root}/v1") } else { given.to_owned() });
    let Ok(get) = Get::new(upstream, LIMIT, MAX_BODY) else { return usual() };
    let ask = async |address: String| match address.parse::<Uri>() {
        Ok(address) => get.fetch(address).await,
        Err(_) => Err(GetError::Status(StatusCode::NOT_FOUND)),
    };
    // Open WebUI has a version, and llama.cpp a list of tags, but only Ollama has both.
    match ask(format!("{given}/api/version")).await {
        Ok(version) if has(&version, "version") => {
            let tags = ask(format!("{given}/api/tags")).await;
            if tags.is_ok_and(|tags| has(&tags, "models")) {
                return found(Dialect::Ollama, given.to_owned());
            }
        }
        Err(GetError::NoAnswer(_)) => return usual(),
        _ => {}
    }
    let ends: &[&str] = if is_bare { &["/v1", "", "/v1beta", "/api/v1", "/openai/v1"] } else { &["", "/v1"] };
    for end in ends {
        if let Ok(list) = ask(format!("{given}{end}/models")).await
            && let Some(dialect) = dialect_of(&list)
        {
            return found(dialect, format!("{given}{end}"));
        }
    }
    usual()
}

/// Whether this is a JSON object with the member.
fn has(body: &[u8], member: &str) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body.get(member).is_some())
}

/// The API whose list of models this is.
fn dialect_of(list: &[u8]) -> Option<Dialect> {
    let body: Value = serde_json::from_slice(list).ok()?;
    let is_google = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("models/"));
    if body.pointer("/models/0/name").is_some_and(is_google) {
        return Some(Dialect::Gemini);
    }
    if body.get("has_more").is_some() && body.get("first_id").is_some() && body.get("object").is_none() {
        return Some(Dialect::Messages);
    }
    catalogue::read(list, Dialect::Chat).is_ok().then_some(Dialect::Chat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_models_tell_the_api() {
        for (list, dialect) in [
            (r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#, Some(Dialect::Chat)),
            (
                r#"{"data":[{"type":"model","id":"m"}],"has_more":false,"first_id":"m"}"#,
                Some(Dialect::Messages),
            ),
            (r#"{"models":[{"name":"models/gemini-flash"}]}"#, Some(Dialect::Gemini)),
            ("<html>", None),
            ("{}", None),
        ] {
            assert_eq!(dialect_of(list.as_bytes()), dialect, "{list}");
        }
    }
}

//! [`Probe`]: a small request that reveals which software an upstream runs.

use super::server::Server;
use crate::wire::json::Json;

/// A request without a body to a path that only one kind of server has, or to which each kind of server
/// responds differently.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The path, without a leading slash.
    pub path: &'static str,
    /// The URL to which the path is relative.
    pub root: Root,
    /// Returns the server that this response identifies, if any.
    recognise: fn(&Json<'_>) -> Option<Server>,
}

/// The URL to which a probe's path is relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The upstream's base URL.
    Base,
    /// The base URL without a trailing `/v1`.
    Server,
}

/// Where a server shows the chat templates of its models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateSource {
    /// llama-server's `GET /props`.
    Props,
    /// Ollama's `POST /api/show`.
    Show,
}

impl TemplateSource {
    /// The path under the server's root, without a leading slash.
    pub fn path(self) -> &'static str {
        match self {
            Self::Props => "props",
            Self::Show => "api/show",
        }
    }
}

/// The probes, in the order in which they are tried (docs/protocols/enforcement.md#who-answers). The first
/// probe identifies the most servers.
pub(super) static PROBES: [Probe; 6] = [
    Probe { path: "models", root: Root::Base, recognise: by_owner },
    Probe { path: "props", root: Root::Server, recognise: llama_cpp },
    Probe { path: "api/version", root: Root::Server, recognise: ollama },
    Probe { path: "info", root: Root::Server, recognise: tgi },
    Probe { path: "api/v0/models", root: Root::Server, recognise: lm_studio },
    Probe { path: "openapi.json", root: Root::Server, recognise: llama_cpp_python },
];

impl Probe {
    /// The server that `body` identifies, if any.
    pub(super) fn server(&self, body: &[u8]) -> Option<Server> {
        (self.recognise)(&Json::parse_bytes(body).ok()?)
    }
}

fn is_text(json: &Json<'_>, key: &str) -> bool {
    json.get(key).is_some_and(|value| value.string_body().is_some())
}

fn first_model<'a>(list: &Json<'a>) -> Option<Json<'a>> {
    list.get("data")?.elements().next()
}

fn by_owner(list: &Json<'_>) -> Option<Server> {
    match &*first_model(list)?.get("owned_by")?.as_str()? {
        "vllm" => Some(Server::Vllm),
        "sglang" => Some(Server::Sglang),
        "llamacpp" => Some(Server::LlamaCpp),
        _ => None,
    }
}

fn llama_cpp(props: &Json<'_>) -> Option<Server> {
    (is_text(props, "build_info") && props.get("default_generation_settings").is_some())
        .then_some(Server::LlamaCpp)
}

/// The response contains only the version.
fn ollama(version: &Json<'_>) -> Option<Server> {
    (is_text(version, "version") && version.members().count() == 1).then_some(Server::Ollama)
}

fn tgi(info: &Json<'_>) -> Option<Server> {
    let has = |key: &str| info.get(key).is_some();
    (is_text(info, "model_id") && is_text(info, "version") && has("max_total_tokens")).then_some(Server::Tgi)
}

fn lm_studio(list: &Json<'_>) -> Option<Server> {
    let model = first_model(list)?;
    (is_text(&model, "arch") && is_text(&model, "state")).then_some(Server::LmStudio)
}

fn llama_cpp_python(description: &Json<'_>) -> Option<Server> {
    description.get("paths")?.get("/extras/tokenize").map(|_| Server::LlamaCppPython)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(body: &str) -> Vec<(&'static str, Server)> {
        let of = |probe: &Probe| Some((probe.path, probe.server(body.as_bytes())?));
        PROBES.iter().filter_map(of).collect()
    }

    #[test]
    fn servers_are_recognised_by_their_answers() {
        for (body, path, server) in [
            (
                r#"{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":8192}]}"#,
                "models",
                Server::Vllm,
            ),
            (r#"{"data":[{"id":"m","owned_by":"sglang"}]}"#, "models", Server::Sglang),
            (
                r#"{"models":[],"data":[{"id":"m","owned_by":"llamacpp","meta":{}}]}"#,
                "models",
                Server::LlamaCpp,
            ),
            (
                r#"{"build_info":"b9554-abc","default_generation_settings":{},"total_slots":1}"#,
                "props",
                Server::LlamaCpp,
            ),
            (r#"{"version":"0.12.3"}"#, "api/version", Server::Ollama),
            (
                r#"{"model_id":"m","version":"3.3.7","max_total_tokens":2048,"docker_label":null}"#,
                "info",
                Server::Tgi,
            ),
            (r#"{"data":[{"id":"m","arch":"llama","state":"loaded"}]}"#, "api/v0/models", Server::LmStudio),
            (
                r#"{"info":{"title":"x"},"paths":{"/extras/tokenize":{}}}"#,
                "openapi.json",
                Server::LlamaCppPython,
            ),
        ] {
            assert_eq!(recognised(body), [(path, server)], "{body}");
        }
    }

    #[test]
    fn other_answers_show_nothing() {
        let deep = format!("{{\"data\":{}", "[".repeat(100_000));
        for body in [
            "",
            "null",
            "7",
            "[]",
            "{}",
            "<html>",
            "\u{0}",
            r#"{"data":[]}"#,
            r#"{"data":{}}"#,
            r#"{"data":[7]}"#,
            r#"{"data":[{"owned_by":"openai"}]}"#,
            r#"{"data":[{"owned_by":["vllm"]}]}"#,
            r#"{"version":3}"#,
            r#"{"version":"0.9","sha":"x"}"#,
            r#"{"error":{"message":"vllm"}}"#,
            r#"{"paths":["/extras/tokenize"]}"#,
            &deep,
        ] {
            assert_eq!(recognised(body), [], "{body:.40}");
        }
        assert_eq!(PROBES[0].server(b"{\"data\":[{\"owned_by\":\"vllm\xff\"}]}"), None);
    }
}

//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::json;

use super::{ReaderSettings, request};
use crate::{
    Dialect, File, Probe, Reader, ReaderRules, Source, UpstreamRequest, UpstreamSide,
    conversation::{Conversation, Part, WantsBack},
    failure::Failure,
    fit::{is_http, part_of},
    media::data_url,
    refusal::refusal,
    server::Server,
    settings::Settings,
};

/// How to write requests to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// let the upstream store responses too
    pub store: bool,
    /// request `reasoning.encrypted_content`, which goes back with the next request; `false` for servers that
    /// reject it
    #[setting(default = true)]
    pub include_reasoning: bool,
    /// the server's software, as in `[upstreams.chat]`: toolwire runs [searches for tools](tools.md) for known
    /// servers that do not, and [namespaces and plain reasoning](dialects.md) go to those that read them
    #[setting(default = Server::Unknown, or = "by the host, else `\"auto\"`", word)]
    pub server: Server,
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Responses
    }

    fn adapt_to_host(&mut self, host: &str) {
        self.server = Server::at_host(host);
    }

    fn path(&self) -> &'static str {
        "responses"
    }

    fn file_part(&self, file: &File) -> Option<Part> {
        let is_image = file.mime.starts_with("image/");
        let value = match &file.source {
            Source::Data(_) => file.recording().or_else(|| {
                let data = file.data_url()?;
                Some(json!({"type": "input_file", "filename": file.name_or_kind(), "file_data": data}))
            })?,
            Source::Url(_) => json!({"type": "input_file", "file_url": file.http_url()?}),
            Source::Id { id, owner: Dialect::Chat | Dialect::Responses }
                if is_image || file.mime.is_empty() =>
            {
                json!({"type": if is_image { "input_image" } else { "input_file" }, "file_id": id})
            }
            Source::Id { .. } => return None,
        };
        Some(part_of(Dialect::Responses, value))
    }

    fn takes_image(&self, url: &str) -> bool {
        is_http(url) || data_url(url).is_some()
    }

    fn takes_reasoning_alone(&self) -> bool {
        true
    }

    fn takes_betas(&self) -> bool {
        true
    }

    fn openai_base(&self) -> Option<&'static str> {
        Some("")
    }

    fn models_path(&self) -> Option<&'static str> {
        Some("models")
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Responses(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
            verbatim: rules.client == Dialect::Responses,
        }))
    }

    fn enable_search(&mut self, conversation: &mut Conversation) {
        conversation.rest.add_tool(Dialect::Responses.name(), json!({"type": "web_search"}));
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn wants_back(&self) -> WantsBack {
        WantsBack::Signatures
    }

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        self.server.identify(probe, body)
    }

    fn separates_reasoning(&self) -> bool {
        self.server == Server::OpenAi
    }

    fn searches_tools(&self) -> Option<bool> {
        self.server.searches_tools()
    }

    fn gives_choices(&self) -> bool {
        false
    }
}

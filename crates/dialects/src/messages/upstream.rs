//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::json;

use super::{ReaderSettings, request};
use crate::{
    Dialect, File, KeyHeader, Observed, Probe, Reader, ReaderRules, Source, UpstreamRequest, UpstreamSide,
    conversation::{Conversation, Part, WantsBack},
    enforce::Means,
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
    /// the limit if the client gives none: the API requires one
    #[setting(default = 8192)]
    pub max_tokens: usize,
    /// move later system messages into `system`; `"keep"` leaves them, for models that accept them in place
    #[setting(word)]
    pub later_system: LaterSystem,
    /// send `reasoning_effort` as `output_config.effort`; `"thinking"` as a budget, for older models;
    /// `"drop"` not at all
    #[setting(word)]
    pub effort: Effort,
    /// send the `anthropic-beta` of clients; `false` for servers that reject unknown names
    #[setting(default = true)]
    pub client_betas: bool,
    /// the server's software, as in `[upstreams.chat]`: toolwire runs [searches for tools](tools.md) for known
    /// servers that do not
    #[setting(default = Server::Unknown, or = "by the host, else `\"auto\"`", word)]
    pub server: Server,
}

/// What to do with system messages that follow other messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LaterSystem {
    /// Move them to the top, into `system`.
    #[default]
    Hoist,
    /// Leave them in place, where newer models accept the role `system`.
    Keep,
}

/// How to express `reasoning_effort`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Effort {
    /// As `output_config.effort`.
    #[default]
    OutputConfig,
    /// As a budget in `thinking`, for models older than `output_config.effort`.
    Thinking,
    /// Not at all.
    Drop,
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Messages
    }

    fn adapt_to_host(&mut self, host: &str) {
        self.server = Server::at_host(host);
    }

    fn path(&self) -> &'static str {
        "messages"
    }

    fn file_part(&self, file: &File) -> Option<Part> {
        let source = match (&file.source, file.mime.as_str()) {
            (Source::Data(data), "application/pdf") => {
                json!({"type": "base64", "media_type": file.mime, "data": data})
            }
            (Source::Url(_), "application/pdf" | "") => json!({"type": "url", "url": file.http_url()?}),
            _ => return None,
        };
        let mut block = json!({"type": "document", "source": source});
        if let Some(block) = block.as_object_mut().filter(|_| !file.name.is_empty()) {
            block.insert("title".to_owned(), file.name.as_str().into());
        }
        Some(part_of(Dialect::Messages, block))
    }

    fn takes_image(&self, url: &str) -> bool {
        is_http(url) || data_url(url).is_some()
    }

    fn takes_reasoning_alone(&self) -> bool {
        true
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-api-key")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn takes_betas(&self) -> bool {
        self.client_betas
    }

    fn models_path(&self) -> Option<&'static str> {
        Some("models")
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Messages(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            verbatim: rules.client == Dialect::Messages,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn enable_search(&mut self, conversation: &mut Conversation) {
        conversation.rest.add_tool(
            Dialect::Messages.name(),
            json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}),
        );
    }

    fn observe(&mut self, observed: Observed) {
        if observed.no_thinking_budget && self.effort == Effort::Thinking {
            self.effort = Effort::OutputConfig;
        }
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn wants_back(&self) -> WantsBack {
        WantsBack::Signatures
    }

    /// The upstream can continue an assistant turn if the model allows it.
    fn means(&self) -> Means {
        Means { prefill: true, ..Means::default() }
    }

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        self.server.identify(probe, body)
    }

    fn searches_tools(&self) -> Option<bool> {
        self.server.searches_tools()
    }

    fn gives_choices(&self) -> bool {
        false
    }
}

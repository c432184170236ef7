//! [`Options`]: the upstream's side of this dialect, with what one upstream wants otherwise.

use super::{MODELS_PATH, PATH, ReaderSettings, refusal, request};
use crate::{
    conversation::Conversation,
    dialect::{Dialect, Reader, ReaderRules, UpstreamRequest, UpstreamSide},
    failure::Failure,
};

/// How one upstream differs from OpenAI's own servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Request token counts at the end of the stream. Off for upstreams that refuse the option.
    pub include_usage: bool,
    /// Each delta repeats all of the text before it.
    pub cumulative: bool,
    /// When a stream is requested.
    pub stream: Streaming,
    /// The role `developer` is known. Otherwise such a message is sent as a `system` one.
    pub keep_developer: bool,
    /// Custom tools are known. Otherwise they are sent as functions with one argument for the input.
    pub keep_custom_tools: bool,
    /// Images may stand in a tool's result. Otherwise they follow in a user turn.
    pub keep_result_images: bool,
    /// Adjacent user turns are joined, for chat templates in which user and assistant must alternate.
    pub join_user_turns: bool,
}

/// When an upstream is asked for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Streaming {
    /// If the client asks for one. What the upstream reports in a response that is not streamed (its status, its token
    /// counts) reaches the client.
    #[default]
    AsAsked,
    /// Always: for upstreams that only stream. Responses for clients that do not stream are put together here.
    Always,
}

impl Default for Options {
    /// OpenAI's own servers.
    fn default() -> Self {
        Self {
            include_usage: true,
            cumulative: false,
            stream: Streaming::default(),
            keep_developer: true,
            keep_custom_tools: true,
            keep_result_images: false,
            join_user_turns: false,
        }
    }
}

/// Hosts that serve OpenAI's own models. Names below them (`….openai.azure.com`) belong to them.
const OPENAI_HOSTS: [&str; 4] =
    ["api.openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"];

impl Options {
    /// What is known of the server at `host`: OpenAI's own servers support what most others with their API do not.
    pub fn of_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let is_openai = OPENAI_HOSTS.iter().any(|known| {
            host.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        });
        Self { keep_developer: is_openai, keep_custom_tools: is_openai, ..Self::default() }
    }
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn path(&self) -> &'static str {
        PATH
    }

    fn models_path(&self) -> Option<&'static str> {
        Some(MODELS_PATH)
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Chat(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            verbatim: rules.client == Dialect::Chat,
            cumulative: self.cumulative,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn is_cumulative(&self) -> bool {
        self.cumulative
    }

    fn set_cumulative(&mut self, cumulative: bool) {
        self.cumulative = cumulative;
    }
}

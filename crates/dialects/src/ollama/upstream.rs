//! [`Options`]: the settings for an upstream of this dialect.

use super::{ReaderSettings, request};
use crate::{
    Dialect, Reader, ReaderRules, SystemMessages, TemplateSource, UpstreamRequest, UpstreamSide,
    conversation::Conversation,
    enforce::Means,
    failure::{Failure, Kind},
    media::data_url,
    refusal::refusal,
    server::Server,
    settings::Settings,
};

/// How to write requests to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// options of the model, such as `"num_ctx=32768"`: by default Ollama silently cuts off long
    /// conversations
    pub options: Vec<String>,
    /// how long the model stays loaded: `"10m"` or `"-1"`
    #[setting(or = "as the server is configured")]
    pub keep_alive: Option<String>,
    /// how `reasoning_effort` is sent: `"switch"` (`true` or `false`), `"level"`, or `"off"`. `"auto"` sends
    /// levels only to gpt-oss
    #[setting(word)]
    pub think: Think,
    /// join all system messages at the beginning: `"first"` always, `"auto"` for models that refuse others
    /// (Qwen3.5 and later, MiniMax, Gemma 3), `"keep"` never
    #[setting(word)]
    pub system_messages: SystemMessages,
}

/// How to send `reasoning_effort`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Think {
    /// As a level if the model has levels, and otherwise as a switch.
    #[default]
    Auto,
    /// `think: true` or `false`.
    Switch,
    /// `think: "low"`, `"medium"` or `"high"`, and `false` for no reasoning.
    Level,
    /// Not at all.
    Off,
}

impl Think {
    /// Resolves `Auto` for `model`. Only gpt-oss has levels; other models reject them.
    pub(super) fn for_model(self, model: &str) -> Self {
        match self {
            Self::Auto if model.to_ascii_lowercase().contains("gpt-oss") => Self::Level,
            Self::Auto => Self::Switch,
            chosen => chosen,
        }
    }
}

impl Options {
    /// The names and values in [`Options::options`]. Entries that are not of the form `name=value` are
    /// skipped.
    pub(super) fn options(&self) -> impl Iterator<Item = (String, &str)> {
        self.options.iter().filter_map(|option| request::option(option))
    }
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Ollama
    }

    fn path(&self) -> &'static str {
        "api/chat"
    }

    /// The server does not load images from URLs, so only `data:` URLs are accepted.
    fn takes_image(&self, url: &str) -> bool {
        data_url(url).is_some()
    }

    fn instructions_take_media(&self) -> bool {
        true
    }

    fn openai_base(&self) -> Option<&'static str> {
        Some("v1/")
    }

    fn template_source(&self) -> Option<(TemplateSource, bool)> {
        Some((TemplateSource::Show, false))
    }

    /// Ollama also lists its models in OpenAI's format.
    fn models_path(&self) -> Option<&'static str> {
        Some("v1/models")
    }

    /// Ollama's own list of models, which other servers with OpenAI's API do not have
    /// (docs/protocols/ollama.md#models).
    fn check_path(&self) -> Option<&'static str> {
        Some("api/tags")
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Ollama(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    /// A JSON error with status 404 concerns the model, because the response for an unknown path is not JSON.
    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        let error = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
        match error.get("error").and_then(serde_json::Value::as_str) {
            Some(message) if status == 404 => {
                Failure::new(Kind::NotFound, message).with_code("model_not_found")
            }
            _ => refusal(status, retry_after, body),
        }
    }

    fn means(&self) -> Means {
        Server::Ollama.means()
    }

    fn gives_choices(&self) -> bool {
        false
    }
}

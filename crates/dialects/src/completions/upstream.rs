//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::{Map, Value};

use super::{ReaderSettings, Server, request};
use crate::{
    Dialect, Probe, Reader, ReaderRules, UpstreamRequest, UpstreamSide,
    conversation::{Constraint, Conversation, Prompt},
    enforce::{Means, Subset},
    failure::Failure,
    refusal::refusal,
    settings::Settings,
};

/// How to request completions from an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// the server's software, as in `[upstreams.chat]`: `"llama.cpp"` has `completion` and `"ollama"`
    /// `api/generate`, both under the server's root; all others `completions` below the base URL
    #[setting(default = Server::Unknown, word)]
    pub server: Server,
    /// request token counts of streams; `false` for servers that reject `stream_options`
    #[setting(default = true)]
    pub include_usage: bool,
    /// the limit if the client gives none; not for llama.cpp and Ollama
    #[setting(default = 2048)]
    pub max_tokens: usize,
    /// the token that begins a text: `"server"` removes it from the prompt, because the server adds it
    #[setting(word)]
    pub bos: Bos,
    /// send `skip_special_tokens: false`, so that vLLM and SGLang keep markers of calls that are special
    /// tokens
    pub keep_special_tokens: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenAI's `/v1/completions`, which most servers have.
    OpenAi,
    /// llama.cpp's own `/completion`.
    LlamaCpp,
    /// Ollama's `/api/generate` with `raw: true`.
    Ollama,
}

/// Who adds the begin-of-text token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Bos {
    /// The server's tokenizer. The token from the template is then removed, so that the model does not see
    /// two.
    #[default]
    Server,
    /// The template.
    Prompt,
}

impl Options {
    pub(super) fn form(&self) -> Form {
        match self.server {
            Server::LlamaCpp => Form::LlamaCpp,
            Server::Ollama => Form::Ollama,
            _ => Form::OpenAi,
        }
    }

    /// The members that make the server enforce `constraint`. A prefill is appended to the prompt instead.
    pub(super) fn members(&self, constraint: &Constraint) -> Map<String, Value> {
        match (self.server, constraint) {
            (Server::LlamaCpp, Constraint::Schema(schema)) => member("json_schema", schema),
            (Server::Ollama, Constraint::Schema(schema)) => member("format", schema),
            _ => self.server.members(constraint),
        }
    }
}

fn member(key: &str, value: &Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value.clone())])
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Completions
    }

    fn takes_image(&self, _url: &str) -> bool {
        false
    }

    fn path(&self) -> &'static str {
        match self.form() {
            Form::OpenAi => "completions",
            Form::LlamaCpp => "completion",
            Form::Ollama => "api/generate",
        }
    }

    fn openai_base(&self) -> Option<&'static str> {
        Some(match self.form() {
            Form::OpenAi => "",
            Form::LlamaCpp | Form::Ollama => "v1/",
        })
    }

    /// Servers list their models in OpenAI's format in all API versions.
    fn models_path(&self) -> Option<&'static str> {
        Some(match self.form() {
            Form::OpenAi => "models",
            Form::LlamaCpp | Form::Ollama => "v1/models",
        })
    }

    /// Without a template, the prompt is the bare text of the conversation.
    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        self.encode_prompt(&request::bare_prompt(conversation), conversation, model)
    }

    fn takes_prompt(&self) -> bool {
        true
    }

    /// Ollama's own API, the only one without a template at its servers, has fewer members.
    fn takes_client_prompts(&self) -> bool {
        self.form() != Form::Ollama
    }

    fn encode_prompt(&self, prompt: &Prompt, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(prompt, conversation, self, model)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Completions(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
            verbatim: rules.client == Dialect::Completions && self.takes_client_prompts(),
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    /// Identifies the server, provided that it uses the configured API version.
    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        let identified = Self { server: probe.server(body)?, ..self.clone() };
        if identified.form() == self.form() {
            *self = identified;
            return Some(self.server.name());
        }
        None
    }

    /// Fewer constraints than for chat: most servers support `response_format` only there
    /// (docs/protocols/enforcement.md#text-completions).
    fn means(&self) -> Means {
        let prefill = Means { prefill: true, ..Means::default() };
        match self.server {
            Server::Vllm | Server::Sglang => {
                Means { schema: Some(Subset::XGRAMMAR), tags: true, grammar: true, ..prefill }
            }
            Server::LlamaCpp => Means { schema: Some(Subset::LLAMA_CPP), grammar: true, ..prefill },
            Server::LlamaCppPython => Means { grammar: true, ..prefill },
            Server::Ollama => Means { schema: Some(Subset::LLAMA_CPP), ..prefill },
            _ => prefill,
        }
    }

    fn gives_choices(&self) -> bool {
        false
    }
}

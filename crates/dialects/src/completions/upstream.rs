//! [`Options`]: the upstream's side of this dialect, with the settings of one upstream.

use serde_json::{Map, Value};

use super::{ReaderSettings, Server, request};
use crate::{
    Dialect, Probe, Reader, ReaderRules, UpstreamRequest, UpstreamSide,
    conversation::{Constraint, Conversation, Prompt},
    enforce::{Means, Subset},
    failure::Failure,
    refusal::refusal,
    server::SERVERS,
    settings::{Field, Key, OneOf, Settings},
    upstream::include_usage,
};

/// How completions are requested from one upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The software behind the API. It decides which form of the API is used, which constraints can be
    /// enforced, and how they are requested.
    pub server: Server,
    /// Whether to request token counts at the end of the stream. Off for upstreams that reject the option.
    pub include_usage: bool,
    /// Number of tokens to request if the client sets no limit.
    pub max_tokens: usize,
    /// What happens to a begin-of-text token at the start of the prompt.
    pub bos: Bos,
    /// Whether to request that markers which are special tokens stay in the text.
    pub keep_special_tokens: bool,
}

/// The forms of the API.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bos {
    /// The server's tokenizer. The template's own token is then removed, because the model would otherwise
    /// see it twice.
    #[default]
    Server,
    /// The template.
    Prompt,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: Server::Unknown,
            include_usage: true,
            max_tokens: 2048,
            bos: Bos::default(),
            keep_special_tokens: false,
        }
    }
}

const BOS: [(&str, Bos); 2] = [("server", Bos::Server), ("prompt", Bos::Prompt)];

impl Options {
    /// The form of the API.
    pub(super) fn form(&self) -> Form {
        match self.server {
            Server::LlamaCpp => Form::LlamaCpp,
            Server::Ollama => Form::Ollama,
            _ => Form::OpenAi,
        }
    }

    /// The members of a request that ask for `constraint`. A prefill is appended to the prompt instead.
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

    fn settings(&mut self, keys: &mut dyn Settings) {
        keys.key(
            Key::new(
                "server",
                "the server's software, as in `[upstreams.chat]`: `\"llama.cpp\"` has `completion` and \
                 `\"ollama\"` `api/generate`, both under the server's root; all others `completions` below the \
                 base URL",
            ),
            Field::Word(&mut OneOf(&mut self.server, &SERVERS)),
        );
        include_usage(keys, &mut self.include_usage);
        keys.key(
            Key::new("max_tokens", "the limit if the client gives none; not for llama.cpp and Ollama"),
            Field::Count(&mut self.max_tokens, 1),
        );
        keys.key(
            Key::new(
                "bos",
                "the token that begins a text: `\"server\"` removes it from the prompt, because the server adds \
                 it",
            ),
            Field::Word(&mut OneOf(&mut self.bos, &BOS)),
        );
        keys.key(
            Key::new(
                "keep_special_tokens",
                "send `skip_special_tokens: false`, so that vLLM and SGLang keep markers of calls that are \
                 special tokens",
            ),
            Field::Switch(&mut self.keep_special_tokens),
        );
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

    /// All forms list their models as OpenAI does.
    fn models_path(&self) -> Option<&'static str> {
        Some(match self.form() {
            Form::OpenAi => "models",
            Form::LlamaCpp | Form::Ollama => "v1/models",
        })
    }

    /// Without a template, the prompt is the conversation's bare text.
    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        self.encode_prompt(&request::bare_prompt(conversation), conversation, model)
    }

    fn takes_prompt(&self) -> bool {
        true
    }

    fn encode_prompt(&self, prompt: &Prompt, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(prompt, conversation, (self, model))
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Completions(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    /// Identifies the server but does not change the form of the API, which is that of the configuration.
    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        let identified = Self { server: Server::of_answer(probe, body)?, ..self.clone() };
        if identified.form() == self.form() {
            *self = identified;
            return Some(self.server.name());
        }
        None
    }

    /// Fewer constraints than for chat, since most servers support `response_format` only there
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

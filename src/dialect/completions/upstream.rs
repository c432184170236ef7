//! [`Options`]: the upstream's side of this dialect, with the settings of one upstream.

use super::{ReaderSettings, request};
use crate::{
    conversation::{Conversation, Prompt},
    dialect::{
        Dialect, Reader, ReaderRules, UpstreamRequest, UpstreamSide, refusal::refusal,
        upstream::include_usage,
    },
    failure::Failure,
    settings::{Field, Key, OneOf, Settings},
};

/// How one upstream is asked for a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose form of the API it speaks.
    pub server: Server,
    /// Request token counts at the end of the stream. Off for upstreams that reject the option.
    pub include_usage: bool,
    /// The tokens that are requested if the client sets no limit.
    pub max_tokens: usize,
    /// What happens to a token at the beginning of the prompt that marks the beginning of a text.
    pub bos: Bos,
    /// Request that markers which are special tokens stay in the text.
    pub keep_special_tokens: bool,
}

/// The forms of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Server {
    /// OpenAI's `/v1/completions`, which vLLM, SGLang and llama.cpp have as well.
    #[default]
    OpenAi,
    /// llama.cpp's own `/completion`.
    LlamaCpp,
    /// Ollama's `/api/generate` with `raw: true`.
    Ollama,
}

/// Who puts the token at the beginning of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bos {
    /// The server's tokenizer: the template's own is removed, or the model would see it twice.
    #[default]
    Server,
    /// The template.
    Prompt,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: Server::default(),
            include_usage: true,
            max_tokens: 2048,
            bos: Bos::default(),
            keep_special_tokens: false,
        }
    }
}

const SERVER: [(&str, Server); 3] =
    [("openai", Server::OpenAi), ("llama.cpp", Server::LlamaCpp), ("ollama", Server::Ollama)];
const BOS: [(&str, Bos); 2] = [("server", Bos::Server), ("prompt", Bos::Prompt)];

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Completions
    }

    fn settings(&mut self, keys: &mut dyn Settings) {
        keys.key(
            Key::new(
                "server",
                "the form of the API: `\"openai\"` is `completions` under a base URL such as \
                 `http://host/v1` (vLLM, SGLang, llama.cpp and others), `\"llama.cpp\"` is llama.cpp's own \
                 `completion`, `\"ollama\"` is Ollama's `api/generate` with `raw: true`, both under the \
                 server's root",
            ),
            Field::Word(&mut OneOf(&mut self.server, &SERVER)),
        );
        include_usage(keys, &mut self.include_usage);
        keys.key(
            Key::new(
                "max_tokens",
                "the limit that is sent to an `\"openai\"` server if the client gives none: such servers \
                 otherwise stop after 16 tokens",
            ),
            Field::Count(&mut self.max_tokens, 1),
        );
        keys.key(
            Key::new(
                "bos",
                "a chat template may begin the prompt with the token that begins a text. `\"server\"` \
                 removes it, because the server's tokenizer adds it; `\"prompt\"` leaves it, for a server \
                 that adds none",
            ),
            Field::Word(&mut OneOf(&mut self.bos, &BOS)),
        );
        keys.key(
            Key::new(
                "keep_special_tokens",
                "send `skip_special_tokens: false`, so that vLLM and SGLang do not remove markers of calls \
                 that are special tokens of the model. Only for an `\"openai\"` server",
            ),
            Field::Switch(&mut self.keep_special_tokens),
        );
    }

    fn path(&self) -> &'static str {
        match self.server {
            Server::OpenAi => "completions",
            Server::LlamaCpp => "completion",
            Server::Ollama => "api/generate",
        }
    }

    /// All three list their models as OpenAI does.
    fn models_path(&self) -> Option<&'static str> {
        Some(match self.server {
            Server::OpenAi => "models",
            Server::LlamaCpp | Server::Ollama => "v1/models",
        })
    }

    /// Without a template the prompt is the conversation's bare text.
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

    fn gives_choices(&self) -> bool {
        false
    }
}

//! [`Server`]: the software behind an API like OpenAI's, and the constraints that it can enforce.
//!
//! docs/protocols/enforcement.md describes them.

use serde_json::{Map, Value, json};

use super::probe::{PROBES, Probe};
use crate::{
    conversation::{Constraint, Gbnf, StructuralTags},
    enforce::{Means, Subset},
};

/// The software behind the API. Only servers that differ in their constraints are distinguished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Server {
    /// Not configured. The server is identified by its responses.
    #[default]
    #[strum(serialize = "auto")]
    Unknown,
    /// Not one of the known servers. Nothing can be enforced.
    Other,
    /// OpenAI's own servers.
    OpenAi,
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's `llama-server`.
    #[strum(serialize = "llama.cpp")]
    LlamaCpp,
    /// The server of llama-cpp-python.
    #[strum(serialize = "llama-cpp-python")]
    LlamaCppPython,
    /// Ollama, through its API in this dialect.
    Ollama,
    /// LM Studio.
    #[strum(serialize = "lm-studio")]
    LmStudio,
    /// Hugging Face's text-generation-inference.
    Tgi,
    /// NVIDIA's TensorRT-LLM.
    #[strum(serialize = "tensorrt-llm")]
    TensorRtLlm,
    /// Mistral's own servers.
    Mistral,
    /// `DeepSeek`'s own servers, with the path `/beta`.
    DeepSeek,
    /// Groq.
    Groq,
    /// Fireworks.
    Fireworks,
    /// `OpenRouter`.
    OpenRouter,
}

/// The hosts of the servers that run searches for tools, or that pass them on.
const HOSTS: [(&str, Server); 3] =
    [("anthropic.com", Server::Other), ("openai.com", Server::OpenAi), ("openrouter.ai", Server::OpenRouter)];

impl Server {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// The requests that reveal which server this is, if it is unknown.
    pub(crate) fn probes(self) -> &'static [Probe] {
        if self == Self::Unknown { &PROBES } else { &[] }
    }

    /// Becomes the server that `body`, the response to `probe`, reveals, if any, and returns its name.
    pub(crate) fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        *self = probe.server(body)?;
        Some(self.name())
    }

    /// The server at `host`, if it is one that runs searches for tools, or passes them on.
    pub(crate) fn at_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let is_at = |known: &str| {
            host.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let known = HOSTS.iter().find(|(known, _)| is_at(known));
        known.map_or(Self::Unknown, |(_, server)| *server)
    }

    /// Whether the server runs searches for tools, as those of OpenAI and Anthropic do. `None` if the server is unknown.
    pub(crate) fn searches_tools(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Other | Self::OpenAi | Self::OpenRouter => Some(true),
            _ => Some(false),
        }
    }

    /// Whether the server takes past reasoning in plain text through Responses, as servers of open models do.
    pub(crate) fn takes_plain_reasoning(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang | Self::LlamaCpp | Self::LmStudio | Self::Ollama)
    }

    /// The constraints that the server can enforce in a chat completion.
    pub fn means(self) -> Means {
        let none = Means::default();
        let schema = |subset| Means { schema: Some(subset), ..none };
        match self {
            Self::Unknown | Self::Other => none,
            Self::OpenAi => schema(Subset::OPENAI),
            Self::Vllm | Self::Sglang => {
                Means { schema: Some(Subset::XGRAMMAR), tags: true, grammar: true, prefill: true }
            }
            Self::TensorRtLlm => Means { tags: true, ..schema(Subset::XGRAMMAR) },
            Self::LlamaCpp => Means { grammar: true, prefill: true, ..schema(Subset::LLAMA_CPP) },
            Self::LlamaCppPython => Means { grammar: true, ..schema(Subset::LLAMA_CPP) },
            Self::Ollama | Self::Tgi => Means { prefill: true, ..schema(Subset::LLAMA_CPP) },
            Self::LmStudio => Means { prefill: true, ..schema(Subset::PORTABLE) },
            Self::Mistral | Self::Groq | Self::OpenRouter => {
                Means { prefill: true, ..schema(Subset::PORTABLE) }
            }
            Self::Fireworks => Means { grammar: true, ..schema(Subset::PORTABLE) },
            Self::DeepSeek => Means { prefill: true, ..none },
        }
    }

    /// Whether a response that continues a prefill starts by repeating it.
    pub(crate) fn repeats_prefill(self) -> bool {
        self == Self::Mistral
    }

    /// The members of a request that enforce `constraint`. A prefill has no member, since it is the end of
    /// the model's input.
    pub(crate) fn members(self, constraint: &Constraint) -> Map<String, Value> {
        let member = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        let format = |format: Value| member("response_format", format);
        match constraint {
            Constraint::Schema(schema) => match self {
                Self::LlamaCppPython => format(json!({"type": "json_object", "schema": schema})),
                Self::Tgi => format(json!({"type": "json_object", "value": schema})),
                _ => format(json!({
                    "type": "json_schema",
                    "json_schema": {"name": "tool_call", "schema": schema, "strict": true},
                })),
            },
            Constraint::Tags(tags) => {
                let mut members = format(structural_tag(tags));
                if matches!(self, Self::Vllm | Self::Sglang) {
                    // A marker may be a special token, and by default these servers remove special tokens
                    // from the text.
                    members.insert("skip_special_tokens".to_owned(), false.into());
                }
                members
            }
            Constraint::Grammar(Gbnf { rules: grammar, .. }) => match self {
                Self::Vllm => member("structured_outputs", json!({"grammar": grammar})),
                Self::Sglang => member("ebnf", json!(grammar)),
                Self::Fireworks => format(json!({"type": "grammar", "grammar": grammar})),
                _ => member("grammar", json!(grammar)),
            },
            Constraint::Prefill(_) => Map::new(),
        }
    }
}

fn structural_tag(tags: &StructuralTags) -> Value {
    let tag = |tag: &crate::conversation::Tag| {
        json!({
            "type": "tag",
            "begin": tag.begin,
            "content": {"type": "json_schema", "json_schema": tag.schema},
            "end": tag.end,
        })
    };
    json!({
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": tags.triggers,
            "tags": tags.tags.iter().map(tag).collect::<Vec<_>>(),
            "at_least_one": tags.at_least_one,
            "stop_after_first": tags.only_one,
        },
    })
}

//! [`Server`]: the software behind an API of this dialect, and how it is asked to constrain its model's output.
//!
//! The requests are those of docs/protocols/enforcement.md.

use serde_json::{Map, Value, json};

use crate::{
    conversation::{Constraint, Prefill, StructuralTags},
    enforce::{Means, Subset},
};

/// The software behind the API, as far as it matters for constraints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Server {
    /// Not known. Nothing can be enforced.
    #[default]
    Other,
    /// OpenAI's own servers.
    OpenAi,
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// The server of llama-cpp-python.
    LlamaCppPython,
    /// Ollama's API in this dialect.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// Hugging Face's text-generation-inference.
    Tgi,
    /// NVIDIA's TensorRT-LLM.
    TensorRtLlm,
    /// Mistral's own servers.
    Mistral,
    /// `DeepSeek`'s own servers, at the path `/beta`.
    DeepSeek,
    /// Groq.
    Groq,
    /// Fireworks.
    Fireworks,
    /// `OpenRouter`.
    OpenRouter,
}

/// The names of servers in configurations.
pub(super) const SERVERS: [(&str, Server); 15] = [
    ("other", Server::Other),
    ("openai", Server::OpenAi),
    ("vllm", Server::Vllm),
    ("sglang", Server::Sglang),
    ("llama.cpp", Server::LlamaCpp),
    ("llama-cpp-python", Server::LlamaCppPython),
    ("ollama", Server::Ollama),
    ("lm-studio", Server::LmStudio),
    ("tgi", Server::Tgi),
    ("tensorrt-llm", Server::TensorRtLlm),
    ("mistral", Server::Mistral),
    ("deepseek", Server::DeepSeek),
    ("groq", Server::Groq),
    ("fireworks", Server::Fireworks),
    ("openrouter", Server::OpenRouter),
];

/// Hosts whose server is known.
const HOSTS: [(&str, Server); 6] = [
    ("api.openai.com", Server::OpenAi),
    ("api.mistral.ai", Server::Mistral),
    ("api.deepseek.com", Server::DeepSeek),
    ("api.groq.com", Server::Groq),
    ("api.fireworks.ai", Server::Fireworks),
    ("openrouter.ai", Server::OpenRouter),
];

/// The fields of a request that ask for a constraint.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields {
    /// Members of the request.
    pub(super) members: Map<String, Value>,
    /// The last message: a turn of the assistant that the response continues.
    pub(super) begun: Option<Value>,
    /// The text of that turn.
    pub(super) prefill: Option<Prefill>,
}

impl Server {
    /// The server at `host`, if it is a known one.
    pub(super) fn at_host(host: &str) -> Self {
        HOSTS.iter().find(|(known, _)| *known == host).map_or(Self::Other, |(_, server)| *server)
    }

    /// What it can enforce.
    pub fn means(self) -> Means {
        let none = Means::default();
        let schema = |subset| Means { schema: Some(subset), ..none };
        match self {
            Self::Other => none,
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

    /// Whether a response that continues a text begins with that text again.
    fn repeats_prefill(self) -> bool {
        self == Self::Mistral
    }

    /// The fields that ask for `constraint`.
    pub(super) fn fields(self, constraint: &Constraint) -> Fields {
        let format = |format: Value| Map::from_iter([("response_format".to_owned(), format)]);
        match constraint {
            Constraint::Schema(schema) => {
                let members = match self {
                    Self::LlamaCppPython => format(json!({"type": "json_object", "schema": schema})),
                    Self::Tgi => format(json!({"type": "json_object", "value": schema})),
                    _ => format(json!({
                        "type": "json_schema",
                        "json_schema": {"name": "tool_call", "schema": schema, "strict": true},
                    })),
                };
                Fields { members, ..Fields::default() }
            }
            Constraint::Tags(tags) => {
                let mut members = format(structural_tag(tags));
                if matches!(self, Self::Vllm | Self::Sglang) {
                    // A marker may be a special token, which these servers leave out of the text by default.
                    members.insert("skip_special_tokens".to_owned(), false.into());
                }
                Fields { members, ..Fields::default() }
            }
            Constraint::Grammar(grammar) => {
                let members = match self {
                    Self::Vllm => {
                        Map::from_iter([("structured_outputs".to_owned(), json!({"grammar": grammar}))])
                    }
                    Self::Sglang => Map::from_iter([("ebnf".to_owned(), json!(grammar))]),
                    Self::Fireworks => format(json!({"type": "grammar", "grammar": grammar})),
                    _ => Map::from_iter([("grammar".to_owned(), json!(grammar))]),
                };
                Fields { members, ..Fields::default() }
            }
            Constraint::Prefill(text) => {
                let mut begun = json!({"role": "assistant", "content": text});
                let mut members = Map::new();
                match self {
                    Self::Mistral | Self::DeepSeek => {
                        if let Value::Object(begun) = &mut begun {
                            begun.insert("prefix".to_owned(), true.into());
                        }
                    }
                    Self::Vllm => {
                        members.insert("continue_final_message".to_owned(), true.into());
                        members.insert("add_generation_prompt".to_owned(), false.into());
                    }
                    Self::Sglang => {
                        members.insert("continue_final_message".to_owned(), true.into());
                    }
                    _ => {}
                }
                let prefill = Prefill { text: text.clone(), is_repeated: self.repeats_prefill() };
                Fields { members, begun: Some(begun), prefill: Some(prefill) }
            }
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

//! [`Profile`]: the facts known about a provider of this API, as a short list of switches.
//!
//! docs/protocols/chat.md#providers cites the source of each fact. A profile only provides the defaults of
//! settings, each of which can be overridden in the configuration.

use super::{Options, Server};
use crate::{
    KeyHeader,
    conversation::{IdForm, WantsBack},
};

/// A provider of this API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Profile {
    /// Not one of the known providers.
    #[default]
    None,
    /// OpenAI.
    OpenAi,
    /// OpenAI's models on Azure.
    Azure,
    /// Mistral.
    Mistral,
    /// Moonshot (Kimi).
    Moonshot,
    /// `DeepSeek`.
    DeepSeek,
    /// Google's compatible API for Gemini.
    Gemini,
    /// `OpenRouter`.
    OpenRouter,
    /// Groq.
    Groq,
    /// Fireworks.
    Fireworks,
    /// Together.
    Together,
}

/// The hosts for which a profile is known, including their subdomains (`….openai.azure.com`).
const HOSTS: [(&str, Profile); 16] = [
    ("api.openai.com", Profile::OpenAi),
    ("openai.azure.com", Profile::Azure),
    ("cognitiveservices.azure.com", Profile::Azure),
    ("services.ai.azure.com", Profile::Azure),
    ("api.mistral.ai", Profile::Mistral),
    ("api.moonshot.ai", Profile::Moonshot),
    ("api.moonshot.cn", Profile::Moonshot),
    ("api.kimi.com", Profile::Moonshot),
    ("api.deepseek.com", Profile::DeepSeek),
    ("generativelanguage.googleapis.com", Profile::Gemini),
    ("aiplatform.googleapis.com", Profile::Gemini),
    ("openrouter.ai", Profile::OpenRouter),
    ("api.groq.com", Profile::Groq),
    ("api.fireworks.ai", Profile::Fireworks),
    ("api.together.xyz", Profile::Together),
    ("api.together.ai", Profile::Together),
];

#[derive(Debug, Clone, Copy)]
enum Switch {
    Server(Server),
    IncludeUsage(bool),
    KeepDeveloper,
    KeepCustomTools,
    MaxTokens(MaxTokens),
    CallIds(IdForm),
    WantsBack(WantsBack),
    PastReasoning(PastReasoning),
    ReasoningPlaceholder,
    ExclusiveThinking,
    RequiredChoice(RequiredChoice),
    NameResults,
    CacheControl,
    KeyHeader(KeyHeader),
}

/// The request field that limits the number of tokens in the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum MaxTokens {
    /// Whichever field the client used.
    #[default]
    AsGiven,
    /// `max_tokens`
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
}

/// How reasoning from past turns is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum PastReasoning {
    /// In the field that the server reads: [`PastReasoning::Reasoning`] for vLLM, Ollama and `OpenRouter`;
    /// for other servers, the field in which they send reasoning, or [`PastReasoning::ReasoningContent`]
    /// until that is known.
    #[default]
    Auto,
    /// In `reasoning_content`.
    ReasoningContent,
    /// In `reasoning`, and also in `reasoning_details` if the upstream sent it there.
    Reasoning,
    /// Not at all.
    Off,
}

impl PastReasoning {
    /// Resolves [`PastReasoning::Auto`] for servers that are known.
    pub(super) fn for_server(self, server: Server) -> Self {
        match (self, server) {
            (Self::Auto, Server::Vllm | Server::Ollama | Server::OpenRouter) => Self::Reasoning,
            (chosen, _) => chosen,
        }
    }
}

/// The value of `tool_choice` that requires a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RequiredChoice {
    /// `required`
    #[default]
    Required,
    /// `any`
    Any,
}

impl RequiredChoice {
    pub(super) fn word(self) -> &'static str {
        self.into()
    }
}

impl Profile {
    /// The profile for `host`, which must be in lower case.
    pub(super) fn at_host(host: &str) -> Self {
        let is_at = |known: &str| {
            host.strip_suffix(known).is_some_and(|before| {
                // Google's regional hosts put the region and a hyphen first:
                // `us-central1-aiplatform.googleapis.com`.
                before.is_empty()
                    || before.ends_with('.')
                    || (known.ends_with("googleapis.com") && before.ends_with('-'))
            })
        };
        HOSTS.iter().find(|(known, _)| is_at(known)).map_or(Self::None, |(_, profile)| *profile)
    }

    /// The profile that is `set`, or else the one for `host`.
    pub(crate) fn known(set: Self, host: &str) -> Self {
        if set == Self::None { Self::at_host(&host.to_ascii_lowercase()) } else { set }
    }

    fn switches(self) -> &'static [Switch] {
        use Switch::{
            CallIds, ExclusiveThinking, IncludeUsage, KeepCustomTools, KeepDeveloper, NameResults,
            ReasoningPlaceholder,
        };
        match self {
            Self::None | Self::Together => &[],
            Self::OpenAi => &[
                Switch::Server(Server::OpenAi),
                KeepDeveloper,
                KeepCustomTools,
                Switch::MaxTokens(MaxTokens::MaxCompletionTokens),
                CallIds(IdForm::AtMost(40)),
            ],
            Self::Azure => &[
                KeepDeveloper,
                KeepCustomTools,
                Switch::MaxTokens(MaxTokens::MaxCompletionTokens),
                CallIds(IdForm::AtMost(40)),
                Switch::KeyHeader(KeyHeader::Named("api-key")),
            ],
            Self::Mistral => &[
                Switch::Server(Server::Mistral),
                IncludeUsage(false),
                Switch::MaxTokens(MaxTokens::MaxTokens),
                CallIds(IdForm::Alphanumeric(9)),
                Switch::PastReasoning(PastReasoning::Off),
                Switch::RequiredChoice(RequiredChoice::Any),
            ],
            Self::Moonshot => {
                &[Switch::WantsBack(WantsBack::Reasoning), ReasoningPlaceholder, ExclusiveThinking]
            }
            Self::DeepSeek => &[
                Switch::Server(Server::DeepSeek),
                Switch::WantsBack(WantsBack::Reasoning),
                ReasoningPlaceholder,
            ],
            Self::Gemini => &[
                Switch::WantsBack(WantsBack::Signatures),
                Switch::PastReasoning(PastReasoning::Off),
                NameResults,
            ],
            Self::OpenRouter => &[
                Switch::Server(Server::OpenRouter),
                Switch::CacheControl,
                CallIds(IdForm::AtMost(40)),
                Switch::WantsBack(WantsBack::Reasoning),
                Switch::PastReasoning(PastReasoning::Reasoning),
            ],
            Self::Groq => &[Switch::Server(Server::Groq), Switch::PastReasoning(PastReasoning::Off)],
            Self::Fireworks => &[Switch::Server(Server::Fireworks)],
        }
    }

    /// Sets the options that follow from this profile, and resets those that another profile may have set.
    pub(super) fn apply(self, options: &mut Options) {
        let Options { cumulative, stream, keep_result_images, join_user_turns, system_messages, .. } =
            options;
        *options = Options {
            profile: self,
            cumulative: *cumulative,
            stream: *stream,
            keep_result_images: *keep_result_images,
            join_user_turns: *join_user_turns,
            system_messages: *system_messages,
            keep_developer: false,
            keep_custom_tools: false,
            ..Options::default()
        };
        for switch in self.switches() {
            match *switch {
                Switch::Server(server) => options.server = server,
                Switch::IncludeUsage(include) => options.include_usage = include,
                Switch::KeepDeveloper => options.keep_developer = true,
                Switch::KeepCustomTools => options.keep_custom_tools = true,
                Switch::MaxTokens(field) => options.max_tokens = field,
                Switch::CallIds(form) => options.call_ids = form,
                Switch::WantsBack(wants) => options.wants_back = wants,
                Switch::PastReasoning(form) => options.past_reasoning = form,
                Switch::ReasoningPlaceholder => options.reasoning_placeholder = true,
                Switch::ExclusiveThinking => options.exclusive_thinking = true,
                Switch::RequiredChoice(word) => options.required_choice = word,
                Switch::NameResults => options.name_results = true,
                Switch::CacheControl => options.cache_control = true,
                Switch::KeyHeader(header) => options.key_header = header,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    #[test]
    fn profile_is_known_by_its_host() {
        for (host, profile) in [
            ("api.openai.com", Profile::OpenAi),
            ("my-resource.openai.azure.com", Profile::Azure),
            ("us-central1-aiplatform.googleapis.com", Profile::Gemini),
            ("api.moonshot.cn", Profile::Moonshot),
            ("notapi.openai.com", Profile::None),
            ("x-api.openai.com", Profile::None),
            ("api.openai.com.example", Profile::None),
            ("localhost", Profile::None),
            ("", Profile::None),
        ] {
            assert_eq!(Profile::at_host(host), profile, "{host}");
        }
    }

    #[test]
    fn profile_resets_what_another_one_set() {
        let mut options = Options { cumulative: true, ..Options::default() };
        for &first in Profile::VARIANTS {
            first.apply(&mut options);
            Profile::None.apply(&mut options);
            let mut plain = Options { cumulative: true, ..Options::default() };
            Profile::None.apply(&mut plain);
            assert_eq!(options, plain);
        }
    }
}

//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::json;

use super::{
    MODELS_PATH, MaxTokens, PATH, PastReasoning, Profile, ReaderSettings, RequiredChoice, Server, refusal,
    request,
};
use crate::{
    Dialect, File, KeyHeader, Observed, Probe, Reader, ReaderRules, ReasoningField, Source, SystemMessages,
    TemplateSource, UpstreamRequest, UpstreamSide,
    conversation::{Conversation, IdForm, NameForm, Part, Turn, WantsBack, has_joinable_turns},
    enforce::Means,
    failure::Failure,
    fit::part_of,
    openai_fields::SHARED,
    percent::in_url,
    settings::{Field, Key, Settings, Visitor},
    thinking,
};

/// How an upstream differs from OpenAI's own servers.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Options {
    /// The provider whose deviations are the defaults of the other options.
    #[setting(default = Profile::None, visit = Self::visit_profile)]
    pub profile: Profile,
    /// request token counts of streams; `false` for servers that reject `stream_options`
    #[setting(default = true)]
    pub include_usage: bool,
    /// for servers whose deltas repeat all earlier text
    pub cumulative: bool,
    /// request a stream if the client does; `"always"` for servers that can only stream
    #[setting(word)]
    pub stream: Streaming,
    /// send `developer` messages as `system` messages; `"keep"` (the default for OpenAI and Azure) leaves
    /// them
    #[setting(key = "developer_role", default = true, words = DEVELOPER_ROLE)]
    pub keep_developer: bool,
    /// send custom tools as functions with one string, `input`; `"keep"` (the default for OpenAI and Azure)
    /// leaves them
    #[setting(key = "custom_tools", default = true, words = CUSTOM_TOOLS)]
    pub keep_custom_tools: bool,
    /// send images and files of a tool result in a user message; `"keep"` leaves them, but most servers
    /// accept only text there
    #[setting(key = "result_images", words = RESULT_IMAGES)]
    pub keep_result_images: bool,
    /// send consecutive user messages as one, for chat templates in which roles must alternate. Otherwise
    /// only after a [refusal](protocols/chat.md), for an hour
    pub join_user_turns: bool,
    /// join all system messages at the beginning: `"first"` always, `"auto"` for models that refuse others
    /// (Qwen3.5 and later, MiniMax, Gemma 3), `"keep"` never
    #[setting(default = SystemMessages::Auto, word)]
    pub system_messages: SystemMessages,
    /// the server's software, which decides how responses can be [constrained](#enforcing-calls): `"vllm"`,
    /// `"sglang"`, `"llama.cpp"`, `"llama-cpp-python"`, `"ollama"`, `"lm-studio"`, `"tgi"`, `"tensorrt-llm"`,
    /// `"openai"`, `"mistral"`, `"deepseek"`, `"groq"`, `"fireworks"`, `"openrouter"`, or `"other"`
    /// (nothing). `"auto"` [recognises](#which-server-it-is) some
    #[setting(default = Server::Unknown, or = "by `profile`, else `\"auto\"`", word)]
    pub server: Server,
    /// the field for the limit of tokens: `"max_tokens"`, `"max_completion_tokens"`, or `"as_given"`, the
    /// client's
    #[setting(key = "max_tokens_field", default = MaxTokens::AsGiven, or = BY_PROFILE, word)]
    pub max_tokens: MaxTokens,
    /// [replace names](dialects.md) of tools other than 1 to 64 letters, digits, `_` and `-`; `"keep"` leaves
    /// them
    #[setting(default = NameForm::Word, words = TOOL_NAMES)]
    pub tool_names: NameForm,
    /// ids of past calls that are accepted, not replaced: `"keep"` (all), `"at_most_40"` characters, or
    /// `"nine"` letters and digits
    #[setting(default = IdForm::Any, or = BY_PROFILE, words = CALL_IDS)]
    pub call_ids: IdForm,
    /// what is kept of a response with calls and [put back](dialects.md) when they are replayed: `"nothing"`,
    /// `"signatures"`, or all `"reasoning"`
    #[setting(default = WantsBack::Nothing, or = BY_PROFILE, word)]
    pub wants_back: WantsBack,
    /// the field for reasoning in the history: `"reasoning_content"`, `"reasoning"` (and
    /// `reasoning_details`), `"off"`, or `"auto"`: that which the server or model uses
    #[setting(default = PastReasoning::Auto, or = BY_PROFILE, word)]
    pub past_reasoning: PastReasoning,
    /// send an empty reasoning with past calls that have none
    #[setting(or = BY_PROFILE)]
    pub reasoning_placeholder: bool,
    /// leave out `reasoning_effort` with `thinking`, and disable `thinking` if a call is required
    #[setting(or = BY_PROFILE)]
    pub exclusive_thinking: bool,
    /// the `tool_choice` that requires a call: `"required"` or `"any"`
    #[setting(default = RequiredChoice::Required, or = BY_PROFILE, word)]
    pub required_choice: RequiredChoice,
    /// send the tool's name with its results
    #[setting(or = BY_PROFILE)]
    pub name_results: bool,
    /// send the `cache_control` of clients of Messages
    #[setting(or = BY_PROFILE)]
    pub cache_control: bool,
    /// the header of `api_key`: `"authorization"` or `"api-key"`
    #[setting(default = KeyHeader::Bearer, or = BY_PROFILE, words = KEY_HEADER)]
    pub key_header: KeyHeader,
    /// for Azure's API with versions: the `api-version` of requests to
    /// `openai/deployments/MODEL/chat/completions` below the base URL
    #[setting(or = "none")]
    pub api_version: Option<String>,
    /// Whether the model is known to accept only schemas as OpenAI's APIs demand.
    #[setting(skip)]
    pub strict_schemas: bool,
}

/// When to request a stream from an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Streaming {
    /// If the client asks for a stream. Without a stream, clients see the upstream's status, and all
    /// upstreams report token counts.
    #[default]
    AsAsked,
    /// Always, for upstreams that can only stream. toolwire assembles complete responses for clients that do
    /// not stream.
    Always,
}

impl Options {
    /// Whether the upstream accepts hints about which part of the prompt should be cached.
    pub(super) fn takes_cache_hints(&self) -> bool {
        self.cache_control || self.server == Server::OpenRouter
    }

    /// The fields of Responses that the server accepts under the same names.
    pub(super) fn openai_fields(&self) -> &'static [&'static str] {
        match (self.profile, self.server) {
            (Profile::OpenAi | Profile::Azure | Profile::OpenRouter, _) => SHARED,
            (_, Server::OpenAi | Server::OpenRouter) => SHARED,
            (Profile::Moonshot, _) => &["prompt_cache_key", "safety_identifier"],
            _ => &[],
        }
    }

    /// Whether the server accepts `top_k`, which OpenAI's API does not have.
    pub(super) fn takes_top_k(&self) -> bool {
        matches!(
            self.server,
            Server::Vllm | Server::Sglang | Server::LlamaCpp | Server::OpenRouter | Server::Fireworks
        )
    }

    /// Whether the server accepts `thinking` as defined by Anthropic's API.
    pub(super) fn takes_thinking(&self) -> bool {
        matches!(self.profile, Profile::Moonshot | Profile::DeepSeek)
    }

    /// Whether `reasoning_effort` may be `none` for `model`.
    pub(super) fn takes_no_effort(&self, model: &str) -> bool {
        match self.profile {
            Profile::OpenAi | Profile::Azure => thinking::takes_none(model),
            Profile::Gemini => model.to_ascii_lowercase().contains("gemini-2.5-flash"),
            _ => self.server == Server::Ollama,
        }
    }

    /// The defaults for the server at `host`.
    pub fn of_host(host: &str) -> Self {
        let mut options = Self::default();
        options.adapt_to_host(host);
        options
    }
}

const DEVELOPER_ROLE: [(&str, bool); 2] = [("keep", true), ("system", false)];
const CUSTOM_TOOLS: [(&str, bool); 2] = [("keep", true), ("function", false)];
const RESULT_IMAGES: [(&str, bool); 2] = [("keep", true), ("user", false)];
const TOOL_NAMES: [(&str, NameForm); 2] = [("plain", NameForm::Word), ("keep", NameForm::Any)];
const CALL_IDS: [(&str, IdForm); 3] =
    [("keep", IdForm::Any), ("at_most_40", IdForm::AtMost(40)), ("nine", IdForm::Alphanumeric(9))];
const KEY_HEADER: [(&str, KeyHeader); 2] =
    [("authorization", KeyHeader::Bearer), ("api-key", KeyHeader::Named("api-key"))];

/// How the documentation shows the default of a setting that the profile determines.
const BY_PROFILE: &str = "by `profile`";

impl Options {
    /// Visits `profile`, whose value sets the defaults of the settings after it.
    fn visit_profile(&mut self, keys: &mut dyn Visitor) {
        let profile = self.profile;
        let about = "the provider whose [deviations](protocols/chat.md) are the defaults of the other settings: \
                     `\"openai\"`, `\"azure\"`, `\"mistral\"`, `\"moonshot\"`, `\"deepseek\"`, `\"gemini\"`, \
                     `\"openrouter\"`, `\"groq\"`, `\"fireworks\"`, `\"together\"`, or `\"none\"`";
        keys.key(
            Key::new("profile", about).or("by the host, else `\"none\"`"),
            Field::Word(&mut self.profile),
        );
        if self.profile != profile {
            self.profile.apply(self);
        }
    }
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn adapt_to_host(&mut self, host: &str) {
        Profile::at_host(&host.to_ascii_lowercase()).apply(self);
    }

    fn path(&self) -> &'static str {
        PATH
    }

    /// The API does not accept the URLs of files, so a file is sent by reference only if OpenAI's servers
    /// store it.
    fn file_part(&self, file: &File) -> Option<Part> {
        let value = match &file.source {
            Source::Data(_) => file.recording().or_else(|| {
                let data = file.data_url()?;
                Some(json!({"type": "file", "file": {"filename": file.name_or_kind(), "file_data": data}}))
            })?,
            Source::Id { id, owner: Dialect::Chat | Dialect::Responses } if file.mime.is_empty() => {
                json!({"type": "file", "file": {"file_id": id}})
            }
            _ => return None,
        };
        Some(part_of(Dialect::Chat, value))
    }

    fn instructions_take_media(&self) -> bool {
        true
    }

    fn key_header(&self) -> KeyHeader {
        self.key_header
    }

    fn takes_betas(&self) -> bool {
        true
    }

    fn wants_back(&self) -> WantsBack {
        self.wants_back
    }

    fn name_form(&self) -> NameForm {
        self.tool_names
    }

    fn id_form(&self) -> IdForm {
        self.call_ids
    }

    fn openai_base(&self) -> Option<&'static str> {
        Some("")
    }

    fn models_path(&self) -> Option<&'static str> {
        Some(MODELS_PATH)
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        let path = self.api_version.as_ref().map(|version| {
            let [deployment, version] = [model, version].map(segment);
            format!("openai/deployments/{deployment}/{PATH}?api-version={version}")
        });
        UpstreamRequest { path, ..request::encode(conversation, model, self) }
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Chat(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            verbatim: rules.client == Dialect::Chat,
            cumulative: self.cumulative,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    /// Enables search as in GLM's API.
    fn enable_search(&mut self, conversation: &mut Conversation) {
        conversation.rest.add_tool(
            Dialect::Chat.name(),
            json!({"type": "web_search", "web_search": {"enable": true, "search_result": true}}),
        );
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        self.server.identify(probe, body)
    }

    fn separates_reasoning(&self) -> bool {
        self.profile != Profile::None
    }

    fn template_source(&self) -> Option<(TemplateSource, bool)> {
        match self.server {
            Server::LlamaCpp => Some((TemplateSource::Props, true)),
            Server::Ollama => Some((TemplateSource::Show, false)),
            Server::Unknown if self.profile == Profile::None => Some((TemplateSource::Props, false)),
            _ => None,
        }
    }

    fn follows_reasoning(&self) -> bool {
        self.past_reasoning.for_server(self.server) == PastReasoning::Auto
    }

    fn may_join(&self, turns: &[Turn]) -> bool {
        let is_joined = self.join_user_turns && self.system_messages != SystemMessages::Auto;
        !is_joined && has_joinable_turns(turns)
    }

    fn observe(&mut self, observed: Observed) {
        if self.follows_reasoning() && observed.reasoning == Some(ReasoningField::Reasoning) {
            self.past_reasoning = PastReasoning::Reasoning;
        }
        if observed.strict_roles {
            self.join_user_turns = true;
            if self.system_messages == SystemMessages::Auto {
                self.system_messages = SystemMessages::First;
            }
        }
        if observed.limit_includes_reasoning && self.max_tokens == MaxTokens::AsGiven {
            self.max_tokens = MaxTokens::MaxCompletionTokens;
        }
        self.strict_schemas |= observed.strict_schemas;
    }

    fn means(&self) -> Means {
        self.server.means()
    }

    fn is_cumulative(&self) -> bool {
        self.cumulative
    }

    fn set_cumulative(&mut self, cumulative: bool) {
        self.cumulative = cumulative;
    }
}

/// Encodes `text` as one path segment or query value.
fn segment(text: &str) -> String {
    let encoded = in_url(text).to_string();
    // Unescaped, the segments `.` and `..` would change the path.
    if encoded.bytes().all(|byte| byte == b'.') { encoded.replace('.', "%2E") } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_is_one_segment_of_the_path() {
        let options = Options { api_version: Some("2024-10-21".to_owned()), ..Options::default() };
        let path = |model: &str| options.encode(&Conversation::default(), model).path.unwrap();
        let tail = "/chat/completions?api-version=2024-10-21";
        assert_eq!(path("gpt-4.1"), format!("openai/deployments/gpt-4.1{tail}"));
        for (model, segment) in [("../x?a#b", "..%2Fx%3Fa%23b"), ("..", "%2E%2E"), ("é\r\n", "%C3%A9%0D%0A")]
        {
            assert_eq!(path(model), format!("openai/deployments/{segment}{tail}"));
        }
        assert_eq!(Options::default().encode(&Conversation::default(), "m").path, None);
    }
}

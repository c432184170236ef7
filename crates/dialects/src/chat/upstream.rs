//! [`Options`]: the settings for an upstream of this dialect.

use serde_json::json;

use super::{
    MODELS_PATH, MaxTokens, PATH, PastReasoning, Profile, ReaderSettings, RequiredChoice, Server, refusal,
    request,
};
use crate::{
    Dialect, File, KeyHeader, Observed, Probe, Reader, ReaderRules, ReasoningField, Source, SystemMessages,
    UpstreamRequest, UpstreamSide,
    conversation::{Conversation, IdForm, NameForm, Part, Turn, WantsBack, has_joinable_turns},
    enforce::Means,
    failure::Failure,
    fit::part_of,
    settings::{Field, Key, OneOf, Visitor},
    thinking,
    upstream::include_usage,
};

/// How an upstream differs from OpenAI's own servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether to request token counts at the end of the stream. Some upstreams reject this option.
    pub include_usage: bool,
    /// Whether each delta repeats all earlier text.
    pub cumulative: bool,
    /// When to request a stream.
    pub stream: Streaming,
    /// Whether the upstream knows the role `developer`. If not, `system` is sent instead.
    pub keep_developer: bool,
    /// Whether the upstream knows custom tools. If not, they are sent as functions with one argument for the
    /// input.
    pub keep_custom_tools: bool,
    /// Whether results may contain images. If not, the images follow in a user turn.
    pub keep_result_images: bool,
    /// Whether to join adjacent user turns, for chat templates in which user and assistant must alternate.
    pub join_user_turns: bool,
    /// What to do with system messages other than a single one at the start.
    pub system_messages: SystemMessages,
    /// The server software, which determines which constraints can be enforced and how to request them.
    pub server: Server,
    /// The provider, which determines the defaults of the other options.
    pub profile: Profile,
    /// The field for the token limit.
    pub max_tokens: MaxTokens,
    /// Which tool names the upstream accepts.
    pub tool_names: NameForm,
    /// Which call ids the upstream accepts.
    pub call_ids: IdForm,
    /// The state of past turns that the upstream needs back.
    pub wants_back: WantsBack,
    /// How past reasoning is sent.
    pub past_reasoning: PastReasoning,
    /// Whether past calls must be sent with reasoning, even if it is empty.
    pub reasoning_placeholder: bool,
    /// Whether `thinking` excludes `reasoning_effort` and must be off if a call is required.
    pub exclusive_thinking: bool,
    /// The value of `tool_choice` that requires a call.
    pub required_choice: RequiredChoice,
    /// Whether results must name their tools.
    pub name_results: bool,
    /// The header that contains the API key.
    pub key_header: KeyHeader,
    /// The version of Azure's API. If set, requests go to the deployment named after the model.
    pub api_version: Option<String>,
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

impl Default for Options {
    /// Returns the options for OpenAI's own servers.
    fn default() -> Self {
        Self {
            include_usage: true,
            cumulative: false,
            stream: Streaming::default(),
            keep_developer: true,
            keep_custom_tools: true,
            keep_result_images: false,
            join_user_turns: false,
            system_messages: SystemMessages::Auto,
            server: Server::Unknown,
            profile: Profile::None,
            max_tokens: MaxTokens::AsGiven,
            tool_names: NameForm::Word,
            call_ids: IdForm::Any,
            wants_back: WantsBack::Nothing,
            past_reasoning: PastReasoning::Auto,
            reasoning_placeholder: false,
            exclusive_thinking: false,
            required_choice: RequiredChoice::Required,
            name_results: false,
            key_header: KeyHeader::Bearer,
            api_version: None,
        }
    }
}

impl Options {
    /// Whether the upstream accepts hints up to where the prompt should be cached.
    pub(super) fn takes_cache_hints(&self) -> bool {
        self.profile == Profile::OpenRouter || self.server == Server::OpenRouter
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
    /// Visits the settings for tools and reasoning in which providers differ.
    fn provider_settings(&mut self, keys: &mut dyn Visitor) {
        keys.key(
            Key::new(
                "max_tokens_field",
                "the field for the limit of tokens: `\"max_tokens\"`, `\"max_completion_tokens\"`, or \
                 `\"as_given\"`, the client's",
            )
            .or(BY_PROFILE),
            Field::Word(&mut self.max_tokens),
        );
        keys.key(
            Key::new(
                "tool_names",
                "[replace names](dialects.md) of tools other than 1 to 64 letters, digits, `_` and `-`; \
                 `\"keep\"` leaves them",
            ),
            Field::Word(&mut OneOf(&mut self.tool_names, &TOOL_NAMES)),
        );
        keys.key(
            Key::new(
                "call_ids",
                "ids of past calls that are accepted, not replaced: `\"keep\"` (all), `\"at_most_40\"` \
                 characters, or `\"nine\"` letters and digits",
            )
            .or(BY_PROFILE),
            Field::Word(&mut OneOf(&mut self.call_ids, &CALL_IDS)),
        );
        keys.key(
            Key::new(
                "wants_back",
                "what is kept of a response with calls and [put back](dialects.md) when they are replayed: \
                 `\"nothing\"`, `\"signatures\"`, or all `\"reasoning\"`",
            )
            .or(BY_PROFILE),
            Field::Word(&mut self.wants_back),
        );
        keys.key(
            Key::new(
                "past_reasoning",
                "the field for reasoning in the history: `\"reasoning_content\"`, `\"reasoning\"` (and \
                 `reasoning_details`), `\"off\"`, or `\"auto\"`: that which the server or model uses",
            )
            .or(BY_PROFILE),
            Field::Word(&mut self.past_reasoning),
        );
        keys.key(
            Key::new("reasoning_placeholder", "send an empty reasoning with past calls that have none")
                .or(BY_PROFILE),
            Field::Switch(&mut self.reasoning_placeholder),
        );
        keys.key(
            Key::new(
                "exclusive_thinking",
                "leave out `reasoning_effort` with `thinking`, and disable `thinking` if a call is required",
            )
            .or(BY_PROFILE),
            Field::Switch(&mut self.exclusive_thinking),
        );
        keys.key(
            Key::new(
                "required_choice",
                "the `tool_choice` that requires a call: `\"required\"` or `\"any\"`",
            )
            .or(BY_PROFILE),
            Field::Word(&mut self.required_choice),
        );
        keys.key(
            Key::new("name_results", "send the tool's name with its results").or(BY_PROFILE),
            Field::Switch(&mut self.name_results),
        );
        keys.key(
            Key::new("key_header", "the header of `api_key`: `\"authorization\"` or `\"api-key\"`")
                .or(BY_PROFILE),
            Field::Word(&mut OneOf(&mut self.key_header, &KEY_HEADER)),
        );
        keys.key(
            Key::new(
                "api_version",
                "for Azure's API with versions: the `api-version` of requests to \
                 `openai/deployments/MODEL/chat/completions` below the base URL",
            )
            .or("none"),
            Field::OptionalText(&mut self.api_version),
        );
    }
}

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn settings(&mut self, keys: &mut dyn Visitor) {
        let profile = self.profile;
        keys.key(
            Key::new(
                "profile",
                "the provider whose [deviations](protocols/chat.md) are the defaults of the other settings: \
                 `\"openai\"`, `\"azure\"`, `\"mistral\"`, `\"moonshot\"`, `\"deepseek\"`, `\"gemini\"`, \
                 `\"openrouter\"`, `\"groq\"`, `\"fireworks\"`, `\"together\"`, or `\"none\"`",
            )
            .or("by the host, else `\"none\"`"),
            Field::Word(&mut self.profile),
        );
        if self.profile != profile {
            self.profile.apply(self);
        }
        include_usage(keys, &mut self.include_usage);
        keys.key(
            Key::new("cumulative", "for servers whose deltas repeat all earlier text"),
            Field::Switch(&mut self.cumulative),
        );
        keys.key(
            Key::new(
                "stream",
                "request a stream if the client does; `\"always\"` for servers that can only stream",
            ),
            Field::Word(&mut self.stream),
        );
        keys.key(
            Key::new(
                "developer_role",
                "send `developer` messages as `system` messages; `\"keep\"` (the default for OpenAI and Azure) \
                 leaves them",
            ),
            Field::Word(&mut OneOf(&mut self.keep_developer, &DEVELOPER_ROLE)),
        );
        keys.key(
            Key::new(
                "custom_tools",
                "send custom tools as functions with one string, `input`; `\"keep\"` (the default for OpenAI and \
                 Azure) leaves them",
            ),
            Field::Word(&mut OneOf(&mut self.keep_custom_tools, &CUSTOM_TOOLS)),
        );
        keys.key(
            Key::new(
                "result_images",
                "send images and files of a tool result in a user message; `\"keep\"` leaves them, but most \
                 servers accept only text there",
            ),
            Field::Word(&mut OneOf(&mut self.keep_result_images, &RESULT_IMAGES)),
        );
        keys.key(
            Key::new(
                "join_user_turns",
                "send consecutive user messages as one, for chat templates in which roles must alternate. \
                 Otherwise only after a [refusal](protocols/chat.md), for an hour",
            ),
            Field::Switch(&mut self.join_user_turns),
        );
        self.system_messages.setting(keys);
        keys.key(
            Key::new(
                "server",
                "the server's software, which decides how responses can be [constrained](#enforcing-calls): \
                 `\"vllm\"`, `\"sglang\"`, `\"llama.cpp\"`, `\"llama-cpp-python\"`, `\"ollama\"`, \
                 `\"lm-studio\"`, `\"tgi\"`, `\"tensorrt-llm\"`, `\"openai\"`, `\"mistral\"`, `\"deepseek\"`, \
                 `\"groq\"`, `\"fireworks\"`, `\"openrouter\"`, or `\"other\"` (nothing). `\"auto\"` \
                 [recognises](#which-server-it-is) some",
            )
            .or("by `profile`, else `\"auto\"`"),
            Field::Word(&mut self.server),
        );
        self.provider_settings(keys);
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
            let [deployment, version] = [model, version].map(in_url);
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
        self.server = Server::of_answer(probe, body)?;
        Some(self.server.name())
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

/// Percent-encodes `text` as a single path segment or query value (RFC 3986, section 2).
fn in_url(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    // Unescaped, the segments `.` and `..` would change the path.
    let has_only_dots = text.bytes().all(|byte| byte == b'.');
    let encoded = text.bytes().map(|byte| match byte {
        byte if is_plain(byte) && !has_only_dots => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
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

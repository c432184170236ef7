//! [`Options`]: the upstream's side of this dialect, with the settings of one upstream.

use super::{MODELS_PATH, PATH, ReaderSettings, Server, refusal, request};
use crate::{
    conversation::Conversation,
    dialect::{
        Dialect, Probe, Reader, ReaderRules, UpstreamRequest, UpstreamSide, server::SERVERS,
        upstream::include_usage,
    },
    enforce::Means,
    failure::Failure,
    settings::{Field, Key, OneOf, Settings},
};

/// How one upstream differs from OpenAI's own servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Request token counts at the end of the stream. Off for upstreams that reject the option.
    pub include_usage: bool,
    /// Each delta repeats all of the text before it.
    pub cumulative: bool,
    /// When a stream is requested.
    pub stream: Streaming,
    /// The role `developer` is known. Otherwise such a message is sent as a `system` one.
    pub keep_developer: bool,
    /// Custom tools are known. Otherwise they are sent as functions with one argument for the input.
    pub keep_custom_tools: bool,
    /// A tool's result may contain images. Otherwise they follow in a user turn.
    pub keep_result_images: bool,
    /// Adjacent user turns are joined, for chat templates in which user and assistant must alternate.
    pub join_user_turns: bool,
    /// The software behind the API, which decides what can be enforced and how it is asked for.
    pub server: Server,
}

/// When an upstream is asked for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Streaming {
    /// If the client asks for one. What the upstream reports in a response that is not streamed (its status,
    /// its token counts) reaches the client.
    #[default]
    AsAsked,
    /// Always: for upstreams that only stream. Responses for clients that do not stream are assembled here.
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
            server: Server::Unknown,
        }
    }
}

/// Hosts that serve OpenAI's own models. Names below them (`….openai.azure.com`) belong to them.
const OPENAI_HOSTS: [&str; 4] =
    ["api.openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"];

impl Options {
    /// The defaults for the server at `host`.
    pub fn of_host(host: &str) -> Self {
        let mut options = Self::default();
        options.adapt_to_host(host);
        options
    }
}

const STREAM: [(&str, Streaming); 2] = [("as_asked", Streaming::AsAsked), ("always", Streaming::Always)];
const DEVELOPER_ROLE: [(&str, bool); 2] = [("keep", true), ("system", false)];
const CUSTOM_TOOLS: [(&str, bool); 2] = [("keep", true), ("function", false)];
const RESULT_IMAGES: [(&str, bool); 2] = [("keep", true), ("user", false)];

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn settings(&mut self, keys: &mut dyn Settings) {
        include_usage(keys, &mut self.include_usage);
        keys.key(
            Key::new("cumulative", "for servers whose deltas repeat all earlier text"),
            Field::Switch(&mut self.cumulative),
        );
        keys.key(
            Key::new(
                "stream",
                "request a stream only if the client does; otherwise request a complete response, whose \
             status and token counts then reach the client. `\"always\"` is for servers that can only \
             stream; toolwire then assembles complete responses",
            ),
            Field::Word(&mut OneOf(&mut self.stream, &STREAM)),
        );
        keys.key(
            Key::new(
                "developer_role",
                "send messages of the role `developer` as `system` messages; `\"keep\"` leaves them unchanged \
             and is the default for OpenAI's and Azure's hosts",
            ),
            Field::Word(&mut OneOf(&mut self.keep_developer, &DEVELOPER_ROLE)),
        );
        keys.key(
            Key::new(
                "custom_tools",
                "send tools of `type: \"custom\"` as functions with one string argument, `input`, and turn \
             their calls back into custom calls; `\"keep\"` leaves them unchanged and is the default for \
             OpenAI's and Azure's hosts",
            ),
            Field::Word(&mut OneOf(&mut self.keep_custom_tools, &CUSTOM_TOOLS)),
        );
        keys.key(
            Key::new(
                "result_images",
                "send images and files of a tool result in a user message after the results, because most \
             servers accept only text in a result; `\"keep\"` leaves them in the result",
            ),
            Field::Word(&mut OneOf(&mut self.keep_result_images, &RESULT_IMAGES)),
        );
        keys.key(
            Key::new(
                "join_user_turns",
                "send consecutive user messages as one, for chat templates in which user and assistant must \
             alternate (the result of a taught tool is a user message too)",
            ),
            Field::Switch(&mut self.join_user_turns),
        );
        keys.key(
            Key::new(
                "server",
                "the software behind the API. It decides by what means `enforce` can constrain responses and \
             how they are asked for: `\"vllm\"`, `\"sglang\"`, `\"llama.cpp\"`, `\"llama-cpp-python\"`, \
             `\"ollama\"`, `\"lm-studio\"`, `\"tgi\"`, `\"tensorrt-llm\"`, `\"openai\"`, `\"mistral\"`, \
             `\"deepseek\"`, `\"groq\"`, `\"fireworks\"`, `\"openrouter\"`, or `\"other\"`, for which nothing \
             can be enforced. `\"auto\"` [recognises](#which-server-it-is) some of these by their answers",
            )
            .or("by the host, else `\"auto\"`"),
            Field::Word(&mut OneOf(&mut self.server, &SERVERS)),
        );
    }

    /// OpenAI's own servers support what most others with their API do not.
    fn adapt_to_host(&mut self, host: &str) {
        let host = host.to_ascii_lowercase();
        let is_openai = OPENAI_HOSTS.iter().any(|known| {
            host.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        });
        self.keep_developer = is_openai;
        self.keep_custom_tools = is_openai;
        self.server = Server::at_host(&host);
    }

    fn path(&self) -> &'static str {
        PATH
    }

    fn openai_base(&self) -> Option<&'static str> {
        Some("")
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

    fn probes(&self) -> &'static [Probe] {
        self.server.probes()
    }

    fn identify(&mut self, probe: &Probe, body: &[u8]) -> Option<&'static str> {
        self.server = Server::of_answer(probe, body)?;
        Some(self.server.name())
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

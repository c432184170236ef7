//! The rules of one model, as its configuration entry defines them.

use std::str::FromStr;

use crate::failure::{Failure, Kind};

/// How the responses of one model are read and forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The text formats to look for.
    pub detect: Detect,
    /// Whether reasoning markers are recognised, independently of `detect`, and how reasoning is passed on.
    pub reasoning: Reasoning,
    /// What happens to calls that the upstream ran itself.
    pub server_calls: ServerCalls,
    /// What happens to calls to a client tool that arrive on the upstream's server-tool channel.
    pub misroute: Misroute,
    /// Whether arguments are streamed or sent in one piece.
    pub arguments: ArgumentDelivery,
    /// What happens to a call to an undeclared name in a format with markers.
    pub unknown_calls: UnknownCalls,
    /// What happens to a response without the call that `tool_choice` requires.
    pub enforce: Enforce,
    /// What happens to a call whose arguments violate their schema.
    pub invalid_arguments: InvalidArguments,
    /// The model's chat template opens the reasoning, so the text starts inside it and contains only the
    /// closing marker.
    pub starts_in_reasoning: bool,
    /// Whether arguments that are not valid JSON are repaired. Each repair is local and happens after the
    /// call has started.
    pub repair: bool,
    /// Prefix of tool names in the prompt, such as `user:`; it is removed from the model's calls. Empty: no prefix. A name
    /// with the prefix always means the client's tool, even if the upstream has a tool with the same name.
    pub tool_prefix: String,
    /// Names of the upstream's own tools. If tools are taught with a prefix, a call to one of these names without the
    /// prefix belongs to the upstream.
    pub server_tools: Vec<String>,
    /// Whether a response whose body ends without an end mark counts as complete. Otherwise it is reported as
    /// truncated.
    pub tolerate_truncation: bool,
    /// How the instructions present the text format to the model.
    pub showing: Showing,
    /// Limits of one response.
    pub limits: Limits,
}

impl Rules {
    /// Whether a response may take more than one upstream request.
    pub fn may_follow_up(&self) -> bool {
        let asks_again = self.misroute == Misroute::Bounce
            || self.enforce == Enforce::Retry
            || self.unknown_calls == UnknownCalls::Retry
            || self.invalid_arguments == InvalidArguments::Retry;
        self.limits.max_hops > 1 && asks_again
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            detect: Detect::Auto,
            reasoning: Reasoning::Auto,
            server_calls: ServerCalls::Auto,
            misroute: Misroute::Rescue,
            arguments: ArgumentDelivery::Stream,
            unknown_calls: UnknownCalls::Forward,
            enforce: Enforce::Off,
            invalid_arguments: InvalidArguments::Forward,
            starts_in_reasoning: false,
            repair: true,
            tool_prefix: String::new(),
            server_tools: Vec::new(),
            tolerate_truncation: false,
            showing: Showing::default(),
            limits: Limits::default(),
        }
    }
}

/// How the instructions present a text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Showing {
    /// `examples`: number of example calls.
    pub examples: usize,
    /// `examples_as`: where the example calls are shown.
    pub examples_as: ExamplesAs,
    /// `tool_list`: how tools are described.
    pub tool_list: ToolList,
    /// `max_instructions`: maximum estimated tokens of the instructions. `None`: no limit.
    pub max_instructions: Option<usize>,
}

impl Default for Showing {
    fn default() -> Self {
        Self {
            examples: 3,
            examples_as: ExamplesAs::Turns,
            tool_list: ToolList::Signatures,
            max_instructions: None,
        }
    }
}

/// `examples_as`: where example calls are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExamplesAs {
    /// In the instructions.
    Text,
    /// As turns before the conversation.
    Turns,
}

/// `tool_list`: how tools are described in the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolList {
    /// As JSON objects with their JSON Schema.
    Schemas,
    /// As signatures.
    Signatures,
}

/// `detect`: which text formats are looked for. Formats are given by name; a detector looks the names up
/// among the known formats when it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detect {
    /// All formats that are safe to look for at once.
    Auto,
    /// Like `Auto`, but the formats with these names come first, whether or not `Auto` includes them.
    AutoAnd(Vec<&'static str>),
    /// No calls are looked for.
    Off,
    /// The formats with these names, and no others.
    Formats(Vec<&'static str>),
}

/// `reasoning`: how reasoning is passed on to the client, and whether reasoning markers in text are
/// recognised. Unless the value is [`Reasoning::Off`], the recognised markers are those that are safe in any
/// text, and those of the formats that are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// In the field that the client's dialect provides for it.
    #[default]
    Auto,
    /// Like `Auto`, but always as `reasoning_content` to clients of Chat Completions.
    ReasoningContent,
    /// Like `Auto`, but always as `reasoning` to clients of Chat Completions.
    Reasoning,
    /// In the text, between `<think>` and `</think>`.
    Inline,
    /// Not at all.
    Drop,
    /// Like `Auto`, but markers are not recognised: reasoning in text is text.
    Off,
}

impl Reasoning {
    /// The values, with the words that configurations and requests use for them.
    pub const WORDS: [(&str, Self); 6] = [
        ("auto", Self::Auto),
        ("reasoning_content", Self::ReasoningContent),
        ("reasoning", Self::Reasoning),
        ("inline", Self::Inline),
        ("drop", Self::Drop),
        ("off", Self::Off),
    ];

    /// Whether reasoning markers in text are recognised.
    pub fn reads_markers(self) -> bool {
        self != Self::Off
    }

    /// Whether the client gets reasoning in a separate field.
    pub fn has_field(self) -> bool {
        !matches!(self, Self::Inline | Self::Drop)
    }
}

impl FromStr for Reasoning {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::WORDS.iter().find(|(known, _)| *known == word);
        named.map(|(_, reasoning)| *reasoning).ok_or_else(|| {
            let known = Self::WORDS.map(|(word, _)| format!("`{word}`"));
            format!("`{word}` is not one of {}", known.join(", "))
        })
    }
}

/// `server_calls`: what happens to calls that the upstream ran itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCalls {
    /// Like `Forward` if the client declared this tool or no tools at all; otherwise like `Annotate`.
    Auto,
    /// Sent as `tool_calls` deltas, with their results in an extension field. The finish reason does not change.
    Forward,
    /// Web results become citations. The calls and their results appear only in the extension field.
    Annotate,
    /// Dropped.
    Hide,
}

/// `misroute`: what happens to a call to a declared tool over the server-tool channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misroute {
    /// The call goes to the client.
    Rescue,
    /// Like `Rescue`, but if required arguments are missing, the model is asked once more.
    Bounce,
}

/// `arguments`: whether arguments are streamed or sent in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentDelivery {
    /// Each piece is sent as it arrives.
    Stream,
    /// A call is sent when it is complete and parsed.
    Whole,
}

/// `unknown_calls`: what happens to a call to an undeclared name in a format with markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownCalls {
    /// Forwarded, so that the client's error result lets the model recover.
    Forward,
    /// Left as text.
    Text,
    /// The model is asked again. If its next call is no better, the call is forwarded.
    Retry,
}

/// `invalid_arguments`: what happens to a call whose arguments violate the schema of its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidArguments {
    /// Forwarded, so that the client's error result lets the model recover.
    Forward,
    /// The model is asked again. If its next call is no better, the call is forwarded.
    Retry,
}

/// `enforce`: how the upstream is made to write well-formed calls where the client requires calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Enforce {
    /// By the best means that the upstream has.
    Auto,
    /// By a JSON schema of the whole response.
    Schema,
    /// By structural tags: a schema from a call's opener to its closer.
    StructuralTag,
    /// By a grammar of the whole response.
    Grammar,
    /// By beginning the response with a call's opener.
    Prefill,
    /// By asking once more.
    Retry,
    /// Not at all: only the instructions ask for the call.
    #[default]
    Off,
}

impl Enforce {
    /// Whether the value depends on the constraints that the upstream's server can enforce.
    pub fn uses_means(self) -> bool {
        !matches!(self, Self::Retry | Self::Off)
    }
}

/// How the calls of hosted tools are handled in one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedRules {
    /// What happens when a hop calls both hosted tools and client tools.
    pub mixed_turns: MixedTurns,
    /// The text between the texts of two hops.
    pub separator: String,
}

impl Default for HostedRules {
    fn default() -> Self {
        Self { mixed_turns: MixedTurns::Defer, separator: "\n\n".to_owned() }
    }
}

/// `mixed_turns`: what happens when a hop calls both hosted tools and client tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MixedTurns {
    /// The client gets its calls; the results of the hosted calls are added when it sends its own results.
    #[default]
    Defer,
    /// The hosted calls run; the model is asked to repeat the client's calls.
    ServerFirst,
    /// The hosted calls are dropped.
    ClientOnly,
}

/// Limits of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of one upstream frame. If it is exceeded, the response fails.
    pub max_frame: usize,
    /// Maximum bytes of one call's arguments. If it is exceeded, the response fails.
    pub max_arguments: usize,
    /// Maximum number of calls in one response. If it is exceeded, the response fails.
    pub max_calls: usize,
    /// Maximum bytes of text that is held back because it may be the start of a call. If it is exceeded, the
    /// text is released as text.
    pub max_hold: usize,
    /// Maximum nesting depth of values in calls. A deeper candidate is text, or the call is cut off.
    pub max_depth: usize,
    /// Maximum bytes of an undeclared tool name. A candidate with a longer name is text.
    pub max_name: usize,
    /// Maximum bytes of one piece of markup in calls: a header, an opening tag, a name, a key. If it is
    /// exceeded, the candidate is text, or the call is cut off.
    pub max_markup: usize,
    /// Maximum bytes of a response that is not streamed and therefore buffered. If it is exceeded, the
    /// response fails.
    pub max_answer: usize,
    /// Maximum number of upstream requests for one response, including the first, if the model is asked
    /// again. When it is reached, the response ends with the output of the last request.
    pub max_hops: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 8 << 20,
            max_arguments: 1 << 20,
            max_calls: 128,
            max_hold: 1 << 20,
            max_depth: 128,
            max_name: 256,
            max_markup: 1024,
            max_answer: 64 << 20,
            max_hops: 2,
        }
    }
}

/// The failures of responses that exceed a limit.
impl Limits {
    /// The response has more than `max_calls` calls.
    pub fn too_many_calls(&self) -> Failure {
        let limit = self.max_calls;
        Failure::new(Kind::Limit, format!("the response has more than {limit} tool calls (limits.max_calls)"))
    }

    /// The arguments of a call take more than `max_arguments` bytes.
    pub fn arguments_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        let message = format!("a tool call's arguments are longer than {limit} bytes (limits.max_arguments)");
        Failure::new(Kind::Limit, message)
    }

    /// The calls of hosted tools take more bytes than may be kept until they run.
    pub fn hosted_calls_too_long(&self) -> Failure {
        let limit = self.max_hold.max(self.max_arguments);
        let message = format!(
            "the tool calls of one turn are longer than {limit} bytes (limits.max_hold, limits.max_arguments)"
        );
        Failure::new(Kind::Limit, message)
    }

    /// The name of a call takes more than `max_name` bytes and is not declared.
    pub fn name_too_long(&self) -> Failure {
        let limit = self.max_name;
        let message = format!("a tool call's name is longer than {limit} bytes (limits.max_name)");
        Failure::new(Kind::Limit, message)
    }

    /// A response that is not streamed takes more than `max_answer` bytes.
    pub fn answer_too_long(&self) -> Failure {
        let limit = self.max_answer;
        let message =
            format!("the response is longer than {limit} bytes (limits.max_answer); request a stream");
        Failure::new(Kind::Limit, message)
    }

    /// The id of a call takes more than `max_arguments` bytes.
    pub fn id_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        Failure::new(
            Kind::Limit,
            format!("a tool call's id is longer than {limit} bytes (limits.max_arguments)"),
        )
    }
}

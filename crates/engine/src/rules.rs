//! The rules of a model, as defined by its configuration entry.

use std::str::FromStr;

use strum::VariantArray;

use crate::failure::{Failure, Kind};

/// How to read and forward the responses of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The text formats to look for.
    pub detect: Detect,
    /// How reasoning is passed on, and whether reasoning markers are recognised, which does not depend on
    /// `detect`.
    pub reasoning: Reasoning,
    /// What to do with calls that the upstream ran itself.
    pub server_calls: ServerCalls,
    /// What to do with calls to client tools that arrive on the upstream's server-tool channel.
    pub misroute: Misroute,
    /// Whether to stream arguments or send them in one piece.
    pub arguments: ArgumentDelivery,
    /// What to do with a call to an undeclared tool in a format with markers.
    pub unknown_calls: UnknownCalls,
    /// What to do with a response without the call that `tool_choice` requires.
    pub enforce: Enforce,
    /// What to do with a call whose arguments violate their schema.
    pub invalid_arguments: InvalidArguments,
    /// Whether the model's chat template opens the reasoning, so that the text starts inside it and contains
    /// only the closing marker.
    pub starts_in_reasoning: bool,
    /// Whether to repair arguments that are not valid JSON. A repair is local, and happens after the call has
    /// started.
    pub repair: bool,
    /// The prefix of tool names in the prompt, such as `user:`, which is removed from the names in calls. May
    /// be empty. A name with the prefix always refers to the client's tool, even if the upstream has a tool
    /// with that name.
    pub tool_prefix: String,
    /// The names of the upstream's own tools. If tools are taught with a prefix, a call to one of these names
    /// without the prefix is meant for the upstream.
    pub server_tools: Vec<String>,
    /// Whether a response whose body ends without an end marker counts as complete. If not, it is reported as
    /// truncated.
    pub tolerate_truncation: bool,
    /// How the instructions describe the text format to the model.
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

/// How the instructions describe a text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Showing {
    /// `examples`: the number of example calls.
    pub examples: usize,
    /// `examples_as`: where to show the example calls.
    pub examples_as: ExamplesAs,
    /// `tool_list`: how to describe tools.
    pub tool_list: ToolList,
    /// `max_instructions`: the maximum length of the instructions in estimated tokens. `None` means no limit.
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

/// `examples_as`: where to show example calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ExamplesAs {
    /// In the instructions.
    Text,
    /// As turns before the conversation.
    Turns,
}

/// `tool_list`: how the instructions describe tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ToolList {
    /// As JSON objects with their JSON Schema.
    Schemas,
    /// As function signatures.
    Signatures,
}

/// `detect`: which text formats to search for. Formats are identified by name, and a detector resolves the
/// names when it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detect {
    /// All formats that are safe to search for together.
    Auto,
    /// Like `Auto`, but the formats with these names come first, even if `Auto` does not include them.
    AutoAnd(Vec<&'static str>),
    /// No formats: calls in text are not detected.
    Off,
    /// Only the formats with these names.
    Formats(Vec<&'static str>),
}

/// `reasoning`: how to pass reasoning on to the client, and whether to recognise reasoning markers in text.
/// Unless it is [`Reasoning::Off`], those markers are recognised that are safe in any text, and those of the
/// formats that are searched for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Reasoning {
    /// In the field that the client's dialect has for it.
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
    /// Whether to recognise reasoning markers in text.
    pub fn reads_markers(self) -> bool {
        self != Self::Off
    }

    /// Whether clients get reasoning in a separate field.
    pub fn has_field(self) -> bool {
        !matches!(self, Self::Inline | Self::Drop)
    }
}

impl FromStr for Reasoning {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::VARIANTS.iter().copied().find(|known| <&str>::from(known) == word);
        named.ok_or_else(|| {
            let known: Vec<_> =
                Self::VARIANTS.iter().map(|known| format!("`{}`", <&str>::from(known))).collect();
            format!("`{word}` is not one of {}", known.join(", "))
        })
    }
}

/// `server_calls`: what to do with calls that the upstream ran itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ServerCalls {
    /// Like `Forward` if the client declared the tool, or declared no tools at all. Otherwise like
    /// `Annotate`.
    Auto,
    /// Send them as `tool_calls` deltas, with the results in an extension field. The finish reason does not
    /// change.
    Forward,
    /// Send web results as citations. The calls and their results appear only in the extension field.
    Annotate,
    /// Drop them.
    Hide,
}

/// `misroute`: what to do with a call to a declared tool on the server-tool channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Misroute {
    /// Send it to the client.
    Rescue,
    /// Like `Rescue`, but if required arguments are missing, ask the model once more.
    Bounce,
}

/// `arguments`: whether to stream arguments or send them in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ArgumentDelivery {
    /// Send each piece as it arrives.
    Stream,
    /// Send a call once it is complete and has been parsed.
    Whole,
}

/// `unknown_calls`: what to do with a call to an undeclared tool in a format with markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum UnknownCalls {
    /// Forward it, so that the client's error result lets the model recover.
    Forward,
    /// Leave it as text.
    Text,
    /// Ask the model again. If its next call is no better, forward the call.
    Retry,
}

/// `invalid_arguments`: what to do with a call whose arguments violate the schema of its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum InvalidArguments {
    /// Forward it, so that the client's error result lets the model recover.
    Forward,
    /// Ask the model again. If its next call is no better, forward the call.
    Retry,
}

/// `enforce`: how to make the upstream write well-formed calls when the client requires a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Enforce {
    /// With the strongest constraint that the upstream can enforce.
    Auto,
    /// With a JSON schema for the complete response.
    Schema,
    /// With structural tags: a schema that applies from a call's opener to its closer.
    StructuralTag,
    /// With a grammar for the complete response.
    Grammar,
    /// By starting the response with a call's opener.
    Prefill,
    /// By asking once more.
    Retry,
    /// Not at all: only the instructions ask for the call.
    #[default]
    Off,
}

impl Enforce {
    /// Whether this depends on the constraints that the upstream's server can enforce.
    pub fn uses_means(self) -> bool {
        !matches!(self, Self::Retry | Self::Off)
    }
}

/// How to handle hosted calls in one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedRules {
    /// What to do if a hop contains both hosted calls and client calls.
    pub mixed_turns: MixedTurns,
    /// The separator between the text of two hops.
    pub separator: String,
}

impl Default for HostedRules {
    fn default() -> Self {
        Self { mixed_turns: MixedTurns::Defer, separator: "\n\n".to_owned() }
    }
}

/// `mixed_turns`: what to do if a hop contains both hosted calls and client calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum MixedTurns {
    /// Send the client its calls, and add the results of the hosted calls when the client sends its own
    /// results.
    #[default]
    Defer,
    /// Run the hosted calls and ask the model to repeat the client calls.
    ServerFirst,
    /// Drop the hosted calls.
    ClientOnly,
}

/// Limits of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of an upstream frame. Exceeding it fails the response.
    pub max_frame: usize,
    /// Maximum bytes of the arguments of a call. Exceeding it fails the response.
    pub max_arguments: usize,
    /// Maximum number of calls. Exceeding it fails the response.
    pub max_calls: usize,
    /// Maximum bytes of text that is held back because a call may start there. If there is more, it is
    /// released as text.
    pub max_hold: usize,
    /// Maximum nesting depth of values in calls. If a value is deeper, the candidate is text, or the call is
    /// cut off.
    pub max_depth: usize,
    /// Maximum bytes of the name of an undeclared tool. A candidate with a longer name is text.
    pub max_name: usize,
    /// Maximum bytes of one piece of markup in a call: a header, an opening tag, a name or a key. If it is
    /// longer, the candidate is text, or the call is cut off.
    pub max_markup: usize,
    /// Maximum bytes of a response without streaming, which must be buffered. Exceeding it fails the
    /// response.
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

/// Failures of responses that exceed a limit.
impl Limits {
    /// There are more than `max_calls` calls.
    pub fn too_many_calls(&self) -> Failure {
        let limit = self.max_calls;
        Failure::new(Kind::Limit, format!("the response has more than {limit} tool calls (limits.max_calls)"))
    }

    /// The arguments of a call are longer than `max_arguments`.
    pub fn arguments_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        let message = format!("a tool call's arguments are longer than {limit} bytes (limits.max_arguments)");
        Failure::new(Kind::Limit, message)
    }

    /// The hosted calls are too long to be collected until they run.
    pub fn hosted_calls_too_long(&self) -> Failure {
        let limit = self.max_hold.max(self.max_arguments);
        let message = format!(
            "the tool calls of one turn are longer than {limit} bytes (limits.max_hold, limits.max_arguments)"
        );
        Failure::new(Kind::Limit, message)
    }

    /// The name of a call is not declared and is longer than `max_name`.
    pub fn name_too_long(&self) -> Failure {
        let limit = self.max_name;
        let message = format!("a tool call's name is longer than {limit} bytes (limits.max_name)");
        Failure::new(Kind::Limit, message)
    }

    /// A response without streaming is longer than `max_answer`.
    pub fn answer_too_long(&self) -> Failure {
        let limit = self.max_answer;
        let message =
            format!("the response is longer than {limit} bytes (limits.max_answer); request a stream");
        Failure::new(Kind::Limit, message)
    }

    /// The id of a call is longer than `max_arguments`.
    pub fn id_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        Failure::new(
            Kind::Limit,
            format!("a tool call's id is longer than {limit} bytes (limits.max_arguments)"),
        )
    }
}

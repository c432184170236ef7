//! The rules of a model, as defined by its configuration entry.

use std::str::FromStr;

use strum::VariantArray;

use crate::{
    failure::{Failure, Kind},
    settings::Settings,
    wire::Invalid,
};

/// How to read and forward the responses of a model.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Rules {
    /// The text formats to look for.
    #[setting(skip, default = Detect::Auto)]
    pub detect: Detect,
    /// how clients get the model's [reasoning](#reasoning): `"auto"`, `"reasoning_content"`, `"reasoning"`,
    /// `"inline"`, `"drop"` or `"off"`
    #[setting(default = Reasoning::Auto, word)]
    pub reasoning: Reasoning,
    /// what clients see of [calls that the upstream ran itself](#calls-that-the-upstream-runs-itself)
    #[setting(default = ServerCalls::Auto, word)]
    pub server_calls: ServerCalls,
    /// `"stream"` sends arguments as they arrive, `"whole"` a call once it is complete and parsed
    #[setting(default = ArgumentDelivery::Stream, word)]
    pub arguments: ArgumentDelivery,
    /// a call to an undeclared name in a format with markers: `"forward"`, `"text"`, or `"retry"` to ask
    /// [again](#asking-the-model-again), also after native calls and, in formats chosen by name, without
    /// markers
    #[setting(default = UnknownCalls::Forward, word)]
    pub unknown_calls: UnknownCalls,
    /// a call whose arguments break the schema of its tool: `"forward"`, or `"retry"` to ask
    /// [again](#asking-the-model-again)
    #[setting(default = InvalidArguments::Forward, word)]
    pub invalid_arguments: InvalidArguments,
    /// a call in text that repeats a tool's result or is visibly quoted:
    /// `"text"` leaves it as text unless it stands alone, `"strict"` always, also if it repeats the user's text, and
    /// `"call"` never
    #[setting(default = QuotedCalls::Text, word)]
    pub quoted_calls: QuotedCalls,
    /// what the server [enforces](#enforcing-calls): `"calls"` that calls are well-formed, if `server` names one
    /// that can; `"auto"` also calls that `tool_choice` requires, by the best of `"schema"`, `"structural_tag"`,
    /// `"grammar"` and `"prefill"`; `"retry"` asks [again](#asking-the-model-again) if a required call is
    /// missing; `"off"` only warns
    #[setting(default = Enforce::Calls, word)]
    pub enforce: Enforce,
    /// a client tool that the model calls over the upstream's server-tool channel: `"rescue"` forwards the
    /// call, `"bounce"` asks [again](#asking-the-model-again) if required arguments are missing
    #[setting(default = Misroute::Rescue, word)]
    pub misroute: Misroute,
    /// repair arguments that are not quite JSON
    ///
    /// A repair is local, and happens after the call has started.
    #[setting(default = true)]
    pub repair: bool,
    /// prefix of taught tool names, removed from calls: `"user:"` for Lumo, which has tools of its own
    ///
    /// A name with the prefix always refers to the client's tool, even if the upstream has a tool with that name.
    #[setting(or = "`\"user:\"` or `\"\"`", may_be_empty)]
    pub tool_prefix: String,
    /// Whether the model's chat template opens the reasoning, so that the text starts inside it and contains
    /// only the closing marker.
    #[setting(skip)]
    pub starts_in_reasoning: bool,
    /// Whether `starts_in_reasoning` is only assumed, so that the response may show that it is wrong
    /// (docs/protocols/text-formats.md#reasoning).
    #[setting(skip)]
    pub is_start_assumed: bool,
    /// The names of the upstream's own tools. If tools are taught with a prefix, a call to one of these names
    /// without the prefix is meant for the upstream.
    #[setting(skip)]
    pub server_tools: Vec<String>,
    /// Whether a response whose body ends without an end marker counts as complete. If not, it is reported as
    /// truncated.
    #[setting(skip)]
    pub tolerate_truncation: bool,
    /// How the instructions describe the text format to the model.
    #[setting(skip)]
    pub showing: Showing,
    /// Limits of one response.
    #[setting(skip)]
    pub limits: Limits,
}

impl Rules {
    /// How the response starts.
    pub fn start(&self) -> ReasoningStart {
        ReasoningStart { in_reasoning: self.starts_in_reasoning, is_assumed: self.is_start_assumed }
    }

    /// Sets how the response starts.
    pub fn set_start(&mut self, start: ReasoningStart) {
        ReasoningStart { in_reasoning: self.starts_in_reasoning, is_assumed: self.is_start_assumed } = start;
    }

    /// Whether a response may take more than one upstream request.
    pub fn may_follow_up(&self) -> bool {
        let asks_again = self.misroute == Misroute::Bounce
            || self.enforce == Enforce::Retry
            || self.unknown_calls == UnknownCalls::Retry
            || self.invalid_arguments == InvalidArguments::Retry;
        self.limits.max_hops > 1 && asks_again
    }
}

/// Whether a response starts inside reasoning, as far as it is known before the response arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReasoningStart {
    /// See [`Rules::starts_in_reasoning`].
    pub in_reasoning: bool,
    /// See [`Rules::is_start_assumed`].
    pub is_assumed: bool,
}

impl ReasoningStart {
    /// A certain start, which the configuration or the prompt determines.
    pub fn certain(in_reasoning: bool) -> Self {
        Self { in_reasoning, is_assumed: false }
    }

    /// A start that the response may show to be wrong.
    pub fn assumed(in_reasoning: bool) -> Self {
        Self { in_reasoning, is_assumed: true }
    }
}

/// How the instructions describe a text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub struct Showing {
    /// example calls of the declared tools in these instructions
    #[setting(default = 3, range = 0..)]
    pub examples: usize,
    /// where these examples are: `"turns"` before the conversation, which small models follow more often, or
    /// `"text"` (the default with Lumo)
    #[setting(default = ExamplesAs::Turns, word)]
    pub examples_as: ExamplesAs,
    /// how these instructions describe the tools: `"signatures"` such as `get_weather(city: string)`, or JSON
    /// `"schemas"`
    #[setting(default = ToolList::Signatures, word)]
    pub tool_list: ToolList,
    /// the most tokens of these instructions, by [estimate](teaching.md), or `"off"`
    pub max_instructions: Option<usize>,
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
/// Unless it is [`Reasoning::Off`], the markers that are safe in any text are recognised, and so are the markers
/// of the formats that are searched for.
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
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        let named = Self::VARIANTS.iter().copied().find(|known| <&str>::from(known) == word);
        named.ok_or_else(|| {
            let known: Vec<_> =
                Self::VARIANTS.iter().map(|known| format!("`{}`", <&str>::from(known))).collect();
            format!("`{word}` is not one of {}", known.join(", ")).into()
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

/// `quoted_calls`: what to do with a call in text that repeats what the model was given to read, or that is visibly
/// quoted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum QuotedCalls {
    /// Leave it as text, unless it begins a line and only white space and calls follow it.
    #[default]
    Text,
    /// Leave it as text, also if it repeats the user's text.
    Strict,
    /// It is a call like any other.
    Call,
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

/// `enforce`: how to make the upstream write well-formed calls, and the calls that the client requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Enforce {
    /// Only calls that the model makes: with structural tags or a grammar that leave other text free.
    #[default]
    Calls,
    /// With the strongest constraint that the upstream can enforce.
    Auto,
    /// With a JSON schema for the complete response.
    Schema,
    /// With structural tags: a schema that applies from a call's opener to its closer.
    StructuralTag,
    /// With a grammar for the complete response, which may be text if no call is required.
    Grammar,
    /// By starting the response with a call's opener.
    Prefill,
    /// By asking once more.
    Retry,
    /// Not at all: only the instructions ask for the call.
    Off,
}

impl Enforce {
    /// Whether this depends on the constraints that the upstream's server can enforce.
    pub fn uses_means(self) -> bool {
        !matches!(self, Self::Retry | Self::Off)
    }

    /// Whether an unknown server is asked what it is, because the configuration asks for a constraint.
    pub fn asks_server(self) -> bool {
        self.uses_means() && self != Self::Calls
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub struct Limits {
    /// one upstream event; a larger one fails the response
    #[setting(default = 8 << 20, size)]
    pub max_frame: usize,
    /// the arguments of one call; larger ones fail the response
    #[setting(default = 1 << 20, size)]
    pub max_arguments: usize,
    /// calls of one response; more fail the response
    #[setting(default = 128)]
    pub max_calls: usize,
    /// text that may be the start of a call, or an argument whose type is not known yet; more is released as
    /// text
    #[setting(default = 1 << 20, size)]
    pub max_hold: usize,
    /// nesting of values in calls; deeper ones make it text or a truncated call
    #[setting(default = 128)]
    pub max_depth: usize,
    /// the name of an undeclared tool; a call in text with a longer one is text, a native one fails the
    /// response
    #[setting(default = 256, size)]
    pub max_name: usize,
    /// one header, opening tag, name or key in calls; longer ones make it text or a truncated call
    #[setting(default = 1024, size)]
    pub max_markup: usize,
    /// a response that is not streamed; a larger one fails
    #[setting(default = 64 << 20, size)]
    pub max_answer: usize,
    /// upstream requests for one response, where the model is [asked again](#asking-the-model-again)
    ///
    /// Includes the first. When the number is reached, the response ends with the output of the last request.
    #[setting(default = 2)]
    pub max_hops: usize,
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

//! The rules of one model: what its configuration entry resolves to.

use crate::failure::{Failure, Kind};

/// How the answers of one model are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Which text formats are looked for.
    pub detect: Detect,
    /// Whether marks of reasoning are read, whatever `detect` lists.
    pub reasoning: Reasoning,
    /// What becomes of calls that the upstream ran itself.
    pub server_calls: ServerCalls,
    /// What becomes of a client's tool called over the upstream's server-tool channel.
    pub misroute: Misroute,
    /// Whether a call's arguments stream or wait.
    pub arguments: ArgumentDelivery,
    /// What becomes of a call in a marked format to an undeclared name.
    pub unknown_calls: UnknownCalls,
    /// The model's template opens its reasoning, so that the text starts inside it and only the closer is seen.
    pub starts_in_reasoning: bool,
    /// Mend arguments that are not JSON, locally, after a call has begun.
    pub repair: bool,
    /// Put before the names of declared tools where the model is told of them in text, and taken off its calls:
    /// `user:`. Empty: none. A name that comes with it is the client's tool, whatever the upstream's own are called.
    pub tool_prefix: String,
    /// The upstream's own tools, by name: an unprefixed call to one of them is the upstream's where tools are taught
    /// with a prefix.
    pub server_tools: Vec<String>,
    /// An upstream that closes without an end mark has ended well. Off: the answer is reported as truncated.
    pub tolerate_truncation: bool,
    /// Limits of one answer.
    pub limits: Limits,
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
            starts_in_reasoning: false,
            repair: true,
            tool_prefix: String::new(),
            server_tools: Vec::new(),
            tolerate_truncation: false,
            limits: Limits::default(),
        }
    }
}

/// `detect`: which text formats are looked for. Formats are named; what a name stands for is looked up in the
/// formats that are known when a detector is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detect {
    /// All formats that are safe to look for at once.
    Auto,
    /// As `Auto`, with the formats of these names first, whether or not `Auto` includes them.
    AutoAnd(Vec<&'static str>),
    /// No calls are looked for.
    Off,
    /// The formats of these names, and no others.
    Formats(Vec<&'static str>),
}

/// `reasoning`: whether marks of reasoning are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// Those that are read wherever all formats are looked for, and those of the formats that are. Where no calls are
    /// looked for, channels are read, too.
    Auto,
    /// None: reasoning in text is text.
    Off,
}

/// `server_calls`: calls that the upstream ran itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCalls {
    /// As `Forward` if the client declared the tool or declared none at all; else as `Annotate`.
    Auto,
    /// As `tool_calls` deltas, their results in an extension field; the finish reason stays.
    Forward,
    /// Web results become citations; the calls are told in the extension field only, with their results.
    Annotate,
    /// Dropped.
    Hide,
}

/// `misroute`: a declared tool called over the server-tool channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misroute {
    /// The call goes to the client.
    Rescue,
    /// As `Rescue`; but if required arguments are missing, the model is asked once more.
    Bounce,
}

/// `arguments`: whether they stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentDelivery {
    /// As they come.
    Stream,
    /// A call is sent when it is complete and parsed.
    Whole,
}

/// `unknown_calls`: a call in a marked format to an undeclared name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownCalls {
    /// Passed on: the client's answer lets the model recover.
    Forward,
    /// Left as text.
    Text,
}

/// Limits of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one upstream frame. Beyond: the answer fails.
    pub max_frame: usize,
    /// Bytes of one call's arguments. Beyond: the answer fails.
    pub max_arguments: usize,
    /// Calls of one answer. Beyond: the answer fails.
    pub max_calls: usize,
    /// Bytes of text held back while they may be the start of a call. Beyond: they are text.
    pub max_hold: usize,
    /// Nesting of values in calls. Beyond: text, or a cut call.
    pub max_depth: usize,
    /// Bytes of a tool's name that is not declared. Beyond: text.
    pub max_name: usize,
    /// Bytes of one piece of markup in calls: a header, an opening tag, a name, a key. Beyond: text, or a cut call.
    pub max_markup: usize,
    /// Bytes of an answer that has to be kept: one that is not streamed. Beyond: the answer fails.
    pub max_answer: usize,
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
        }
    }
}

/// The failures of answers that reach a limit.
impl Limits {
    /// More calls than `max_calls`.
    pub(crate) fn too_many_calls(&self) -> Failure {
        let limit = self.max_calls;
        Failure::new(Kind::Limit, format!("the answer has more than {limit} tool calls (limits.max_calls)"))
    }

    /// A call with arguments of more than `max_arguments` bytes.
    pub(crate) fn arguments_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        let message = format!("a tool call's arguments are longer than {limit} bytes (limits.max_arguments)");
        Failure::new(Kind::Limit, message)
    }

    /// A call with a name of more than `max_name` bytes that is not declared.
    pub(crate) fn name_too_long(&self) -> Failure {
        let limit = self.max_name;
        let message = format!("a tool call's name is longer than {limit} bytes (limits.max_name)");
        Failure::new(Kind::Limit, message)
    }

    /// An answer of more than `max_answer` bytes that is not streamed.
    pub(crate) fn answer_too_long(&self) -> Failure {
        let limit = self.max_answer;
        let message =
            format!("the answer is longer than {limit} bytes (limits.max_answer); ask for a stream");
        Failure::new(Kind::Limit, message)
    }

    /// A call with an id of more than `max_arguments` bytes.
    pub(crate) fn id_too_long(&self) -> Failure {
        let limit = self.max_arguments;
        Failure::new(
            Kind::Limit,
            format!("a tool call's id is longer than {limit} bytes (limits.max_arguments)"),
        )
    }
}

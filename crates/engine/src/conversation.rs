//! [`Conversation`]: a request in a form that does not depend on its dialect.
//!
//! A client dialect's `request` module decodes a request into it, a format's instructions are added to it,
//! and an upstream dialect's `request` module encodes it. What it does not model is stored as [`Rest`] and
//! [`Received`], for upstreams that speak the client's dialect.

mod approvals;
mod arguments;
mod arrange;
mod as_written;
mod client_headers;
mod compaction;
mod constraint;
mod deferral;
mod forms;
mod own_calls;
mod received_values;
mod text;
mod thinking;
mod tool_media;
mod turn_state;
mod unique_ids;

use std::collections::HashSet;

use serde_json::Value;

pub use self::{
    approvals::{APPROVAL_PREFIX, Approval, McpState, approval_call_id, is_approval_call, mcp_tool_name},
    arguments::Arguments,
    arrange::{
        CallsById, has_joinable_turns, is_empty_turn, joined_system_turns, joined_user_turns,
        media_behind_results, results_in_call_order,
    },
    as_written::{AS_WRITTEN, written_state},
    compaction::{COMPACTION_TRIGGER, Compaction, CompactionForm},
    constraint::{Constraint, Gbnf, Prefill, StructuralTags, Tag},
    deferral::{Deferral, loaded_in, loaded_line},
    forms::{IdForm, NameForm},
    own_calls::{is_own, is_own_id, own_id},
    received_values::{Received, Rest},
    text::Text,
    thinking::{Thinking, ThinkingSwitch},
    tool_media::{TOOL_MEDIA, ToolMedia},
    turn_state::{KeptState, TurnState, WantsBack},
};
pub(crate) use self::{arrange::take_media, forms::names_at_upstreams};
use crate::{event::Opaque, wire::json::Raw};

/// The name of the single argument when a custom tool is declared to the upstream as a function.
pub const CUSTOM_INPUT: &str = "input";

/// A client's request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The model's name as the client wrote it.
    pub model: String,
    /// The messages, including instructions, in order.
    pub turns: Vec<Turn>,
    /// Whether the client wrote a prompt, which the model continues, instead of messages. The only turn is then the
    /// prompt.
    pub is_prompt: bool,
    /// The tools that the client declared.
    pub tools: Vec<Tool>,
    /// The names of the tools that part of the conversation declares. An upstream that receives this part
    /// does not receive the declarations separately.
    pub late_tools: HashSet<String>,
    /// The names of the custom tools, whose input is plain text. Except in the dialects' encoders and
    /// decoders, a custom tool is a function with the single argument [`CUSTOM_INPUT`].
    pub custom_tools: HashSet<String>,
    /// The tools that the client declared in namespaces.
    pub namespaced: Vec<Namespaced>,
    /// The client's tools that its API defines and whose calls are written in forms of their own. Except in the
    /// dialect's encoder and decoder, such a tool is a function.
    pub built_in: Vec<BuiltIn>,
    /// The names of the tools that toolwire runs. The client did not declare them, and is not asked to run
    /// calls to them.
    pub hosted_tools: Vec<String>,
    /// Approvals of calls to MCP servers that the client names, and what it knows of these servers.
    pub mcp: McpState,
    /// Declared tools that are not client functions, because a server runs them or only their API knows their
    /// schemas. Upstreams of other dialects do not receive them.
    pub server_tools: Vec<ServerTool>,
    /// The server tools in the client's tool choice, as the client wrote them in `rest`, such as `{"type":
    /// "web_search"}`.
    pub server_choice: Vec<Value>,
    /// Which of the tools the model is shown.
    pub deferral: Deferral,
    /// Whether the model may call tools, and which.
    pub tool_choice: ToolChoice,
    /// Whether the response may contain several calls, which is the default in all dialects.
    pub parallel_calls: bool,
    /// The number of choices requested. `None` means one.
    pub choices: Option<u64>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether the client asked for token counts at the end of a stream.
    pub include_usage: bool,
    /// Whether the client used the `functions` fields from before November 2023, and thus expects
    /// `function_call`.
    pub legacy_functions: bool,
    /// Sampling settings and limits.
    pub sampling: Sampling,
    /// The constraint that the upstream should enforce.
    pub constraint: Option<Constraint>,
    /// Whether to store the response, so that later requests can continue it.
    pub stored: bool,
    /// Whether the client asks for a summary of the conversation instead of its next turn.
    pub compaction: Option<Compaction>,
    /// Fields that the response must repeat.
    pub repeated: Rest,
    /// All other top-level fields.
    pub rest: Rest,
}

/// A tool that the client declared in a namespace. Most upstreams do not know namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaced {
    /// The name under which the upstream receives the tool.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The tool's name within the namespace.
    pub inner: String,
}

/// A tool that an API defines and the client runs, such as `shell` in Responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuiltIn {
    /// The name of the function that stands for the tool.
    pub name: String,
    /// The type in the client's declaration.
    pub kind: String,
}

/// A declared tool whose type is defined by an API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTool {
    /// The type, often with a version, as in `web_search_20250305`.
    pub kind: String,
    /// The name by which the tool is called and chosen, or its type in dialects in which such tools have no
    /// name.
    pub name: String,
}

impl ServerTool {
    /// Creates a tool, which is named after its type if `name` is `None`.
    pub fn new(kind: impl Into<String>, name: Option<String>) -> Self {
        let kind = kind.into();
        Self { name: name.unwrap_or_else(|| kind.clone()), kind }
    }

    /// Whether this is the tool `name`, in any version.
    pub fn is(&self, name: &str) -> bool {
        let is_version = |part: &str| part == "preview" || part.bytes().all(|byte| byte.is_ascii_digit());
        let version = self.kind.strip_prefix(name);
        version.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('_').is_some_and(|rest| rest.split('_').all(is_version))
        })
    }
}

/// A conversation written as one text, which the model continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Length of the begin-of-text token at the start of `text` in bytes, or 0 if there is none.
    pub bos: usize,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub parts: Vec<Part>,
    /// All other fields of the message.
    pub rest: Rest,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, with OpenAI's newer name for the role.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Results of calls.
    Tool,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(Text),
    /// An image, given by a `data:` URL or another URL.
    Image {
        /// The URL.
        url: String,
        /// OpenAI's `detail`, if given.
        detail: Option<String>,
    },
    /// A call that the model made.
    Call(Call),
    /// The result of a call.
    Result(CallOutput),
    /// The model's earlier reasoning.
    Reasoning {
        /// The readable text.
        text: String,
        /// State to send back to the upstream that it came from.
        signature: Option<Opaque<'static>>,
        /// Whether the upstream withheld the text.
        redacted: bool,
    },
    /// Any other part, such as audio, a file or a refusal.
    Other(Received<Value>),
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, which should be a JSON object but have not been validated.
    pub arguments: String,
    /// State to send back to the upstream that it came from.
    pub signature: Option<Opaque<'static>>,
}

impl Call {
    /// Creates a call without state.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), signature: None }
    }
}

/// The result of a call in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutput {
    /// The call's id.
    pub id: String,
    /// The tool's name. Empty if the dialect's results do not contain it.
    pub name: String,
    /// The tool's output.
    pub content: String,
    /// Whether the tool reported a failure.
    pub is_error: bool,
}

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// The description. May be empty.
    pub description: String,
    /// The JSON Schema of the arguments, as it was written. `None` for a tool without arguments, if the
    /// client gave no schema.
    pub parameters: Option<Raw>,
    /// OpenAI's `strict`, if given.
    pub strict: Option<bool>,
    /// The complete declaration. `None` if toolwire created the tool.
    pub declared: Option<Received<Raw>>,
}

impl Tool {
    /// Creates a tool without a description or arguments.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: String::new(), parameters: None, strict: None, declared: None }
    }
}

/// Which tools the model may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool.
    None,
    /// At least one tool.
    Required,
    /// This tool.
    Named(String),
    /// Only these tools.
    Allowed {
        /// Their names.
        names: Vec<String>,
        /// Whether at least one of them must be called.
        required: bool,
    },
}

impl ToolChoice {
    /// Whether the response must contain a call.
    pub fn requires_call(&self) -> bool {
        match self {
            Self::Required | Self::Named(_) => true,
            Self::Allowed { required, .. } => *required,
            Self::Auto | Self::None => false,
        }
    }
}

/// Sampling settings and limits that several dialects have. `None` means not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// Maximum number of tokens in the response.
    pub max_tokens: Option<u64>,
    /// The temperature, with its digits unchanged.
    pub temperature: Option<serde_json::Number>,
    /// The limit for nucleus sampling, with its digits unchanged.
    pub top_p: Option<serde_json::Number>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// The reasoning effort (`none`, `minimal`, `low`, `medium`, `high`, …), as the client wrote it.
    pub reasoning_effort: Option<String>,
    /// OpenAI's `response_format`, unchanged.
    pub response_format: Option<Value>,
    /// The seed, with its digits unchanged.
    pub seed: Option<serde_json::Number>,
}

impl Conversation {
    /// The tools that the model may call: none with [`ToolChoice::None`], and one with [`ToolChoice::Named`].
    pub fn callable_tools(&self) -> impl Iterator<Item = &Tool> {
        // There may be tens of thousands of tools, and as many allowed names.
        let allowed: HashSet<&str> = match &self.tool_choice {
            ToolChoice::Allowed { names, .. } => names.iter().map(String::as_str).collect(),
            _ => HashSet::new(),
        };
        self.tools.iter().filter(move |tool| match &self.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Auto | ToolChoice::Required => true,
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Allowed { .. } => allowed.contains(tool.name.as_str()),
        })
    }

    /// Approximate number of bytes that the text and tools of the conversation take in a request.
    pub fn size(&self) -> usize {
        let of_part = |part: &Part| match part {
            Part::Text(text) => text.size(),
            Part::Image { url, .. } => url.len(),
            Part::Call(call) => call.arguments.len(),
            Part::Result(output) => output.content.len(),
            Part::Reasoning { text, .. } => text.len(),
            Part::Other(_) => 0,
        };
        let of_tool = |tool: &Tool| {
            tool.description.len() + tool.parameters.as_ref().map_or(0, |schema| schema.view().raw().len())
        };
        // Allowance for member names and escapes.
        const AROUND: usize = 64;
        let parts = self.turns.iter().flat_map(|turn| &turn.parts).map(|part| AROUND + of_part(part));
        parts.chain(self.tools.iter().map(|tool| AROUND + of_tool(tool))).sum()
    }

    /// The type of the built-in tool that the function `name` stands for.
    pub fn built_in_kind(&self, name: &str) -> Option<&str> {
        self.built_in.iter().find(|tool| tool.name == name).map(|tool| tool.kind.as_str())
    }

    /// Whether the tool `name` is a custom tool.
    pub fn is_custom(&self, name: &str) -> bool {
        self.custom_tools.contains(name)
    }
}

impl Turn {
    /// Creates a message from its parts.
    pub fn of(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, rest: Rest::default() }
    }

    /// Creates a message that consists of a single text part.
    pub fn text(role: Role, text: impl Into<Text>) -> Self {
        Self::of(role, vec![Part::Text(text.into())])
    }

    /// The text parts of the message, joined by newlines.
    pub fn joined_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Merges several text parts into one, for servers that accept only a string. Returns `false` if there
    /// are media, or text parts with fields of their own.
    pub fn collapse_text(&mut self) -> bool {
        let is_media = |part: &Part| matches!(part, Part::Image { .. } | Part::Other(_));
        if self.rest.contains("content") || self.parts.iter().any(is_media) {
            return false;
        }
        let is_text = |part: &Part| matches!(part, Part::Text(_));
        if self.parts.iter().filter(|part| is_text(part)).count() > 1 {
            let text = self.joined_text();
            self.parts.retain(|part| !is_text(part));
            self.parts.push(Part::Text(text.into()));
        }
        true
    }

    /// Appends `separator` and `text`. They are added to the last text, so that a string stays a string. If
    /// the content is not only plain text, `text` becomes a part of its own.
    pub fn add_text(&mut self, separator: &str, text: &str) {
        let is_plain = self.collapse_text();
        let last = self.parts.iter_mut().rev().find_map(|part| match part {
            Part::Text(text) if is_plain => Some(text),
            _ => None,
        });
        match last {
            Some(said) if !said.is_empty() => {
                said.change(|said| said.extend([separator, text]));
            }
            Some(said) => *said = text.into(),
            None => self.parts.push(Part::Text(text.into())),
        }
    }

    /// Inserts `text` at the start, in the same way as [`Turn::add_text`].
    pub fn put_text_before(&mut self, separator: &str, text: &str) {
        let is_plain = self.collapse_text();
        let first = self.parts.iter_mut().find_map(|part| match part {
            Part::Text(text) if is_plain => Some(text),
            _ => None,
        });
        match first {
            Some(said) => said.change(|said| *said = format!("{text}{separator}{said}")),
            None => self.parts.insert(0, Part::Text(text.into())),
        }
    }
}

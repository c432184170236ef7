//! [`Conversation`]: the common form of a request, independent of its dialect.
//!
//! A client dialect's `request` module decodes a request into it, a format's instructions are added to it,
//! and an upstream dialect's `request` module encodes a request from it. Anything that is not modelled here
//! is kept as [`Rest`] and [`Received`], for an upstream that speaks the client's dialect.

mod arguments;
mod arrange;
mod client_headers;
mod constraint;
mod forms;
mod own_calls;
mod received_values;
mod text;
mod turn_state;
mod unique_ids;

use std::collections::HashSet;

use serde_json::Value;

pub use self::{
    arguments::Arguments,
    arrange::{
        CallsById, has_joinable_turns, is_empty_turn, joined_system_turns, joined_user_turns,
        media_behind_results, results_in_call_order,
    },
    constraint::{Constraint, Prefill, StructuralTags, Tag},
    forms::{IdForm, NameForm},
    own_calls::{is_own, is_own_id, own_id},
    received_values::{Received, Rest},
    text::Text,
    turn_state::{TurnState, WantsBack},
};
pub(crate) use self::{arrange::take_media, forms::names_at_upstreams};
use crate::{event::Opaque, wire::json::Raw};

/// The argument of a custom tool that is declared to the upstream as a function.
pub const CUSTOM_INPUT: &str = "input";

/// A client's request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The model's name as the client wrote it.
    pub model: String,
    /// System texts and turns, in order.
    pub turns: Vec<Turn>,
    /// The tools that the client declared.
    pub tools: Vec<Tool>,
    /// Names of the tools that are declared by a part of the conversation. An upstream that receives this
    /// part does not receive their declarations again.
    pub late_tools: HashSet<String>,
    /// Names of the tools declared as custom tools, whose input is plain text. Outside the dialects' encoders
    /// and decoders, such a tool is a function with one argument, [`CUSTOM_INPUT`].
    pub custom_tools: HashSet<String>,
    /// The tools that the client declared inside namespaces.
    pub namespaced: Vec<Namespaced>,
    /// Names of the tools that toolwire runs. The client did not declare them, and never sees their calls as its own.
    pub hosted_tools: Vec<String>,
    /// Declared tools that are not client functions: a server runs them, or only their API knows their
    /// schemas. Upstreams of other dialects do not receive them.
    pub server_tools: Vec<ServerTool>,
    /// The server tools that the client chose. Each is in the client dialect's form, which is in `rest`.
    /// Example: `{"type": "web_search"}`.
    pub server_choice: Vec<Value>,
    /// Whether tools may be called, and which.
    pub tool_choice: ToolChoice,
    /// Whether the response may contain several calls. All dialects default to yes.
    pub parallel_calls: bool,
    /// Number of requested choices; `None` means one.
    pub choices: Option<u64>,
    /// The response is requested as a stream.
    pub stream: bool,
    /// Token counts are requested at the end of a stream.
    pub include_usage: bool,
    /// The client used the `functions` fields from before 2023-11, and gets a response in the same form.
    pub legacy_functions: bool,
    /// Sampling and limits.
    pub sampling: Sampling,
    /// The constraint that the upstream should enforce.
    pub constraint: Option<Constraint>,
    /// Whether the response should be stored, so that later requests can continue it.
    pub stored: bool,
    /// Fields that the response must repeat.
    pub repeated: Rest,
    /// All other top-level fields.
    pub rest: Rest,
}

/// A tool that the client declared inside a namespace. Upstreams do not know namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaced {
    /// The name under which the upstream receives the tool.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The tool's name inside the namespace.
    pub inner: String,
}

/// A declared tool whose type is defined by its API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTool {
    /// The type, often with a version: `web_search_20250305`.
    pub kind: String,
    /// The name by which the tool is called and chosen: the type, in dialects in which such tools have no
    /// names.
    pub name: String,
}

impl ServerTool {
    /// A tool of the type `kind`, with the name `name` if it has one.
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

/// A conversation as one text that the model continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Length in bytes of the begin-of-text token at the start of `text`; 0 if there is none.
    pub bos: usize,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Who wrote it.
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
    /// Instructions, under OpenAI's newer name.
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
    /// An image, by `data:` or other URL.
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
    /// Reasoning that the model showed earlier.
    Reasoning {
        /// Readable text.
        text: String,
        /// State that must go back to the upstream from which it came.
        signature: Option<Opaque<'static>>,
        /// The upstream does not show the text.
        redacted: bool,
    },
    /// Any other part (audio, files, refusals, …).
    Other(Received<Value>),
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as text: normally a JSON object, but not validated.
    pub arguments: String,
    /// State that must go back to the upstream from which it came.
    pub signature: Option<Opaque<'static>>,
}

impl Call {
    /// A call that carries no state.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), signature: None }
    }
}

/// A call's result in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutput {
    /// The call's id.
    pub id: String,
    /// The tool's name; empty if the dialect does not give the name with a result.
    pub name: String,
    /// The tool's output.
    pub content: String,
    /// The tool reported a failure.
    pub is_error: bool,
}

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// Description; may be empty.
    pub description: String,
    /// JSON Schema of the arguments object, as it was written; `None` if the client gave none (a tool without
    /// arguments).
    pub parameters: Option<Raw>,
    /// OpenAI's `strict`, if given.
    pub strict: Option<bool>,
    /// The complete declaration; `None` if toolwire created it.
    pub declared: Option<Received<Raw>>,
}

impl Tool {
    /// A tool of this name, without a description or arguments.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: String::new(), parameters: None, strict: None, declared: None }
    }
}

/// Which tools may be called.
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
    /// Only these tools; at least one of them if `required`.
    Allowed {
        /// Their names.
        names: Vec<String>,
        /// At least one call is required.
        required: bool,
    },
}

impl ToolChoice {
    /// Whether the response must have a call.
    pub fn requires_call(&self) -> bool {
        match self {
            Self::Required | Self::Named(_) => true,
            Self::Allowed { required, .. } => *required,
            Self::Auto | Self::None => false,
        }
    }
}

/// Sampling settings and limits that more than one dialect has. `None`: not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// Maximum number of tokens in the response.
    pub max_tokens: Option<u64>,
    /// Temperature, as it was written.
    pub temperature: Option<serde_json::Number>,
    /// Nucleus sampling, as it was written.
    pub top_p: Option<serde_json::Number>,
    /// Texts that end the response.
    pub stop: Vec<String>,
    /// `none`, `minimal`, `low`, `medium`, `high`, …, as the client wrote it.
    pub reasoning_effort: Option<String>,
    /// OpenAI's `response_format`, as it was received.
    pub response_format: Option<Value>,
    /// Seed, as it was written.
    pub seed: Option<serde_json::Number>,
}

impl Conversation {
    /// The tools that the model may call in this request: none with [`ToolChoice::None`], one with
    /// [`ToolChoice::Named`].
    pub fn callable_tools(&self) -> impl Iterator<Item = &Tool> {
        // The lists of tools and of allowed names may each have tens of thousands of names.
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

    /// Approximate number of bytes that the conversation's texts and tools take in a request.
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

    /// Whether `name` is declared as a custom tool.
    pub fn is_custom(&self, name: &str) -> bool {
        self.custom_tools.contains(name)
    }
}

impl Turn {
    /// A message that consists of `parts`.
    pub fn of(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, rest: Rest::default() }
    }

    /// A message of one text.
    pub fn text(role: Role, text: impl Into<Text>) -> Self {
        Self::of(role, vec![Part::Text(text.into())])
    }

    /// All text parts, joined by newlines.
    pub fn joined_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Merges several plain texts into one, for servers that accept only a string. Returns `false` if the
    /// content is not only plain text, but has media or texts with their own fields.
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

    /// Appends `text` to the content, after `separator`. The text is added to the last text, so that a string
    /// remains a string; if the content is not only plain text, it becomes a separate part.
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

    /// Inserts `text` before the content, in the same way as [`Turn::add_text`].
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

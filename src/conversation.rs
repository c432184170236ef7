//! [`Conversation`]: the one form of a request, whatever dialect it came in.
//!
//! A client dialect's `request` module decodes into it, a format's instructions are put into it, and an upstream
//! dialect's `request` module encodes from it. What is not modelled here is kept as [`Rest`] and [`Received`], for an
//! upstream that speaks the dialect that it came from.

mod arrange;
mod received;

use serde_json::Value;

pub use self::{
    arrange::{joined_user_turns, media_behind_results, take_media},
    received::{Received, Rest},
};
use crate::wire::json::Raw;

/// The argument of a custom tool that is declared to the upstream as a function.
pub const CUSTOM_INPUT: &str = "input";

/// What a client asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The model's name as the client wrote it.
    pub model: String,
    /// System texts and turns, in order.
    pub turns: Vec<Turn>,
    /// The tools that the client declared.
    pub tools: Vec<Tool>,
    /// Names of those that are declared as custom tools: their input is plain text. Everywhere but at the two ends,
    /// which speak of custom tools, they are functions with one argument, [`CUSTOM_INPUT`].
    pub custom_tools: Vec<String>,
    /// Whether and which tools may be called.
    pub tool_choice: ToolChoice,
    /// Several calls in one answer are welcome. The default of all dialects is yes.
    pub parallel_calls: bool,
    /// How many choices are wanted; `None`: one.
    pub choices: Option<u64>,
    /// The answer is wanted as a stream.
    pub stream: bool,
    /// Token counts are wanted at the end of a stream.
    pub include_usage: bool,
    /// The client used the `functions` fields of before 2023-11 and is answered in kind.
    pub legacy_functions: bool,
    /// Sampling and limits.
    pub sampling: Sampling,
    /// All other top-level fields.
    pub rest: Rest,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// All other fields of the message.
    pub rest: Rest,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, by OpenAI's newer name.
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
    Text(String),
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
        /// Opaque state to be sent back.
        signature: Option<String>,
    },
    /// Anything else (audio, files, refusals, …).
    Other(Received<Value>),
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as text: normally a JSON object, but nobody has checked.
    pub arguments: String,
}

/// A call's result in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutput {
    /// The call's id.
    pub id: String,
    /// The tool's name; empty if the dialect does not say it here.
    pub name: String,
    /// What the tool gave.
    pub content: String,
    /// The tool failed.
    pub is_error: bool,
}

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does; may be empty.
    pub description: String,
    /// JSON Schema of the arguments object, as it was written; `None` when the client gave none (a tool without
    /// arguments).
    pub parameters: Option<Raw>,
    /// OpenAI's `strict`, if given.
    pub strict: Option<bool>,
    /// The whole declaration; `None` if made here.
    pub declared: Option<Received<Raw>>,
}

impl Tool {
    /// A tool of this name, without a description and without arguments.
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
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
    /// Only these; at least one of them if `required`.
    Allowed {
        /// Their names.
        names: Vec<String>,
        /// At least one call is wanted.
        required: bool,
    },
}

/// Sampling and limits, as far as more than one dialect has them. `None`: not asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// Most tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Temperature, as it was written.
    pub temperature: Option<serde_json::Number>,
    /// Nucleus sampling, as it was written.
    pub top_p: Option<serde_json::Number>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// `none`, `minimal`, `low`, `medium`, `high`, … as the client wrote it.
    pub reasoning_effort: Option<String>,
    /// OpenAI's `response_format`, as it came.
    pub response_format: Option<Value>,
    /// Seed, as it was written.
    pub seed: Option<serde_json::Number>,
}

impl Conversation {
    /// The tools that the model may call in this request: none with [`ToolChoice::None`], one if it is named.
    pub fn callable_tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(|tool| match &self.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Auto | ToolChoice::Required => true,
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Allowed { names, .. } => names.contains(&tool.name),
        })
    }

    /// Whether `name` is declared as a custom tool.
    pub fn is_custom(&self, name: &str) -> bool {
        self.custom_tools.iter().any(|custom| custom == name)
    }
}

impl Turn {
    /// A message of `parts` and nothing else.
    pub fn of(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, rest: Rest::default() }
    }

    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
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

    /// Makes several plain texts one, for servers that take only a string; `false` if what is said is more than plain
    /// text: media, or texts with fields of their own.
    pub fn collapse_text(&mut self) -> bool {
        let says_more = |part: &Part| matches!(part, Part::Image { .. } | Part::Other(_));
        if self.rest.contains("content") || self.parts.iter().any(says_more) {
            return false;
        }
        let is_text = |part: &Part| matches!(part, Part::Text(_));
        if self.parts.iter().filter(|part| is_text(part)).count() > 1 {
            let text = self.joined_text();
            self.parts.retain(|part| !is_text(part));
            self.parts.push(Part::Text(text));
        }
        true
    }

    /// Adds `text` behind what is said, with `separator` between: to the same text, so that what was a string stays
    /// one, or as a part of its own where there is more than plain text.
    pub fn add_text(&mut self, separator: &str, text: &str) {
        let is_plain = self.collapse_text();
        let last = self.parts.iter_mut().rev().find_map(|part| match part {
            Part::Text(text) if is_plain => Some(text),
            _ => None,
        });
        match last {
            Some(said) if !said.is_empty() => {
                said.push_str(separator);
                said.push_str(text);
            }
            Some(said) => text.clone_into(said),
            None => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Puts `text` before what is said, as [`Turn::add_text`] does.
    pub fn put_text_before(&mut self, separator: &str, text: &str) {
        let is_plain = self.collapse_text();
        let first = self.parts.iter_mut().find_map(|part| match part {
            Part::Text(text) if is_plain => Some(text),
            _ => None,
        });
        match first {
            Some(said) => *said = format!("{text}{separator}{said}"),
            None => self.parts.insert(0, Part::Text(text.to_owned())),
        }
    }
}

//! [`instruct`]: describes the declared tools in the prompt, for models whose upstream does not support
//! tools.
//!
//! The model receives a list of the tools, and example calls. Past calls and their results are written in the
//! same format, with the same name prefix. The client's own text is never changed; instructions are added
//! around it.
//!
//! ```text
//! system    the client's text, tools, rules               the same in every request of a conversation
//! user      a request                                     ⎫ an example of the declared tools, several times;
//! assistant the resulting call                            ⎭ also the same in every request
//! …         the history, with calls and results as text   grows at its end
//! user      the client's text, and what is required       `tool_choice`, `response_format`
//! ```
//!
//! Upstreams cache the longest common prefix of two prompts. Nothing before the history therefore depends on
//! anything that changes between the requests of a conversation.

mod answer;
mod budget;
mod described_tool;
mod examples;
mod form;
mod guess;
mod history;
mod prompt;
mod said;
mod sample;
mod signature;
mod template;
mod value_text;

use std::mem;

pub(super) use self::form::{OBJECT, TOOL_RESPONSE};
pub use self::{
    budget::estimated_tokens,
    form::{ArgumentForm, Form, Quotes, Values},
};
use self::{history::history, template::render};
use super::Format;
use crate::conversation::{Conversation, Role, ToolChoice, Turn};

/// How to teach a format to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teach {
    /// A description of the format that continues the sentence "To call a tool, write ".
    pub words: &'static str,
    /// How to write calls and results.
    pub form: Form,
}

/// Creates the `teach` field of a format.
pub(super) const fn taught(words: &'static str, form: Form) -> Option<Teach> {
    Some(Teach { words, form })
}

/// How to describe tools to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Teaching {
    /// The prefix for the name of every tool.
    pub prefix: String,
    /// The upstream's own tools. It knows its past calls to them, so these stay calls.
    pub server_tools: Vec<String>,
    /// The template for the instructions, or an empty string for the built-in one. `{{tools}}`,
    /// `{{signatures}}`, `{{examples}}`, `{{example}}`, `{{words}}`, `{{prefix}}`, `{{rules}}` and
    /// `{{result}}` are replaced with the content for the current request.
    pub template: String,
    /// The complete instructions, which override all of the above: a description of the tools by the model's
    /// own chat template.
    pub text: Option<String>,
    /// Whether to put the instructions and system messages, in brackets, before the first user text, for models
    /// that have no system role or pay less attention to it. Otherwise, they form a system turn.
    pub in_user_turn: bool,
    /// Like `in_user_turn`, but before the last user text. This position is closer to the response, but the
    /// prompt then changes in every turn.
    pub in_last_user_turn: bool,
    /// Number of example calls to show.
    pub examples: usize,
    /// Whether to show the examples as turns of the conversation, before the first user turn.
    pub example_turns: bool,
    /// Whether to describe tools by signatures such as `get_weather(city: string)`, unless there is a
    /// template. Otherwise, they are described by their JSON Schema.
    pub signatures: bool,
    /// Maximum length of the instructions in tokens, as counted by [`estimated_tokens`]. `None` means no
    /// limit.
    pub max_instructions: Option<usize>,
}

impl Default for Teaching {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            server_tools: Vec::new(),
            template: String::new(),
            text: None,
            in_user_turn: false,
            in_last_user_turn: false,
            examples: 3,
            example_turns: true,
            signatures: true,
            max_instructions: None,
        }
    }
}

/// A conversation whose tools are described in text.
#[derive(Debug, Clone, PartialEq)]
pub struct Instructed {
    /// The conversation.
    pub conversation: Conversation,
    /// The names of the tools that were left out because of `max_instructions`.
    pub left_out: Vec<String>,
}

/// Like [`instruct_within`], for callers that set no limit.
#[must_use]
pub fn instruct(conversation: Conversation, format: &Format, teaching: &Teaching) -> Conversation {
    instruct_within(conversation, format, teaching).conversation
}

/// Describes the tools of the conversation in text. The result declares no tools, and contains calls and
/// results only as text, except those of the upstream's own tools. If the format cannot be taught, the conversation
/// is returned unchanged.
///
/// If tools may be called, `response_format` and similar fields are also replaced with text, because a server
/// that constrains its output to a schema could not write a call.
#[must_use]
pub fn instruct_within(mut conversation: Conversation, format: &Format, teaching: &Teaching) -> Instructed {
    let Some(teach) = &format.teach else { return Instructed { conversation, left_out: Vec::new() } };
    let prompt = prompt::prompt(&conversation, teach, teaching);
    let demand = prompt.as_ref().and_then(|_| demand(&mut conversation, &teaching.prefix));
    let turns = mem::take(&mut conversation.turns);
    let shown = prompt.as_ref().map_or(0, |prompt| prompt.example_calls);
    let mut turns = history(turns, &conversation.tools, teach, teaching, shown);
    let (instructions, example_turns, left_out) = match prompt {
        Some(prompt) => (Some(prompt.instructions), prompt.example_turns, prompt.left_out),
        None => (None, Vec::new(), Vec::new()),
    };
    // This must come last: the demand follows the last user text, regardless of what was put before it.
    if let Some(demand) = demand {
        put_behind(&mut turns, &demand);
    }
    put_examples(&mut turns, example_turns);
    place(&mut turns, instructions, teaching);
    conversation.turns = turns;
    conversation.tools.clear();
    conversation.custom_tools.clear();
    conversation.tool_choice = ToolChoice::Auto;
    conversation.parallel_calls = true;
    conversation.legacy_functions = false;
    Instructed { conversation, left_out }
}

/// States what this request requires of the response: a call, or a certain format.
fn demand(conversation: &mut Conversation, prefix: &str) -> Option<String> {
    let listed = |names: &[String]| {
        names.iter().map(|name| format!("`{prefix}{name}`")).collect::<Vec<_>>().join(", ")
    };
    let choice = match &conversation.tool_choice {
        ToolChoice::Named(name) => Some(format!("Your next message must be a call of `{prefix}{name}`.")),
        ToolChoice::Required => Some("Your next message must be a tool call.".to_owned()),
        ToolChoice::Allowed { names, required: true } => {
            Some(format!("Your next message must call one of these tools: {}.", listed(names)))
        }
        ToolChoice::Allowed { names, required: false } => {
            Some(format!("In your next message, call no tools other than these: {}.", listed(names)))
        }
        ToolChoice::Auto | ToolChoice::None => None,
    };
    let demands: Vec<String> = choice.into_iter().chain(answer::take_form(conversation)).collect();
    (!demands.is_empty()).then(|| demands.join("\n\n"))
}

fn put_behind(turns: &mut Vec<Turn>, demand: &str) {
    let demand = format!("[{demand}]");
    match turns.iter_mut().rev().find(|turn| turn.role == Role::User) {
        Some(user) => user.add_text("\n\n", &demand),
        None => turns.push(Turn::text(Role::User, demand)),
    }
}

fn is_system(turn: &Turn) -> bool {
    matches!(turn.role, Role::System | Role::Developer)
}

fn put_examples(turns: &mut Vec<Turn>, examples: Vec<Turn>) {
    let place = turns.iter().position(|turn| !is_system(turn)).unwrap_or(turns.len());
    turns.splice(place..place, examples);
}

fn place(turns: &mut Vec<Turn>, instructions: Option<String>, teaching: &Teaching) {
    if !teaching.in_user_turn && !teaching.in_last_user_turn {
        let Some(instructions) = instructions else { return };
        match turns.iter_mut().find(|turn| is_system(turn)) {
            Some(system) => system.add_text("\n\n", &instructions),
            None => turns.insert(0, Turn::text(Role::System, instructions)),
        }
        return;
    }
    let mut texts: Vec<String> = turns.iter().filter(|turn| is_system(turn)).map(Turn::joined_text).collect();
    turns.retain(|turn| !is_system(turn));
    texts.extend(instructions);
    if texts.is_empty() {
        return;
    }
    let bracketed = format!("[Instructions:\n{}]", texts.join("\n\n"));
    let mut users = turns.iter_mut().filter(|turn| turn.role == Role::User);
    match if teaching.in_last_user_turn { users.next_back() } else { users.next() } {
        Some(user) => user.put_text_before("\n\n", &bracketed),
        None => turns.insert(0, Turn::text(Role::User, bracketed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conversation::{Call, CallOutput, Part, Rest, Tool},
        format::{FENCED, HERMES, THINK},
    };

    fn conversation() -> Conversation {
        let call = |id: &str, x: &str| Part::Call(Call::new(id, "a", format!("{{\"x\": {x}}}")));
        let result = |id: &str, content: &str| Turn {
            role: Role::Tool,
            parts: vec![Part::Result(CallOutput {
                id: id.into(),
                name: String::new(),
                content: content.into(),
                is_error: false,
            })],
            rest: Rest::default(),
        };
        let assistant = vec![Part::Text("Let me see.".into()), call("c1", "1"), call("c2", "2.50")];
        Conversation {
            turns: vec![
                Turn::text(Role::System, "S1"),
                Turn::text(Role::User, "x ] y   {{tools}}"),
                Turn { role: Role::Assistant, parts: assistant, rest: Rest::default() },
                result("c1", "42"),
                result("c2", "43"),
            ],
            tools: vec![Tool {
                name: "a".into(),
                description: "adds {{example}}".into(),
                parameters: None,
                strict: None,
                declared: None,
            }],
            parallel_calls: true,
            ..Conversation::default()
        }
    }

    #[test]
    fn history_is_shown_in_the_format_of_calls() {
        let teaching =
            Teaching { prefix: "user:".into(), in_user_turn: true, examples: 0, ..Teaching::default() };
        let told = instruct(conversation(), &FENCED, &teaching);
        let texts: Vec<_> = told.turns.iter().map(|turn| (turn.role, turn.joined_text())).collect();
        let (role, first) = &texts[0];
        assert_eq!(*role, Role::User);
        assert!(
            first.starts_with("[Instructions:\nS1\n\n") && first.ends_with("]\n\nx ] y   {{tools}}"),
            "{first}"
        );
        assert!(first.contains("\nuser:a(): adds {{example}}\n"), "{first}");
        assert_eq!(
            texts[1],
            (
                Role::Assistant,
                "Let me see.\n```json\n{\"name\": \"user:a\", \"arguments\": {\"x\": 1}}\n```\n\
                 ```json\n{\"name\": \"user:a\", \"arguments\": {\"x\": 2.50}}\n```"
                    .to_owned()
            )
        );
        let result = |content: &str| format!("<tool_response>\nuser:a: {content}\n</tool_response>");
        assert_eq!(texts[2], (Role::User, format!("{}\n{}", result("42"), result("43"))));
        assert!(told.tools.is_empty());
    }

    #[test]
    fn choice_and_parallel_are_put_into_words() {
        let mut asked = conversation();
        asked.tool_choice = ToolChoice::Named("a".into());
        asked.parallel_calls = false;
        let told = instruct(asked, &HERMES, &Teaching::default());
        let system = told.turns[0].joined_text();
        assert!(system.starts_with("S1\n"), "{system}");
        assert!(system.contains("at most one call") && !system.contains("next message"), "{system}");
        let examples: Vec<_> = told.turns[1..3].iter().map(|turn| (turn.role, turn.joined_text())).collect();
        let call = "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>";
        assert_eq!(examples, [(Role::User, "adds example.".into()), (Role::Assistant, call.into())]);
        let last = told.turns.last().unwrap().joined_text();
        assert!(last.ends_with("\n\n[Your next message must be a call of `a`.]"), "{last}");
    }

    #[test]
    fn tools_that_may_not_be_called_are_not_mentioned() {
        let mut asked = conversation();
        asked.tool_choice = ToolChoice::None;
        let told = instruct(asked, &HERMES, &Teaching::default());
        assert_eq!(told.turns[0].joined_text(), "S1");
        assert!(told.turns[2].joined_text().contains("<tool_call>"));
        assert_eq!(instruct(conversation(), &THINK, &Teaching::default()), conversation());
    }

    #[test]
    fn a_tool_is_described_on_one_line() {
        let mut asked = conversation();
        let schema = "{\n  \"type\": \"object\",\n  \"title\": \"a b\"\n}";
        asked.tools[0].parameters = Some(crate::wire::json::Json::parse(schema).unwrap().into());
        let teaching = Teaching { signatures: false, ..Teaching::default() };
        let system = instruct(asked, &HERMES, &teaching).turns[0].joined_text();
        assert!(system.contains(r#""parameters":{"type":"object","title":"a b"}}"#), "{system}");
    }

    #[test]
    fn a_custom_template_replaces_the_built_in_text() {
        let teaching = Teaching { template: "Tools: {{ tools }}; {{what}}".into(), ..Teaching::default() };
        let told = instruct(conversation(), &HERMES, &teaching);
        let system = told.turns[0].joined_text();
        assert!(
            system.starts_with("S1\n\nTools: {\"name\":\"a\"") && system.ends_with("; {{what}}"),
            "{system}"
        );
    }
}

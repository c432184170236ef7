//! [`instruct`]: describes declared tools in words, for models whose upstream has no tools of its own.
//!
//! The model is given a list of the tools and the form of a call. Past calls and their results are shown in
//! the same form, with the same name prefix. Text that the client wrote is never changed: instructions are
//! added around it.

mod answer;
mod form;

use std::mem;

pub(super) use self::form::OBJECT;
pub use self::form::{ArgumentForm, Form, Values};
use super::Format;
use crate::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Tool, ToolChoice, Turn, take_media},
    wire::json::Encoder,
};

/// How a format is taught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teach {
    /// A description of the form, to follow "To call a tool, write ".
    pub words: &'static str,
    /// How calls and results are written.
    pub form: Form,
}

/// A format that is taught with this description and form.
pub(super) const fn taught(words: &'static str, form: Form) -> Option<Teach> {
    Some(Teach { words, form })
}

/// How tools are described to a model in text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Teaching {
    /// Prefix added to every tool's name.
    pub prefix: String,
    /// Replaces the built-in instruction text; if empty, the built-in one is used. `{{tools}}`,
    /// `{{example}}`, `{{words}}`, `{{prefix}}`, `{{rules}}` and `{{result}}` stand for the contents of this
    /// request.
    pub template: String,
    /// Finished instructions, which replace all of that: what a model's own chat template says of the tools.
    pub text: Option<String>,
    /// Put the instructions, together with system texts, in brackets before the first user's text, for models
    /// that have no system role or follow it less closely. Otherwise they are a system turn.
    pub in_user_turn: bool,
}

const TEMPLATE: &str = "\
You can call the tools listed below. They are run by the user's system, not by you.{{prefix_note}}

To call a tool, write {{words}}, exactly in this form:

{{example}}

{{rules}}

You are then given the result in this form, and go on from it:

{{result}}

The tools, one JSON object a line, with the JSON Schema of their arguments under `parameters`:

{{tools}}";

/// The conversation with its tools described in words: it no longer declares tools, and none of its parts is
/// a call or a result. If the format cannot be taught, the conversation is unchanged.
///
/// If tools may be called, `response_format` and similar fields are also replaced by words: a server that
/// constrains its output to a schema could not write a call.
#[must_use]
pub fn instruct(mut conversation: Conversation, format: &Format, teaching: &Teaching) -> Conversation {
    let Some(teach) = &format.teach else { return conversation };
    let mut instructions = instructions(&conversation, teach, teaching);
    if let Some(instructions) = &mut instructions
        && let Some(answer) = answer::take_form(&mut conversation)
    {
        instructions.push_str("\n\n");
        instructions.push_str(&answer);
    }
    conversation.turns = history(mem::take(&mut conversation.turns), teach, &teaching.prefix);
    place(&mut conversation.turns, instructions, teaching.in_user_turn);
    conversation.tools.clear();
    conversation.custom_tools.clear();
    conversation.tool_choice = ToolChoice::Auto;
    conversation.parallel_calls = true;
    conversation.legacy_functions = false;
    conversation
}

/// The instruction text; `None` if no tool may be called.
fn instructions(conversation: &Conversation, teach: &Teach, teaching: &Teaching) -> Option<String> {
    let prefix = &teaching.prefix;
    let tools: Vec<String> = conversation.callable_tools().map(|tool| declaration(tool, prefix)).collect();
    if tools.is_empty() {
        return None;
    }
    if let Some(text) = &teaching.text {
        return Some(text.clone());
    }
    let example = Call {
        id: "call_1".to_owned(),
        name: format!("{prefix}tool_name"),
        arguments: r#"{"argument": "value"}"#.to_owned(),
    };
    let example = teach.form.calls(&[example]);
    let shown = CallOutput {
        id: "call_1".to_owned(),
        name: format!("{prefix}tool_name"),
        content: "…".to_owned(),
        is_error: false,
    };
    let prefix_note = if prefix.is_empty() {
        String::new()
    } else {
        format!(
            " Their names begin with `{prefix}`, which sets them apart from tools of your own: calling them through \
             your own tool system fails. If that happens, write the call as text as told here."
        )
    };
    let template = if teaching.template.is_empty() { TEMPLATE } else { &teaching.template };
    Some(render(template, |name| match name {
        "tools" => Some(tools.join("\n")),
        "example" => Some(example.clone()),
        "words" => Some(teach.words.to_owned()),
        "prefix" => Some(prefix.clone()),
        "prefix_note" => Some(prefix_note.clone()),
        "rules" => Some(rules(conversation, teach, prefix)),
        "result" => Some(teach.form.result(&shown)),
        _ => None,
    }))
}

/// Replaces each `{{name}}` in one pass, so that inserted text is not searched again. Unknown names are left
/// unchanged. Of three braces the outer one is text.
fn render(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let outer = after.len() - after.trim_start_matches('{').len();
        text.push_str(&"{".repeat(outer));
        let after = after.trim_start_matches('{');
        match after.split_once("}}").and_then(|(name, after)| Some((value(name.trim())?, after))) {
            Some((value, after)) => {
                text.push_str(&value);
                rest = after;
            }
            None => {
                text.push_str("{{");
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// The rules for calls in this request, one sentence per line.
fn rules(conversation: &Conversation, teach: &Teach, prefix: &str) -> String {
    let mut rules = vec![
        "- Use the names exactly as they are listed.".to_owned(),
        match teach.form.arguments {
            ArgumentForm::Json => {
                "- The arguments are one JSON object that fits the tool's schema; leave out what you do not need."
            }
            ArgumentForm::Each { .. } => {
                "- Give each argument by its name as the tool's schema has it; leave out what you do not need."
            }
        }
        .to_owned(),
        "- Stop after your calls and wait for the results. Never invent a result.".to_owned(),
    ];
    rules.push(if conversation.parallel_calls {
        "- Several calls in one answer are welcome if none needs another's result: write them one after the other."
            .to_owned()
    } else {
        "- Write one call at most in an answer.".to_owned()
    });
    match &conversation.tool_choice {
        ToolChoice::Named(name) => rules.push(format!("- In this answer you must call `{prefix}{name}`.")),
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
            rules.push("- In this answer you must call at least one tool.".to_owned());
        }
        _ => rules.push("- If no tool helps, answer in plain text.".to_owned()),
    }
    rules.join("\n")
}

/// A tool in one line.
fn declaration(tool: &Tool, prefix: &str) -> String {
    let mut json = Encoder::default();
    json.object(|json| {
        json.key("name").string(&format!("{prefix}{}", tool.name));
        json.key("description").string(&tool.description);
        let json = json.key("parameters");
        match &tool.parameters {
            Some(schema) => json.compact(schema.view()),
            None => json.object(|json| {
                json.key("type").string("object");
                json.key("properties").object(|_| {});
            }),
        }
    });
    json.finish_text()
}

/// The calls and results of the history as text. Media of results follow the results they belong to.
fn history(turns: Vec<Turn>, teach: &Teach, prefix: &str) -> Vec<Turn> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut told: Vec<Turn> = Vec::with_capacity(turns.len());
    let mut after_results = false;
    let mut media = Vec::new();
    for turn in turns {
        let results = turn.parts.iter().any(|part| matches!(part, Part::Result(_)));
        if !results && let Some(last) = told.last_mut() {
            last.parts.append(&mut media);
        }
        let turn = match turn.role {
            Role::Assistant => assistant(turn, teach, prefix, &mut names),
            _ if results => results_turn(turn, teach, prefix, &names, &mut media),
            _ => turn,
        };
        match told.last_mut() {
            // Results of parallel calls form one turn: not every model accepts two consecutive turns with the
            // same role.
            Some(last) if results && after_results => {
                last.add_text("\n", &turn.joined_text());
                last.parts.extend(turn.parts.into_iter().filter(|part| !matches!(part, Part::Text(_))));
            }
            _ => told.push(turn),
        }
        after_results = results;
    }
    if let Some(last) = told.last_mut() {
        last.parts.append(&mut media);
    }
    told
}

/// An assistant's turn with its calls written as text after its own text.
fn assistant(mut turn: Turn, teach: &Teach, prefix: &str, names: &mut Vec<(String, String)>) -> Turn {
    let mut calls = Vec::new();
    turn.parts.retain(|part| match part {
        Part::Call(call) => {
            names.push((call.id.clone(), call.name.clone()));
            calls.push(Call { name: format!("{prefix}{}", call.name), ..call.clone() });
            false
        }
        _ => true,
    });
    if !calls.is_empty() {
        turn.add_text("\n", &teach.form.calls(&calls));
    }
    turn
}

fn results_turn(
    mut turn: Turn,
    teach: &Teach,
    prefix: &str,
    names: &[(String, String)],
    media: &mut Vec<Part>,
) -> Turn {
    let name_of = |result: &CallOutput| {
        let known = names.iter().rev().find(|(id, _)| *id == result.id).map(|(_, name)| name);
        let name = known.unwrap_or(&result.name);
        if name.is_empty() { String::new() } else { format!("{prefix}{name}") }
    };
    let name = turn.parts.iter().find_map(|part| match part {
        Part::Result(result) => Some(name_of(result)),
        _ => None,
    });
    media.append(&mut take_media(&mut turn, &name.unwrap_or_default()));
    let texts = turn.parts.iter().filter_map(|part| match part {
        Part::Result(result) => {
            Some(teach.form.result(&CallOutput { name: name_of(result), ..result.clone() }))
        }
        Part::Text(text) => Some(text.clone()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let kept = turn.parts.into_iter().filter(|part| !matches!(part, Part::Result(_) | Part::Text(_)));
    Turn::of(Role::User, std::iter::once(Part::Text(text)).chain(kept).collect())
}

/// Inserts the instructions at the configured place.
fn place(turns: &mut Vec<Turn>, instructions: Option<String>, in_user_turn: bool) {
    let is_system = |turn: &Turn| matches!(turn.role, Role::System | Role::Developer);
    if !in_user_turn {
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
    match turns.iter_mut().find(|turn| turn.role == Role::User) {
        Some(user) => user.put_text_before("\n\n", &bracketed),
        None => turns.insert(0, Turn::text(Role::User, bracketed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conversation::Rest,
        format::{FENCED, HERMES, THINK},
    };

    fn conversation() -> Conversation {
        let call = |id: &str, x: &str| {
            Part::Call(Call { id: id.into(), name: "a".into(), arguments: format!("{{\"x\": {x}}}") })
        };
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
        let teaching = Teaching { prefix: "user:".into(), in_user_turn: true, ..Teaching::default() };
        let told = instruct(conversation(), &FENCED, &teaching);
        let texts: Vec<_> = told.turns.iter().map(|turn| (turn.role, turn.joined_text())).collect();
        let (role, first) = &texts[0];
        assert_eq!(*role, Role::User);
        assert!(
            first.starts_with("[Instructions:\nS1\n\n") && first.ends_with("]\n\nx ] y   {{tools}}"),
            "{first}"
        );
        assert!(first.contains(r#"{"name":"user:a","description":"adds {{example}}""#), "{first}");
        assert_eq!(
            texts[1],
            (
                Role::Assistant,
                "Let me see.\n```json\n{\"name\":\"user:a\",\"arguments\":{\"x\": 1}}\n```\n\
                 ```json\n{\"name\":\"user:a\",\"arguments\":{\"x\": 2.50}}\n```"
                    .to_owned()
            )
        );
        let result = |id: &str, content: &str| {
            format!(
                "```json\n{{\"type\":\"function_call_output\",\"call_id\":\"{id}\",\"tool_name\":\"user:a\",\
                 \"output\":\"{content}\"}}\n```"
            )
        };
        assert_eq!(texts[2], (Role::User, format!("{}\n{}", result("c1", "42"), result("c2", "43"))));
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
        assert!(system.contains("you must call `a`") && system.contains("one call at most"), "{system}");
        assert!(system.contains("<tool_call>\n{\"name\":\"tool_name\""), "{system}");
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
        let system = instruct(asked, &HERMES, &Teaching::default()).turns[0].joined_text();
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

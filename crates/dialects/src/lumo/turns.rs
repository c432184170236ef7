//! [`turns`]: converts messages to Lumo's turns, for both versions (docs/protocols/lumo.md#turns).
//!
//! All system messages become one turn. A call becomes a turn of its own, after the text that the assistant
//! wrote before it. Every call gets a result, since Lumo may reject a call without one. No text is lost.

use std::{borrow::Cow, collections::HashSet, mem};

use crate::{
    Dialect,
    conversation::{self, Call, CallOutput, Part, Tool},
    wire::json::{Encoder, Json, Kind},
};

/// The key under which the model sees arguments that are not a JSON object.
const RAW_ARGUMENTS: &str = "_raw_arguments";

/// The placeholder that is sent for a missing result.
const NO_RESULT: &str = r#"{"error":"no result"}"#;

/// The tools that Lumo runs (docs/protocols/lumo.md#server-tools).
const NATIVE: [&str; 9] = [
    "proton_info",
    "web_search",
    "web_extract",
    "weather",
    "stock",
    "cryptocurrency",
    "generate_image",
    "edit_image",
    "describe_image",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    /// A call that the model made, as the JSON text `{"id","name","arguments"}`.
    Call,
    Result,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Content<'a>>,
    call_id: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Image(&'a str),
}

impl<'a> Turn<'a> {
    fn new(role: Role, content: Vec<Content<'a>>) -> Self {
        Self { role, content, call_id: "" }
    }

    fn of_text(role: Role, text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(role, vec![Content::Text(text.into())])
    }

    fn result(call_id: &'a str, content: &'a str) -> Self {
        Self { call_id, ..Self::of_text(Role::Result, content) }
    }

    pub(super) fn text(&self) -> Cow<'a, str> {
        if let [Content::Text(text)] = self.content.as_slice() {
            return text.clone();
        }
        let texts = self.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_ref()),
            Content::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n").into()
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|part| match part {
            Content::Image(url) => Some(*url),
            Content::Text(_) => None,
        })
    }
}

/// Converts a conversation in which the client has `tools` and Lumo has `native` tools. The names of parts
/// and fields that Lumo cannot express are added to `dropped`.
pub(super) fn turns<'a>(
    conversation: &'a [conversation::Turn],
    (tools, native): (&'a [Tool], &'a [String]),
    dropped: &mut Vec<String>,
) -> Vec<Turn<'a>> {
    let parts = || conversation.iter().flat_map(|turn| &turn.parts);
    let known = parts().filter_map(|part| match part {
        Part::Result(output) => Some(CallReference::Answered(&output.id)),
        _ => None,
    });
    let tools = tools.iter().map(|tool| CallReference::Tool(&tool.name));
    let known = match parts().any(|part| matches!(part, Part::Call(_))) {
        true => known.chain(tools).collect(),
        false => HashSet::new(),
    };
    let mut history = History { turns: Vec::new(), unanswered: Vec::new(), known, native, dropped };
    let mut system = Vec::new();
    for turn in conversation {
        history.name_fields(turn);
        match turn.role {
            conversation::Role::System | conversation::Role::Developer => system.push(history.system(turn)),
            conversation::Role::Assistant => history.turn(Role::Assistant, turn),
            conversation::Role::User | conversation::Role::Tool => history.turn(Role::User, turn),
        }
    }
    history.answer();
    let mut turns = history.turns;
    name_adjacent_results(&mut turns);
    if !system.is_empty() {
        turns.insert(0, Turn::of_text(Role::System, system.join("\n\n")));
    }
    turns
}

/// Something that identifies a call in the history.
#[derive(PartialEq, Eq, Hash)]
enum CallReference<'a> {
    /// The id of a call that has a result.
    Answered(&'a str),
    Tool(&'a str),
}

struct History<'a, 'd> {
    turns: Vec<Turn<'a>>,
    /// The ids of the calls that have no result yet.
    unanswered: Vec<&'a str>,
    known: HashSet<CallReference<'a>>,
    native: &'a [String],
    dropped: &'d mut Vec<String>,
}

impl<'a> History<'a, '_> {
    fn system(&mut self, turn: &'a conversation::Turn) -> Cow<'a, str> {
        let content = turn.parts.iter().filter_map(|part| self.content(part)).collect();
        let turn = Turn::new(Role::System, content);
        if turn.images().next().is_some() {
            self.dropped.push("messages[].content[].image_url".to_owned());
        }
        turn.text()
    }

    /// Adds a message: its text as turns of `role`, and its calls and results as turns of their own, in
    /// order.
    fn turn(&mut self, role: Role, turn: &'a conversation::Turn) {
        let mut said = Vec::new();
        let before = self.turns.len();
        for part in &turn.parts {
            match part {
                Part::Call(call) => {
                    self.say(role, mem::take(&mut said));
                    self.call(call);
                }
                Part::Result(output) => {
                    self.say(role, mem::take(&mut said));
                    self.result(output);
                }
                other => said.extend(self.content(other)),
            }
        }
        // A user message is sent even if it is empty.
        if role == Role::User && self.turns.len() == before && said.is_empty() {
            said.push(Content::Text(Cow::Borrowed("")));
        }
        self.say(role, said);
    }

    fn say(&mut self, role: Role, content: Vec<Content<'a>>) {
        let empty = |part: &Content| matches!(part, Content::Text(text) if text.is_empty());
        if content.is_empty() || (role == Role::Assistant && content.iter().all(empty)) {
            return;
        }
        self.answer();
        self.turns.push(Turn::new(role, content));
    }

    fn call(&mut self, call: &'a Call) {
        let is_lumos = NATIVE.contains(&&*call.name) || self.native.contains(&call.name);
        // Lumo ran this call, and the client did not store the result. A placeholder for a missing result
        // would be misleading.
        if is_lumos
            && !self.known.contains(&CallReference::Answered(&call.id))
            && !self.known.contains(&CallReference::Tool(&call.name))
        {
            self.dropped.push("messages[].tool_calls[]".to_owned());
            return;
        }
        // The calls of a message stay together. The first turn after their results ends the group.
        if self.turns.last().is_some_and(|turn| turn.role != Role::Call) {
            self.answer();
        }
        let mut text = Encoder::default();
        text.object(|text| {
            text.key("id").string(&call.id);
            text.key("name").string(&call.name);
            arguments(text.key("arguments"), &call.arguments);
        });
        let text = text.finish_text();
        self.turns.push(Turn::of_text(Role::Call, text));
        self.unanswered.push(&call.id);
    }

    fn result(&mut self, output: &'a CallOutput) {
        if let Some(at) = self.unanswered.iter().position(|id| *id == output.id) {
            self.unanswered.remove(at);
            self.turns.push(Turn::result(&output.id, &output.content));
        } else {
            // The upstream may reject a result without its call. As user text, the result still reaches the
            // model.
            self.say(Role::User, vec![Content::Text(named(&output.id, &output.content).into())]);
        }
    }

    fn answer(&mut self) {
        for id in mem::take(&mut self.unanswered) {
            self.turns.push(Turn::result(id, NO_RESULT));
        }
    }

    /// Converts a part. What cannot be expressed is added to `dropped`.
    fn content(&mut self, part: &'a Part) -> Option<Content<'a>> {
        match part {
            Part::Text(text) => return Some(Content::Text(Cow::Borrowed(text))),
            Part::Image { url, detail } => {
                if detail.is_some() {
                    self.dropped.push("messages[].content[].image_url.detail".to_owned());
                }
                return Some(Content::Image(url));
            }
            Part::Reasoning { .. } => self.dropped.push("messages[].reasoning_content".to_owned()),
            Part::Other(other) => {
                let value = other.from_dialect(Dialect::Chat.name());
                let text = |key| value?.get(key)?.as_str();
                if let Some(text) = text("text").or_else(|| text("refusal")) {
                    return Some(Content::Text(text.into()));
                }
                let kind = text("type").unwrap_or("part");
                self.dropped.push(format!("messages[].content[].{kind}"));
            }
            Part::Call(_) | Part::Result(_) => {}
        }
        None
    }

    /// Adds the names of a message's fields to `dropped`, since Lumo cannot express them.
    fn name_fields(&mut self, turn: &conversation::Turn) {
        self.dropped.extend(turn.rest.keys().map(|key| format!("messages[].{key}")));
    }
}

/// Writes call ids into adjacent results. Lumo matches a single result to its call by position, but adjacent
/// results must name their calls (docs/protocols/lumo.md#turns).
fn name_adjacent_results(turns: &mut [Turn<'_>]) {
    let roles: Vec<_> = turns.iter().map(|turn| turn.role).collect();
    let is_result = |at: Option<usize>| at.and_then(|at| roles.get(at)) == Some(&Role::Result);
    for (at, turn) in turns.iter_mut().enumerate() {
        if turn.role == Role::Result && (is_result(at.checked_sub(1)) || is_result(at.checked_add(1))) {
            let text = named(turn.call_id, &turn.text());
            turn.content = vec![Content::Text(text.into())];
        }
    }
}

/// Writes arguments without changing them. Anything but a JSON object is sent as a string.
fn arguments(json: &mut Encoder, written: &str) {
    match Json::parse(written) {
        Ok(object) if object.kind() == Kind::Object => json.raw(object),
        Ok(nothing) if nothing.is_null() => json.object(|_| {}),
        _ if written.trim_ascii().is_empty() => json.object(|_| {}),
        _ => json.object(|json| json.key(RAW_ARGUMENTS).string(written)),
    }
}

fn named(call_id: &str, output: &str) -> String {
    let mut json = Encoder::default();
    json.object(|json| {
        json.key("call_id").string(call_id);
        json.key("output").string(output);
    });
    json.finish_text()
}

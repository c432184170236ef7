//! Runs the calls of a model to its searches.

use std::{borrow::Cow, collections::HashSet};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::{FOUND, FOUND_UNSEEN, OwnSearch, Searching};
use toolwire_pipeline::{
    conversation::{Call, CallOutput, Conversation, Tool, loaded_line},
    dialect::{ClientDialect, SearchTool, found_tools},
    event::{Event, Runner, ServerCall},
    tools::texts_of_schema,
};

/// The longest pattern, in characters, as in Anthropic's API.
const MAX_PATTERN: usize = 200;

/// The most memory of a compiled pattern, in bytes. Matching is linear in it.
const MAX_COMPILED: usize = 256 << 10;

/// The most bytes of descriptions and arguments that a pattern is compared with. Names are compared in any case.
const MAX_SEARCHED: usize = 4 << 20;

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The result for the model.
    pub(crate) output: CallOutput,
    /// The names of the tools.
    pub(crate) names: Vec<String>,
}

pub(super) fn run(
    searching: &Searching,
    call: &Call,
    conversation: &Conversation,
    known: &[String],
) -> Found {
    let search = searching.find(&call.name);
    let found = search.ok_or_else(|| "there is no such search".to_owned());
    let found = found.and_then(|search| places(searching, search, call, conversation, known));
    // Results in a history have no names either, and the model must see the same in the next request.
    let output =
        |content, is_error| CallOutput { id: call.id.clone(), name: String::new(), content, is_error };
    match found {
        Err(why) => Found { output: output(why, true), names: Vec::new() },
        Ok(places) if places.is_empty() => {
            let none = "No tool fits. Search again with other words, or answer without.".to_owned();
            Found { output: output(none, false), names: Vec::new() }
        }
        Ok(places) => {
            let tools = places.into_iter().filter_map(|place| conversation.tools.get(place));
            let names: Vec<String> = tools.map(|tool| tool.name.clone()).collect();
            let lines: Vec<String> = names.iter().map(|name| loaded_line(name)).collect();
            Found { output: output(lines.join("\n"), false), names }
        }
    }
}

/// The places of the tools that a call finds, or why it cannot search.
fn places(
    searching: &Searching,
    search: &OwnSearch,
    call: &Call,
    conversation: &Conversation,
    known: &[String],
) -> Result<Vec<usize>, String> {
    let text = wanted(search.kind, &call.arguments)?;
    let names: HashSet<&str> = match searching.is_declared {
        true => conversation.deferral.deferred.iter().map(String::as_str).collect(),
        false => conversation.deferral.shown.iter().flatten().chain(known).map(String::as_str).collect(),
    };
    // A search that clients do not see finds only what the model does not see yet.
    let is_wanted = |tool: &Tool| names.contains(tool.name.as_str()) == searching.is_declared;
    let is_wanted = |place: usize| conversation.tools.get(place).is_some_and(is_wanted);
    let most = if searching.is_declared { FOUND } else { FOUND_UNSEEN };
    match search.kind {
        SearchTool::Words => Ok(searching.index.best(&text, most, is_wanted)),
        SearchTool::Pattern => Ok(matching(&pattern(&text)?, &conversation.tools, most, is_wanted)),
    }
}

/// The text to search for. Models also give it under other names.
fn wanted(kind: SearchTool, arguments: &str) -> Result<String, String> {
    let key = match kind {
        SearchTool::Words => "query",
        SearchTool::Pattern => "pattern",
    };
    let given: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    let texts = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    let text = match given.get(key) {
        Some(value) => texts(value),
        None => given.values().map(texts).collect::<Vec<_>>().join(" "),
    };
    match text.trim() {
        "" => Err(format!("The arguments must be an object with the text `{key}`.")),
        text => Ok(text.to_owned()),
    }
}

/// Compiles a pattern of a model. Such patterns are written for Python, which knows the same syntax except for
/// references and assertions about the text around a match. These cannot be matched in linear time.
fn pattern(text: &str) -> Result<Regex, String> {
    if text.chars().count() > MAX_PATTERN {
        return Err(format!("The pattern is longer than {MAX_PATTERN} characters."));
    }
    let compiled = |is_unicode: bool| {
        RegexBuilder::new(text)
            .unicode(is_unicode)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .nest_limit(32)
            .build()
    };
    // The case of letters outside ASCII is not known here.
    compiled(true).or_else(|_| compiled(false)).map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        format!("The pattern is not valid: {}", why.trim_start_matches("error: "))
    })
}

/// The tools that match: first those whose names do, in the order of their declarations.
fn matching(pattern: &Regex, tools: &[Tool], most: usize, is_wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let wanted = || tools.iter().enumerate().filter(|(place, _)| is_wanted(*place));
    let by_name = wanted().filter(|(_, tool)| pattern.is_match(tool.name.as_bytes()));
    let mut found: Vec<usize> = by_name.map(|(place, _)| place).take(most).collect();
    let mut room = MAX_SEARCHED;
    for (place, tool) in wanted() {
        if found.len() >= most || room == 0 {
            break;
        }
        if !found.contains(&place) && matches_texts(pattern, tool, &mut room) {
            found.push(place);
        }
    }
    found
}

fn matches_texts(pattern: &Regex, tool: &Tool, room: &mut usize) -> bool {
    let mut is_match = |text: &str| {
        *room = room.saturating_sub(text.len());
        pattern.is_match(text.as_bytes())
    };
    if is_match(&tool.description) {
        return true;
    }
    let mut is_found = false;
    if let Some(schema) = &tool.parameters {
        texts_of_schema(schema.view(), |text, _| is_found = is_found || is_match(text));
    }
    is_found
}

impl Searching {
    /// The events that show a search to a client that has declared it.
    pub(crate) fn shown(
        &self,
        client: ClientDialect,
        call: &Call,
        found: &Found,
        conversation: &Conversation,
    ) -> Option<Event<'static>> {
        let search = self.find(&call.name).filter(|_| self.is_declared)?;
        let content = match found.output.is_error {
            true => found.output.content.clone(),
            false => found_tools(client, conversation, &found.names),
        };
        let arguments = match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
            Ok(_) => call.arguments.clone(),
            Err(_) => "{}".to_owned(),
        };
        Some(Event::from(ServerCall {
            id: Cow::Owned(call.id.clone()),
            name: Cow::Owned(search.name.clone()),
            runner: Runner::Toolwire,
            server: Cow::Borrowed(""),
            arguments: Some(Cow::Owned(arguments)),
            content: Some(Cow::Owned(content)),
            details: None,
            is_error: found.output.is_error,
            approval: Cow::Borrowed(""),
        }))
    }
}

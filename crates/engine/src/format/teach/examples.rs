//! [`examples`]: creates example calls to the declared tools.

use std::borrow::Cow;

use super::{
    ArgumentForm, Form, Values,
    described_tool::{DescribedTool, VARIANTS},
    estimated_tokens,
    sample::{ReadBack, is_plain_name, placeholders},
};
use crate::{
    conversation::{Call, Role, Turn},
    wire::json::Json,
};

/// Maximum number of tools that are considered for examples.
const MAX_TOOLS: usize = 24;

/// Estimated tokens available per example. All examples share the total, so verbose formats get fewer
/// examples.
const TOKENS: usize = 50;

/// Maximum length of a tool's description within a request, in characters.
const MAX_REQUEST: usize = 120;

/// Length of arguments, in bytes, above which another tool makes a better example.
const LONG: usize = 80;

pub(super) struct Example {
    /// A request that a user might have made.
    request: String,
    /// The calls, written as the model should write them.
    pub(super) calls: String,
    /// The number of these calls.
    pub(super) count: usize,
}

impl Example {
    /// Formats the request and the calls as text for the instructions.
    pub(super) fn to_text(&self) -> String {
        format!("User: {}\nYou:\n{}", self.request, self.calls)
    }

    /// Formats the request and the calls as turns of a conversation.
    pub(super) fn turns(self) -> [Turn; 2] {
        [Turn::text(Role::User, self.request), Turn::text(Role::Assistant, self.calls)]
    }
}

/// Creates `count` messages with example calls to different tools or, if there is only one, with different
/// arguments. With `parallel`, the last of several messages contains two calls, provided that the format puts
/// the calls of a message into one container.
///
/// The examples depend only on the tools. If there are no arguments that every notation can express,
/// placeholders are used.
pub(super) fn examples(
    form: &Form,
    tools: &[&DescribedTool<'_>],
    prefix: &str,
    count: usize,
    parallel: bool,
) -> Vec<Example> {
    let request = |call: &Call| {
        let name = call.name.strip_prefix(prefix);
        let described = tools.iter().find(|described| name == Some(&described.tool.name));
        requested(described.map_or("", |described| &described.tool.description), call)
    };
    let example = |earlier: &mut usize, calls: &[Call]| {
        let request = calls.iter().map(request).collect::<Vec<_>>().join("\n");
        Some(Example { request, calls: form.calls_from(earlier, calls), count: calls.len() })
    };
    let several = parallel && count > 1 && !form.around.0.is_empty();
    let room = count * TOKENS;
    let mut shown = Vec::new();
    for (count, paired) in
        [(count, several), (count, false)].into_iter().chain((1..count).rev().map(|count| (count, false)))
    {
        let calls = chosen(form, tools, prefix, count + usize::from(paired));
        let (single, pair) = match calls.len() {
            found if paired && found > count => calls.split_at(count.saturating_sub(1)),
            _ => calls.split_at(calls.len()),
        };
        let written = single.iter().map(std::slice::from_ref).chain((!pair.is_empty()).then_some(pair));
        shown = written.scan(0, example).collect::<Vec<_>>();
        let tokens: usize = shown.iter().map(|example| estimated_tokens(&example.to_text())).sum();
        if tokens <= room {
            break;
        }
    }
    shown
}

/// Creates the calls for the examples. Never empty unless `count` is 0.
fn chosen(form: &Form, tools: &[&DescribedTool<'_>], prefix: &str, count: usize) -> Vec<Call> {
    let read_back = match form.arguments {
        ArgumentForm::Json => ReadBack::Typed,
        ArgumentForm::Each { values: Values::Python(_) | Values::Delimited(_), .. } => ReadBack::Typed,
        ArgumentForm::Each { values: Values::Text, .. } => ReadBack::Text,
        ArgumentForm::Each { values: Values::Elements, .. } => ReadBack::Elements,
    };
    let call = |described: &DescribedTool<'_>, variant: usize| {
        let arguments = described.arguments(read_back, variant)?;
        Some(Call::new("call_1", format!("{prefix}{}", described.tool.name), arguments))
    };
    let is_plain = |described: &&DescribedTool<'_>| is_writable(form, &described.tool.name);
    let plain: Vec<&DescribedTool<'_>> = tools.iter().copied().take(MAX_TOOLS).filter(is_plain).collect();
    let mut calls: Vec<Call> = Vec::new();
    // The order is: short examples, tools without arguments, long examples, and then the same tools with
    // other arguments.
    let rank = |call: &Call| match call.arguments.len() {
        ..=2 => 1,
        length if length > LONG => 2,
        _ => 0,
    };
    for variant in 0..VARIANTS {
        if calls.len() == count {
            break;
        }
        let mut made: Vec<Call> = plain.iter().filter_map(|tool| call(tool, variant)).collect();
        made.sort_by_key(rank);
        for call in made {
            if calls.len() < count && !calls.contains(&call) {
                calls.push(call);
            }
        }
    }
    if calls.is_empty() && count > 0 {
        // No arguments can be shown, but the names are right. A name that the format cannot write is replaced
        // with a placeholder as well.
        let tool = tools.iter().find(|described| is_plain(described)).map(|described| described.tool);
        let schema = tool.and_then(|tool| tool.parameters.as_ref()).map(|schema| schema.view());
        let name = tool.map_or("tool_name", |tool| tool.name.as_str());
        calls.push(Call::new("", format!("{prefix}{name}"), placeholders(schema)));
    }
    for (place, call) in calls.iter_mut().enumerate() {
        call.id = format!("call_{}", place + 1);
    }
    calls
}

/// Whether the format can write a tool's name. As a JSON string it can be any name, and otherwise only a
/// plain one.
fn is_writable(form: &Form, name: &str) -> bool {
    let quoted = !form.call.contains("{{name}}");
    is_plain_name(name) || quoted && !name.is_empty() && name.len() <= 64 && !name.contains(char::is_control)
}

/// A request that would lead to `call`: the tool's description, with the name and value of each argument.
///
/// `Start a timer with minutes 10 and label tea.`
fn requested(description: &str, call: &Call) -> String {
    // The description comes from the client, so characters that could be read as markup are left out.
    let plain = |character: &char| character.is_alphanumeric() || " -_,'/()".contains(*character);
    let line = description.trim().lines().next().unwrap_or_default();
    let sentence = line.split(". ").next().unwrap_or(line).trim_end_matches('.');
    let what: String = sentence.chars().filter(plain).take(MAX_REQUEST).collect();
    let mut request = match what.trim() {
        "" => format!("Use {}", call.name),
        what => what.to_owned(),
    };
    let arguments = Json::parse(&call.arguments).unwrap_or_default();
    for (place, (key, value)) in arguments.members().enumerate() {
        let text = value.as_str().unwrap_or(Cow::Borrowed(value.raw()));
        request.push_str(if place == 0 { " with " } else { " and " });
        request.push_str(&key.replace('_', " "));
        request.push(' ');
        request.push_str(text.trim().trim_end_matches('.'));
    }
    request.push('.');
    request
}

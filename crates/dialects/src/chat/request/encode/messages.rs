//! Encodes a turn as one or more messages.

use serde_json::{Map, Value, json};

use super::{
    super::original::{self, Originals},
    DIALECT,
};
use crate::{
    Dialect,
    cache_hints::{CACHE_CONTROL, CacheHints},
    chat::{Options, PastReasoning, extra},
    conversation::{Arguments, CUSTOM_INPUT, Call, CallOutput, CallsById, Part, Role, Turn, WantsBack},
    signatures::{NO_SIGNATURE, begin_of_turn, checks_signatures},
    wire::json::Encoder,
};

/// What a message depends on in addition to its turn.
pub(super) struct Context<'a> {
    options: &'a Options,
    /// The past calls, if results must name their tools.
    calls: Option<CallsById<'a>>,
    needs_reasoning: bool,
    /// From this turn on, the first call of each turn needs a signature.
    signed_from: Option<usize>,
}

impl<'a> Context<'a> {
    /// Creates the context for a request to `model`. `rest` contains the other fields of the request.
    pub(super) fn new(
        turns: &'a [Turn],
        rest: &Map<String, Value>,
        model: &str,
        options: &'a Options,
    ) -> Self {
        let calls = options.name_results.then(|| {
            let mut calls = CallsById::default();
            turns.iter().for_each(|turn| calls.add(turn));
            calls
        });
        let thinking = rest.get("thinking").and_then(|thinking| thinking.get("type")?.as_str());
        let needs_reasoning = options.reasoning_placeholder && thinking != Some("disabled");
        let wants_signatures = options.wants_back == WantsBack::Signatures && checks_signatures(model);
        let signed_from = wants_signatures.then(|| signed_from(turns));
        Self { options, calls, needs_reasoning, signed_from }
    }

    /// The cache hints in `turn` that come from a client of Messages, if the upstream accepts them.
    fn hints<'t>(&self, turn: &'t Turn) -> CacheHints<'t> {
        match self.options.takes_cache_hints() {
            true => CacheHints::of(turn, Dialect::Messages.name()),
            false => CacheHints::default(),
        }
    }

    /// The name of the tool that produced this result, if the upstream needs it.
    fn name_of(&self, output: &'a CallOutput) -> &'a str {
        self.calls.as_ref().map_or(&output.name, |calls| calls.tool_of(output))
    }
}

/// The index of the first turn in which the upstream checks the signatures of calls.
fn signed_from(turns: &[Turn]) -> usize {
    let is_spoken = |turn: &Turn| !matches!(turn.role, Role::System | Role::Developer);
    let (places, spoken): (Vec<_>, Vec<_>) =
        turns.iter().enumerate().filter(|(_, turn)| is_spoken(turn)).unzip();
    places.get(begin_of_turn(&spoken)).copied().unwrap_or_default()
}

/// Writes a turn as messages: one for each result, and one for the remaining parts.
pub(super) fn put<'a>(
    body: &mut Encoder,
    place: usize,
    turn: &'a Turn,
    context: &Context<'a>,
    dropped: &mut Vec<String>,
) {
    let no_rest = Map::new();
    let rest = turn.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    if let (Role::Tool, [Part::Result(output), media @ ..]) = (turn.role, turn.parts.as_slice()) {
        let hint = context.hints(turn).of_result();
        return result(body, output, context.name_of(output), media, rest, hint);
    }
    let mut has_content = turn.parts.is_empty();
    for part in &turn.parts {
        match part {
            Part::Result(output) => {
                let rest = if turn.parts.len() == 1 { rest } else { &no_rest };
                result(body, output, context.name_of(output), &[], rest, None);
            }
            _ => has_content = true,
        }
    }
    if has_content {
        message(body, place, turn, rest, context, dropped);
    }
}

/// Writes a result and its media. A result without an id becomes a `function` message, as used before
/// November 2023.
fn result(
    body: &mut Encoder,
    output: &CallOutput,
    name: &str,
    media: &[Part],
    rest: &Map<String, Value>,
    hint: Option<&Value>,
) {
    let media: Vec<_> = media.iter().filter(|part| is_expressible(part)).collect();
    body.object(|body| {
        if output.id.is_empty() {
            body.key("role").string("function");
        } else {
            body.key("role").string("tool");
            body.key("tool_call_id").string(&output.id);
        }
        if !name.is_empty() {
            body.key("name").string(name);
        }
        match rest.get("content").filter(|content| original::result_text(content) == output.content) {
            Some(original) => body.key("content").value(original),
            None if media.is_empty() && hint.is_none() => body.key("content").string(&output.content),
            None => body.key("content").array(|body| {
                let mut originals = Originals::of(rest, "content");
                element(body, &Part::Text(output.content.clone().into()), &mut originals, hint);
                media.iter().for_each(|part| element(body, part, &mut originals, None));
            }),
        }
        extend(body, rest);
    });
}

fn message(
    body: &mut Encoder,
    place: usize,
    turn: &Turn,
    rest: &Map<String, Value>,
    context: &Context<'_>,
    dropped: &mut Vec<String>,
) {
    let options = context.options;
    let (role, may_be_null) = match turn.role {
        Role::Developer if options.keep_developer => ("developer", false),
        Role::System | Role::Developer => ("system", false),
        // A result that was rewritten as text becomes a user message, because servers reject a `tool` message
        // without an id.
        Role::User | Role::Tool => ("user", false),
        Role::Assistant => ("assistant", true),
    };
    body.object(|body| {
        body.key("role").string(role);
        content(body.key("content"), &turn.parts, rest, context.hints(turn), may_be_null);
        put_reasoning(body, &turn.parts, rest, context, dropped);
        let needs_signature = context.signed_from.is_some_and(|from| place >= from);
        put_calls(body, &turn.parts, needs_signature, rest, options);
        extend(body, rest);
    });
}

fn content(
    body: &mut Encoder,
    parts: &[Part],
    rest: &Map<String, Value>,
    mut hints: CacheHints<'_>,
    may_be_null: bool,
) {
    let is_list = rest.contains_key("content") || !hints.is_empty();
    let parts: Vec<&Part> = parts.iter().filter(|part| is_expressible(part)).collect();
    match parts.as_slice() {
        [] if may_be_null => body.value(&()),
        [] => body.string(""),
        [Part::Text(text)] if !is_list => text.put(body),
        parts => body.array(|body| {
            let mut originals = Originals::of(rest, "content");
            for (place, part) in parts.iter().enumerate() {
                let hint = if hints.is_empty() { None } else { hints.next(part, place + 1 == parts.len()) };
                element(body, part, &mut originals, hint);
            }
        }),
    }
}

/// Whether this dialect can express `part` in a message's content.
fn is_expressible(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::Image { .. } => true,
        Part::Other(other) => other.from_dialect(DIALECT).is_some(),
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => false,
    }
}

fn element(body: &mut Encoder, part: &Part, originals: &mut Originals<'_>, hint: Option<&Value>) {
    let put_hint = |body: &mut Encoder| {
        if let Some(hint) = hint {
            body.key(CACHE_CONTROL).value(hint);
        }
    };
    if let Some(original) = originals.next(|element| original::means(element, part)) {
        return body.value(original);
    }
    match part {
        Part::Text(text) => body.object(|body| {
            body.key("type").string("text");
            text.put(body.key("text"));
            put_hint(body);
        }),
        Part::Image { url, detail } => body.object(|body| {
            body.key("type").string("image_url");
            body.key("image_url").object(|body| {
                body.key("url").string(url);
                if let Some(detail) = detail {
                    body.key("detail").string(detail);
                }
            });
            put_hint(body);
        }),
        Part::Other(other) => {
            if let Some(value) = other.from_dialect(DIALECT) {
                body.value(value);
            }
        }
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => {}
    }
}

/// Writes past reasoning in the field that the upstream knows. Kimi rejects past calls without reasoning, but
/// accepts empty reasoning. A client's own `reasoning_details` are written with the other fields of the
/// message.
fn put_reasoning(
    body: &mut Encoder,
    parts: &[Part],
    rest: &Map<String, Value>,
    context: &Context<'_>,
    dropped: &mut Vec<String>,
) {
    let mut joined: Option<String> = None;
    for part in parts {
        let Part::Reasoning { text, .. } = part else { continue };
        joined.get_or_insert_default().push_str(text);
    }
    let has_calls = || parts.iter().any(|part| matches!(part, Part::Call(_)));
    if joined.is_none() && context.needs_reasoning && has_calls() {
        joined = Some(String::new());
    }
    let form = context.options.past_reasoning.for_server(context.options.server);
    let details = match form {
        PastReasoning::Reasoning if !rest.contains_key("reasoning_details") => {
            extra::reasoning_details(parts)
        }
        _ => Vec::new(),
    };
    let is_signed = |part: &&Part| matches!(part, Part::Reasoning { signature: Some(_), .. });
    if parts.iter().filter(is_signed).count() > details.len() {
        dropped.push("messages[].reasoning.signature".to_owned());
    }
    match (form, joined) {
        (_, None) => {}
        (_, Some(_))
            if context.options.past_reasoning == PastReasoning::Auto && rest.contains_key("reasoning") => {}
        (PastReasoning::Auto | PastReasoning::ReasoningContent, Some(text)) => {
            body.key("reasoning_content").string(&text)
        }
        (PastReasoning::Reasoning, Some(text)) if text.is_empty() || rest.contains_key("reasoning") => {}
        (PastReasoning::Reasoning, Some(text)) => body.key("reasoning").string(&text),
        (PastReasoning::Off, Some(_)) => dropped.push("messages[].reasoning".to_owned()),
    }
    if !details.is_empty() {
        body.key("reasoning_details").value(&details);
    }
}

fn put_calls(
    body: &mut Encoder,
    parts: &[Part],
    mut needs_signature: bool,
    rest: &Map<String, Value>,
    options: &Options,
) {
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    let (legacy, calls): (Vec<_>, Vec<_>) = calls.partition(|call| call.id.is_empty());
    if !calls.is_empty() {
        let mut originals = Originals::of(rest, "tool_calls");
        body.key("tool_calls").array(|body| {
            for call in calls {
                call_element(body, call, std::mem::take(&mut needs_signature), &mut originals, options);
            }
        });
    }
    if let [call, ..] = legacy.as_slice() {
        function(body.key("function_call"), call);
    }
}

fn call_element(
    body: &mut Encoder,
    call: &Call,
    needs_signature: bool,
    originals: &mut Originals<'_>,
    options: &Options,
) {
    let state = call.signature.as_ref().map(|state| extra::returned_extra_content(state));
    let stand_in = (needs_signature && state.as_ref().is_none_or(Option::is_none))
        .then(|| json!({"google": {"thought_signature": NO_SIGNATURE}}));
    let Some(original) = original_call(call, originals, options) else {
        return body.object(|body| {
            body.key("id").string(&call.id);
            body.key("type").string("function");
            function(body.key("function"), call);
            let known = state.flatten().filter(|_| options.wants_back != WantsBack::Nothing);
            if let Some(extra) = known.or(stand_in) {
                body.key("extra_content").value(&extra);
            }
        });
    };
    let own = original.get("function").map(|function| function.get("arguments"));
    let is_good = |own: &Value| own.is_string() && Arguments::of(&call.arguments).is_object();
    let arguments = own.filter(|own| !own.is_some_and(is_good));
    // Clients carry the state of other dialects in this member.
    let is_foreign = matches!(state, Some(None));
    let has_its_id = original.get("id").and_then(Value::as_str) == Some(&call.id);
    if !is_foreign && arguments.is_none() && has_its_id && stand_in.is_none() {
        return body.value(original);
    }
    let arguments = arguments.map(|_| Arguments::of(&call.arguments).into_text(CUSTOM_INPUT).into_owned());
    let mut original = original.clone();
    if is_foreign {
        original.as_object_mut().and_then(|call| call.shift_remove("extra_content"));
    }
    if let (Some(extra), Some(members)) = (stand_in, original.as_object_mut()) {
        members.insert("extra_content".to_owned(), extra);
    }
    if let Some(id) = original.get_mut("id") {
        *id = call.id.as_str().into();
    }
    let function = original.get_mut("function").and_then(Value::as_object_mut);
    if let (Some(arguments), Some(function)) = (arguments, function) {
        function.insert("arguments".to_owned(), arguments.into());
    }
    body.value(&original);
}

/// The element of `tool_calls` that the client sent for `call`, if the upstream supports its type. The call's
/// id may have been replaced in the meantime.
fn original_call<'r>(call: &Call, originals: &mut Originals<'r>, options: &Options) -> Option<&'r Value> {
    let is_known = |element: &Value| options.keep_custom_tools || !original::is_custom_call(element);
    let means_it = |element: &Value| is_known(element) && original::call(element).as_ref() == Some(call);
    let means_alike = |element: &Value| {
        let alike = original::call(element).map(|own| Call { id: call.id.clone(), ..own });
        is_known(element) && alike.as_ref() == Some(call)
    };
    originals.next(means_it).or_else(|| originals.next(means_alike))
}

fn function(body: &mut Encoder, call: &Call) {
    body.object(|body| {
        body.key("name").string(&call.name);
        body.key("arguments").string(&Arguments::of(&call.arguments).into_text(CUSTOM_INPUT));
    });
}

fn extend(body: &mut Encoder, rest: &Map<String, Value>) {
    for (key, value) in rest {
        if !matches!(key.as_str(), "content" | "tool_calls") {
            body.key(key).value(value);
        }
    }
}

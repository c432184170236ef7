//! Tests round trips through each dialect that has both a client side and an upstream side: a request encoded for
//! an upstream must decode to the same request, and a response written for a client must read back as the same
//! response.

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Sampling, Tool, ToolChoice, Turn},
    dialect::{Answering, ClientDialect, Dialect, ReaderRules, Stamp, UpstreamDialect},
    event::{CallEnd, CallStart, Event, Finish, Reasoning, Runner, Source, Start, Usage},
};

use crate::laws::{soup::prose, tries};

/// The dialects with a client side and an upstream side. Completions have no place for calls, and a prompt no roles.
fn both_sides() -> Vec<(ClientDialect, UpstreamDialect)> {
    let upstreams = UpstreamDialect::all().into_iter();
    let upstreams = upstreams.filter(|upstream| upstream.dialect() != Dialect::Completions);
    upstreams.filter_map(|upstream| Some((upstream.dialect().try_into().ok()?, upstream))).collect()
}

#[test]
fn some_dialect_has_both_sides() {
    assert!(both_sides().iter().any(|(client, _)| *client == ClientDialect::Chat));
}

// Requests.

/// Generates the text of a message, which is never empty because some dialects refuse or drop empty text.
fn said() -> impl Strategy<Value = String> {
    prose().prop_map(|text| format!("a{text}z"))
}

fn arguments() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prose().prop_map(Value::from),
        prop::collection::vec(any::<u8>().prop_map(Value::from), 0..3).prop_map(Value::from),
    ];
    prop::collection::vec(("[a-z]{1,3}", value), 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()).to_string())
}

const TOOLS: [&str; 2] = ["find", "write_file"];

fn exchange(number: usize) -> impl Strategy<Value = Vec<Turn>> {
    // toolwire replaces results that consist only of white space with empty ones, since Messages servers refuse them.
    // So instead of such results, this generates empty ones.
    let result = prop_oneof![4 => said(), 1 => Just(String::new())];
    let calls = prop::collection::vec((prop::sample::select(&TOOLS[..]), arguments(), result), 0..3);
    let image = prop::option::of(Just("data:image/png;base64,iVBORw0KGgo="));
    (said(), image, prop::option::of(said()), calls).prop_map(move |(asked, image, answered, calls)| {
        let mut user = Turn::text(Role::User, asked);
        user.parts.extend(image.map(|url| Part::Image { url: url.to_owned(), detail: None }));
        let mut assistant =
            Turn::of(Role::Assistant, answered.into_iter().map(|text| Part::Text(text.into())).collect());
        let mut results = Vec::new();
        for (index, (name, arguments, content)) in calls.into_iter().enumerate() {
            let id = format!("call_{number}_{index}");
            let output = CallOutput { id: id.clone(), name: String::new(), content, is_error: false };
            results.push(Turn::of(Role::Tool, vec![Part::Result(output)]));
            assistant.parts.push(Part::Call(Call::new(id, name, arguments)));
        }
        let mut turns = vec![user];
        turns.extend(Some(assistant).filter(|turn| !turn.parts.is_empty()));
        turns.extend(results);
        turns
    })
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let system = prop::option::of(said()).prop_map(|text| text.map(|text| Turn::text(Role::System, text)));
    (system, exchange(0), exchange(1), said()).prop_map(|(system, first, second, last)| {
        let last = [Turn::text(Role::User, last)];
        system.into_iter().chain(first).chain(second).chain(last).collect()
    })
}

fn tool(name: String) -> impl Strategy<Value = Tool> {
    let properties = prop::collection::vec("[a-z]{1,4}", 0..3);
    (prose(), properties).prop_map(move |(description, names)| {
        let properties: serde_json::Map<_, _> =
            names.into_iter().map(|name| (name, json!({"type": "string"}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        Tool { description, parameters: Some(schema.into()), ..Tool::named(name.clone()) }
    })
}

fn tools() -> impl Strategy<Value = (Vec<Tool>, ToolChoice)> {
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        Just(ToolChoice::Named(TOOLS[0].to_owned())),
    ];
    let tools = (tool(TOOLS[0].to_owned()), tool(TOOLS[1].to_owned()));
    (tools, choice).prop_map(|((first, second), choice)| (vec![first, second], choice))
}

fn conversation() -> impl Strategy<Value = Conversation> {
    // Maximum temperatures differ between dialects, and higher values are clamped, so this stays within the lowest
    // maximum.
    let sampling = (1_u64..100_000, prop::option::of(0_u8..=1), prop::collection::vec("[A-Z]{1,5}", 0..3));
    (turns(), tools(), any::<bool>(), any::<bool>(), sampling).prop_map(
        |(turns, (tools, tool_choice), parallel, stream, (max_tokens, temperature, stop))| Conversation {
            model: "m".to_owned(),
            turns,
            // Without callable tools, the setting for parallel calls is not sent.
            parallel_calls: parallel || tool_choice == ToolChoice::None,
            tools,
            tool_choice,
            stream,
            include_usage: stream,
            sampling: Sampling {
                max_tokens: Some(max_tokens),
                temperature: temperature.map(serde_json::Number::from),
                stop,
                ..Sampling::default()
            },
            ..Conversation::default()
        },
    )
}

/// Returns the meaning of a conversation, which must not depend on the dialect. Adjacent texts by the same author
/// count as one, and it does not matter whether instructions are in a separate field.
fn meaning(conversation: &Conversation) -> Value {
    let mut said: Vec<(&str, Value)> = Vec::new();
    // Not all APIs have ids of calls, so only which result belongs to which call counts.
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: &str| {
        ids.iter().position(|known| known == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        })
    };
    for turn in &conversation.turns {
        for part in &turn.parts {
            match part {
                Part::Text(text) => {
                    let author = match turn.role {
                        Role::System | Role::Developer => "system",
                        Role::User | Role::Tool => "user",
                        Role::Assistant => "assistant",
                    };
                    match said.last_mut() {
                        Some((last, Value::String(before))) if *last == author => before.push_str(text),
                        _ => said.push((author, json!(text.as_str()))),
                    }
                }
                Part::Image { url, .. } => said.push(("image", json!({ "url": url }))),
                Part::Call(call) => {
                    let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
                    said.push(("call", json!([number(&call.id), call.name, arguments])));
                }
                Part::Result(output) => said.push(("result", json!([number(&output.id), output.content]))),
                Part::Reasoning { text, .. } => said.push(("reasoning", json!([text]))),
                Part::Other(other) => panic!("nothing else was said: {other:?}"),
            }
        }
    }
    let tools = conversation.tools.iter().map(|tool| {
        let schema = tool.parameters.as_ref().map(|schema| format!("{schema:?}"));
        let schema: Value = schema.map(|schema| serde_json::from_str(&schema).unwrap()).unwrap_or_default();
        json!([tool.name, tool.description, schema])
    });
    let sampling = &conversation.sampling;
    json!({
        "model": conversation.model,
        "said": said,
        "tools": tools.collect::<Vec<_>>(),
        "choice": format!("{:?}", conversation.tool_choice),
        "parallel": conversation.parallel_calls,
        "stream": conversation.stream,
        "sampling": [json!(sampling.max_tokens), json!(sampling.temperature), json!(sampling.stop)],
    })
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn request_written_for_an_upstream_and_read_as_a_clients_is_the_same(conversation in conversation()) {
        for (client, upstream) in both_sides() {
            let written = upstream.side().encode(&conversation, "m");
            let read = client.side().decode(&written.body).expect("a request of this dialect");
            let dialect = upstream.dialect();
            let mut expected = meaning(&conversation);
            for field in unsaid(client) {
                expected[*field] = meaning(&read)[*field].clone();
            }
            prop_assert_eq!(meaning(&read), expected, "{}: {}", dialect, written.body.escape_ascii());
            let again = upstream.side().encode(&read, "m");
            let read_again = client.side().decode(&again.body).expect("a request of this dialect");
            prop_assert_eq!(meaning(&read_again), meaning(&read), "{}, written twice", dialect);
        }
    }
}

/// The members of [`meaning`] that requests of a dialect cannot express.
fn unsaid(client: ClientDialect) -> &'static [&'static str] {
    match client.dialect().name() {
        // The Responses API has no stop sequences.
        "responses" => &["sampling"],
        // The path of a request says these; parallel calls cannot be forbidden.
        "gemini" => &["model", "stream", "parallel"],
        "interactions" => &["parallel"],
        // Ollama's API has no choice of tools, so tools that must not be called are left out.
        "ollama" => &["choice", "tools", "parallel"],
        _ => &[],
    }
}

// Responses.

/// A call: its name, its arguments, and where the arguments are split.
type MadeCall = (String, String, Vec<prop::sample::Index>);

#[derive(Debug, Clone)]
struct Response {
    reasoning: Vec<String>,
    text: Vec<String>,
    calls: Vec<MadeCall>,
    is_cut: bool,
    usage: Option<(u16, u16, u8)>,
}

fn response() -> impl Strategy<Value = Response> {
    let call = ("[a-z_]{1,9}", arguments(), prop::collection::vec(any::<prop::sample::Index>(), 0..4));
    let usage = prop::option::of((256_u16.., any::<u16>(), any::<u8>()));
    let pieces = || prop::collection::vec(said(), 0..3);
    (pieces(), pieces(), prop::collection::vec(call, 0..4), any::<bool>(), usage).prop_map(
        |(reasoning, text, calls, is_cut, usage)| {
            // In Messages, a call that is cut off before its input looks like a call without arguments.
            let is_cut = is_cut && calls.is_empty();
            Response { reasoning, text, calls, is_cut, usage }
        },
    )
}

impl Response {
    fn events(&self) -> Vec<Event<'static>> {
        let start = Start { id: "answer_1".into(), model: "m".into(), created: Some(1_700_000_000) };
        let mut events = vec![Event::Start(start)];
        events.extend(self.reasoning.iter().map(|text| Event::Reasoning(Reasoning::text(text.clone()))));
        events.extend(self.text.iter().map(|text| Event::Text(text.clone().into())));
        for (index, (name, arguments, cuts)) in (0..).zip(&self.calls) {
            events.push(Event::CallStart(CallStart {
                index,
                id: format!("call_{index}").into(),
                name: name.clone().into(),
                runner: Runner::Client,
                source: Source::Native,
                signature: None,
            }));
            let pieces = crate::laws::soup::cut_text(arguments, cuts);
            let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
            events.extend(pieces.map(|piece| Event::CallArguments { index, piece: piece.to_owned().into() }));
            events.push(Event::CallEnd { index, end: CallEnd::Complete });
        }
        events.extend(self.usage.map(|(input, output, cached)| {
            let (input, output, cached) = (u64::from(input), u64::from(output), u64::from(cached));
            Event::Usage(Usage {
                input: Some(input),
                output: Some(output),
                total: Some(input + output),
                cached: Some(cached),
                ..Usage::default()
            })
        }));
        events.push(Event::Finish(match (self.is_cut, self.calls.is_empty()) {
            (true, _) => Finish::Length,
            (false, true) => Finish::Stop,
            (false, false) => Finish::Calls,
        }));
        events
    }
}

/// Summarizes events, with adjacent pieces joined and token counts at the end.
fn joined<'e>(events: impl IntoIterator<Item = &'e Event<'static>>) -> Vec<String> {
    let mut said: Vec<(String, String)> = Vec::new();
    let mut calls: Vec<(u32, String)> = Vec::new();
    let mut end = Vec::new();
    for event in events {
        let (kind, piece) = match event {
            Event::Text(text) => ("text", text.as_ref()),
            Event::Reasoning(reasoning) => ("reasoning", reasoning.text.as_ref()),
            Event::Refusal(text) => ("refusal", text.as_ref()),
            Event::CallStart(call) => {
                calls.push((call.index, format!("{} {} ", call.id, call.name)));
                continue;
            }
            Event::CallArguments { index, piece } => {
                calls.iter_mut().find(|call| call.0 == *index).expect("a call").1.push_str(piece);
                continue;
            }
            Event::CallEnd { index, end } => {
                calls.iter_mut().find(|call| call.0 == *index).expect("a call").1 += &format!(" {end:?}");
                continue;
            }
            Event::Usage(usage) => {
                end.retain(|line: &String| !line.starts_with("usage"));
                // The Messages API cannot omit counts. Unknown counts are sent as zeros.
                if (usage.input, usage.output) == (Some(0), Some(0)) {
                    continue;
                }
                let counts = (usage.input, usage.output, usage.cached.unwrap_or(0));
                end.push(format!("usage {counts:?}"));
                continue;
            }
            Event::Finish(finish) => {
                end.push(format!("finish {finish:?}"));
                continue;
            }
            Event::Start(start) => {
                // Every dialect has its own format for IDs.
                said.push(("start".to_owned(), start.model.to_string()));
                continue;
            }
            Event::Ping(_) | Event::Phase { .. } => continue,
            other => panic!("nobody wrote {other:?}"),
        };
        match said.last_mut() {
            Some((last, before)) if last == kind => before.push_str(piece),
            _ if piece.is_empty() => {}
            _ => said.push((kind.to_owned(), piece.to_owned())),
        }
    }
    end.sort_unstable();
    let said = said.into_iter().map(|(kind, text)| format!("{kind} {text}"));
    said.chain(calls.into_iter().map(|(index, call)| format!("call {index} {call}"))).chain(end).collect()
}

fn written(client: ClientDialect, events: &[Event<'static>], stream: bool) -> BytesMut {
    let asked =
        Conversation { stream, include_usage: true, model: "m".to_owned(), ..Conversation::default() };
    let answering = Answering::new(&asked, Stamp { seed: 5, created: 1_700_000_000 });
    let mut writer = client.side().writer(&answering);
    let mut body = BytesMut::new();
    for event in events {
        writer.event(event, &mut body);
    }
    writer.finish(&mut body);
    body
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn response_written_for_a_client_and_read_as_an_upstreams_is_the_same(response in response()) {
        let events = response.events();
        for (client, upstream) in both_sides() {
            for stream in [true, false] {
                let body = written(client, &events, stream);
                let rules = ReaderRules {
                    max_frame: 1 << 20,
                    tolerate_truncation: false,
                    client: client.dialect(),
                };
                let mut reader = upstream.side().reader(&rules);
                let mut read: Vec<Event<'static>> = Vec::new();
                let result = reader.push(&body, &mut read).and_then(|()| reader.finish(&mut read));
                let dialect = upstream.dialect();
                prop_assert!(result.is_ok(), "{dialect}: {result:?}: {}", body.escape_ascii());
                let mut expected = joined(&events);
                if client == ClientDialect::Ollama {
                    // The API has no count of cached tokens.
                    let counts = expected.iter_mut().filter(|line| line.starts_with("usage"));
                    counts.for_each(|line| *line = format!("{}, 0)", line.rsplit_once(", ").unwrap().0));
                }
                prop_assert_eq!(joined(&read), expected, "{}: {}", dialect, body.escape_ascii());
            }
        }
    }
}

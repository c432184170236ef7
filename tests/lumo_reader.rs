//! The Lumo cases of the conformance file, as far as they are about reading and writing Lumo: each stream read whole, in
//! small pieces and at every two-way split, and each conversation encoded.

use serde_json::{Map, Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Sampling, Tool, ToolChoice, Turn},
    dialect::lumo::{Options, Reader, ReaderSettings, Version, encode},
    event::{CallEnd, Event, Finish, Runner},
};

/// The cases whose expectations need a later stage: calls in text, what becomes of a misrouted call, decryption.
const OTHER_STAGES: [&str; 1] = ["W34"];

fn cases() -> impl Iterator<Item = Value> {
    let file = include_str!("../fixtures/conformance/lumo.jsonl");
    file.lines().map(|line| serde_json::from_str(line).expect("a case is JSON"))
}

/// What a client would have put together of the events.
#[derive(Debug, Default, PartialEq)]
struct Assembled {
    text: String,
    reasoning: String,
    calls: Vec<(Runner, String, String, String, Option<CallEnd>)>,
    results: Vec<(u32, String, bool)>,
    order: Vec<&'static str>,
    media: Vec<(String, String)>,
    usage: Option<Value>,
    model: Option<String>,
    finish: Option<Finish>,
    failure: Option<(String, u16)>,
    pings: usize,
    malformed: u64,
    orphans: u64,
}

impl Assembled {
    fn take(&mut self, event: Event<'_>) {
        if self.finish.is_some() {
            assert!(matches!(event, Event::Usage(_) | Event::Ping(_)), "{event:?} behind the finish");
        }
        if self.model.is_none() {
            assert!(matches!(event, Event::Start(_) | Event::Ping(_)), "{event:?} before the start");
        }
        match event {
            Event::Start(start) => {
                assert_eq!(self.model.replace(start.model.into_owned()), None, "one start");
            }
            Event::Text(text) => {
                assert!(!text.is_empty());
                self.text.push_str(&text);
                self.note("text");
            }
            Event::Reasoning(reasoning) => {
                assert!(!reasoning.text.is_empty());
                self.reasoning.push_str(&reasoning.text);
                self.note("reasoning");
            }
            Event::CallStart(start) => {
                assert_eq!(start.index as usize, self.calls.len());
                self.calls.push((
                    start.runner,
                    start.id.into_owned(),
                    start.name.into_owned(),
                    String::new(),
                    None,
                ));
                self.note("call");
            }
            Event::CallArguments { index, piece } => {
                let call = &mut self.calls[index as usize];
                assert_eq!(call.4, None);
                call.3.push_str(&piece);
            }
            Event::CallEnd { index, end } => assert_eq!(self.calls[index as usize].4.replace(end), None),
            Event::CallResult(result) => {
                assert_eq!(self.calls[result.index as usize].1, result.id);
                self.results.push((result.index, result.content.into_owned(), result.is_error));
                self.note("result");
            }
            Event::Media(media) => self.media.push((media.id.into_owned(), media.data.into_owned())),
            Event::Usage(usage) => {
                self.usage = usage.raw.map(|raw| serde_json::from_str(raw.get()).expect("usage is JSON"));
            }
            Event::Finish(finish) => {
                assert!(self.calls.iter().all(|call| call.4.is_some()), "every call has ended");
                self.finish = Some(finish);
            }
            Event::Ping(_) => self.pings += 1,
            Event::Refusal(_) | Event::Annotation(_) | Event::Verbatim { .. } => panic!("{event:?}"),
        }
    }

    fn note(&mut self, what: &'static str) {
        if self.order.last() != Some(&what) {
            self.order.push(what);
        }
    }

    /// The finish reason as the rules behind the reader set it right: calls of the client's count, nothing else.
    fn finish_word(&self) -> Option<&'static str> {
        let calls = self.calls.iter().any(|call| call.0 == Runner::Client);
        Some(match self.finish? {
            Finish::Stop | Finish::Calls if calls => "tool_calls",
            Finish::Stop | Finish::Calls => "stop",
            Finish::Length => "length",
            Finish::Filter => "content_filter",
        })
    }
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, settings: &ReaderSettings) -> Assembled {
    let mut reader = Reader::new(settings.clone());
    let mut events: Vec<Event<'static>> = Vec::new();
    let outcome = pieces.into_iter().try_for_each(|piece| reader.push(piece, &mut events));
    let outcome = outcome.and_then(|()| reader.finish(&mut events));
    assert!(reader.is_done());
    let mut assembled = Assembled::default();
    events.into_iter().for_each(|event| assembled.take(event));
    assert_eq!(assembled.finish.is_some(), outcome.is_ok(), "a finish or a failure");
    assembled.failure = outcome.err().map(|failure| {
        assert!(!failure.message().is_empty());
        (failure.code().unwrap_or_default().to_owned(), failure.status())
    });
    assembled.malformed = reader.malformed();
    assembled.orphans = reader.orphan_results();
    assembled
}

/// Reads `bytes` whole, and checks that no way of cutting them makes a difference.
fn read_every_way(bytes: &[u8], settings: &ReaderSettings) -> Assembled {
    let whole = read([bytes], settings);
    for size in [1, 2, 3, 5, 7, 13] {
        assert_eq!(read(bytes.chunks(size), settings), whole, "in pieces of {size}");
    }
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read([head, tail], settings), whole, "cut at {at}");
    }
    whole
}

fn read_text(stream: &str) -> Assembled {
    read_every_way(stream.as_bytes(), &ReaderSettings::default())
}

/// The frames of a case's events, in the notation of the conformance file.
fn frames(events: &[Value], v1: bool) -> String {
    let mut counts = Map::new();
    let mut stream = String::new();
    for event in events {
        let parts: Vec<_> = event.as_array().expect("a tuple").iter().collect();
        let word = parts[0].as_str().expect("a word");
        let value = parts.get(1).map_or(Value::Null, |value| (*value).clone());
        let frame = if v1 { v1_frame(word, value, &mut counts) } else { v2_frame(word, value) };
        stream.push_str(&frame);
        stream.push_str("\n\n");
    }
    stream
}

fn v1_frame(word: &str, value: Value, counts: &mut Map<String, Value>) -> String {
    let target = match word {
        "m" => "message",
        "r" => "reasoning",
        "t" => "title",
        "tc" => "tool_call",
        "tr" => "tool_result",
        "q" => return r#"data: {"type":"queued"}"#.to_owned(),
        "ing" => return format!("data: {}", json!({"type": "ingesting", "target": value})),
        "tool-error" => return format!("data: {}", json!({"type": word, "error": value})),
        _ => return format!("data: {}", json!({"type": word, "message": value})),
    };
    let count = counts.get(target).and_then(Value::as_u64).unwrap_or(0);
    counts.insert(target.to_owned(), json!(count + 1));
    format!("data: {}", json!({"type": "token_data", "target": target, "count": count, "content": value}))
}

fn v2_frame(word: &str, value: Value) -> String {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let frame = match word {
        "m" => chunk(json!({"content": value})),
        "r" => chunk(json!({"reasoning_content": value})),
        "d" => chunk(value),
        "fin" => json!({"choices": [{"index": 0, "delta": {}, "finish_reason": value}]}),
        "stc" => json!({"object": "chat.tool_call", "tool_call": value}),
        "str" => json!({"object": "chat.tool_result", "tool_result": value}),
        "img" => json!({"object": "lumo.image_data", "image": value}),
        "u" => json!({"choices": [], "usage": value}),
        "err" => json!({"error": value}),
        "c" => return format!(":{}", value.as_str().expect("a comment")),
        "done" => return "data: [DONE]".to_owned(),
        other => panic!("unknown event {other}"),
    };
    format!("data: {frame}")
}

fn stream_of(case: &Value) -> String {
    match case["raw"].as_str() {
        Some(raw) => raw.to_owned(),
        None => frames(case["ev"].as_array().expect("events"), case["id"].as_str().unwrap().starts_with('V')),
    }
}

#[test]
fn streams_are_read_as_the_cases_say() {
    let mut run = 0;
    for case in cases() {
        let id = case["id"].as_str().expect("an id").to_owned();
        let mine = id.starts_with(['V', 'W']) || id == "U08";
        if !mine || OTHER_STAGES.contains(&id.as_str()) {
            continue;
        }
        let stream = stream_of(&case);
        println!("{id}");
        check(&case, &read_text(&stream));
        run += 1;
    }
    assert!(run >= 30, "only {run} cases");
}

fn check(case: &Value, got: &Assembled) {
    let id = &case["id"];
    let text = |key: &str, got: &str| {
        if let Some(expected) = case[key].as_str() {
            assert_eq!(got, expected, "{key} of {id}");
        }
    };
    text("text", &got.text);
    text("reasoning", &got.reasoning);
    text("fin", got.finish_word().unwrap_or_default());
    // W17 is written for arguments that are sent whole; a reader streams them and says that they were cut.
    let complete = got.calls.iter().filter(|call| call.4 == Some(CallEnd::Complete));
    let calls: Value = complete.clone().map(|call| json!([call.2, call.3])).collect();
    if !case["calls"].is_null() {
        assert_eq!(calls, case["calls"], "calls of {id}");
    }
    if !case["ids"].is_null() {
        assert_eq!(complete.map(|call| json!(call.1)).collect::<Value>(), case["ids"], "ids of {id}");
    }
    if !case["results"].is_null() {
        let results: Value = got.results.iter().map(|result| json!([result.0, result.1])).collect();
        assert_eq!(results, case["results"], "results of {id}");
    }
    if !case["order"].is_null() {
        assert_eq!(json!(got.order), case["order"], "order of {id}");
    }
    if !case["usage"].is_null() {
        assert_eq!(got.usage.as_ref(), Some(&case["usage"]), "usage of {id}");
    }
    match (&got.failure, case["err"]["code"].as_str()) {
        (Some((code, _)), Some(expected)) => assert_eq!(code, expected, "code of {id}"),
        (failure, expected) => {
            assert_eq!(failure.is_some(), expected.is_some(), "failure of {id}: {failure:?}")
        }
    }
    if let (Some((_, status)), Some(expected)) = (&got.failure, case["http"].as_u64()) {
        assert!(expected == 200 || u64::from(*status) == expected, "status of {id}");
    }
    match case["metric"].as_str() {
        Some("malformed event >=1") => assert!(got.malformed >= 1),
        Some("orphan result +1") => assert_eq!(got.orphans, 1),
        _ => {}
    }
}

/// A conversation of OpenAI's messages, as far as the cases need it.
fn conversation(case: &Value) -> Conversation {
    let request = &case["req"];
    let tools = request["tools"].as_array().into_iter().flatten().map(|name| Tool {
        name: name.as_str().expect("a name").to_owned(),
        description: String::new(),
        parameters: Value::Null,
        strict: None,
        declared: Value::Null,
    });
    let number = |key: &str| request[key].as_number().cloned();
    Conversation {
        model: "lumo".to_owned(),
        turns: case["messages"].as_array().into_iter().flatten().map(turn).collect(),
        tools: tools.collect(),
        parallel_calls: true,
        sampling: Sampling {
            max_tokens: request["max_tokens"].as_u64(),
            temperature: number("temperature"),
            seed: number("seed"),
            reasoning_effort: request["reasoning_effort"].as_str().map(str::to_owned),
            ..Sampling::default()
        },
        ..Conversation::default()
    }
}

fn turn(message: &Value) -> Turn {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let role = match message["role"].as_str() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => Role::User,
    };
    let mut parts = Vec::new();
    if role == Role::Tool {
        let id = text(&message["tool_call_id"]);
        let content = text(&message["content"]);
        parts.push(Part::Result(CallOutput { id, name: String::new(), content, is_error: false }));
    } else if message["content"].is_string() {
        parts.push(Part::Text(text(&message["content"])));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        parts.push(Part::Call(Call {
            id: text(&call["id"]),
            name: text(&function["name"]),
            arguments: text(&function["arguments"]),
        }));
    }
    Turn { role, parts, rest: Map::new() }
}

fn options(version: Version) -> Options {
    Options { version, native_tools: vec!["proton_info".to_owned()], ..Options::default() }
}

fn encoded(conversation: &Conversation, version: Version) -> (Value, Vec<String>) {
    let request = encode(conversation, &options(version));
    assert_eq!(request.path, version.path());
    (serde_json::from_slice(&request.body).expect("a JSON body"), request.dropped)
}

/// Role and content of every turn of a v2 request.
fn turns_of(body: &Value) -> Value {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages.map(|message| json!([message["role"], message["content"]])).collect()
}

#[test]
fn conversations_are_written_as_the_cases_say() {
    let mut run = 0;
    for case in cases() {
        let id = case["id"].as_str().expect("an id");
        let other_stage =
            case["u2l"] == true || case["mode"].as_str().is_some_and(|it| it.starts_with("text"));
        if !id.starts_with('C') || other_stage || case["messages"].is_null() {
            continue;
        }
        println!("{id}");
        let (body, _) = encoded(&conversation(&case), Version::V2);
        if !case["upstream_turns"].is_null() {
            assert_eq!(turns_of(&body), case["upstream_turns"], "turns of {id}");
        }
        for (key, value) in case["upstream_has"].as_object().into_iter().flatten() {
            assert_eq!(&body[key], value, "{key} of {id}");
        }
        run += 1;
    }
    assert!(run >= 4, "only {run} cases");
}

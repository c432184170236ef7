//! Tests the bytes of a Chat Completions stream, and which frames are forwarded unchanged.

use bytes::BytesMut;
use proptest::prelude::*;
use toolwire::{
    dialect::{
        Answering, Stamp,
        chat::{Reader, ReaderSettings, Writer},
    },
    event::{
        Annotation, CallEnd, CallResult, CallStart, Event, Finish, Media, RawUsage, Reasoning, Runner, Sink,
        Source, Start, Usage,
    },
    failure::{Failure, Kind},
    rules,
};

use crate::{
    chat::frames::{chunk, end, loose},
    read::{Read, read_in},
};

const DONE: &str = "data: [DONE]\n\n";

fn answering() -> Answering {
    Answering {
        stream: true,
        include_usage: true,
        reasoning: rules::Reasoning::Auto,
        model: "m".to_owned(),
        stamp: Stamp { seed: 7, created: 17 },
        ..Answering::default()
    }
}

fn start() -> Event<'static> {
    Event::Start(Start { id: "c1".into(), model: "".into(), created: None })
}

fn call(index: u32, id: &'static str, name: &'static str) -> Event<'static> {
    Event::CallStart(CallStart {
        index,
        id: id.into(),
        name: name.into(),
        runner: Runner::Client,
        source: Source::Native,
        signature: None,
    })
}

fn arguments(index: u32, piece: &'static str) -> Event<'static> {
    Event::CallArguments { index, piece: piece.into() }
}

fn complete(index: u32) -> Event<'static> {
    Event::CallEnd { index, end: CallEnd::Complete }
}

fn counts() -> Event<'static> {
    Event::Usage(Usage { input: Some(9), output: Some(5), total: None, raw: None, ..Usage::default() })
}

fn written(answering: &Answering, events: &[Event<'_>]) -> String {
    let mut writer = Writer::new(answering);
    let mut out = BytesMut::new();
    events.iter().for_each(|event| writer.event(event, &mut out));
    writer.finish(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[track_caller]
fn writes(answering: &Answering, events: &[Event<'_>], chunks: &[String]) {
    let expected = [&chunks.concat(), DONE].concat();
    similar(&written(answering, events), &expected);
}

#[track_caller]
fn similar(left: &str, right: &str) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(left), lines(right));
    assert_eq!(left, right);
}

const USAGE: &str = r#"data: {"id":"c1","object":"chat.completion.chunk","created":17,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}"#;

#[test]
fn canonical_stream() {
    let events = [
        Event::Ping("queued".into()),
        start(),
        Event::Text("Looking \"\n\u{1}é".into()),
        Event::Usage(Usage { input: Some(1), output: Some(1), total: None, raw: None, ..Usage::default() }),
        call(0, "call_1", "f"),
        arguments(0, "{\"x\":"),
        arguments(0, "1}"),
        complete(0),
        call(1, "call_2", "g"),
        complete(1),
        Event::Finish(Finish::Calls),
        counts(),
    ];
    let chunks = [
        chunk(r#"{"role":"assistant","content":""}"#, "null"),
        chunk(r#"{"content":"Looking \"\n\u0001é"}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}"#, "null"),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk("{}", "\"tool_calls\""),
    ];
    let with_usage = [chunks.as_slice(), &[format!("{USAGE}\n\n")]].concat();
    writes(&answering(), &events, &with_usage);
    writes(&Answering { include_usage: false, ..answering() }, &events, &chunks);
}

#[test]
fn response_without_text_begins_with_null_content() {
    let events = [
        start(),
        Event::Reasoning(Reasoning::text("hm")),
        Event::Refusal("No.".into()),
        Event::Finish(Finish::Filter),
    ];
    let chunks = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(r#"{"reasoning_content":"hm"}"#, "null"),
        chunk(r#"{"refusal":"No."}"#, "null"),
        chunk("{}", "\"content_filter\""),
    ];
    writes(&answering(), &events, &chunks);
    let chunks = [chunk(r#"{"role":"assistant","content":""}"#, "null"), chunk("{}", "\"stop\"")];
    writes(&answering(), &[start(), Event::Finish(Finish::Stop)], &chunks);
}

#[test]
fn annotations_images_and_results_are_written() {
    let result = CallResult { index: 0, id: "call_1".into(), content: "42\n".into(), is_error: false };
    let note = Annotation { url: "u".into(), title: "t".into(), span: (1, 2) };
    let image = Media { id: "i".into(), mime: "image/webp".into(), data: "AAAA".into() };
    let without_data = Media { id: "j".into(), mime: "".into(), data: "".into() };
    let events = [
        start(),
        Event::CallResult(result),
        Event::Annotation(note),
        Event::Media(image),
        Event::Media(without_data),
        Event::Finish(Finish::Length),
    ];
    let chunks = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(r#"{"tool_results":[{"index":0,"id":"call_1","content":"42\n"}]}"#, "null"),
        chunk(
            r#"{"annotations":[{"index":0,"type":"url_citation","url_citation":{"start_index":1,"end_index":2,"title":"t","url":"u"}}]}"#,
            "null",
        ),
        chunk(
            r#"{"images":[{"index":0,"type":"image_url","image_url":{"url":"data:image/webp;base64,AAAA"},"id":"i"}]}"#,
            "null",
        ),
        chunk("{}", "\"length\""),
    ];
    writes(&answering(), &events, &chunks);
}

#[test]
fn legacy_function_call_form_has_one_call() {
    let events = [
        start(),
        call(0, "call_1", "f"),
        complete(0),
        call(1, "call_2", "g"),
        arguments(1, "{}"),
        complete(1),
        Event::Finish(Finish::Calls),
    ];
    let chunks = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(r#"{"function_call":{"name":"f","arguments":""}}"#, "null"),
        chunk(r#"{"function_call":{"arguments":"{}"}}"#, "null"),
        chunk("{}", "\"function_call\""),
    ];
    let legacy = Answering { legacy_functions: true, ..answering() };
    writes(&legacy, &events, &chunks);
    let whole = written(&Answering { stream: false, ..legacy }, &events);
    assert!(whole.contains(r#""function_call":{"name":"f","arguments":"{}"}},"#), "{whole}");
    assert!(whole.contains(r#""finish_reason":"function_call""#) && !whole.contains("tool_calls"), "{whole}");
}

#[test]
fn missing_id_and_model_are_generated() {
    let text = written(&answering(), &[Event::Text("A".into()), Event::Finish(Finish::Stop)]);
    let id = text.strip_prefix("data: {\"id\":\"chatcmpl-").and_then(|rest| rest.get(..24)).unwrap();
    assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(text.matches(id).count(), 3, "one id for all chunks");
    assert!(text.contains(r#""created":17,"model":"m""#));
}

#[test]
fn failure_ends_the_stream_with_an_error_frame() {
    let mut writer = Writer::new(&answering());
    let mut out = BytesMut::new();
    writer.keep_alive(&mut out);
    writer.event(&start(), &mut out);
    let failure = Failure::new(Kind::Timeout, "too \"slow\"").with_param("p");
    writer.fail(&failure, &mut out);
    let expected = concat!(
        ": keep-alive\n\n",
        r#"data: {"error":{"message":"too \"slow\"","type":"server_error","param":"p","code":"timeout"}}"#,
        "\n\ndata: [DONE]\n\n"
    );
    similar(std::str::from_utf8(&out).unwrap(), expected);
}

#[test]
fn unstreamed_response() {
    let whole = Answering { stream: false, ..answering() };
    let raw = serde_json::value::RawValue::from_string(
        r#"{"prompt_tokens":9,"completion_tokens_details":{"reasoning_tokens":3}}"#.to_owned(),
    );
    let events = [
        start(),
        Event::Text("A".into()),
        Event::Reasoning(Reasoning::text("hm")),
        Event::Text("B".into()),
        call(0, "call_1", "f"),
        arguments(0, "{\"x\":"),
        arguments(0, "2.50}"),
        complete(0),
        call(1, "call_2", "g"),
        complete(1),
        Event::Finish(Finish::Calls),
        Event::Usage(Usage {
            input: Some(9),
            output: Some(5),
            total: Some(15),
            raw: raw.ok().map(|object| RawUsage { dialect: "chat", object }),
            ..Usage::default()
        }),
    ];
    let message = r#"{"role":"assistant","content":"AB","refusal":null,"reasoning_content":"hm","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"x\":2.50}"}},{"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]}"#;
    let usage = r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}"#;
    let expected = format!(
        r#"{{"id":"c1","object":"chat.completion","created":17,"model":"m","choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":{usage}}}"#
    );
    assert_eq!(written(&whole, &events), expected);
    let bare = written(&whole, &[start(), call(0, "c", "f"), Event::Finish(Finish::Calls)]);
    assert!(bare.contains(r#""content":null"#), "{bare}");
    assert!(!bare.contains("usage"), "what the upstream did not count is left out: {bare}");
    let mut out = BytesMut::new();
    Writer::new(&whole).keep_alive(&mut out);
    assert!(out.is_empty());
}

/// A reader connected directly to a writer, without any stage between them.
struct Joined {
    writer: Writer,
    out: BytesMut,
    verbatim: usize,
}

impl Sink for Joined {
    fn event(&mut self, event: Event<'_>) {
        self.verbatim += usize::from(matches!(event, Event::Verbatim { .. }));
        self.writer.event(&event, &mut self.out);
    }
}

/// Returns the client's bytes and the number of frames that were forwarded unchanged.
fn through(verbatim: bool, answering: &Answering, stream: &str) -> (String, usize) {
    let mut reader = Reader::new(ReaderSettings { verbatim, ..ReaderSettings::default() });
    let mut joined = Joined { writer: Writer::new(answering), out: BytesMut::new(), verbatim: 0 };
    reader.push(stream.as_bytes(), &mut joined).unwrap();
    reader.finish(&mut joined).unwrap();
    let Joined { mut writer, mut out, verbatim } = joined;
    writer.finish(&mut out);
    (String::from_utf8(out.to_vec()).unwrap(), verbatim)
}

fn is_forwarded(stream: &[String]) {
    let stream = [&stream.concat(), DONE].concat();
    similar(&through(true, &answering(), &stream).0, &stream);
}

const EXTRA: &str = r#""model":"m","system_fingerprint":"fp","service_tier":"default""#;

/// A canonical chunk with extra fields that toolwire does not interpret.
fn rich(delta: &str, finish: &str) -> String {
    chunk(delta, finish).replace(r#""model":"m""#, EXTRA)
}

#[test]
fn canonical_frames_are_forwarded_byte_for_byte() {
    let logprobs = r#""logprobs":{"content":[{"token":"A","logprob":-0.10}]},"finish_reason""#;
    is_forwarded(&[
        rich(r#"{"role":"assistant","content":"","refusal":null}"#, "null"),
        rich(r#"{"content":"A"}"#, "null").replace(r#""finish_reason""#, logprobs),
        rich(r#"{"content":"B"}"#, "null"),
        rich(r#"{"content":" C\u00e9"}"#, "null"),
        rich(
            r#"{"content":null,"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
            "null",
        ),
        rich(r#"{"audio":{"data":"AAAA"}}"#, "null"),
        rich(r#"{"images":[{"type":"image_url","image_url":{"url":"https://x"}}]}"#, "null"),
        rich(
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""},"extra_content":{"google":{"thought_signature":"s"}}}]}"#,
            "null",
        ),
        rich(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{ \"x\":"}}]}"#, "null"),
        rich(r#"{"tool_calls":[{"index":0,"function":{"arguments":" 1}"}}]}"#, "null"),
        rich(
            r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]}"#,
            "null",
        ),
        rich(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"),
        rich("{}", "\"tool_calls\""),
        format!(
            "{}\n\n",
            USAGE
                .replace("\"choices\":[],\"usage\"", "\"choices\":[],\"moderation\":{\"flagged\":false}")
                .replace(":{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14}", "")
        ),
        format!("{}\n\n", USAGE.replace("14}", "14,\"prompt_tokens_details\":{\"cached_tokens\":0}}")),
    ]);
}

#[test]
fn custom_calls_and_other_choices_are_forwarded() {
    is_forwarded(&[
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"x","input":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":0,"custom":{"input":"SELECT"}}]}"#, "null"),
        chunk("{}", "\"tool_calls\""),
    ]);
    let second = |delta: &str, finish: &str| chunk(delta, finish).replace("\"index\":0", "\"index\":1");
    is_forwarded(&[
        chunk(r#"{"role":"assistant","content":""}"#, "null"),
        second(r#"{"role":"assistant","content":""}"#, "null"),
        chunk(r#"{"content":"A"}"#, "null"),
        second(r#"{"content":"x"}"#, "null"),
        chunk("{}", "\"stop\""),
        second(r#"{"content":"y"}"#, "null"),
        second("{}", "\"length\""),
    ]);
}

#[test]
fn unstreamed_response_keeps_extra_fields_of_frames() {
    let second = |delta: &str, finish: &str| rich(delta, finish).replace("\"index\":0", "\"index\":1");
    let logprobs =
        |token: &str| format!(r#""logprobs":{{"content":[{{"token":"{token}"}}]}},"finish_reason""#);
    let call = r#"{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"x","input":""}}]}"#;
    let stream = [
        rich(r#"{"role":"assistant","content":""}"#, "null"),
        second(r#"{"role":"assistant","content":""}"#, "null"),
        rich(r#"{"content":"A"}"#, "null").replace(r#""finish_reason""#, &logprobs("A")),
        second(r#"{"content":"x"}"#, "null"),
        rich(r#"{"content":"B"}"#, "null").replace(r#""finish_reason""#, &logprobs("B")),
        rich(
            r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}"#,
            "null",
        ),
        rich(
            r#"{"reasoning":"!","reasoning_details":[{"type":"reasoning.text","text":"!","index":0}]}"#,
            "null",
        ),
        rich(call, "null"),
        second(r#"{"content":"y"}"#, "null"),
        rich(r#"{"tool_calls":[{"index":0,"custom":{"input":"SELECT"}}]}"#, "null"),
        rich(r#"{"tool_calls":[{"index":0,"custom":{"input":" 1"}}]}"#, "null"),
        rich("{}", "\"tool_calls\""),
        second("{}", "\"length\""),
    ];
    let (whole, _) = through(true, &Answering { stream: false, ..answering() }, &stream.concat());
    let expected = serde_json::json!({
        "id": "c1", "object": "chat.completion", "created": 17, "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "tool_calls", "logprobs": {"content": [{"token": "A"}, {"token": "B"}]}, "message": {
                "role": "assistant", "content": "AB", "refusal": null, "reasoning_content": "hm!",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "x", "input": "SELECT 1"}}],
                "reasoning_details": [{"type": "reasoning.text", "text": "hm!", "index": 0}],
            }},
            {"index": 1, "finish_reason": "length", "logprobs": null, "message": {"role": "assistant", "content": "xy"}},
        ],
        "system_fingerprint": "fp", "service_tier": "default",
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&whole).unwrap(), expected);
}

/// A frame is forwarded unchanged only if its reasoning field already has the configured name.
#[test]
fn reasoning_has_the_name_that_the_rules_choose() {
    let frame = |key: &str| chunk(&format!(r#"{{"{key}":"hm","x":1}}"#), "null");
    let both = chunk(r#"{"reasoning":"hm","reasoning_content":"hm"}"#, "null");
    let end = [chunk("{}", "\"stop\""), DONE.to_owned()].concat();
    for (reasoning, forwarded, rewritten, name) in [
        (
            rules::Reasoning::Auto,
            vec![frame("reasoning"), frame("reasoning_content"), both.clone()],
            vec![],
            "reasoning_content",
        ),
        (rules::Reasoning::Off, vec![frame("reasoning")], vec![], "reasoning_content"),
        (
            rules::Reasoning::ReasoningContent,
            vec![frame("reasoning_content"), both.clone()],
            vec![frame("reasoning"), frame("reasoning").replace("\"x\":1", "\"reasoning_content\":null")],
            "reasoning_content",
        ),
        (
            rules::Reasoning::Reasoning,
            vec![frame("reasoning"), both.clone()],
            vec![
                frame("reasoning_content"),
                frame("reasoning_content").replace("\"x\":1", "\"reasoning\":\"\""),
            ],
            "reasoning",
        ),
    ] {
        let answering = Answering { reasoning, include_usage: false, ..answering() };
        for frame in forwarded {
            let (out, _) = through(true, &answering, &[frame.as_str(), &end].concat());
            assert!(out.contains(&frame), "{reasoning:?}: {out}");
        }
        for frame in rewritten {
            let (out, _) = through(true, &answering, &[frame.as_str(), &end].concat());
            assert!(out.contains(&format!(r#""delta":{{"{name}":"hm"}}"#)), "{reasoning:?}: {out}");
        }
        let whole = Answering { stream: false, ..answering };
        let (whole, _) = through(true, &whole, &[frame("reasoning"), end.clone()].concat());
        let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole["choices"][0]["message"][name], "hm", "{whole}");
    }
}

#[test]
fn whole_response_without_reasoning_has_no_details_of_it() {
    let details =
        chunk(r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#, "null");
    let stream =
        [details, chunk(r#"{"content":"A"}"#, "null"), chunk("{}", "\"stop\""), DONE.to_owned()].concat();
    for (reasoning, expected) in
        [(rules::Reasoning::Auto, true), (rules::Reasoning::Drop, false), (rules::Reasoning::Inline, false)]
    {
        let (whole, _) = through(true, &Answering { stream: false, reasoning, ..answering() }, &stream);
        assert_eq!(whole.contains("reasoning_details"), expected, "{whole}");
    }
}

#[test]
fn non_canonical_frames_are_rewritten() {
    let canonical = [
        chunk(r#"{"role":"assistant","content":""}"#, "null"),
        chunk(r#"{"content":"A"}"#, "null"),
        chunk("{}", "\"stop\""),
        DONE.to_owned(),
    ]
    .concat();
    for delta in [
        r#"{"role":"assistant","content":"A"}"#,
        r#"{"content":"A","tool_calls":[]}"#,
        r#"{"content":[{"type":"text","text":"A"}]}"#,
    ] {
        let stream = [chunk(delta, "null"), chunk("{}", "\"eos\"")].concat();
        similar(&through(true, &answering(), &stream).0, &canonical);
    }
    let text = chunk(r#"{"content":"A"}"#, "null");
    for other in [
        text.replace(r#""object":"chat.completion.chunk","#, ""),
        text.replace(r#""index":0,"#, ""),
        text.replace(r#","finish_reason":null"#, ""),
        text.replace("\"delta\"", "\"message\""),
        text.replace("\"choices\"", "\"usage\":{\"prompt_tokens\":1},\"choices\""),
        text.replace("\"model\"", "\ndata: \"model\""),
    ] {
        let stream =
            [chunk(r#"{"role":"assistant","content":""}"#, "null"), other, chunk("{}", "\"stop\"")].concat();
        let (out, _) = through(true, &Answering { include_usage: false, ..answering() }, &stream);
        similar(&out, &canonical);
    }
    let changes_id = [text.clone(), text.replace("c1", "c2"), chunk("{}", "\"stop\"")].concat();
    let (out, verbatim) = through(true, &answering(), &changes_id);
    assert!(!out.contains("c2") && verbatim == 2, "{out}");
}

#[test]
fn usage_is_last_and_only_if_requested() {
    let usage = format!("{USAGE}\n\n");
    let late = format!("{}\n\n", USAGE.replace("\"usage\":{", "\"moderation\":{"));
    let parts = [chunk(r#"{"role":"assistant","content":""}"#, "null"), chunk("{}", "\"stop\"")].concat();
    let stream = [&parts, &usage, &late, DONE].concat();
    similar(&through(true, &answering(), &stream).0, &[&parts, &late, &usage, DONE].concat());
    let quiet = Answering { include_usage: false, ..answering() };
    similar(&through(true, &quiet, &stream).0, &[&parts, &late, DONE].concat());
}

#[test]
fn legacy_client_gets_no_tool_call_frames() {
    let head = r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}"#;
    let stream = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(head, "null"),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk("{}", "\"tool_calls\""),
    ];
    let expected = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(r#"{"function_call":{"name":"f","arguments":""}}"#, "null"),
        chunk(r#"{"function_call":{"arguments":"{}"}}"#, "null"),
        chunk("{}", "\"function_call\""),
        DONE.to_owned(),
    ];
    let legacy = Answering { legacy_functions: true, ..answering() };
    similar(&through(true, &legacy, &stream.concat()).0, &expected.concat());
}

/// Generates the events of a valid response as the detection stage would emit them.
fn answers() -> impl Strategy<Value = Vec<Event<'static>>> {
    let text = || prop_oneof!["[a-c\"\\\\\n]{1,4}", "\\PC{1,6}", Just("😀\u{7}".to_owned())];
    let piece = prop_oneof![
        4 => text().prop_map(|text| vec![Event::Text(text.into())]),
        2 => text().prop_map(|text| vec![Event::Reasoning(Reasoning::text(text))]),
        1 => text().prop_map(|text| vec![Event::Refusal(text.into())]),
        1 => ("[a-z/]{1,9}", text(), 0..9_u64).prop_map(|(url, title, from)| {
            vec![Event::Annotation(Annotation { url: url.into(), title: title.into(), span: (from, from + 1) })]
        }),
        1 => (text(), any::<bool>()).prop_map(|(content, is_error)| {
            vec![Event::CallResult(CallResult { index: 0, id: "r".into(), content: content.into(), is_error })]
        }),
        3 => (prop::collection::vec("[a-z0-9 é]{1,5}", 0..4), "[a-z_]{1,6}").prop_map(|(words, name)| {
            let mut events = vec![Event::CallStart(CallStart {
                index: 0,
                id: "".into(),
                name: name.into(),
                runner: Runner::Client,
                source: Source::Native,
                signature: None,
            })];
            let ends = |end: &str| [end.to_owned()];
            let pieces = ends("{\"x\":\"").into_iter().chain(words).chain(ends("\"}"));
            events.extend(pieces.map(|piece| Event::CallArguments { index: 0, piece: piece.into() }));
            events.push(complete(0));
            events
        }),
    ];
    let finish = prop_oneof![Just(Finish::Stop), Just(Finish::Length), Just(Finish::Filter)];
    (prop::collection::vec(piece, 0..8), finish, any::<bool>()).prop_map(|(pieces, finish, has_usage)| {
        let mut events = vec![Event::Start(Start { id: "c1".into(), model: "m".into(), created: Some(17) })];
        let mut calls = 0;
        for mut piece in pieces {
            for event in &mut piece {
                match event {
                    Event::CallStart(start) => {
                        start.index = calls;
                        start.id = format!("call_{calls}").into();
                    }
                    Event::CallArguments { index, .. } => *index = calls,
                    Event::CallEnd { index, .. } => {
                        *index = calls;
                        calls += 1;
                    }
                    _ => {}
                }
            }
            events.extend(piece);
        }
        let finish = if calls > 0 && finish == Finish::Stop { Finish::Calls } else { finish };
        events.push(Event::Finish(finish));
        if has_usage {
            events.push(Event::Usage(Usage {
                input: Some(9),
                output: Some(5),
                total: Some(14),
                raw: None,
                ..Usage::default()
            }));
        }
        events
    })
}

fn summary_of(events: &[Event<'_>]) -> String {
    let mut read = Read::default();
    events.iter().for_each(|event| read.event(event.clone()));
    read.summary()
}

fn summary_on_the_wire(settings: ReaderSettings, bytes: &str, size: usize) -> String {
    read_in(settings, bytes.as_bytes().chunks(size), true).summary()
}

/// Generates frames from one server, canonical and not, and what may come between them.
fn frames() -> impl Strategy<Value = Vec<String>> {
    let delta = |key: &str, text: String| format!("{{\"{key}\":{}}}", serde_json::Value::from(text));
    let frame = prop_oneof![
        5 => "[ -~é]{0,6}".prop_map(move |text| rich(&delta("content", text), "null")),
        2 => "[ -~]{0,4}".prop_map(move |text| chunk(&delta("reasoning_content", text), "null")),
        1 => Just(loose(r#"{"content":"\ud83d"}"#)),
        1 => Just(chunk(r#"{"content":"\ude00"}"#, "null")),
        1 => Just(chunk(r#"{"content":"\ud83d\ude00\n"}"#, "null")),
        1 => Just(chunk(r#"{"role":"assistant","content":"r"}"#, "null")),
        1 => Just(chunk(r#"{"content":"b"}"#, "\"\"")),
        1 => Just("data: ping\n\n".to_owned()),
    ];
    prop::collection::vec(frame, 0..12)
}

/// Generates frames of native calls: starts of calls, pieces of arguments, and frames that only resemble them.
fn call_frames() -> impl Strategy<Value = Vec<String>> {
    let delta = |index: u32, call: &str| format!(r#"{{"tool_calls":[{{"index":{index},{call}}}]}}"#);
    let head = move |index: u32| {
        let call =
            format!(r#""id":"c{index}","type":"function","function":{{"name":"f{index}","arguments":""}}"#);
        chunk(&delta(index, &call), "null")
    };
    let piece = move |(index, text): (u32, String)| {
        let text = serde_json::Value::from(text);
        rich(&delta(index, &format!(r#""function":{{"arguments":{text}}}"#)), "null")
    };
    let frame = prop_oneof![
        2 => (0..2_u32).prop_map(head),
        6 => (0..2_u32, r#"[{}":a1é]{0,5}"#).prop_map(piece),
        1 => Just(chunk(&delta(0, r#""function":{"arguments":"\ud83d"}"#), "null")),
        1 => Just(chunk(&delta(0, r#""function":{"arguments":"\ude00"}"#), "null")),
        1 => Just(chunk(&delta(0, r#""function":{"name":"f0","arguments":"{"}"#), "null")),
        1 => Just(chunk(&delta(0, r#""function":{"arguments":{"a":1}}"#), "null")),
    ];
    prop::collection::vec(frame, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_stream_reads_back_as_the_same_events(events in answers(), size in 1..40_usize) {
        let bytes = written(&answering(), &events);
        let verbatim = ReaderSettings { verbatim: true, ..ReaderSettings::default() };
        for settings in [ReaderSettings::default(), verbatim] {
            prop_assert_eq!(summary_on_the_wire(settings, &bytes, size), summary_of(&events));
        }
        // The writer's own frames are canonical, so they pass through unchanged.
        let (again, _) = through(true, &answering(), &bytes);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn frame_templates_agree_with_the_parser(
        frames in prop::collection::vec(prop_oneof![frames(), call_frames()], 0..4),
        size in 1..60_usize,
    ) {
        let stream = [frames.concat().concat(), end("stop")].concat();
        // No two of these frames have the same shape, so all of them take the slow path.
        let apart = |(at, frame): (usize, &str)| frame.replacen("\"choices\"", &format!("\"x{at}\":0,\"choices\""), 1);
        let unlike: String = stream.split_inclusive("\n\n").enumerate().map(apart).collect();
        // These frames are padded to hide the lengths of tokens.
        let padding = |(at, frame): (usize, &str)| match frame.rsplit_once("}]}") {
            Some((head, end)) => format!("{head}}}],\"obfuscation\":\"{}\"}}{end}", r"x\n".repeat(at)),
            None => frame.to_owned(),
        };
        let padded: String = stream.split_inclusive("\n\n").enumerate().map(padding).collect();
        for verbatim in [false, true] {
            let settings = ReaderSettings { verbatim, ..ReaderSettings::default() };
            let parsed = read_in(settings, [unlike.as_bytes()], true);
            prop_assert_eq!(&read_in(settings, stream.as_bytes().chunks(size), true), &parsed);
            prop_assert_eq!(&read_in(settings, padded.as_bytes().chunks(size), true), &parsed);
        }
    }

    #[test]
    fn forwarded_and_rewritten_frames_are_equivalent(frames in frames(), size in 1..60_usize) {
        let stream = [frames.concat(), end("stop"), DONE.to_owned()].concat();
        let read = |bytes: &str| {
            let mut read = read_in(ReaderSettings::default(), bytes.as_bytes().chunks(size), true);
            read.start = None;
            read.summary()
        };
        for verbatim in [false, true] {
            let (bytes, _) = through(verbatim, &answering(), &stream);
            prop_assert_eq!(read(&bytes), read(&stream));
        }
    }
}

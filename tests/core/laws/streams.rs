//! Tests the complete pipeline: upstream streams split anywhere (law 1), requests without tools (law 5), frames
//! that are forwarded unchanged (law 6), and streams that break off (law 7).

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::dialect::ClientDialect;
use toolwire::pipeline::State;
use toolwire::rules::{ArgumentDelivery, Misroute, Reasoning, Rules, ServerCalls};

use crate::laws::{
    soup::{cut_bytes, cuts, prose, soup},
    tries,
};
use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    hostile::{END_MARKS, SPEECHES, deviations},
    upstream::Speech,
};

fn speech() -> impl Strategy<Value = Speech> {
    prop::sample::select(&SPEECHES as &[_])
}

/// Generates events that an upstream may send: ordinary ones, and the deviations in
/// docs/protocols/lumo.md#deviations and docs/protocols/chat.md#upstream-deviations.
fn event(speech: Speech) -> BoxedStrategy<Value> {
    let said = prop_oneof![prose(), soup(4), Just(String::new())].prop_map(|text| json!(["m", text]));
    let thought = prose().prop_map(|text| json!(["r", text]));
    prop_oneof![4 => said, 1 => thought, 3 => prop::sample::select(deviations(speech))].boxed()
}

/// Generates the end of a stream, which may be missing.
fn ending(speech: Speech) -> BoxedStrategy<Vec<Value>> {
    let good = match speech {
        Speech::LumoV1 => vec![vec![json!(["done"])], vec![json!(["harmful"])]],
        _ => ["stop", "length", "tool_calls", "content_filter"]
            .iter()
            .map(|word| vec![json!(["fin", word]), json!(["done"])])
            .chain([vec![json!(["fin", "stop"])], vec![json!(["done"])]])
            .collect(),
    };
    let bad = match speech {
        Speech::LumoV1 => vec![vec![], vec![json!(["timeout", "busy"])], vec![json!(["error", "boom"])]],
        _ => vec![vec![], vec![json!(["err", {"message": "boom", "type": "server_error", "code": "error"}])]],
    };
    prop_oneof![3 => prop::sample::select(good), 1 => prop::sample::select(bad)].boxed()
}

/// Varies the framing of the stream: line endings, a byte order mark, spaces, blank lines at the end, or text
/// between frames.
fn dressed(stream: Vec<u8>, dress: usize) -> Vec<u8> {
    let text = String::from_utf8(stream).unwrap();
    let text = match dress {
        0 => text,
        1 => text.replace('\n', "\r\n"),
        2 => text.replace('\n', "\r"),
        3 => format!("\u{feff}{text}"),
        4 => text.replace("data: ", "data:"),
        5 => text.trim_end().to_owned(),
        _ => text.replace("\n\n", "\n\n: ping\n\ndata: {bad\n\n"),
    };
    text.into_bytes()
}

prop_compose! {
    fn stream()(speech in speech())(
        speech in Just(speech),
        events in prop::collection::vec(event(speech), 0..8),
        ending in ending(speech),
        dress in 0..7_usize,
    ) -> (Speech, Vec<u8>) {
        let events: Vec<Value> = events.into_iter().chain(ending).collect();
        (speech, dressed(speech.stream(&events), dress))
    }
}

const SERVER_CALLS: [ServerCalls; 4] =
    [ServerCalls::Auto, ServerCalls::Forward, ServerCalls::Annotate, ServerCalls::Hide];

fn settings() -> impl Strategy<Value = Rules> {
    let server_calls = prop::sample::select(&SERVER_CALLS as &[_]);
    let arguments = prop::sample::select(&[ArgumentDelivery::Stream, ArgumentDelivery::Whole] as &[_]);
    (server_calls, arguments, any::<bool>(), any::<bool>()).prop_map(
        |(server_calls, arguments, prefix, tolerate_truncation)| Rules {
            server_calls,
            arguments,
            misroute: Misroute::Rescue,
            tool_prefix: if prefix { "user:".to_owned() } else { String::new() },
            server_tools: vec!["web_search".to_owned()],
            tolerate_truncation,
            ..Rules::default()
        },
    )
}

/// Generates requests with tools, without tools, and with at most one call.
fn fields() -> impl Strategy<Value = Value> {
    let declared = || tools(["a", "b", "get_weather"], &Value::Null);
    prop::sample::select(vec![
        json!({"tools": declared()}),
        json!({"tools": declared(), "parallel_tool_calls": false}),
        json!({"tools": declared(), "tool_choice": "none"}),
        json!({}),
    ])
}

/// Returns the parts of a response that every client dialect can express. The characters of the text are sorted,
/// since some dialects mix refusals with text.
fn common(answer: &Answer) -> Value {
    let arguments = |arguments: &str| match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(object)) => object.into(),
        _ if arguments.is_empty() => json!({}),
        _ => Value::from(arguments),
    };
    // Depending on the dialect, calls that the upstream ran are ordinary calls or separate blocks.
    let own = answer.calls.iter().map(|call| (&call.name, &call.arguments));
    let run = answer.server_calls.iter().map(|(name, arguments, _)| (name, arguments));
    let run = run.filter(|(_, arguments)| !arguments.is_empty());
    // An item for a web search contains only the query.
    let query = |written: &str| {
        let arguments = arguments(written);
        json!({"query": arguments["query"].as_str().unwrap_or_default()})
    };
    let told = own.chain(run).map(|(name, written)| match name.as_str() {
        "web_search" => json!([name, query(written)]),
        _ => json!([name, arguments(written)]),
    });
    let mut calls: Vec<_> = told.collect();
    calls.sort_by_key(Value::to_string);
    let mut said: Vec<char> = answer.text.chars().chain(answer.refusal.chars()).collect();
    let (is_refusal, is_stop) = (!answer.refusal.is_empty(), answer.finish.as_deref() == Some("stop"));
    // In Responses, the only sign of a broken call is that its item is incomplete.
    let is_broken = calls.iter().any(|call| call[1].is_string());
    let finish = answer.finish.as_deref().filter(|finish| !is_broken || *finish != "tool_calls");
    let finish = if is_broken { finish.or(Some("stop")) } else { finish };
    said.sort_unstable();
    json!({
        "said": said.into_iter().collect::<String>(),
        "reasoning": answer.reasoning,
        "calls": calls,
        // A dialect without a field for refusals uses a finish reason instead.
        "finish": if is_refusal && is_stop { Some("content_filter") } else { finish },
        "failed": answer.error.as_ref().map(|error| error["message"].clone()),
        "status": answer.status,
    })
}

proptest! {
    #![proptest_config(tries(400))]

    /// Law 1 for every reader and all stages after it.
    #[test]
    fn byte_splits_make_no_difference(
        (speech, bytes) in stream(),
        settings in settings(),
        fields in fields(),
        cuts in cuts(),
    ) {
        let exchange = Exchange::new(request(&fields), settings, speech);
        let (whole, tally) = exchange.run([bytes.as_slice()]);
        let (cut, cut_tally) = exchange.run(cut_bytes(&bytes, &cuts));
        prop_assert_eq!(&cut, &whole);
        prop_assert_eq!(&cut_tally.calls, &tally.calls);
        prop_assert_eq!(cut_tally.malformed_frames, tally.malformed_frames);
        let (cut, _) = exchange.run(bytes.chunks(1));
        prop_assert_eq!(&cut, &whole, "byte by byte");
    }

    #[test]
    fn clients_of_all_dialects_get_the_same_response(
        (speech, bytes) in stream(),
        settings in settings(),
        fields in fields(),
        cuts in cuts(),
        stream: bool,
    ) {
        let mut fields = fields;
        fields["stream"] = stream.into();
        let mut exchange = Exchange::new(request(&fields), settings, speech);
        exchange.verbatim = false;
        let (chat, _) = exchange.run([bytes.as_slice()]);
        for client in ClientDialect::all().filter(|client| *client != ClientDialect::Chat) {
            exchange.client = client;
            let (whole, _) = exchange.run([bytes.as_slice()]);
            let (cut, _) = exchange.run(cut_bytes(&bytes, &cuts));
            prop_assert_eq!(&cut, &whole);
            let (mut own, mut expected) = (common(&whole), common(&chat));
            if client == ClientDialect::Completions {
                // Its requests have no tools, so no finish reason says that there are calls.
                own["finish"] = Value::Null;
                expected["finish"] = Value::Null;
            }
            let tells_last = !matches!(client, ClientDialect::Messages | ClientDialect::Responses);
            if tells_last && !expected["failed"].is_null() {
                // A failed response lacks its end, which tells broken calls and those that the client does not run.
                let known = |call: &Value| expected["calls"].as_array().is_some_and(|calls| calls.contains(call));
                prop_assert!(own["calls"].as_array().is_some_and(|calls| calls.iter().all(known)), "{}", own);
                expected["calls"] = own["calls"].clone();
                // It also lacks the finish reason, which other clients get before a failure.
                expected["finish"] = Value::Null;
            }
            prop_assert_eq!(own, expected, "{:?}", client);
        }
    }

    /// Law 5: if no tool is callable and reasoning is not detected, text is forwarded as it arrives, and no byte is
    /// held.
    #[test]
    fn without_tools_nothing_is_held(
        texts in prop::collection::vec(soup(6), 1..5),
        speech in speech(),
        none: bool,
    ) {
        let fields = if none {
            json!({"tools": tools(["a"], &Value::Null), "tool_choice": "none"})
        } else {
            json!({})
        };
        let settings = Rules { reasoning: Reasoning::Off, ..Rules::default() };
        let exchange = Exchange::new(request(&fields), settings, speech);
        let mut pipeline = exchange.pipeline();
        let (mut out, mut said) = (BytesMut::new(), String::new());
        for text in &texts {
            pipeline.push(&speech.stream(&[json!(["m", text])]), &mut out);
            said.push_str(text);
            prop_assert_eq!(Answer::of_stream(&out).text, said.as_str());
            prop_assert_eq!(pipeline.tally().held, 0);
        }
    }

    /// Law 6: frames of plain text are forwarded byte for byte, including unknown fields and unusual formatting.
    #[test]
    fn untouched_frames_pass_byte_for_byte(
        texts in prop::collection::vec((prose(), 0..5_usize), 1..6),
        with_tools: bool,
        cuts in cuts(),
    ) {
        // All spellings contain the members that clients need.
        let frame = |delta: &str, finish: &str, spelling: usize| match spelling {
            0 => format!(r#"{{"id":"i","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#),
            1 => format!(r#"{{"id":"i","choices":[{{"index":0,"delta":{delta},"logprobs":{{"content":[]}},"finish_reason":{finish}}}],"x_vendor":{{"a":[1.50,{{}}]}},"model":"m","created":1,"object":"chat.completion.chunk"}}"#),
            2 => format!(r#"{{ "choices" : [ {{ "delta" : {delta} , "index" : 0 , "finish_reason" :{finish}}} ] , "id" : "i" , "object":"chat.completion.chunk" ,"created" : 1,"model":"m" }}"#),
            3 => format!(r#"{{"id":"i","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"\u0066p","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish},"stop_reason":null}}],"obfuscation":"x]}}}}\""}}"#),
            _ => format!(r#"{{"service_tier":null,"id":"i","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"finish_reason":{finish},"delta":{delta},"index":0}}],"usage":null}}"#),
        };
        let spelling = |n: usize| texts.get(n).map_or(0, |(_, spelling)| *spelling);
        let mut frames = vec![frame(r#"{"role":"assistant","content":""}"#, "null", spelling(0))];
        // The text begins and ends with a visible character, so that none of it is held back.
        let said = |text: &str| json!({"content": format!(".{text} a < b <i>]<x> {{a}} [1](u) [TOOL .")}).to_string();
        frames.extend(texts.iter().map(|(text, spelling)| frame(&said(text), "null", *spelling)));
        frames.push(frame("{}", "\"stop\"", spelling(1)));
        frames.push("[DONE]".to_owned());
        let bytes: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
        let declared = tools(["a", "b"], &Value::Null);
        let fields = if with_tools { json!({"tools": declared}) } else { json!({}) };
        let exchange = Exchange::new(request(&fields), Rules::default(), Speech::Chat);
        let mut pipeline = exchange.pipeline();
        let mut out = BytesMut::new();
        for piece in cut_bytes(bytes.as_bytes(), &cuts) {
            pipeline.push(piece, &mut out);
        }
        prop_assert_eq!(pipeline.finish(&mut out), State::Done);
        prop_assert_eq!(std::str::from_utf8(&out).unwrap(), &bytes);
    }
}

#[test]
fn truncated_stream_never_looks_complete() {
    let call = "Ok.\n```json\n{\"name\":\"a\",\"arguments\":{\"x\":\"é\"}}\n```\nbye";
    let native = json!(["d", {"tool_calls": [{"index": 0, "id": "p", "type": "function",
                                              "function": {"name": "a", "arguments": "{\"x\":1}"}}]}]);
    let mut streams = Vec::new();
    for speech in Speech::ALL {
        streams.extend([call, "Hello, wörld. 😀", "<tool_call>{\"name\":\"a\"}</tool_call>"].map(|text| {
            let (left, right) = text.split_at(6);
            (speech, speech.says(&[left, right], "stop"))
        }));
    }
    for speech in [Speech::LumoV2, Speech::Chat] {
        streams
            .push((speech, speech.stream(&[native.clone(), json!(["fin", "tool_calls"]), json!(["done"])])));
    }
    let v1 =
        [json!(["m", "A"]), json!(["tc", "{\"name\":\"web_search\"}"]), json!(["tr", "{}"]), json!(["done"])];
    streams.push((Speech::LumoV1, Speech::LumoV1.stream(&v1)));
    for (speech, bytes) in streams {
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            breaks_off(speech, &bytes, arguments);
        }
    }
}

fn breaks_off(speech: Speech, bytes: &[u8], arguments: ArgumentDelivery) {
    let fields = json!({"tools": tools(["a", "b"], &Value::Null)});
    let settings = Rules { arguments, ..Rules::default() };
    let exchange = Exchange::new(request(&fields), settings, speech);
    let (whole, _) = exchange.run([bytes]);
    assert_eq!(whole.error, None);
    // The response is complete once it contains the whole frame with the finish reason, or the whole end marker.
    let text = std::str::from_utf8(bytes).unwrap();
    let mark = END_MARKS.iter().filter_map(|mark| text.find(mark)).min();
    let frame = mark.expect("an end");
    let end = frame + text[frame..].find('\n').unwrap();
    for at in 0..bytes.len() {
        let (answer, _) = exchange.run([&bytes[..at]]);
        if at >= end {
            assert_eq!((answer.error, answer.finish), (None, whole.finish.clone()), "all but {at}");
            continue;
        }
        let error =
            answer.error.unwrap_or_else(|| panic!("{speech:?} {arguments:?}: whole after {at} of {end}"));
        assert_eq!((answer.finish, answer.done), (None, answer.status == 200));
        let code = error["code"].as_str().unwrap();
        assert!(["upstream_truncated", "upstream_protocol"].contains(&code), "{error}");
        assert!(whole.calls.len() >= answer.calls.len());
    }
}

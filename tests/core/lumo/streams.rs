//! Tests peculiarities of Lumo's streams that the conformance cases do not cover.

use serde_json::{Value, json};
use toolwire::{
    dialect::lumo::ReaderSettings,
    event::{CallEnd, Finish, Runner},
};

use crate::lumo::{
    assembled::{Assembled, read, read_every_way, read_text},
    cases::frames,
};

fn v1(events: Value) -> Assembled {
    read_text(&frames(events.as_array().unwrap(), true))
}

fn v2(events: Value) -> Assembled {
    read_text(&frames(events.as_array().unwrap(), false))
}

/// Returns each call as `name arguments`. Asserts that all calls are complete and run by `runner`.
fn calls(got: &Assembled, runner: Runner) -> Vec<String> {
    assert!(got.calls.iter().all(|call| call.0 == runner && call.4 == Some(CallEnd::Complete)), "{got:?}");
    got.calls.iter().map(|call| format!("{} {}", call.2, call.3)).collect()
}

fn server_calls(got: &Assembled) -> Vec<String> {
    calls(got, Runner::Upstream)
}

fn client_calls(got: &Assembled) -> Vec<String> {
    calls(got, Runner::Client)
}

fn failure(got: &Assembled) -> (&str, u16) {
    let (code, status) = got.failure.as_ref().expect("a failure");
    (code, *status)
}

#[test]
fn v1_plain_response() {
    let events =
        json!([["q"], ["ing", "message"], ["m", ""], ["m", ""], ["m", "prog"], ["m", "rammers "], ["done"]]);
    let got = v1(events);
    assert_eq!(
        (got.text.as_str(), got.finish, got.pings, got.malformed),
        ("programmers ", Some(Finish::Stop), 2, 0)
    );
}

#[test]
fn v1_two_objects_in_one_event() {
    let got = read_text(concat!(
        "data: {\"type\":\"ingesting\",\"target\":\"message\"}\n",
        "data: {\"type\":\"token_data\",\"target\":\"message\",\"content\":\"A\"}\n",
        "data: {\"type\":\"token_data\",\"target\":\"message\",\"content\":\"B\"}\n\n",
        "data: {\"type\":\"done\"}"
    ));
    assert_eq!((got.text.as_str(), got.malformed), ("AB", 0));
}

#[test]
fn v1_titles_and_questions_stay_out_of_the_text() {
    let got = read_text(concat!(
        "data: {\"type\":\"token_data\",\"target\":\"title\",\"count\":0,\"content\":\"A title\"}\n\n",
        "data: {\"type\":\"token_data\",\"target\":\"suggested_questions\",\"count\":0,\"content\":\"[]\"}\n\n",
        "data: {\"type\":\"token_data\",\"target\":\"elsewhere\",\"count\":0,\"content\":\"x\"}\n\n",
        "data: {\"type\":\"token_data\",\"target\":\"message\",\"count\":0,\"content\":\"Hi\"}\n\n",
        "data: {\"type\":\"done\"}\n\n",
    ));
    assert_eq!((got.text.as_str(), got.malformed), ("Hi", 1));
}

#[test]
fn v1_the_best_copy_of_a_repeated_call_wins() {
    let bare = r#"{"name":"user:a"}"#;
    let argued = r#"{"name":"user:a","arguments":{"x":1}}"#;
    for copies in [
        format!("{bare}{argued}"),
        format!("{bare}{bare} {argued}"),
        format!("{argued}{bare}"),
        format!("{argued}{argued}"),
    ] {
        let got =
            v1(json!([["tc", copies], ["tr", r#"{"error":true}{"error":true}"#], ["m", "Sorry"], ["done"]]));
        assert_eq!(server_calls(&got), [r#"user:a {"x":1}"#]);
        assert_eq!(got.results, [(0, r#"{"error":true}"#.to_owned(), true)]);
        assert_eq!((got.orphans, got.order.as_slice()), (1, ["call", "result", "text"].as_slice()));
    }
}

#[test]
fn v1_arguments_in_every_form() {
    for (call, arguments) in [
        (r#"{"name":"a","arguments":{"x": 2.50}}"#, r#"{"x": 2.50}"#),
        (r#"{"name":"a","arguments":"{\"x\": 1}"}"#, r#"{"x": 1}"#),
        (r#"{"name":"a","arguments":null,"parameters":{"x":1}}"#, r#"{"x":1}"#),
        (r#"{"name":"a","arguments":null}"#, "{}"),
        (r#"{"name":"a","arguments":""}"#, "{}"),
        (r#"{"name":"a","arguments":{"arguments":null,"name":null,"parameters":{"x":1}}}"#, r#"{"x":1}"#),
        // A parameter called `parameters` is not a wrapper if it has siblings.
        (r#"{"name":"a","arguments":{"parameters":{"x":1},"y":2}}"#, r#"{"parameters":{"x":1},"y":2}"#),
        (r#"{"name":"a","arguments":{"parameters":{"x":1}}}"#, r#"{"parameters":{"x":1}}"#),
        (r#"[{"name":"a","arguments":{"x":"}\"{"}}]"#, r#"{"x":"}\"{"}"#),
        (
            r#""quoted" {"type":"function","function":{"name":"a","arguments":{"n":12345678901234567890}}}"#,
            r#"{"n":12345678901234567890}"#,
        ),
    ] {
        let got = v1(json!([["tc", call], ["done"]]));
        assert_eq!(server_calls(&got), [format!("a {arguments}")], "{call}");
    }
}

#[test]
fn v1_results_in_plain_text_end_with_their_segment() {
    let got = v1(json!([
        ["tc", r#"{"name":"a"}{"name":"b"}"#],
        ["ing", "tool_result"],
        ["tr", "first "],
        ["tr", "words"],
        ["ing", "tool_result"],
        ["tr", "second {words}"],
        ["done"]
    ]));
    assert_eq!(server_calls(&got), ["a {}", "b {}"]);
    let contents: Vec<_> = got.results.iter().map(|result| (result.0, result.1.as_str(), result.2)).collect();
    assert_eq!(contents, [(0, "first words", false), (1, "second {words}", false)]);
}

#[test]
fn v1_truncated_call_is_not_a_call() {
    let got = v1(json!([["tc", r#"{"name":"a","arguments":{"x":"#], ["m", "Hm."], ["done"]]));
    assert_eq!((got.calls.len(), got.text.as_str(), got.malformed), (0, "Hm.", 1));
}

#[test]
fn v1_images() {
    let got = read_text(concat!(
        "data: {\"type\":\"image_data\",\"image_id\":\"i\",\"data\":\"AA\",\"is_final\":false}\n\n",
        "data: {\"type\":\"image_data\",\"image_id\":\"i\",\"data\":\"AAAA\",\"is_final\":true}\n\n",
        "data: {\"type\":\"done\"}\n\n",
    ));
    assert_eq!(got.media, [("i".to_owned(), "AAAA".to_owned())]);
}

#[test]
fn v1_terminal_errors() {
    for (event, code, status) in [
        (json!(["timeout", "busy"]), "timeout", 504),
        (json!(["rejected"]), "rejected", 503),
        (json!(["error", "boom"]), "error", 502),
        (
            json!(["tool-error", {"code": "context_length_exceeded", "message": "too long"}]),
            "context_length_exceeded",
            400,
        ),
    ] {
        let got = v1(json!([["m", "par"], event, ["m", "no more"], ["done"]]));
        assert_eq!((failure(&got), got.text.as_str()), ((code, status), "par"));
    }
}

#[test]
fn v2_ordinary_response() {
    let got = read_text(concat!(
        ": queued\n\n:ingesting\n\n",
        "data: {\"id\":\"c1\",\"object\":\"CompletionChunk\",\"created\":7,\"model\":\"3b6be88a\",\"choices\":[]}\n\n",
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ud83d\\ude00\"},\"finish_reason\":\"\"}]}\n\n",
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null},\"finish_reason\":\"length\"}]}\n\n",
        "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"completion_tokens\":2,\"applied_limit_category\":\"max\"}}\n\n",
        "data: [DONE]\n\n",
    ));
    assert_eq!((got.text.as_str(), got.finish, got.pings), ("A😀", Some(Finish::Length), 2));
    assert_eq!(got.model.as_deref(), Some(""), "a hash is not a model's name");
    assert_eq!(got.usage, Some(json!({"completion_tokens": 2, "applied_limit_category": "max"})));
    assert_eq!(got.malformed, 0);
}

#[test]
fn v2_one_object_over_several_lines() {
    let got = read_text(concat!(
        // A truncated chunk does not affect the chunks after it, whether in the same event or in the next.
        "data: {\"choices\":[{\"index\"\ndata: {\"choices\":[\n\n",
        "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"A\"}}\ndata: ]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"D\"}}]}{\"choices\":[{\"delta\":{\"content\":\"E\"}}]}\n\n",
        "data: [DONE]"
    ));
    assert_eq!((got.text.as_str(), got.malformed), ("ADE", 2));
}

#[test]
fn unreadable_frame_fails_a_response_that_has_begun() {
    let text = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    for broken in ["data: {\"choices\":[{\"index\"\n\n", "data: {bad\n\n", "{bad\n"] {
        let before = read_text(&format!("{broken}{}data: [DONE]\n\n", text("A")));
        assert_eq!((before.text.as_str(), before.failure, before.malformed), ("A", None, 1), "{broken}");
        let inside = read_text(&format!("{}{broken}{}data: [DONE]\n\n", text("A"), text("B")));
        assert_eq!((failure(&inside).0, inside.text.as_str()), ("upstream_protocol", "A"), "{broken}");
    }
    let alive = read_text(&format!("{}data: ping\n\n{}data: [DONE]\n\n", text("A"), text("B")));
    assert_eq!((alive.text.as_str(), alive.failure), ("AB", None));
}

#[test]
fn v2_the_target_decides_the_channel() {
    let got = read_text(concat!(
        "data: {\"target\":\"title\",\"choices\":[{\"delta\":{\"content\":\"T\"}}]}\n\n",
        "data: {\"target\":\"title\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"target\":\"title\",\"choices\":[{\"delta\":{\"content\":\"A\",\"target\":\"message\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"th\",\"target\":\"reasoning\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"name\\\":\\\"n\\\"}\",\"target\":\"tool_call\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"{}\",\"target\":\"tool_result\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"B\"}}]}\n\n",
        "data: [DONE]\n\n",
    ));
    assert_eq!((got.text.as_str(), got.reasoning.as_str()), ("AB", "th"));
    assert_eq!(server_calls(&got), ["n {}"]);
    assert_eq!(got.results, [(0, "{}".to_owned(), false)]);
    let settings = ReaderSettings { target: "title".to_owned(), ..ReaderSettings::default() };
    let title = b"data: {\"choices\":[{\"delta\":{\"content\":\"T\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read_every_way(title, &settings).text, "");
}

#[test]
fn v2_reasoning_has_two_names() {
    for (delta, expected) in [
        (json!({"reasoning_content": "", "reasoning": "r"}), "r"),
        (json!({"reasoning_content": null, "reasoning": "r"}), "r"),
        (json!({"reasoning_content": "r", "reasoning": ""}), "r"),
        (json!({"reasoning_content": "r", "reasoning": "r"}), "r"),
    ] {
        let got = v2(json!([["d", delta], ["d", delta], ["m", "A"], ["fin", "stop"]]));
        assert_eq!((got.reasoning, got.text.as_str()), (expected.repeat(2), "A"), "{delta}");
    }
}

#[test]
fn v2_announce_and_dispatch_are_one_call() {
    let got = v2(json!([
        ["m", "Let me see."],
        ["stc", {"id": "n1", "name": "web_search"}],
        ["r", "hm"],
        ["stc", {"id": "n2", "name": "weather"}],
        ["stc", {"id": "n1", "name": "web_search", "arguments": "{\"query\":\"q\"}"}],
        ["str", {"call_id": "n1", "content": {"results": []}}],
        ["stc", {"id": "n2", "name": "weather", "arguments": {"location": {"city": "P"}}}],
        ["stc", {"id": "n2", "name": "weather", "arguments": {"location": {"city": "P"}}}],
        ["str", {"call_id": "n2", "content": "{\"error\":true}"}],
        ["str", {"call_id": "n2", "content": "again"}],
        ["fin", "stop"],
        ["done"]
    ]));
    assert_eq!(server_calls(&got), [r#"web_search {"query":"q"}"#, r#"weather {"location":{"city":"P"}}"#]);
    assert_eq!(got.calls[0].1, "n1");
    assert_eq!(
        got.results,
        [(0, r#"{"results":[]}"#.to_owned(), false), (1, r#"{"error":true}"#.to_owned(), true)]
    );
    assert_eq!((got.orphans, got.finish), (1, Some(Finish::Stop)));
}

#[test]
fn v2_an_announce_ends_with_its_own_result_only() {
    let got = v2(json!([
        ["stc", {"id": "n1", "name": "a"}],
        ["stc", {"id": "n2", "name": "b"}],
        ["str", {"call_id": "n1", "content": "x"}],
        ["stc", {"id": "n2", "name": "b", "arguments": "{\"y\":1}"}],
        ["done"]
    ]));
    assert_eq!(server_calls(&got), ["a {}", r#"b {"y":1}"#]);
}

#[test]
fn v2_client_calls_and_server_calls_share_indices() {
    let got = v2(json!([
        ["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "{"}}]}],
        ["stc", {"id": "n1", "name": "web_search", "arguments": "{}"}],
        ["d", {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}, {"index": 1, "id": "q", "function": {"name": "b", "arguments": {}}}]}],
        ["fin", "tool_calls"],
        ["done"]
    ]));
    let names: Vec<_> = got.calls.iter().map(|call| (call.0, call.2.as_str())).collect();
    assert_eq!(names, [(Runner::Client, "a"), (Runner::Upstream, "web_search"), (Runner::Client, "b")]);
}

#[test]
fn v2_two_calls_without_an_index() {
    let got = v2(json!([
        ["d", {"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}, {"function": {"name": "b", "arguments": {"x": 1}}}]}],
        ["done"]
    ]));
    assert_eq!(client_calls(&got), ["a {}", r#"b {"x":1}"#]);
    assert_eq!(got.finish_word(), Some("tool_calls"));
}

#[test]
fn v2_a_finish_reason_may_be_an_error() {
    let got = v2(json!([["m", "par"], ["fin", "error"], ["done"]]));
    assert_eq!((failure(&got).0, got.text.as_str()), ("error", "par"));
}

#[test]
fn v2_errors_in_the_stream() {
    for (error, code, status) in [
        (json!({"code": "timeout", "type": "server_error"}), "timeout", 504),
        (json!({"code": "rejected", "type": "server_error"}), "rejected", 503),
        (json!({"code": "error", "message": "boom"}), "error", 502),
        (json!({"code": 500, "message": "boom"}), "error", 502),
        (json!({"message": "boom"}), "error", 502),
        (json!("boom"), "error", 502),
    ] {
        let got = v2(json!([["m", "par"], ["err", error], ["m", "no more"], ["done"]]));
        assert_eq!((failure(&got), got.text.as_str()), ((code, status), "par"), "{error}");
    }
}

#[test]
fn finished_response_cannot_fail() {
    let got = v2(
        json!([["m", "A"], ["fin", "stop"], ["err", {"code": "error"}], ["m", "B"], ["u", {"total_tokens": 1}]]),
    );
    assert_eq!((got.text.as_str(), got.failure, got.usage), ("A", None, Some(json!({"total_tokens": 1}))));
}

#[test]
fn both_versions_in_one_stream() {
    let got = read_text(concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n",
        "data: {\"type\":\"token_data\",\"target\":\"message\",\"content\":\"\\ude00\"}\n\n",
        "data: {\"type\":\"token_data\",\"target\":\"tool_call\",\"content\":\"{\\\"name\\\":\\\"n\\\"}\"}\n\n",
        "data: {\"object\":\"chat.tool_result\",\"tool_result\":{\"content\":\"r\"}}\n\n",
        "data: {\"type\":\"harmful\"}\n\n",
    ));
    assert_eq!((got.text.as_str(), got.finish), ("😀", Some(Finish::Filter)));
    assert_eq!(got.results, [(0, "r".to_owned(), false)]);
}

#[test]
fn non_sse_body_is_reported() {
    for body in [
        "<!DOCTYPE html>\n<html></html>",
        "<html>",
        "[1,2]",
        "Bad Gateway\n",
        "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"A\"},\"finish_reason\":\"stop\"}]}",
        "{\n  \"object\": \"chat.completion\",\n  \"choices\": [\n    {\"message\": {\"content\": \"A\"}}\n  ]\n}\n",
        "{\"weather\":\"fine\"}",
    ] {
        let got = read_text(body);
        assert_eq!((failure(&got), got.text.as_str()), (("upstream_protocol", 502), ""), "{body}");
    }
    let settings = ReaderSettings::default();
    assert_eq!(failure(&read_every_way(b"\x1f\x8b\x08\x00\xff", &settings)).0, "upstream_protocol");
    assert_eq!(failure(&read_every_way(b"data: {\"model\":\"\xff\"}\n\n", &settings)).0, "upstream_protocol");
    assert_eq!(failure(&read_text("{\"Code\":2028,\"Error\":\"limit\"}")), ("rate_limit_exceeded", 429));
    assert_eq!(failure(&read_text("")), ("upstream_truncated", 502));
}

#[test]
fn body_cut_anywhere_is_truncated() {
    let stream = frames(json!([["m", "é"], ["d", {"tool_calls": [{"index": 0, "function": {"name": "a", "arguments": "{\"x\":1}"}}]}]]).as_array().unwrap(), false);
    for end in 0..stream.len() {
        let got = read([&stream.as_bytes()[..end]], &ReaderSettings::default());
        assert_eq!(failure(&got).0, "upstream_truncated", "cut at {end}");
        assert!(got.malformed <= 1, "cut at {end}");
    }
}

#[test]
fn frames_are_bounded() {
    let settings = ReaderSettings { max_frame: 64, ..ReaderSettings::default() };
    let endless = [b'x'; 100];
    assert_eq!(failure(&read_every_way(&endless, &settings)).0, "upstream_protocol");
    let many_lines = "data: {\"a\":\n".to_owned() + &"data: [\n".repeat(40);
    assert_eq!(failure(&read_every_way(many_lines.as_bytes(), &settings)).0, "upstream_protocol");
    let payload = frames(json!([["tr", "x".repeat(300)]]).as_array().unwrap(), true);
    let settings = ReaderSettings { max_frame: 200, ..settings };
    assert_eq!(failure(&read([payload.as_bytes()], &settings)).0, "upstream_protocol");
}

#[test]
fn tolerate_truncation_accepts_a_missing_end_mark() {
    let settings = ReaderSettings { tolerate_truncation: true, ..ReaderSettings::default() };
    let stream = frames(json!([["m", "A"]]).as_array().unwrap(), false);
    let got = read_every_way(stream.as_bytes(), &settings);
    assert_eq!((got.text.as_str(), got.finish), ("A", Some(Finish::Stop)));
    assert_eq!(failure(&read_every_way(b"", &settings)).0, "upstream_truncated");
    let call = json!([["d", {"tool_calls": [{"index": 0, "function": {"name": "a"}}]}]]);
    let got = read_every_way(frames(call.as_array().unwrap(), false).as_bytes(), &settings);
    assert_eq!((got.calls[0].4, got.finish), (Some(CallEnd::Cut), Some(Finish::Stop)));
}

#[test]
fn encrypted_pieces_are_rejected_wherever_they_are_flagged() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let call = json!({"index": 0, "id": "p", "function": {"name": "a", "arguments": "AAEC"}});
    let typed =
        |target: &str, content: Value| json!({"type": "token_data", "target": target, "content": content});
    let frames = [
        ("/choices/0/delta", delta(json!({"content": "AAEC"}))),
        ("/choices/0", delta(json!({"content": "AAEC"}))),
        ("", delta(json!({"content": "AAEC"}))),
        ("/choices/0/delta", delta(json!({"reasoning": "AAEC"}))),
        ("", delta(json!({"reasoning_content": "AAEC"}))),
        ("", delta(json!({"content": [{"type": "text", "text": "AAEC"}]}))),
        ("/choices/0/delta/content/0", delta(json!({"content": [{"type": "text", "text": "AAEC"}]}))),
        ("", delta(json!({"tool_calls": [call]}))),
        ("/choices/0/delta", delta(json!({"tool_calls": [call]}))),
        ("/choices/0/delta/tool_calls/0", delta(json!({"tool_calls": [call]}))),
        ("/choices/0/delta/tool_calls/0/function", delta(json!({"tool_calls": [call]}))),
        ("", delta(json!({"function_call": {"name": "a", "arguments": "AAEC"}}))),
        ("", json!({"object": "chat.tool_call", "tool_call": {"id": "n", "name": "a", "arguments": "AAEC"}})),
        (
            "/tool_call",
            json!({"object": "chat.tool_call", "tool_call": {"id": "n", "name": "a", "arguments": "AAEC"}}),
        ),
        ("", json!({"object": "chat.tool_result", "tool_result": {"call_id": "n", "content": "AAEC"}})),
        (
            "/tool_result",
            json!({"object": "chat.tool_result", "tool_result": {"call_id": "n", "content": "AAEC"}}),
        ),
        ("", json!({"object": "lumo.image_data", "image": {"id": "n", "data": "AAEC"}})),
        ("/image", json!({"object": "lumo.image_data", "image": {"id": "n", "data": "AAEC"}})),
        ("", typed("message", json!("AAEC"))),
        ("", typed("reasoning", json!(["AAEC"]))),
        ("", typed("tool_call", json!("AAEC"))),
        ("", typed("tool_result", json!({"results": []}))),
        ("", json!({"type": "image_data", "data": "AAEC", "is_final": false})),
    ];
    for (holder, frame) in frames {
        for (flag, sealed) in [
            (json!(true), true),
            (json!(1), true),
            (json!("true"), true),
            (json!("yes"), true),
            (json!(false), false),
            (json!(0), false),
            (json!(""), false),
            (json!("false"), false),
            (Value::Null, false),
        ] {
            let mut frame = frame.clone();
            frame.pointer_mut(holder).unwrap()["encrypted"] = flag;
            let got = read_text(&format!(
                "data: {{\"choices\":[{{\"delta\":{{\"content\":\"A\"}}}}]}}\n\ndata: {frame}\n\ndata: [DONE]\n\n"
            ));
            let code = got.failure.as_ref().map(|failure| failure.0.as_str());
            assert_eq!(code, sealed.then_some("upstream_decrypt_failed"), "{frame}");
            assert!(got.text.starts_with('A') && (!sealed || got.calls.is_empty()), "{frame}");
        }
    }
    // A parameter called `encrypted` is not the flag, and an empty value has nothing to decrypt.
    for event in [
        json!(["stc", {"id": "n", "name": "a", "arguments": {"encrypted": true}}]),
        json!(["stc", {"id": "n", "name": "a", "arguments": "", "encrypted": true}]),
        json!(["d", {"role": "assistant", "content": "", "encrypted": true}]),
    ] {
        assert_eq!(v2(json!([["m", "A"], event, ["fin", "stop"], ["done"]])).failure, None, "{event}");
    }
}

#[test]
fn finish_reason_error_is_not_a_clean_end() {
    for (word, code) in [
        ("timeout", "timeout"),
        ("rejected", "rejected"),
        ("network_error", "error"),
        ("error", "error"),
        ("abort", "error"),
    ] {
        let got = v2(json!([["m", "par"], ["fin", word], ["done"]]));
        assert_eq!((failure(&got).0, got.text.as_str()), (code, "par"), "{word}");
        let typed = read_text(&format!(
            "data: {{\"type\":\"token_data\",\"target\":\"message\",\"content\":\"par\"}}\n\n\
             data: {{\"type\":\"{word}\"}}\n\ndata: {{\"type\":\"done\"}}\n\n"
        ));
        assert_eq!((failure(&typed).0, typed.text.as_str()), (code, "par"), "{word}");
    }
    let unknown = v2(json!([["m", "A"], ["fin", "whatever"], ["done"]]));
    assert_eq!((unknown.finish, unknown.skipped.as_str()), (Some(Finish::Stop), "unknown_finish=1"));
}

#[test]
fn lone_surrogate_at_truncation_is_not_text() {
    let half =
        "data: {\"choices\":[{\"delta\":{\"content\":\"A\\ud83d\",\"reasoning_content\":\"B\\ud83d\"}}]}\n\n";
    let length = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    for end in ["", length, "data: {\"error\":{}}\n\n"] {
        let got = read_text(&format!("{half}{end}"));
        assert_eq!((got.text.as_str(), got.reasoning.as_str()), ("A", "B"), "{end}");
    }
    let got = read_text(&format!("{half}data: [DONE]\n\n"));
    assert_eq!((got.text.as_str(), got.reasoning.as_str()), ("A\u{fffd}", "B\u{fffd}"));
}

#[test]
fn end_mark_without_content_is_an_error() {
    for body in ["data: [DONE]\n\n", "data: {\"model\":\"m\"}\n\ndata: [DONE]\n\n"] {
        assert_eq!(failure(&read_text(body)).0, "upstream_truncated", "{body}");
    }
    assert_eq!(v2(json!([["fin", "stop"], ["done"]])).finish, Some(Finish::Stop));
    assert_eq!(v1(json!([["m", ""], ["done"]])).finish, Some(Finish::Stop));
}

//! Tests law 3: text is never lost, and unreadable data causes an error or is counted with a reason.

use serde_json::{Value, json};
use toolwire::event::{Finish, Runner};

use crate::lumo::{
    assembled::{Assembled, read_text},
    cases::frames,
};

fn v2(events: Value) -> Assembled {
    read_text(&frames(events.as_array().unwrap(), false))
}

fn typed(tokens: &[Value]) -> Assembled {
    let frames = tokens.iter().map(|token| {
        let mut token = token.clone();
        token["type"] = "token_data".into();
        format!("data: {token}\n\n")
    });
    read_text(&(frames.collect::<String>() + "data: {\"type\":\"done\"}\n\n"))
}

#[test]
fn content_that_is_not_a_string_is_read_as_text() {
    for (content, text, reasoning) in [
        (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", ""),
        (json!(["a", {"text": "b"}, 1.50, null, true]), "ab1.5true", ""),
        (json!({"type": "text", "text": "a"}), "a", ""),
        (json!({"type": "text", "text": {"value": "a"}}), "a", ""),
        (json!({"content": [{"text": "a"}]}), "a", ""),
        (json!(42), "42", ""),
        (json!([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"text": "a"}]), "a", "t"),
    ] {
        for got in [
            v2(json!([["d", {"content": content}], ["m", "."], ["fin", "stop"], ["done"]])),
            typed(&[
                json!({"target": "message", "content": content}),
                json!({"target": "message", "content": "."}),
            ]),
        ] {
            let seen = (got.text.as_str(), got.reasoning.as_str(), got.skipped.as_str());
            assert_eq!(seen, (format!("{text}.").as_str(), reasoning, ""), "{content}");
        }
    }
    let got = v2(json!([["d", {"reasoning_content": [{"text": "t"}]}], ["m", "A"], ["done"]]));
    assert_eq!((got.reasoning.as_str(), got.text.as_str()), ("t", "A"));
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
    assert_eq!(v2(json!([["d", {"content": image}], ["done"]])).media, [(String::new(), "AAAA".to_owned())]);
    let unknown = v2(json!([["d", {"content": [{"type": "audio", "audio": "x"}]}], ["m", "A"], ["done"]]));
    assert_eq!((unknown.text.as_str(), unknown.skipped.as_str()), ("A", "unknown_part=1"));
    let deep = json!([[[[[[["a"]]]]]]]);
    assert_eq!(v2(json!([["d", {"content": deep}], ["m", "A"], ["done"]])).skipped, "unknown_part=1");
    let string = v2(json!([["m", "A"], ["done"]])).text;
    let in_place_of_delta = "data: {\"choices\":[{\"delta\":\"A\"}]}\n\ndata: [DONE]\n\n";
    let completion = "data: {\"choices\":[{\"text\":\"A\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(
        [in_place_of_delta, completion].map(|stream| read_text(stream).text),
        [string.clone(), string]
    );
}

#[test]
fn tool_payloads_may_be_json_instead_of_text() {
    let got = typed(&[
        json!({"target": "tool_call", "content": {"name": "a", "arguments": {"x": 1}}}),
        json!({"target": "tool_result", "content": {"results": []}}),
        json!({"target": "tool_call", "content": [{"name": "b", "arguments": {}}, {"name": "c"}]}),
    ]);
    let calls: Vec<_> = got.calls.iter().map(|call| (call.2.as_str(), call.3.as_str())).collect();
    assert_eq!(calls, [("a", r#"{"x":1}"#), ("b", "{}"), ("c", "{}")]);
    assert_eq!(got.results, [(0, r#"{"results":[]}"#.to_owned(), false)]);
}

#[test]
fn token_without_a_target_goes_to_the_requested_target() {
    for target in [Value::Null, json!(""), json!(5)] {
        let got = typed(&[json!({"content": "A"}), json!({"target": target, "content": "B"})]);
        assert_eq!((got.text.as_str(), got.skipped.as_str()), ("AB", ""), "{target}");
    }
    let unknown = typed(&[json!({"target": "elsewhere", "content": "A"}), json!({"content": "B"})]);
    assert_eq!((unknown.text.as_str(), unknown.skipped.as_str()), ("B", "unknown_target=1"));
}

#[test]
fn control_characters_and_byte_order_marks_are_harmless() {
    let token = |text: &str| {
        format!("data: {{\"type\":\"token_data\",\"target\":\"message\",\"content\":\"{text}\"}}\n\n")
    };
    let stream = [
        token("a"),
        token("b\u{0}c\u{1f}"),
        format!("\u{feff}{}", token("d")),
        token("e").replace("data: ", "data: \u{feff}"),
        token("f").replace("}\n", "}\u{0}\n"),
        token("g").replace("data: ", "\u{feff}"),
        "\u{feff}data: [DONE]\u{0}\n\n".to_owned(),
    ];
    let got = read_text(&stream.concat());
    assert_eq!((got.text.as_str(), got.skipped.as_str()), ("ab\u{0}c\u{1f}defg", ""));
    assert_eq!(got.finish, Some(Finish::Stop));
    let call = token("{\\\"name\\\":\\\"a\\\",\\\"arguments\\\":{\\\"x\\\":\\\"1\\n2\\\"}}");
    let got = read_text(&(call.replace("\"message\"", "\"tool_call\"") + "data: {\"type\":\"done\"}\n\n"));
    assert_eq!(got.calls[0].3, "{\"x\":\"1\\u000a2\"}");
}

#[test]
fn deeply_nested_frame_is_an_error() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let call = format!(
        "data: {{\"object\":\"chat.tool_call\",\"tool_call\":{{\"id\":\"n\",\"name\":\"a\",\"arguments\":{{\"x\":{deep}}}}}}}\n\n"
    );
    let text = frames(json!([["m", "A"], ["fin", "stop"], ["done"]]).as_array().unwrap(), false);
    for stream in [format!("{call}{text}"), text.replacen("\n\n", &format!("\n\n{call}"), 1)] {
        assert_eq!(read_text(&stream).failure.unwrap().0, "upstream_protocol");
    }
}

#[test]
fn image_that_is_never_final_is_sent_in_its_last_state() {
    let image = |id: &str, data: &str, last: Value| {
        format!("data: {}\n\n", json!({"type": "image_data", "image_id": id, "data": data, "is_final": last}))
    };
    let (no, yes) = (json!(false), json!(true));
    let done = "data: {\"type\":\"done\"}\n\n";
    for (images, expected) in [
        (image("i", "AA", no.clone()) + &image("i", "BB", no.clone()), vec![("i", "BB")]),
        (image("i", "AA", json!(0)) + &image("j", "BB", no.clone()), vec![("i", "AA"), ("j", "BB")]),
        (image("i", "AA", no.clone()) + &image("i", "BB", yes.clone()), vec![("i", "BB")]),
        (image("i", "AA", yes) + &image("j", "BB", Value::Null), vec![("i", "AA"), ("j", "BB")]),
    ] {
        let got = read_text(&(images.clone() + done));
        let media: Vec<_> = got.media.iter().map(|(id, data)| (id.as_str(), data.as_str())).collect();
        assert_eq!(media, expected);
    }
    assert_eq!(read_text(&image("i", "AA", no)).media, []);
}

#[test]
fn content_after_the_finish_is_counted() {
    let got = v2(json!([
        ["m", "A"],
        ["fin", "stop"],
        ["m", "B"],
        ["stc", {"id": "n", "name": "a", "arguments": "{}"}],
        ["d", {"content": "C", "encrypted": true}],
        ["u", {"total_tokens": 1}],
        ["d", {}],
        ["done"]
    ]));
    assert_eq!((got.text.as_str(), got.failure), ("A", None));
    assert_eq!((got.skipped.as_str(), got.usage), ("late_content=3", Some(json!({"total_tokens": 1}))));
    let other = read_text(
        "data: {\"choices\":[{\"delta\":{\"content\":\"A\"}},{\"delta\":{\"content\":\"B\"}}]}\n\ndata: [DONE]\n\n",
    );
    assert_eq!((other.text.as_str(), other.skipped.as_str()), ("A", "other_choice=1"));
}

#[test]
fn call_without_a_name_is_counted() {
    let got = v2(json!([
        ["m", "A"],
        ["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"arguments": "{}"}}]}],
        ["stc", {"arguments": "{}"}],
        ["fin", "stop"],
        ["done"]
    ]));
    assert_eq!((got.calls.len(), got.skipped.as_str()), (0, "nameless_call=2"));
    let told_later = v2(json!([
        ["stc", {"id": "n", "arguments": "{\"x\":1}"}],
        ["stc", {"id": "n", "name": "a"}],
        ["done"]
    ]));
    assert_eq!(told_later.calls[0].3, r#"{"x":1}"#);
    assert_eq!(told_later.calls[0].0, Runner::Upstream);
}

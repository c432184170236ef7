//! Tests the stream of deltas (docs/protocols/text-formats.md#deltas). The test client checks some rules in every
//! stream: the first delta of a call has the ID, the type and the complete name, and later ones only arguments
//! (vmlx PR 244, vercel/ai PR 16507, opencode#43328, sglang PR 35542); indices count from 0 (sglang PR 35625,
//! litellm PR 37792).

use bytes::BytesMut;
use serde_json::Value;
use toolwire::format;

use crate::regressions::{Speech, declared, exchange, with_calls};
use crate::support::cuts::by_characters;

/// Returns all argument deltas, each with the index of the piece that caused it.
fn argument_deltas(format: &'static format::Format, pieces: &[&str]) -> Vec<(usize, String)> {
    let mut pipeline = exchange(&[format], true).pipeline();
    let mut deltas = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let mut out = BytesMut::new();
        let bytes = if at == 0 {
            Speech::Chat.says(&[piece], "stop")
        } else {
            Speech::Chat.stream(&[serde_json::json!(["m", piece])])
        };
        let text = String::from_utf8(bytes).unwrap();
        let end = text
            .find(r#""finish_reason":"stop""#)
            .map_or(text.len(), |at| text[..at].rfind("data: ").unwrap());
        pipeline.push(&text.as_bytes()[..end], &mut out);
        for frame in
            std::str::from_utf8(&out).unwrap().split("\n\n").filter_map(|frame| frame.strip_prefix("data: "))
        {
            let frame: Value = serde_json::from_str(frame).unwrap();
            let calls = frame["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten();
            let arguments = calls.filter_map(|call| call["function"]["arguments"].as_str());
            deltas.extend(arguments.filter(|piece| !piece.is_empty()).map(|piece| (at, piece.to_owned())));
        }
    }
    deltas
}

/// assistant-ui PR 6355, llama.cpp PR 16526, baml PR 4882: a delta ended inside an escape, which broke clients that
/// parse partial arguments.
#[test]
fn delta_never_ends_inside_an_escape() {
    let text = r#"<tool_call>{"name":"run","arguments":{"cmd":"a\u00e9b\ud83d\ude00c\\d\n\"e"}}</tool_call>"#;
    let deltas = argument_deltas(&format::HERMES, &by_characters(text, 1));
    let mut sum = String::new();
    for (_, delta) in &deltas {
        sum.push_str(delta);
        if let Some(value) = sum.strip_prefix(r#"{"cmd":""#).filter(|value| !value.contains("\"}")) {
            let value = value.strip_suffix('"').filter(|v| !v.ends_with('\\')).unwrap_or(value);
            assert!(
                serde_json::from_str::<String>(&format!("\"{value}\"")).is_ok(),
                "{sum} {value} {deltas:?}"
            );
        }
    }
    assert_eq!(sum, r#"{"cmd":"a\u00e9b\ud83d\ude00c\\d\n\"e"}"#);
}

/// A frame ends between the escapes of a surrogate pair (docs/protocols/text-formats.md#deltas).
#[test]
fn surrogate_pair_may_span_two_frames() {
    let frame = |content: &str| {
        format!(
            "data: {{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{content},\"finish_reason\":null}}]}}\n\n"
        )
    };
    for [before, behind] in [
        ["Hi ", "!"],
        ["<tool_call>{\\\"name\\\":\\\"run\\\",\\\"arguments\\\":{\\\"cmd\\\":\\\"", "\\\"}}</tool_call>"],
    ] {
        let stream = [
            frame(r#"{"role":"assistant","content":""}"#),
            frame(&format!("{{\"content\":\"{before}\\ud83d\"}}")),
            frame(&format!("{{\"content\":\"\\ude00{behind}\"}}")),
            frame("{}").replace("\"finish_reason\":null", "\"finish_reason\":\"stop\""),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let exchange = exchange(&[&format::HERMES], true);
        let (whole, _) = exchange.run([stream.as_bytes()]);
        assert_eq!(exchange.run(stream.as_bytes().chunks(1)).0, whole);
        let got = whole.text + &whole.calls.iter().map(|call| call.arguments.as_str()).collect::<String>();
        assert!(got == "Hi 😀!" || got == "{\"cmd\":\"😀\"}", "{got}");
    }
}

/// The first frame of a native call to a declared tool is forwarded immediately, even if the same frame ends the
/// previous call.
#[test]
fn native_call_starts_with_its_first_frame() {
    let frame = |delta: &str| {
        format!(
            "data: {{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let head = |index: u32, name: &str| {
        frame(&format!(
            r#"{{"tool_calls":[{{"index":{index},"id":"c{index}","type":"function","function":{{"name":"{name}","arguments":""}}}}]}}"#
        ))
    };
    let tools = declared();
    let name = tools[0]["function"]["name"].as_str().unwrap();
    let mut pipeline = exchange(&[], true).pipeline();
    let mut sent = |bytes: String| {
        let mut out = BytesMut::new();
        pipeline.push(bytes.as_bytes(), &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    };
    sent(frame(r#"{"role":"assistant","content":""}"#));
    assert_eq!(sent(head(0, name)), head(0, name));
    let undeclared = sent(head(1, "undeclared_"));
    assert_eq!(undeclared, "", "it may go on");
    assert_eq!(sent(head(2, name)), head(1, "undeclared_") + &head(2, name), "both by their own frames");
}

/// ik_llama.cpp#750, openclaw#38569: text that had already been sent turned out to be wrong, and the stream broke
/// off. Here, what has been sent is always a prefix of the final text.
#[test]
fn released_text_is_never_revoked() {
    assert!(declared().is_array());
    for format in with_calls() {
        let pieces = by_characters(format.example, 1);
        let deltas = argument_deltas(format, &pieces);
        let sum: String = deltas.iter().map(|(_, delta)| delta.as_str()).collect();
        let read: Value =
            serde_json::from_str(&sum).unwrap_or_else(|e| panic!("{}: {sum}: {e}", format.name));
        assert_eq!(read, serde_json::json!({"city": "Paris"}), "{}", format.name);
        // The arguments are streamed: more than three pieces cause deltas.
        let mut places: Vec<usize> = deltas.iter().map(|(at, _)| *at).collect();
        places.dedup();
        assert!(places.len() > 3, "{}: {deltas:?}", format.name);
    }
}

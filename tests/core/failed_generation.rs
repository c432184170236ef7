//! Tests upstream errors that contain model output that the server could not parse. If that output contains a call, the
//! client gets the call instead of the error.

use serde_json::{Value, json};
use toolwire::{dialect::ClientDialect, rules::Rules};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const CALL: &str = "<function=get_weather>{\"city\": \"Paris\"}</function>";

fn chunk(delta: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    format!(
        "data: {}\n\n",
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    )
}

fn error(code: &str, text: &str) -> String {
    let error = json!({"message": "Failed to call a function.", "type": "invalid_request_error", "code": code,
        "failed_generation": text, "status_code": 400});
    format!("event: error\ndata: {}\n\n", json!({ "error": error }))
}

fn given(client: ClientDialect, stream: bool, upstream: &str) -> Answer {
    let declared =
        tools(["get_weather"], &json!({"type": "object", "properties": {"city": {"type": "string"}}}));
    let conversation = request(&json!({"tools": declared, "stream": stream}));
    let exchange = Exchange { client, ..Exchange::new(conversation, Rules::default(), Speech::Chat) };
    exchange.at_every_cut(upstream, upstream.as_bytes()).0
}

#[test]
fn call_in_an_error_is_the_response() {
    for client in ClientDialect::all() {
        for stream in [true, false] {
            for role in ["", &chunk(&json!({"role": "assistant", "content": ""}))] {
                let upstream = format!("{role}{}", error("tool_use_failed", &format!("I look.\n{CALL}")));
                let answer = given(client, stream, &upstream);
                let calls = [("get_weather", "{\"city\": \"Paris\"}")];
                assert_eq!(answer.calls.len(), 1, "{client:?} {stream} {answer:?}");
                let arguments = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                assert_eq!(answer.calls[0].name, calls[0].0);
                assert_eq!(arguments(&answer.calls[0].arguments), arguments(calls[0].1));
                assert_eq!((answer.text.trim_end(), answer.error.is_none()), ("I look.", true));
                assert_eq!(answer.finish.as_deref(), Some("tool_calls"), "{client:?} {stream}");
            }
        }
    }
}

#[test]
fn call_in_an_error_is_read_without_its_format_being_exact() {
    for text in [
        "<function=get_weather{\"city\": \"Paris\"}</function>",
        "<function=get_weather {\"city\": \"Paris\"}</function>",
        "<function(get_weather){\"city\": \"Paris\"}</function>",
        "[get_weather(city=\"Paris\")]",
        "<function=get_weather>{\"city\": \"Paris\"}</function>",
    ] {
        for stream in [true, false] {
            let answer = given(ClientDialect::Chat, stream, &error("tool_use_failed", text));
            assert_eq!(answer.calls.len(), 1, "{text} {answer:?}");
            let arguments: Value = serde_json::from_str(&answer.calls[0].arguments).unwrap();
            assert_eq!((arguments, answer.text.trim()), (json!({"city": "Paris"}), ""), "{text}");
        }
    }
    for text in ["<function", "<function=", "<function={", "[a(b)] or [c(d)]", "[1](2)", "[see (1)]"] {
        let answer = given(ClientDialect::Chat, true, &error("tool_use_failed", text));
        assert!(answer.error.is_some() && answer.calls.is_empty(), "{text}");
    }
}

#[test]
fn text_before_the_call_is_not_given_twice() {
    let begun = chunk(&json!({"role": "assistant", "content": "I look.\n"}));
    let answer =
        given(ClientDialect::Chat, true, &(begun + &error("tool_use_failed", &format!("I look.\n{CALL}"))));
    assert_eq!((answer.text.trim_end(), answer.calls.len()), ("I look.", 1));
    assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
}

/// The text is processed in one step, so its size is limited to keep that step short.
#[test]
fn huge_text_stays_an_error() {
    let declared = tools(["get_weather"], &Value::Null);
    let exchange = Exchange::new(request(&json!({"tools": declared})), Rules::default(), Speech::Chat);
    for (length, calls) in [(256 << 10, 1), ((256 << 10) + 1, 0)] {
        let text = format!("{}{CALL}", "x".repeat(length - CALL.len()));
        let answer = exchange.run([error("tool_use_failed", &text).as_bytes()]).0;
        assert_eq!((answer.calls.len(), answer.error.is_none()), (calls, calls == 1));
    }
}

#[test]
fn error_without_a_certain_call_is_passed_on() {
    let cut = &CALL[..CALL.len() - 20];
    let other = CALL.replace("get_weather", "unknown");
    let native = json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}}]});
    for upstream in [
        error("tool_use_failed", "I cannot."),
        error("tool_use_failed", cut),
        error("tool_use_failed", &other),
        error("tool_use_failed", ""),
        error("json_validate_failed", CALL),
        chunk(&native) + &error("tool_use_failed", CALL),
    ] {
        for stream in [true, false] {
            let answer = given(ClientDialect::Chat, stream, &upstream);
            let error = answer.error.unwrap_or_default();
            assert!(
                error["message"].as_str().is_some_and(|text| text.contains("Failed")),
                "{upstream} {error}"
            );
            assert_eq!(answer.finish, None, "{upstream}");
        }
    }
}

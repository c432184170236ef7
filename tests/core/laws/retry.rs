//! Tests retries, in which the model is asked again: what the client sees of them, and what it gets if they do not
//! help.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    pipeline::{Reason, State, Tally},
    rules::{ArgumentDelivery, Enforce, InvalidArguments, Limits, Rules, UnknownCalls},
};

use crate::support::{
    client::Answer,
    cuts::places,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const SPEECHES: [Speech; 2] = [Speech::Chat, Speech::LumoV2];

/// Request fields that declare tools `a` and `b`, both with a required number `x`.
fn fields(more: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
    let mut fields = json!({"tools": tools(["a", "b"], &schema)});
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    fields
}

fn enforcing() -> Rules {
    Rules { enforce: Enforce::Retry, ..Rules::default() }
}

fn checking() -> Rules {
    Rules {
        unknown_calls: UnknownCalls::Retry,
        invalid_arguments: InvalidArguments::Retry,
        ..Rules::default()
    }
}

fn exchange(speech: Speech, more: &Value, rules: Rules, later: &[&str]) -> Exchange {
    let mut exchange = Exchange::new(request(&fields(more)), rules, speech);
    exchange.later = later.iter().map(|text| said(speech, text)).collect();
    exchange
}

/// A response with this text and with token counts.
fn said(speech: Speech, text: &str) -> Vec<u8> {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    speech.stream(json!([["m", text], ["fin", "stop"], ["u", usage], ["done"]]).as_array().unwrap())
}

fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// Returns the client's answer if `text` is the first response. Asserts that no split changes it.
fn answer(exchange: &Exchange, text: &str) -> (Answer, Tally) {
    let bytes = said(exchange.speech, text);
    let whole = exchange.in_pieces(text, &bytes);
    for at in places(bytes.len()).step_by(7) {
        let (left, right) = bytes.split_at(at);
        assert_eq!(exchange.run([left, right]).0, whole.0, "{text}: cut at {at}");
    }
    whole
}

#[test]
fn missing_required_call_is_asked_for_again() {
    let named = json!({"type": "function", "function": {"name": "a"}});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
        "tools": [{"type": "function", "function": {"name": "a"}}]}});
    for choice in [json!("required"), named, allowed] {
        for (speech, stream) in SPEECHES.into_iter().flat_map(|speech| [(speech, true), (speech, false)]) {
            let more = json!({"tool_choice": choice, "stream": stream});
            let exchange = exchange(speech, &more, enforcing(), &[&call("a", "{\"x\": 1}")]);
            let (got, tally) = answer(&exchange, "I would rather talk.");
            assert_eq!((got.text.as_str(), got.named_calls()), ("", vec![("a", "{\"x\": 1}")]), "{choice}");
            assert_eq!((got.finish.as_deref(), got.warnings.len()), (Some("tool_calls"), 0));
            assert_eq!(got.usage.unwrap()["total_tokens"], 30);
            assert_eq!(tally.follow_ups, [Reason::MissingCall]);
            assert_eq!(tally.calls.len(), 1);
        }
    }
}

#[test]
fn client_learns_that_a_required_call_is_missing() {
    for (rules, hops) in [(Rules::default(), 1), (enforcing(), 2)] {
        for (speech, stream) in SPEECHES.into_iter().flat_map(|speech| [(speech, true), (speech, false)]) {
            let more = json!({"tool_choice": "required", "stream": stream});
            let exchange = exchange(speech, &more, rules.clone(), &["Still no."]);
            let (got, tally) = answer(&exchange, "No.");
            let text = if hops == 1 { "No." } else { "Still no." };
            assert_eq!((got.text.as_str(), got.finish.as_deref()), (text, Some("stop")));
            assert_eq!(got.warnings, ["tool_choice_unfulfilled"]);
            assert_eq!(tally.warnings, ["tool_choice_unfulfilled"]);
            assert_eq!(tally.follow_ups.len(), hops - 1);
        }
    }
    // No call is required in these requests.
    for more in [json!({}), json!({"tool_choice": "auto"}), json!({"tool_choice": "none"})] {
        let (got, _) = answer(&exchange(Speech::Chat, &more, enforcing(), &[]), "No.");
        assert_eq!((got.text.as_str(), got.warnings.len()), ("No.", 0));
    }
}

/// Once a call appears, it and the text before it are sent at once instead of at the end of the response.
#[test]
fn required_call_releases_what_was_kept_back() {
    let exchange = exchange(Speech::Chat, &json!({"tool_choice": "required"}), enforcing(), &[]);
    let mut pipeline = exchange.pipeline();
    let mut out = BytesMut::new();
    let text = format!("Let me see.\n{}", call("a", "{\"x\": 1}"));
    let stream = String::from_utf8(Speech::Chat.says(&[&text], "stop")).unwrap();
    let end = stream.find("\"finish_reason\":\"stop\"").unwrap();
    let before = stream[..end].rfind("\n\n").unwrap() + 2;
    pipeline.push(&stream.as_bytes()[..before], &mut out);
    let sent = String::from_utf8(out.to_vec()).unwrap();
    assert!(sent.contains("Let me see.") && sent.contains("\"name\":\"a\""), "{sent}");
    pipeline.push(&stream.as_bytes()[before..], &mut out);
    let got = Answer::of_stream(&out);
    assert_eq!((got.named_calls().len(), got.finish.as_deref()), (1, Some("tool_calls")));
    assert_eq!(pipeline.tally().follow_ups, []);
}

#[test]
fn wrong_calls_are_asked_for_again() {
    for (wrong, reason, told) in [
        (call("a", "{}"), Reason::InvalidArguments, "`x` is missing"),
        (call("a", "{\"x\": \"1\"}"), Reason::InvalidArguments, "`x` must be of type number"),
        (call("c", "{\"x\": 1}"), Reason::UnknownTool, "there is no such tool, only `a`, `b`"),
        (call("b", "{\"x\": 1}") + "\n" + &call("a", "{}"), Reason::InvalidArguments, "`x` is missing"),
    ] {
        for (speech, stream) in SPEECHES.into_iter().flat_map(|speech| [(speech, true), (speech, false)]) {
            let good = call("a", "{\"x\": 2}");
            let mut exchange = exchange(speech, &json!({ "stream": stream }), checking(), &[&good]);
            let (got, tally) = answer(&exchange, &wrong);
            assert_eq!((got.text.as_str(), got.named_calls()), ("", vec![("a", "{\"x\": 2}")]), "{wrong}");
            assert_eq!((got.finish.as_deref(), got.warnings.len()), (Some("tool_calls"), 0));
            assert_eq!((tally.follow_ups, tally.calls.len()), (vec![reason], 1));
            let mut pipeline = exchange.pipeline();
            pipeline.push(&said(speech, &wrong), &mut BytesMut::new());
            let turns = format!("{:?}", pipeline.follow_up().unwrap().turns);
            assert!(turns.contains(told), "{turns}");
            // If the retry does not help either, the client gets the calls unchanged, with a warning.
            exchange.later = vec![said(speech, &wrong)];
            let (got, tally) = answer(&exchange, &wrong);
            assert_eq!(
                (got.calls.len(), got.finish.as_deref()),
                (wrong.matches("name").count(), Some("tool_calls"))
            );
            let code = if reason == Reason::UnknownTool { "unknown_tool" } else { "invalid_arguments" };
            assert_eq!((got.warnings.as_slice(), tally.follow_ups.len()), ([code.to_owned()].as_slice(), 1));
        }
    }
}

/// A faulty call still satisfies the requirement for a call, so only its fault is reported.
#[test]
fn wrong_call_is_not_a_missing_one() {
    let rules = Rules { enforce: Enforce::Retry, ..checking() };
    let wrong = call("a", "{}");
    let exchange = exchange(Speech::Chat, &json!({"tool_choice": "required"}), rules, &[&wrong]);
    let (got, tally) = answer(&exchange, &wrong);
    assert_eq!((got.calls.len(), got.warnings.as_slice()), (1, ["invalid_arguments".to_owned()].as_slice()));
    assert_eq!(tally.follow_ups, [Reason::InvalidArguments]);
}

/// The retry names the tool as the model knows it, even though the client uses another name.
#[test]
fn missing_call_is_asked_for_by_its_taught_name() {
    let rules = Rules { tool_prefix: "user:".to_owned(), ..enforcing() };
    let exchange = exchange(Speech::LumoV2, &json!({"tool_choice": "required"}), rules, &["No."]);
    let mut pipeline = exchange.pipeline();
    let mut out = BytesMut::new();
    pipeline.push(&said(Speech::LumoV2, "No."), &mut out);
    let turns = format!("{:?}", pipeline.follow_up().unwrap().turns);
    assert!(turns.contains("a call to one of `user:a`, `user:b` is required"), "{turns}");
    pipeline.end(&mut out);
    let sent = String::from_utf8(out.to_vec()).unwrap();
    assert!(sent.contains("a call to one of `a`, `b`") && !sent.contains("user:"), "{sent}");
}

#[test]
fn wrong_calls_are_forwarded_by_default() {
    let exchange = exchange(Speech::Chat, &json!({}), Rules::default(), &[]);
    for wrong in [call("a", "{}"), call("c", "{}")] {
        let (got, tally) = answer(&exchange, &wrong);
        assert_eq!((got.calls.len(), got.warnings.len(), tally.follow_ups.len()), (1, 0, 0));
    }
}

/// The text before a call has been sent, but nothing of the call: the next response continues behind the text.
#[test]
fn text_that_has_been_sent_is_continued() {
    let text = format!("Let me see.\n{}", call("a", "{}"));
    let again = format!("Sorry.\n{}", call("a", "{\"x\": 2}"));
    for (stream, said) in [(true, "Let me see."), (false, "Sorry.")] {
        let exchange = exchange(Speech::Chat, &json!({ "stream": stream }), checking(), &[&again]);
        let (got, tally) = answer(&exchange, &text);
        assert_eq!((got.text.as_str(), got.named_calls()), (said, vec![("a", "{\"x\": 2}")]));
        assert_eq!((got.warnings.len(), tally.follow_ups.len()), (0, 1));
    }
}

#[test]
fn text_is_kept_back_up_to_a_limit() {
    for (length, is_replaced) in [(99, true), (100, true), (101, false), (300, false)] {
        let limits = Limits { max_hold: 100, ..Limits::default() };
        let rules = Rules { limits, ..enforcing() };
        let more = json!({"tool_choice": "required"});
        let exchange = exchange(Speech::LumoV2, &more, rules, &[&call("a", "{\"x\": 1}")]);
        let text = "n".repeat(length);
        for pieces in [1, 3, length] {
            let mut stream = Vec::new();
            for piece in text.as_bytes().chunks(length.div_ceil(pieces)) {
                stream.push(json!(["m", std::str::from_utf8(piece).unwrap()]));
            }
            stream.extend([json!(["fin", "stop"]), json!(["done"])]);
            let (got, tally) = exchange.run([exchange.speech.stream(&stream).as_slice()]);
            // Longer text is sent, and the call follows it.
            assert_eq!((got.text.len(), got.calls.len()), (if is_replaced { 0 } else { length }, 1));
            assert_eq!((tally.follow_ups.len(), got.warnings.len()), (1, 0), "{length} in {pieces}");
            assert!(tally.held_peak <= length, "{} of {length}", tally.held_peak);
        }
    }
}

#[test]
fn failed_or_cut_response_is_not_replaced() {
    let exchange = exchange(Speech::Chat, &json!({"tool_choice": "required"}), enforcing(), &[]);
    for (end, finish) in [("length", "length"), ("content_filter", "content_filter")] {
        let (got, tally) = exchange.run([Speech::Chat.says(&["No"], end).as_slice()]);
        assert_eq!((got.text.as_str(), got.finish.as_deref()), ("No", Some(finish)));
        assert_eq!((got.warnings.len(), tally.follow_ups.len()), (1, 0));
    }
    let whole = Speech::Chat.says(&["No"], "stop");
    let cut = whole.windows(6).position(|bytes| bytes == b"\"stop\"").unwrap();
    let (got, _) = exchange.run([&whole[..cut]]);
    assert_eq!((got.text.as_str(), got.error.unwrap()["code"].as_str()), ("No", Some("upstream_truncated")));
    assert_eq!(got.finish, None);
}

/// Nothing has been sent yet, so the failure of the second response determines the client's status code.
#[test]
fn failure_of_the_second_response_has_its_status() {
    let mut exchange = exchange(Speech::Chat, &json!({"tool_choice": "required"}), enforcing(), &[]);
    exchange.later =
        vec![Speech::Chat.stream(&[json!(["err", {"message": "busy", "code": "rate_limit_exceeded"}])])];
    let (got, _) = exchange.run([said(Speech::Chat, "No.").as_slice()]);
    assert_eq!((got.text.as_str(), got.status), ("", 429));
}

/// Native calls are checked like calls written as text. IDs and indices start over with the retry.
#[test]
fn native_calls_are_checked() {
    let delta = |id: &str, name: &str, arguments: &str| {
        json!(["d", {"tool_calls": [{"index": 0, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]}])
    };
    for delivery in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        for (name, arguments) in [("a", "{\"x\":null}"), ("c", "{\"x\":1}"), ("a", "{\"x\":")] {
            let rules = Rules { arguments: delivery, ..checking() };
            let mut exchange = exchange(Speech::Chat, &json!({}), rules, &[]);
            let end = [json!(["fin", "tool_calls"]), json!(["done"])];
            let stream = |call: Value| Speech::Chat.stream(&[&[call], end.as_slice()].concat());
            exchange.later = vec![stream(delta("n1", "a", "{\"x\":2}"))];
            let (got, tally) = exchange.run([stream(delta("n1", name, arguments)).as_slice()]);
            let ids: Vec<_> = got.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(
                (got.named_calls(), ids),
                (vec![("a", "{\"x\":2}")], vec!["n1"]),
                "{name} {arguments}"
            );
            assert_eq!(tally.follow_ups.len(), 1);
        }
    }
}

#[test]
fn kept_back_frames_are_forwarded_as_they_are() {
    let (rules, later) = (enforcing(), [call("a", "{\"x\": 1}")]);
    let later: Vec<&str> = later.iter().map(String::as_str).collect();
    let call = json!(["d", {"tool_calls": [{"index": 0, "id": "n1", "type": "function",
        "function": {"name": "a", "arguments": "{\"x\":1}"}}]}]);
    let stream = Speech::Chat.stream(&[
        json!(["m", "Hm."]),
        json!(["d", {"odd": 1}]),
        call,
        json!(["fin", "tool_calls"]),
        json!(["done"]),
    ]);
    let plain = exchange(Speech::Chat, &json!({}), Rules::default(), &[]);
    let kept = exchange(Speech::Chat, &json!({"tool_choice": "required"}), rules, &later);
    let bytes = |exchange: &Exchange| {
        let mut pipeline = exchange.pipeline();
        let mut out = BytesMut::new();
        pipeline.push(&stream, &mut out);
        assert_eq!(pipeline.state(), State::Done);
        out
    };
    assert_eq!(bytes(&kept), bytes(&plain));
}

/// The client gets the last response, with the token counts of all responses.
#[test]
fn model_is_asked_up_to_max_hops() {
    for (max_hops, expected) in [(1, 0), (2, 1), (3, 2), (5, 2)] {
        let limits = Limits { max_hops, ..Limits::default() };
        let rules = Rules { limits, ..enforcing() };
        let good = call("b", "{\"x\": 3}");
        let exchange = exchange(Speech::Chat, &json!({"tool_choice": "required"}), rules, &["Two.", &good]);
        let (got, tally) = answer(&exchange, "One.");
        assert_eq!(tally.follow_ups.len(), expected, "{max_hops}");
        assert_eq!(got.text, ["One.", "Two.", ""][expected]);
        assert_eq!(got.warnings.len(), usize::from(expected < 2));
        let hops = u64::try_from(expected).unwrap() + 1;
        assert_eq!(got.usage.unwrap()["total_tokens"], 15 * hops);
    }
}

#[test]
fn next_hop_starts_in_reasoning_as_the_first_one() {
    let rules = Rules { starts_in_reasoning: true, ..enforcing() };
    for more in [json!({}), json!({"stream": false})] {
        let fields =
            fields(&json!({"tool_choice": "required", "stream": more["stream"].as_bool().unwrap_or(true)}));
        let mut exchange = Exchange::new(request(&fields), rules.clone(), Speech::Chat);
        let call = "So.</think><tool_call>{\"name\":\"a\",\"arguments\":{\"x\":1}}</tool_call>";
        exchange.later = vec![Speech::Chat.says(&[call], "stop")];
        let (answer, _) = exchange.in_pieces("a retry", &Speech::Chat.says(&["Hm.</think>No."], "stop"));
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("", "So."), "{answer:?}");
        assert_eq!(answer.named_calls(), [("a", "{\"x\":1}")]);
    }
}

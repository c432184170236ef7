//! Calls in reasoning (docs/protocols/text-formats.md#reasoning).

use serde_json::json;
use toolwire::{
    format,
    rules::{Detect, Rules},
};

use super::{ended, found, is, read, request};
use crate::support::{exchange::Exchange, upstream::Speech};

/// Formats whose calls do not end the reasoning at once, with a call in each.
const CALLS: &[(&str, &str)] = &[
    ("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "deepseek_v4",
        "<｜DSML｜toolcalls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    ),
    ("k2_horizon", "<ifm|tool_calls><ifm|tool_call>now</ifm|tool_call>"),
    ("mistral", "[TOOL_CALLS]now[ARGS]{}"),
    ("lfm2", "<|tool_call_start|>[now()]<|tool_call_end|>"),
    ("gemma4", "<|tool_call>call:now{}<tool_call|>"),
    ("minimax_m2", "<minimax:tool_call>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>"),
];

#[test]
fn a_call_that_ends_the_message_ends_the_reasoning() {
    for (format, call) in CALLS {
        let answer = found(format, &format!("<think>Plan.\n\n{call}\n{call}\n"));
        assert_eq!(read(&answer), [("now", json!({})), ("now", json!({}))], "{format}");
        assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("Plan.", ""), "{format}");
        assert_eq!(answer.finish.as_deref(), Some("tool_calls"), "{format}");
    }
}

#[test]
fn a_call_that_is_mentioned_is_reasoning() {
    for (format, call) in CALLS.iter().filter(|(format, _)| *format != "minimax_m2") {
        let thought = format!("I could write {call} but no.");
        for (text, rest) in [
            (format!("<think>{thought}"), ""),
            (format!("<think>{thought}</think>Hi"), "Hi"),
            (format!("<think>I could write {call}</think>"), ""),
            (format!("<think>I could write {call} </think>Hi"), "Hi"),
            (format!("<think>I could write `{call}`"), ""),
        ] {
            let answer = found(format, &text);
            let thought = text.strip_prefix("<think>").unwrap().split("</think>").next().unwrap();
            assert_eq!(read(&answer), [], "{format}: {text}");
            assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), (thought.trim(), rest), "{text}");
        }
    }
}

#[test]
fn reasoning_that_was_cut_has_no_calls() {
    for (format, call) in CALLS.iter().filter(|(format, _)| *format != "minimax_m2") {
        let answer = ended(format, &format!("<think>So: {call}"), "length");
        assert_eq!(read(&answer), [], "{format}");
        assert_eq!(answer.reasoning, format!("So: {call}"), "{format}");
    }
}

#[test]
fn a_call_after_a_mentioned_one_is_found() {
    let call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
    let broken = "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\" 1}}</tool_call>";
    for mention in [call, broken, "<tool_call>", "<tool_call> like this"] {
        let answer = found("hermes", &format!("<think>Not {mention} so. {call}"));
        assert_eq!(read(&answer), [("now", json!({}))], "{mention}");
        assert_eq!(answer.reasoning, format!("Not {mention} so."));
        let answer = found("hermes", &format!("<think>Not {mention} so.</think>{call}"));
        assert_eq!(read(&answer), [("now", json!({}))], "{mention}");
        assert_eq!(answer.reasoning, format!("Not {mention} so."));
    }
}

#[test]
fn a_request_that_forbids_calls_has_none_in_reasoning() {
    let call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
    for format in ["hermes", "trinity"] {
        let formats = [format::by_name(format).unwrap(), &format::THINK];
        let settings = Rules { detect: Detect::Formats(format::names(&formats)), ..Rules::default() };
        let conversation =
            request(&json!({"tools": super::declared(), "tool_choice": "none", "stream": true}));
        let exchange = Exchange::new(conversation, settings, Speech::Chat);
        let stream = Speech::Chat.says(&[&format!("<think>So: {call}")], "stop");
        let (answer, _) = exchange.run([stream.as_slice()]);
        assert_eq!(read(&answer), []);
        assert_eq!(answer.reasoning, format!("So: {call}"));
    }
}

#[test]
fn a_long_call_in_reasoning_is_complete() {
    let text = "a\\n<tool_call> ".repeat(200);
    let call = format!(
        "<tool_call>{{\"name\": \"write_file\", \"arguments\": {{\"path\": \"p\", \"content\": \"{text}\"}}}}</tool_call>"
    );
    let formats = [format::by_name("hermes").unwrap(), &format::THINK];
    let answer = super::tried_in(&formats, &format!("<think>So: {call}"), "stop");
    assert_eq!(read(&answer).len(), 1);
    assert_eq!(answer.reasoning, "So:");
    let answer = super::tried_in(&formats, &format!("<think>So: {call}. Hm.</think>"), "stop");
    assert_eq!(read(&answer), []);
    assert_eq!(answer.reasoning, format!("So: {call}. Hm."));
}

#[test]
fn trinity_calls_in_reasoning_that_is_closed_after_them() {
    let call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let answer = found("trinity", &format!("<think>I call it.\n{call}"));
    assert_eq!(read(&answer), [("now", json!({}))]);
    assert_eq!(answer.reasoning, "I call it.");
    let answer = found("trinity", &format!("<think>I call it.\n{call}\n</think>"));
    assert_eq!(read(&answer), [("now", json!({}))]);
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("I call it.", ""));
}

#[test]
fn actions_end_the_thought_before_them() {
    let points = "Action: drag(start_box='(1,2)', end_point='<point>3 4</point>')";
    // The tools of these tests include no computer, so actions are text unless they are tools.
    is("ui_tars", points, points, &[]);
    let answer = found("ui_tars", "Thought: I look.\nAction: now()");
    assert_eq!(read(&answer), [("now", json!({}))]);
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("I look.", ""));
}

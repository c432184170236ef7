//! Tests markers that are split, repeated in a chunk, similar to others, or in places where they have no meaning.

use serde_json::{Value, json};
use toolwire::format::{self, Grammar};

use crate::regressions::{Speech, ended, exchange, found, found_in, is, read, tried_in, with_calls};

/// Returns the separator between two calls, or `None` if a message in this format contains only one.
fn joint(format: &str) -> Option<&'static str> {
    match format {
        // Text after a call is another message or is invented by the model.
        "react" | "harmony" | "beam" | "muse_atem" | "inkling" | "kimi_k3" | "gigachat3" | "gigachat31"
        | "functionary_v32" | "glm4_9b" => None,
        // Some of these formats need the line break: they have a fence, or recognize a list only on a line of its
        // own.
        _ => Some("\n"),
    }
}

/// vllm#57490, vllm#51701, xinference PR 5019, mlx-openai-server PR 215, vllm#58315: an opener split across two
/// chunks became text, and its call was lost.
#[test]
fn opener_may_be_split_across_pieces() {
    for format in with_calls() {
        let answer = found_in(&[format], format.example, "stop");
        assert_eq!(read(&answer), [("get_weather", json!({"city": "Paris"}))], "{}", format.name);
        assert_eq!(answer.text, "", "{}", format.name);
        assert_eq!(answer.finish.as_deref(), Some("tool_calls"), "{}", format.name);
    }
}

/// vllm#55195: `</think>` arrived in two chunks, and everything after it became reasoning.
#[test]
fn end_of_reasoning_may_be_split_across_pieces() {
    let answer = found("hermes", "<think>a </ b </thin c</think>Hi");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("a </ b </thin c", "Hi"));
}

/// sglang#37634, sglang#31915, sglang PR 35153, sglang PR 34925: with two calls in one chunk, one of them or its
/// arguments were lost.
#[test]
fn calls_that_share_a_chunk_are_all_found() {
    for format in with_calls() {
        let Some(joint) = joint(format.name) else { continue };
        let text = format!("{0}{joint}{0}", format.example);
        let answer = tried_in(&[format], &text, "stop");
        let call = ("get_weather", json!({"city": "Paris"}));
        assert_eq!(read(&answer), [call.clone(), call], "{}: {text}", format.name);
        assert_eq!(answer.text, "", "{}", format.name);
    }
}

/// sglang#40739: text after a call was lost.
#[test]
fn text_around_calls_is_kept() {
    for format in with_calls() {
        let Some(joint) = joint(format.name) else { continue };
        let text = format!("One.{joint}{}{joint}Two.", format.example);
        let answer = tried_in(&[format], &text, "stop");
        assert_eq!(answer.calls.len(), 1, "{}", format.name);
        let seen: String = answer.text.split_whitespace().collect();
        assert_eq!(seen, "One.Two.", "{}: {:?}", format.name, answer.text);
    }
}

/// vllm#47137: a partial opener was text in streaming responses but missing in others, or the reverse. vllm#47903:
/// the markup of a truncated call became text.
#[test]
fn stream_may_stop_anywhere() {
    for format in with_calls() {
        for (at, _) in format.example.char_indices() {
            let text = &format.example[..at];
            let answer = tried_in(&[format], text, "length");
            assert!(answer.calls.len() < 2);
            // In formats with channels, message headers are not text.
            let channels = format.grammars.iter().any(|grammar| matches!(grammar, Grammar::Channels(_)));
            let visible = match answer.calls.is_empty() {
                // What a marker opened is left out.
                true if answer.text.is_empty() => true,
                true if channels => text.ends_with(&answer.text),
                true => text == answer.text,
                false => answer.text.is_empty(),
            };
            assert!(visible, "{}: {text:?}: {:?}", format.name, answer.text);
            assert_eq!(answer.finish.as_deref(), Some("length"), "{}", format.name);
        }
    }
}

/// lmstudio-bug-tracker#1592, verl#4757, renderers PR 80: a call that reasoning only quoted was run.
#[test]
fn call_quoted_in_reasoning_is_text() {
    for format in with_calls() {
        let thought = format!("I could write\n{}\nhere.", format.example);
        // Only hermes is detected: in some formats, a call also ends the reasoning.
        let answer =
            tried_in(&[&format::HERMES, &format::THINK], &format!("<think>{thought}</think>Hi"), "stop");
        assert_eq!((answer.text.as_str(), answer.calls.len()), ("Hi", 0), "{}", format.name);
        assert_eq!(answer.reasoning, thought);
    }
}

/// vllm-mlx PR 631: a quotation mark in the text before a marker hid the marker.
#[test]
fn quotation_marks_in_prose_do_not_hide_calls() {
    for prose in ["He said \"no.", "It's", "`", "“", "a \\\" b \" c ' d"] {
        let text = format!("{prose} [TOOL_CALLS]now[ARGS]{{}}");
        is("mistral", &text, prose, &[("now", json!({}))]);
        let text = format!("{prose} <tool_call>{{\"name\":\"now\",\"arguments\":{{}}}}</tool_call>");
        is("hermes", &text, prose, &[("now", json!({}))]);
    }
}

/// cline#13348, GenericAgent#804, vllm#53227, vllm#40801, sglang#40236: users saw DeepSeek markers with ASCII bars
/// or doubled bars, and calls outside their block.
#[test]
fn lookalike_markers_are_markers() {
    let call = [("get_weather", json!({"city": "Paris"}))];
    let dsml = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n\
                <｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n\
                </｜DSML｜invoke>\n</｜DSML｜tool_calls>";
    for bars in ["|", "｜｜", "||"] {
        is("deepseek_v4", &dsml.replace('｜', bars), "", &call);
    }
    let bare = dsml.replace("<｜DSML｜tool_calls>\n", "").replace("\n</｜DSML｜tool_calls>", "");
    is("deepseek_v4", &bare, "", &call);
    for format in ["deepseek_v31", "deepseek_v3"] {
        let example = format::by_name(format).unwrap().example;
        for (bar, blank) in [("|", "▁"), ("|", "_")] {
            is(format, &example.replace('｜', bar).replace('▁', blank), "", &call);
        }
    }
}

/// dynamo PR 8208, vllm PR 28543, vllm PR 38579: calls in an unclosed section, or in one that contained prose, were
/// lost.
#[test]
fn unclosed_section_with_prose_is_read() {
    let one = "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
    let two = "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>";
    let now = ("now", json!({}));
    is("kimi_k2", &format!("<|tool_calls_section_begin|>{one}"), "", std::slice::from_ref(&now));
    is("kimi_k2", &format!("<|tool_calls_section_begin|>{one}{two}"), "", &[now.clone(), now.clone()]);
    let (begin, end) = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>");
    // The section's closer is markup after calls, wherever it is.
    let text = format!("{begin}{one} and then {two}{end}");
    is("kimi_k2", &text, "and then", &[now.clone(), now.clone()]);
    let text = format!("{begin}{one} and then {two} at last {end}");
    is("kimi_k2", &text, "and then  at last", &[now.clone(), now]);
}

/// sglang PR 27337: closers such as `</parameter/>` became part of the value. ollama PR 17914: without a closer,
/// all following text became part of the value.
#[test]
fn malformed_or_missing_closer_closes() {
    let call = [("get_weather", json!({"city": "Paris", "days": 2}))];
    for close in ["</parameter/>", "</parameter1>", "</parameter >", "</parameter>"] {
        let text = format!(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n{close}\n<parameter=days>\n2\n{close}\n</function>\n</tool_call>"
        );
        is("qwen3_coder", &text, "", &call);
    }
    let text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n2\n</function>\n</tool_call>";
    is("qwen3_coder", text, "", &call);
    let text = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>";
    is("glm47", text, "", &call);
    let text = "<minimax:tool_call><invoke name=\"get_weather\"><parameter name=\"city\">Paris<parameter name=\"days\">2</invoke></minimax:tool_call>";
    is("minimax_m2", text, "", &call);
}

/// vllm#39056, vllm PR 55759, llama.cpp PR 23678: a call after unclosed reasoning was lost. Here, unclosed
/// reasoning extends to the end of the response, so nothing is lost.
#[test]
fn unclosed_reasoning_is_kept() {
    let answer = ended("hermes", "<think>so <tool_call>{\"name\":\"now\",\"arguments\":{}}", "length");
    assert_eq!(answer.reasoning, "so <tool_call>{\"name\":\"now\",\"arguments\":{}}");
    assert_eq!((answer.text.as_str(), answer.calls.len()), ("", 0));
}

/// The prompt often contains the opener (docs/protocols/text-formats.md#reasoning). If the server has already
/// separated the reasoning, the text contains none.
#[test]
fn response_may_start_inside_reasoning() {
    let mut exchange = exchange(&[&format::HERMES, &format::THINK], true);
    exchange.settings.starts_in_reasoning = true;
    let run = |events: &[Value]| {
        let stream = Speech::Chat.stream(events);
        let (whole, _) = exchange.run([stream.as_slice()]);
        assert_eq!(exchange.run(stream.chunks(1)).0, whole);
        (whole.reasoning, whole.text, whole.calls.len())
    };
    let end = [json!(["fin", "stop"]), json!(["done"])];
    let call = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let in_text = [json!(["m", "so </thi"]), json!(["m", "nk>Hi "]), json!(["m", call])];
    assert_eq!(run(&[&in_text[..], &end].concat()), ("so".to_owned(), "Hi".to_owned(), 1));
    let events = [json!(["r", "so"]), json!(["m", "Hi "]), json!(["m", call])];
    assert_eq!(run(&[&events[..], &end].concat()), ("so".to_owned(), "Hi".to_owned(), 1));
}

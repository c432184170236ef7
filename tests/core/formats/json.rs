//! Tests variations of JSON between markers, which all such formats must read in the same way.

use serde_json::json;
use toolwire::{
    format::{self, is_token},
    rules::Detect,
};

use crate::formats::found::find_at_every_cut;
use crate::fuzz::checks::{Call, Found};

/// The name, the opener and the closer of each format.
const MARKED: &[(&str, &str, &str)] = &[
    ("hermes", "<tool_call>", "</tool_call>"),
    ("hermes", "<function_call>", "</function_call>"),
    ("longcat", "<longcat_tool_call>\n", "\n</longcat_tool_call>"),
    ("trinity", "<tool_call>", "</tool_call>"),
    ("pangu", "[unused11]", "[unused12]"),
    ("pangu", "<|tool_call_start|>", "<|tool_call_end|>"),
    ("hyperclova", "-> tool/function_call\n", "<|im_end|>"),
    ("dots", "<dots_function_call>", "</dots_function_call>"),
    ("granite3", "<|tool_call|>", ""),
    ("granite20b_fc", "<function_call> ", ""),
    ("jamba", "<tool_calls>", "</tool_calls>"),
    ("hunyuan_a13b", "<tool_calls>", "</tool_calls>"),
    ("minimax_m1", "<tool_calls>\n", "\n</tool_calls>"),
    ("nemotron_toolcall", "<TOOLCALL>", "</TOOLCALL>"),
    ("llama3_json", "<|python_tag|>", ""),
    ("llama3_json", "<|python_tag|>", "<|eom_id|>"),
    ("phi4_mini", "functools", ""),
    ("phi4_mini", "<|tool_call|>", "<|/tool_call|>"),
    ("internlm2", "<|action_start|> <|plugin|>", "<|action_end|>"),
    ("xlam", "[TOOL_CALLS]", ""),
    ("apertus", "<|tools_prefix|>", "<|tools_suffix|>"),
    ("gigachat3", "<|message_sep|>\n\nfunction call<|role_sep|>\n", ""),
    ("gigachat31", "<|function_call|>", ""),
    ("command_r7b", "<|START_ACTION|>", "<|END_ACTION|>"),
    ("k2_horizon", "<ifm|tool_call>", "</ifm|tool_call>"),
    ("k2_horizon", "<ifm|tool_calls><ifm|tool_call>", "</ifm|tool_call></ifm|tool_calls>"),
];

fn found(format: &str, text: &str) -> Found {
    find_at_every_cut(&Detect::Formats(vec![format::by_name(format).expect(format).name]), text)
}

/// Checks that `inside` yields `calls` in every format.
fn each(inside: &str, calls: &[(&str, serde_json::Value)]) {
    for (format, open, close) in MARKED {
        let text = format!("a {open}{inside}{close}");
        let found = found(format, &text);
        assert_eq!(found.parsed_calls(), calls, "{text}");
        assert_eq!(found.text, "a", "{text}");
        assert!(found.calls.iter().all(Call::is_complete), "{text}");
    }
}

#[test]
fn calls_as_objects_arrays_and_lines() {
    let (now, add) =
        (r#"{"name": "now", "arguments": {}}"#, r#"{"name": "add", "parameters": {"x": 1, "y": 2}}"#);
    let both = [("now", json!({})), ("add", json!({"x": 1, "y": 2}))];
    each(now, &both[..1]);
    each(&format!("[{now}, {add}]"), &both);
    each(&format!("{now}\n{add}"), &both);
    each(&format!("{now}; {add}"), &both);
    each(&format!("\n  [{now},\n {add}]\n"), &both);
}

#[test]
fn common_json_mistakes_are_repaired() {
    let now = [("now", json!({}))];
    let add = [("add", json!({"x": 1, "y": 2}))];
    each(r#"{"name":"now","arguments":{}}}"#, &now);
    each(r#"{"name":"now","arguments":{}}]"#, &now);
    each("```json\n{\"name\":\"now\",\"arguments\":{}}\n```", &now);
    each(r#"{"arguments": {"x": 1, "y": 2}, "name": "add"}"#, &add);
    each(r#"{"name": "add", "arguments": "{\"x\": 1, \"y\": 2}"}"#, &add);
    each(r#"{'name': 'add', 'arguments': {'x': 1, 'y': 2,}}"#, &add);
    each(r#"{"name": "unknown", "arguments": {"a": null}}"#, &[("unknown", json!({"a": null}))]);
    each(r#"{"name": "now"}"#, &now);
    each(
        r#"{"name":"search","arguments":{"query":"</tool_call> ]} <|eom_id|> 東京 \u00e9"}}"#,
        &[("search", json!({"query": "</tool_call> ]} <|eom_id|> 東京 é"}))],
    );
}

#[test]
fn json_that_is_not_a_call_is_text() {
    for (format, open, close) in MARKED {
        for inside in &["", " and so on", "[]", "[] nothing", r#"{"city": "Paris"}"#, "[1, 2]", "{{", "\n\n"]
        {
            let text = format!("a {open}{inside}{close} b");
            // Apertus uses the tool's name as the key, so this would be a call to `city`.
            if *format == "apertus" && inside.contains("city") {
                continue;
            }
            // In HyperCLOVA's format, the closer means nothing by itself.
            let seen = if *format == "hyperclova" { text.replace(close, "") } else { text.clone() };
            let found = found(format, &text);
            // An empty container is dropped if its opener is a token, which prose does not mention.
            let is_empty = match *inside {
                "" | "\n\n" => !close.is_empty(),
                "[]" => true,
                "[] nothing" => close.is_empty(),
                _ => false,
            };
            // One of Pangu's closers begins like a list.
            let wanted = match is_empty && is_token(open) && !close.starts_with('[') {
                true => format!("a {} b", inside.trim().trim_start_matches("[]")),
                false => seen,
            };
            // Without the closer that the format has, it is not known to be empty.
            let is_open = close.is_empty() && found.text == text;
            assert!(is_open || found.text == wanted, "{text}: {}", found.text);
            assert_eq!(found.calls.len(), 0, "{text}");
        }
    }
}

#[test]
fn truncated_call_stays_incomplete() {
    for (format, open, _) in MARKED {
        let text = format!(r#"{open}{{"name":"search","arguments":{{"query":"rm -r bu"#);
        let found = found(format, &text);
        let [call] = found.calls.as_slice() else { panic!("one call in {text}: {found:?}") };
        assert_eq!((call.name.as_str(), call.id.as_str()), ("search", ""), "{text}");
        assert_eq!((call.arguments.as_str(), call.is_complete()), (r#"{"query":"rm -r bu"#, false), "{text}");
        assert_eq!(found.text, "", "{text}");
    }
}

#[test]
fn text_after_calls_is_kept() {
    for (format, open, close) in MARKED.iter().filter(|(_, _, close)| !close.is_empty()) {
        let text = format!(r#"{open}{{"name":"now","arguments":{{}}}}{close} ok"#);
        assert_eq!(found(format, &text).text.trim(), "ok", "{text}");
        let text = format!(r#"{open}{{"name":"now","arguments":{{}}}} ok"#);
        assert_eq!(found(format, &text).text.trim(), "ok", "{text}");
    }
}

#[test]
fn tool_names_as_keys_are_calls() {
    let read = |text: &str| {
        let found = found("apertus", &format!("<|tools_prefix|>{text}<|tools_suffix|>"));
        found
            .calls
            .into_iter()
            .map(|call| format!("{}{}", call.name, call.arguments))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        read(r#"[{"get_weather": {"city": "Oslo"}}, {"now": {}}]"#),
        r#"get_weather{"city": "Oslo"} now{}"#
    );
    assert_eq!(read(r#"[{"add": {"x": 1}, "now": null}]"#), r#"add{"x": 1} now{}"#);
    assert_eq!(read(r#"[{"other": {"x": {"now": 1}}}]"#), r#"other{"x": {"now": 1}}"#);
    assert_eq!(read(r#"[{"name": "now", "arguments": {"a": 1}}]"#), r#"now{"a": 1}"#);
    assert_eq!(read("[{}]"), "");
}

#[test]
fn directly_answer_tool_is_not_a_call() {
    let action = |tool: &str| {
        format!(
            "Plan: none.\nAction:\n```json\n[\n  {{\n    \"tool_name\": \"{tool}\",\n    \"parameters\": {{}}\n  }}\n]\n```\nHi."
        )
    };
    let silent = found("command_r_plus", &action("directly-answer"));
    assert_eq!((silent.text.as_str(), silent.calls.len()), ("Plan: none.\n\nHi.", 0));
    let calling = found("command_r_plus", &action("now"));
    assert_eq!(
        (calling.text.as_str(), calling.parsed_calls()),
        ("Plan: none.\n\nHi.", vec![("now", json!({}))])
    );
    for text in [action("unknown"), action("now").replace("Action:", "My Action:"), "Action: run".to_owned()]
    {
        assert_eq!(found("command_r_plus", &text).text, text);
    }
}

#[test]
fn calls_without_markers_may_be_adjacent() {
    let call = r#"{"name": "now", "parameters": {}}"#;
    for (text, calls, rest) in [
        (format!("{call}; {call}"), 2, ""),
        (format!("{call},\n{call}"), 2, ","),
        (format!("{call}\n{call}"), 2, ""),
        (format!("{call}; and then"), 1, "; and then"),
        (format!("{call};"), 1, ";"),
        (
            format!(r#"{call}; {{"a": {{"name": "now", "parameters": {{}}}}}}"#),
            1,
            r#"; {"a": {"name": "now", "parameters": {}}}"#,
        ),
    ] {
        let found = found("llama3_json", &text);
        assert_eq!(found.calls.len(), calls, "{text}");
        assert_eq!(found.text, rest, "{text}");
    }
}

#[test]
fn ids_in_the_text_are_kept() {
    let text =
        r#"<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>"#;
    assert_eq!(found("command_r7b", text).calls[0].id, "0");
    let text = r#"{"tool_calls": [{"id": "call_9", "type": "function", "function": {"name": "now", "arguments": "{}"}}]}"#;
    assert_eq!(found("openai_function_call", text).calls[0].id, "call_9");
}

//! Tests how a text may end (docs/protocols/text-formats.md#end-of-the-text): provably complete parts count as
//! complete, and no data is invented.

use serde_json::json;
use toolwire::format;

use crate::regressions::{ended, found_in, is, read, tried};

/// Truncated arguments, and the closers that are added. `None` if the last value may be incomplete.
const ENDS: &[(&str, Option<&str>)] = &[
    (r#"{"cmd":"ls""#, Some("}")),
    (r#"{"cmd":"ls" "#, Some("}")),
    (r#"{"cmd":"ls"}"#, Some("")),
    (r#"{"a":true"#, Some("}")),
    (r#"{"a":null"#, Some("}")),
    (r#"{"a":{}"#, Some("}")),
    (r#"{"a":[1]"#, Some("}")),
    (r#"{"a":["b""#, None),
    (r#"{"a":{"b":"c""#, None),
    ("{", None),
    (r#"{"cm"#, None),
    (r#"{"cmd""#, None),
    (r#"{"cmd":"#, None),
    (r#"{"cmd":"rm -r build"#, None),
    (r#"{"cmd":"rm -r build\"#, None),
    (r#"{"cmd":"\u00e"#, None),
    (r#"{"a":1"#, None),
    (r#"{"a":-"#, None),
    (r#"{"a":tru"#, None),
    (r#"{"a":[1"#, None),
    (r#"{"a":["b","#, None),
    (r#"{"a":"b","#, None),
];

const FORMS: &[(&str, &str)] = &[
    ("hermes", r#"<tool_call>{"name":"run","arguments":"#),
    ("mistral", "[TOOL_CALLS]run[ARGS]"),
    ("llama3_json", r#"<|python_tag|>{"name":"run","parameters":"#),
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"),
    ("jamba", r#"<tool_calls>[{"name":"run","arguments":"#),
];

/// With `stop`, closers are added only after a provably complete value: a truncated `rm -r build/old` must not
/// become `rm -r build`.
#[test]
fn closers_are_never_invented() {
    for (format, form) in FORMS {
        for (arguments, missing) in ENDS {
            let text = format!("{form}{arguments}");
            let answer = tried(format, &text, "stop");
            assert_eq!(answer.text, "", "{text}");
            let [call] = answer.calls.as_slice() else { panic!("{text}: {answer:?}") };
            if let Some(missing) = missing {
                assert_eq!(call.arguments, format!("{arguments}{missing}"), "{text}");
                assert_eq!(answer.finish.as_deref(), Some("tool_calls"), "{text}");
            } else {
                assert!(arguments.starts_with(&call.arguments), "{text}: {call:?}");
                assert_eq!(answer.finish.as_deref(), Some("length"), "{text}");
            }
        }
    }
}

/// No closers are added if the message was cut off, even after a complete value.
#[test]
fn truncation_by_length_is_reported_as_length() {
    for (format, form) in FORMS {
        for (arguments, missing) in ENDS {
            for finish in ["length", "content_filter"] {
                let text = format!("{form}{arguments}");
                let answer = tried(format, &text, finish);
                let [call] = answer.calls.as_slice() else { panic!("{text}: {answer:?}") };
                assert_eq!(answer.finish.as_deref(), Some(finish), "{text}");
                let sent = *arguments;
                assert!(sent.starts_with(&call.arguments), "{text}: {call:?}");
                assert!(*missing != Some("") || call.arguments == sent, "{text}");
            }
        }
    }
}

/// A call is text if the message ends before the end of its name.
#[test]
fn call_without_a_name_is_text() {
    for (format, text) in [
        ("hermes", "Hi <tool_call>{\"na"),
        ("hermes", "<tool_call>{\"name\": \"get_wea"),
        ("hermes", "<tool_call>{\"arguments\": {\"city\": \"Paris\"}"),
        ("mistral", "[TOOL_CALLS]get_wea"),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.now"),
        ("qwen3_coder", "<tool_call>\n<function=get_weather"),
        ("glm45", "<tool_call>get_weather"),
        ("deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather"),
        ("pythonic", "[get_weather"),
        ("gemma4", "<|tool_call>call:get_weather"),
        ("cline", "<get_weather"),
        ("react", "Action: get_weather"),
        ("anthropic_legacy", "<function_calls>\n<invoke name=\"get_weather\""),
    ] {
        for finish in ["stop", "length"] {
            let answer = ended(format, text, finish);
            let unmarked = ["pythonic", "cline", "react"].contains(&format);
            let visible = match (finish, text.split_once("Hi ")) {
                ("length", None) if !unmarked => "",
                ("length", Some(_)) => "Hi ",
                _ => text,
            };
            assert_eq!((answer.text.as_str(), answer.calls.len()), (visible, 0), "{format}");
            assert_eq!(answer.finish.as_deref(), Some(finish), "{format}");
        }
    }
}

/// A complete value needs no closers, and a partial closer is not data.
#[test]
fn closers_may_be_missing_or_truncated() {
    let call = [("get_weather", json!({"city": "Paris"}))];
    let texts = [
        ("hermes", r#"<tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}</tool_ca"#),
        ("qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</func"),
        ("qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>"),
        ("glm45", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_"),
        (
            "minimax_m2",
            "<minimax:tool_call><invoke name=\"get_weather\"><parameter name=\"city\">Paris</parameter></inv",
        ),
        (
            "kimi_k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>get_weather:0<|tool_call_argument_begin|>{\"city\":\"Paris\"}<|tool_call",
        ),
        (
            "deepseek_v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\":\"Paris\"}\n``",
        ),
        ("fenced", "```json\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}\n``"),
        ("pre", r#"<pre>{"name":"get_weather","arguments":{"city":"Paris"}}</p"#),
        ("pythonic", "[get_weather(city='Paris')"),
        ("gemma4", "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_"),
        ("jamba", r#"<tool_calls>[{"name":"get_weather","arguments":{"city":"Paris"}}"#),
    ];
    for (format, text) in texts {
        is(format, text, "", &call);
    }
}

/// In a tagged format, a truncated value ends with the text, without a partial closer.
#[test]
fn truncated_value_contains_no_markup() {
    for (format, text) in [
        ("qwen3_coder", "<tool_call>\n<function=run>\n<parameter=cmd>\nls -l\n</para"),
        ("glm45", "<tool_call>run\n<arg_key>cmd</arg_key>\n<arg_value>ls -l</arg"),
        ("minimax_m2", "<minimax:tool_call><invoke name=\"run\"><parameter name=\"cmd\">ls -l</"),
        ("gemma4", "<|tool_call>call:run{cmd:<|\"|>ls -l<|\""),
        ("cline", "<run>\n<cmd>ls -l</c"),
    ] {
        let answer = ended(format, text, "length");
        let [call] = answer.calls.as_slice() else { panic!("{text}: {answer:?}") };
        assert!("{\"cmd\": \"ls -l".starts_with(&call.arguments), "{format}: {call:?}");
        assert!(call.arguments.ends_with("ls -l"), "{format}: {call:?}");
        assert_eq!(answer.finish.as_deref(), Some("length"), "{format}");
    }
}

#[test]
fn header_cut_off_by_the_end_of_the_text_is_text() {
    let call = [("run", json!({"cmd": "ls"}))];
    for header in ["<|start|>assistant junk", "<|start|>assistant<|channel|>fin", "<|start|>assistant to=run"]
    {
        is("harmony", header, header, &[]);
        is("harmony", &format!("<|channel|>final<|message|>Hi<|end|>{header}"), &format!("Hi{header}"), &[]);
        let message = r#"<|channel|>commentary to=functions.run<|message|>{"cmd":"ls"}<|call|>"#;
        is("harmony", &format!("{message}{header}"), header, &call);
    }
}

/// Text at the start of a message that is not a header may be in another format.
#[test]
fn text_that_is_no_header_is_read_by_other_formats() {
    let formats = ["functionary_v32", "react"].map(|name| format::by_name(name).unwrap());
    let answer = found_in(&formats, "Action: run\nAction Input: {\"cmd\": \"ls\"}", "stop");
    assert_eq!((answer.text.as_str(), read(&answer)), ("", vec![("run", json!({"cmd": "ls"}))]));
}

/// After a marker, any name makes a call; without a marker, the name must be declared
/// (docs/protocols/text-formats.md#declared-names).
#[test]
fn undeclared_name_is_a_call_only_after_a_marker() {
    let call = [("no_such", json!({"a": "1"}))];
    for (format, text) in [
        ("hermes", r#"<tool_call>{"name":"no_such","arguments":{"a":"1"}}</tool_call>"#),
        ("mistral", r#"[TOOL_CALLS]no_such[ARGS]{"a":"1"}"#),
        ("glm45", "<tool_call>no_such\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"),
        (
            "qwen3_coder",
            "<tool_call>\n<function=no_such>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        ),
        ("olmo3", "<function_calls>\nno_such(a='1')\n</function_calls>"),
        ("gemma4", "<|tool_call>call:no_such{a:<|\"|>1<|\"|>}<tool_call|>"),
    ] {
        let answer = ended(format, text, "stop");
        assert_eq!(read(&answer), call, "{format}");
    }
    for (format, text) in [
        ("bare", r#"{"name":"no_such","arguments":{"a":"1"}}"#),
        ("pre", r#"<pre>{"name":"no_such","arguments":{"a":"1"}}</pre>"#),
        ("fenced", "```json\n{\"name\":\"no_such\",\"arguments\":{}}\n```"),
        ("pythonic", "[no_such(a='1')]"),
        ("react", "Action: no_such\nAction Input: {}"),
        ("cline", "<no_such>\n<a>1</a>\n</no_such>"),
        ("llama3_json", r#"{"name":"no_such","parameters":{}}"#),
        ("qwen3_coder", "<function=no_such>\n</function>"),
        ("gemma3_toolcode", "```tool_code\nno_such(a='1')\n```"),
        ("xlam", r#"[{"name":"no_such","arguments":{}}]"#),
    ] {
        is(format, text, text, &[]);
    }
}

//! Tests the values of arguments: markers inside them, their types, and their last bytes.

use serde_json::{Value, json};

use crate::regressions::{found, is, read, tried, tried_in};

/// A format, and a call to `run` in it. `@` stands for the string.
const STRINGS: &[(&str, &str)] = &[
    ("hermes", r#"<tool_call>{"name":"run","arguments":{"cmd":"@"}}</tool_call>"#),
    ("mistral", r#"[TOOL_CALLS]run[ARGS]{"cmd":"@"}"#),
    ("llama3_json", r#"<|python_tag|>{"name":"run","parameters":{"cmd":"@"}}"#),
    ("jamba", r#"<tool_calls>[{"name":"run","arguments":{"cmd":"@"}}]</tool_calls>"#),
    (
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n```json\n{\"cmd\":\"@\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{\"cmd\":\"@\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "kimi_k2",
        r#"<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{"cmd":"@"}<|tool_call_end|><|tool_calls_section_end|>"#,
    ),
    ("fenced", "```json\n{\"name\":\"run\",\"arguments\":{\"cmd\":\"@\"}}\n```"),
    ("pre", r#"<pre>{"name":"run","arguments":{"cmd":"@"}}</pre>"#),
    ("pythonic", "[run(cmd='@')]"),
    ("lfm2", "<|tool_call_start|>[run(cmd=\"@\")]<|tool_call_end|>"),
    ("gemma4", "<|tool_call>call:run{cmd:<|\"|>@<|\"|>}<tool_call|>"),
    ("functiongemma", "<start_function_call>call:run{cmd:<escape>@<escape>}<end_function_call>"),
    (
        "qwen3_coder",
        "<tool_call>\n<function=run>\n<parameter=cmd>\n@\n</parameter>\n</function>\n</tool_call>",
    ),
    ("glm45", "<tool_call>run\n<arg_key>cmd</arg_key>\n<arg_value>@</arg_value>\n</tool_call>"),
    (
        "minimax_m2",
        "<minimax:tool_call><invoke name=\"run\"><parameter name=\"cmd\">@</parameter></invoke></minimax:tool_call>",
    ),
    (
        "deepseek_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"run\">\n<｜DSML｜parameter name=\"cmd\" string=\"true\">@</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "anthropic_legacy",
        "<function_calls>\n<invoke name=\"run\">\n<parameter name=\"cmd\">@</parameter>\n</invoke>\n</function_calls>",
    ),
    (
        "toolify",
        "<Function_Ab1C_Start/>\n<function_calls><function_call><tool>run</tool><args_json><![CDATA[{\"cmd\":\"@\"}]]></args_json></function_call></function_calls>",
    ),
    ("cline", "<run>\n<cmd>@</cmd>\n</run>"),
];

/// vllm#45167, ai-sdk#297, Rapid-MLX#1515, omlx PR 2588, sglang PR 28698: a closer inside a value ended the call.
#[test]
fn marker_inside_a_value_is_data() {
    const MARKERS: &[&str] = &[
        "</tool_call>",
        "<tool_call>",
        "</tool_calls>",
        "</function>",
        "</invoke></function_calls>",
        "```",
        "</pre>",
        "[TOOL_CALLS]",
        "<|tool_call_end|>",
        "<｜tool▁call▁end｜>",
        "<tool_call|>",
        "}]}",
        ")]",
        "<end_function_call>",
        "</｜DSML｜invoke>",
        "]]>",
        "<think>",
    ];
    for (format, form) in STRINGS {
        for marker in MARKERS {
            // A value that contains its own closer looks like two values
            // (docs/protocols/text-formats.md#values-that-contain-their-closer).
            if form.split('@').nth(1).is_some_and(|behind| behind.trim_start().starts_with(marker)) {
                continue;
            }
            let value = format!("a {marker} b");
            let format = toolwire::format::by_name(format).unwrap();
            let answer = tried_in(&[format], &form.replace('@', &value), "stop");
            assert_eq!(
                (read(&answer), answer.text.as_str()),
                (vec![("run", json!({"cmd": value}))], ""),
                "{form}"
            );
        }
    }
}

/// vllm#22885, vllm#32152, vllm#10395, vllm PR 48852: arguments that ended with a number, a literal or a container
/// lost their last bytes, and numbers were reformatted.
#[test]
fn arguments_are_complete_to_the_last_byte() {
    let tails = [
        "1",
        "-0.50",
        "1e3",
        "12345678901234567890",
        "true",
        "null",
        "[]",
        "[1, [2]]",
        "{}",
        r#"{"a": {"b": 1}}"#,
        r#""}""#,
    ];
    for tail in tails {
        for arguments in [format!(r#"{{"v": {tail}}}"#), format!("{{\"a\":0,\"v\":{tail} \n}}")] {
            for form in [
                "<tool_call>{\"name\":\"x\",\"arguments\":@}</tool_call>",
                "<tool_call>{\"name\":\"x\",\"arguments\":@ }",
                "<tool_call>[{\"name\":\"x\",\"arguments\":@}]</tool_call>",
                "<tool_call>{\"arguments\":@,\"name\":\"x\"}</tool_call>",
            ] {
                let answer = tried("hermes", &form.replace('@', &arguments), "stop");
                assert_eq!(answer.named_calls(), [("x", arguments.as_str())]);
            }
            let answer = tried("mistral", &format!("[TOOL_CALLS]x[ARGS]{arguments}"), "stop");
            assert_eq!(answer.named_calls(), [("x", arguments.as_str())]);
        }
    }
}

/// vllm#31501, vllm PR 36360, vllm PR 35615, vllm PR 35895: if a chunk contained several tokens, the arguments were
/// empty. The values here are converted rather than forwarded.
#[test]
fn values_are_read_in_any_split() {
    let parameter = |key: &str, value: &str| format!("<parameter={key}>\n{value}\n</parameter>\n");
    let values = [
        ("enabled", "True", json!(true)),
        ("enabled", "0", json!(false)),
        ("ratio", "2.50", serde_json::from_str("2.50").unwrap()),
        ("ratio", "two", json!("two")),
        ("tags", "[\"a\", \"b\"]", json!(["a", "b"])),
        ("tags", "a, b", json!("a, b")),
        ("cfg", "{\"depth\": {\"x\": []}}", json!({"depth": {"x": []}})),
        ("note", "NULL", Value::Null),
        ("note", "nul", json!("nul")),
        ("note", "null and void", json!("null and void")),
        ("other", "1", json!("1")),
    ];
    for (key, value, meant) in values {
        let text =
            format!("<tool_call>\n<function=set_opts>\n{}</function>\n</tool_call>", parameter(key, value));
        is("qwen3_coder", &text, "", &[("set_opts", json!({ key: meant }))]);
    }
}

/// vllm#28806, vllm#47901: a call without arguments got an empty string as arguments.
#[test]
fn call_without_arguments_has_an_empty_object() {
    let texts = [
        ("hermes", r#"<tool_call>{"name":"now"}</tool_call>"#),
        ("hermes", r#"<tool_call>{"name":"now","arguments":null}</tool_call>"#),
        ("hermes", r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#),
        ("hermes", r#"<tool_call>{"name":"now","arguments":"{}"}</tool_call>"#),
        ("hermes", r#"<tool_call>{"name":"now","arguments":""}</tool_call>"#),
        ("qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>"),
        ("glm45", "<tool_call>now\n</tool_call>"),
        ("glm47", "<tool_call>now</tool_call>"),
        ("minimax_m2", "<minimax:tool_call><invoke name=\"now\"></invoke></minimax:tool_call>"),
        (
            "minimax_m3",
            "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"now\">]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
        ),
        (
            "deepseek_v32",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        ),
        ("pythonic", "[now()]"),
        ("olmo3", "<function_calls>\nnow()\n</function_calls>"),
        ("gemma3_toolcode", "```tool_code\nnow()\n```"),
        ("gemma4", "<|tool_call>call:now{}<tool_call|>"),
        ("cline", "<now>\n</now>"),
        ("apertus", r#"<|tools_prefix|>[{"now": {}}]<|tools_suffix|>"#),
    ];
    for (format, text) in texts {
        let answer = found(format, text);
        assert_eq!(answer.named_calls(), [("now", "{}")], "{format}: {text}");
    }
}

/// Rapid-MLX PR 1102: nested objects became text.
#[test]
fn containers_nest() {
    let text = "<|tool_call>call:set_opts{cfg:{depth:1,name:<|\"|>a}<|\"|>,sub:{l:[{k:<|\"|>]<|\"|>},[],{}]}},tags:[<|\"|>,<|\"|>]}<tool_call|>";
    let arguments =
        json!({"cfg": {"depth": 1, "name": "a}", "sub": {"l": [{"k": "]"}, [], {}]}}, "tags": [","]});
    is("gemma4", text, "", &[("set_opts", arguments.clone())]);
    let text = "[set_opts(cfg={'depth': 1, 'name': 'a}', 'sub': {'l': [{'k': ']'}, [], {}]}}, tags=[','])]";
    is("pythonic", text, "", &[("set_opts", arguments)]);
}

/// openclaw PR 88226: a backslash that is not part of an escape made the arguments unreadable.
#[test]
fn only_invalid_json_is_repaired() {
    let mended = [
        (r#"{"v":"C:\users \d+ \'"}"#, json!({"v": "C:\\users \\d+ '"})),
        (r#"{"v":"\u12"}"#, json!({"v": "\\u12"})),
        ("{\"v\":\"a\nb\tc\"}", json!({"v": "a\nb\tc"})),
        ("{'v': 'it\\'s', \"w\": True,}", json!({"v": "it's", "w": true})),
        ("{v: None, w: [1,],}", json!({"v": null, "w": [1]})),
        ("{\"v\": NaN /* no */, \"w\": -Infinity // n\n}", json!({"v": "NaN", "w": "-Infinity"})),
    ];
    for (arguments, meant) in mended {
        is(
            "hermes",
            &format!(r#"<tool_call>{{"name":"x","arguments":{arguments}}}</tool_call>"#),
            "",
            &[("x", meant)],
        );
    }
    let kept = r#"{ "v" :"\u00e9\/\ud83d\ude00", "v": [ ] ,"w":-0.0e+0}"#;
    let answer = found("hermes", &format!(r#"<tool_call>{{"name":"x","arguments":{kept}}}</tool_call>"#));
    assert_eq!(answer.named_calls(), [("x", kept)]);
}

/// sglang#31912, vllm PR 54678, vllm PR 55473, llama_index#22334: calls with about twenty arguments, or with
/// brackets that never close, kept a CPU core busy forever.
#[test]
fn many_arguments_and_open_brackets_take_linear_time() {
    let list: Vec<String> = (0..200).map(|n| format!("a{n}='x, y=(1'")).collect();
    let texts = [
        ("pythonic", format!("[run({}", list.join(", "))),
        ("pythonic", "[run(a=[".to_owned() + &"[(".repeat(60)),
        ("qwen3_coder", format!("<tool_call>\n<function=run>\n{}", "<parameter=a>\n</parameter".repeat(200))),
        ("hermes", format!("{}{{", "<tool_call>[".repeat(200))),
        ("react", "Action: ".repeat(200)),
        ("llama3_json", "{\"name\": ".repeat(200)),
        ("anthropic_legacy", "<function_calls><invoke name=\"".repeat(100)),
    ];
    for (format, text) in texts {
        let exchange = crate::regressions::exchange(&[toolwire::format::by_name(format).unwrap()], true);
        let stream = crate::regressions::Speech::Chat.says(&[&text], "length");
        let (whole, _) = exchange.run([stream.as_slice()]);
        assert_eq!(exchange.run(stream.chunks(1)).0, whole, "{format}");
        assert_eq!(whole.finish.as_deref(), Some("length"), "{format}");
    }
}

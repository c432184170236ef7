//! Tests how calls begin, and what happens to text in place of their arguments. Small models name a tool and
//! continue with something else, write arguments beside the name, or quote the declaration.

use serde_json::{Value, json};
use toolwire::{
    format::{self, Format},
    rules::{ArgumentDelivery, Detect, Rules},
};

use crate::regressions::{ended, found, is, read, tried};
use crate::support::{
    client::Answer,
    exchange::{Cuts, Exchange, request},
    upstream::Speech,
};

fn tool(name: &str, properties: &Value) -> Value {
    let parameters = json!({"type": "object", "properties": properties});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// Returns the client's answer to `text`. Asserts that no split changes it. The declared tools take one string, two
/// strings, a number, and nothing.
fn answer(format: &str, text: &str) -> Answer {
    let tools = [
        tool("calculator", &json!({"expression": {"type": "string"}})),
        tool("get_weather", &json!({"city": {"type": "string"}, "unit": {"type": "string"}})),
        tool("square", &json!({"n": {"type": "number"}})),
        tool("now", &json!({})),
    ];
    let format = format::by_name(format).unwrap_or_else(|| panic!("no format {format}"));
    let mut whole = None;
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let settings = Rules { detect: Detect::Formats(vec![format.name]), arguments, ..Rules::default() };
        let exchange = Exchange::new(request(&json!({"tools": tools})), settings, Speech::Chat);
        let (answer, _) =
            exchange.text(text, text, "stop", if text.len() < 120 { Cuts::Text } else { Cuts::Sizes });
        if let Some((calls, seen)) = &whole {
            let same = (answer.calls.len(), answer.text.clone()) == (*calls, String::clone(seen));
            assert!(same, "{text}: whole arguments give {answer:?}");
        }
        whole = Some((answer.calls.len(), answer.text.clone()));
        if arguments == ArgumentDelivery::Whole {
            return answer;
        }
    }
    panic!("two settings are tried");
}

fn calls(format: &str, text: &str, visible: &str, wanted: &[(&str, Value)]) {
    let answer = answer(format, text);
    assert_eq!(read(&answer), wanted, "{format}: {text}");
    assert_eq!(answer.text, visible, "{format}: {text}");
    let finish = if wanted.is_empty() { "stop" } else { "tool_calls" };
    assert_eq!(answer.finish.as_deref(), Some(finish), "{format}: {text}");
}

/// Formats with a dedicated marker, each with a call to NAME that has BODY in place of its arguments.
const FORMS: &[(&str, &str)] = &[
    ("qwen3_coder", "<tool_call>\n<function=NAME>\nBODY\n</function>\n</tool_call>"),
    ("qwen3_coder", "<function=NAME>BODY</function>"),
    ("seed_oss", "<seed:tool_call>\n<function=NAME>\nBODY\n</function>\n</seed:tool_call>"),
    ("functionary_v31", "<function=NAME>BODY</function>"),
    ("llama3_json", "<function=NAME>BODY</function>"),
    ("glm45", "<tool_call>NAME\nBODY\n</tool_call>"),
    ("minimax_m2", "<minimax:tool_call>\n<invoke name=\"NAME\">\nBODY\n</invoke>\n</minimax:tool_call>"),
    (
        "deepseek_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"NAME\">BODY</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    ("kimi_k2", "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>BODY<|tool_call_end|>"),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>BODY<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "minimax_m3",
        "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"NAME\">BODY]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    ),
    ("cline", "<NAME>\nBODY\n</NAME>"),
    ("harmony", "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>BODY<|call|>"),
    ("beam", "<|start|>assistant to=NAME<|channel|>analysis <|constrain|>xml<|message|>BODY<|call|>"),
];

fn written(form: &str, name: &str, body: &str) -> String {
    form.replace("NAME", name).replace("BODY", body)
}

#[test]
fn text_in_place_of_arguments_is_the_only_string_parameter() {
    for (format, form) in FORMS {
        for body in ["sqrt(144)", "2 < 3", "a\n\"b\" \\ c"] {
            let text = written(form, "calculator", body);
            calls(format, &text, "", &[("calculator", json!({"expression": body}))]);
        }
    }
}

#[test]
fn text_in_place_of_several_parameters_is_text() {
    for (format, form) in FORMS.iter().filter(|(format, _)| *format != "harmony") {
        for name in ["get_weather", "square", "now"] {
            let text = written(form, name, "sqrt(144)");
            calls(format, &text, &text, &[]);
        }
    }
}

#[test]
fn call_without_arguments_is_complete_at_its_closer() {
    for (format, form) in FORMS {
        calls(format, &written(form, "now", ""), "", &[("now", json!({}))]);
    }
}

#[test]
fn name_without_arguments_is_text() {
    for (format, form) in FORMS {
        let (before, _) = form.split_once("BODY").unwrap();
        let text = written(before, "now", "");
        for finish in ["stop", "length"] {
            let answer = tried(format, &text, finish);
            // What a marker opened is left out if the response was cut off. Without a declared element in it, a tag may
            // be prose.
            let is_text = finish == "stop" || *format == "cline";
            let visible = if is_text { text.as_str() } else { "" };
            assert_eq!((answer.text.as_str(), answer.calls.len()), (visible, 0), "{format}: {text}");
            assert_eq!(answer.finish.as_deref(), Some(finish));
        }
    }
    for (format, text) in [
        ("hermes", r#"<tool_call>{"name":"now""#),
        ("hermes", r#"<tool_call>{"name":"now","arguments":"#),
        ("lfm2", "<|tool_call_start|>[now("),
        ("mistral", "[TOOL_CALLS]now[ARGS]"),
        ("inkling", "<|message_model|>now<|content_invoke_tool_json|>{\"name\":\"now\""),
    ] {
        for finish in ["stop", "length"] {
            let answer = tried(format, text, finish);
            let visible = if finish == "stop" { text } else { "" };
            assert_eq!((answer.text.as_str(), answer.calls.len()), (visible, 0), "{format}");
        }
    }
}

#[test]
fn message_to_a_tool_without_a_call_is_text() {
    let text = "<|message_model|>now<|content_invoke_tool_json|>not now<|end_message|> ok";
    calls("inkling", text, text, &[]);
    let text = "<|start|>assistant to=now<|channel|>analysis <|constrain|>xml<|message|><x>1<|call|>";
    calls("beam", text, text, &[]);
}

#[test]
fn prose_that_mentions_an_opener_is_released() {
    let text = "Write <function=calculator> and then <b>what</b> you want.";
    calls("qwen3_coder", text, text, &[]);
    let text = format!("Write <function=calculator> and {}</function>", "so on ".repeat(300));
    calls("qwen3_coder", &text, &text, &[]);
    let text = r#"Write <function=calculator> or {"name":"now","arguments":{}}"#;
    let format = [&format::QWEN3_CODER as &'static Format, &format::BARE];
    let answer = crate::regressions::found_in(&format, &text.replace("calculator", "run"), "stop");
    assert_eq!(answer.named_calls(), [("now", "{}")]);
}

#[test]
fn members_beside_the_name_are_arguments_if_all_are_declared() {
    let paris = ("get_weather", json!({"city": "Paris"}));
    for object in [
        r#"{"name":"get_weather","city":"Paris"}"#,
        r#"{"city":"Paris","name":"get_weather"}"#,
        r#"{"type":"function","id":"x","name":"get_weather","city":"Paris"}"#,
        r#"{"type":"function","function":{"name":"get_weather","city":"Paris"},"index":0}"#,
        r#"{"name":"get_weather","city":'Paris'}"#,
        r#"{"name":"get_weather","city":"P\u0061ris",}"#,
    ] {
        calls("hermes", &format!("<tool_call>{object}</tool_call>"), "", std::slice::from_ref(&paris));
    }
    let text = r#"<tool_call>{"name":"square","n":2.50}</tool_call>"#;
    assert_eq!(answer("hermes", text).named_calls(), [("square", r#"{"n":2.50}"#)]);
    calls(
        "hermes",
        r#"<tool_call>{"name":"now","id":"x","type":"function"}</tool_call>"#,
        "",
        &[("now", json!({}))],
    );
    calls("hermes", r#"<tool_call>{"name":"now"}</tool_call>"#, "", &[("now", json!({}))]);
}

#[test]
fn undeclared_members_beside_the_name_make_it_text() {
    for object in [
        r#"{"name":"get_weather","description":{"a":1},"location":"Cairo"}"#,
        r#"{"name":"get_weather","city":"Paris","location":"Cairo"}"#,
        r#"{"name":"get_weather","description":"Weather"}"#,
        r#"{"name":"now","x":1}"#,
        r#"{"name":"nobody","city":"Paris"}"#,
    ] {
        let text = format!("<tool_call>{object}</tool_call>");
        calls("hermes", &text, &text, &[]);
        // The calls beside it are still calls.
        let now = r#"{"name":"now","arguments":{}}"#;
        let text = format!("<tool_call>{now}</tool_call>\n<tool_call>{object}</tool_call> x");
        calls("hermes", &text, &format!("<tool_call>{object}</tool_call> x"), &[("now", json!({}))]);
        let answer = answer("hermes", &format!("<tool_call>[{now}, {object}]</tool_call>"));
        let kept = answer.text.contains(object);
        assert!(kept, "{answer:?}");
    }
}

#[test]
fn tool_declaration_is_not_a_call() {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    let declarations = [
        format!(
            r#"{{"type":"function","function":{{"name":"get_weather","description":"Weather","parameters":{schema}}}}}"#
        ),
        format!(r#"{{"name":"get_weather","parameters":{schema}}}"#),
        format!(r#"{{"name":"get_weather","description":"Weather","parameters":{schema}}}"#),
        r#"{"name":"now","description":"The time","parameters":{"type":"object"}}"#.to_owned(),
        r#"{"name":"now","description":"The time","parameters":{}}"#.to_owned(),
        r#"{"name":"now","parameters":{"type": "object", "required": []}}"#.to_owned(),
    ];
    for declaration in &declarations {
        for text in [
            declaration.clone(),
            format!("[{declaration}]"),
            format!("[{declaration}, {declaration}]"),
            format!("{{\"tools\": [{declaration}]}}"),
            format!("{{\"a\": 1 oops {declaration}}}"),
            format!("{{\"tools\": [{{\"a\" 1}}, {declaration}"),
            format!("{{\"tools\": {{\"x\": \"a \"quote\" b\", \"y\": [{declaration}]}}}}"),
        ] {
            calls("bare", &text, &text, &[]);
            calls(
                "hermes",
                &format!("<tool_call>{text}</tool_call>"),
                &format!("<tool_call>{text}</tool_call>"),
                &[],
            );
            let fence = format!("```json\n{text}\n```");
            calls("fenced", &fence, &fence, &[]);
        }
    }
}

#[test]
fn parameter_named_like_a_schema_keyword_is_an_argument() {
    let tools = [tool("find", &json!({"type": {"type": "string"}, "title": {"type": "string"}}))];
    for arguments in
        [r#"{"type":"object"}"#, r#"{"type":"obj","title":"x"}"#, r#"{"title":"x","type":"object"}"#]
    {
        let text = format!(r#"{{"name":"find","parameters":{arguments}}}"#);
        for (format, text) in [("bare", text.clone()), ("hermes", format!("<tool_call>{text}</tool_call>"))] {
            let detect = Detect::Formats(vec![format::by_name(format).unwrap().name]);
            let settings = Rules { detect, ..Rules::default() };
            let exchange = Exchange::new(request(&json!({"tools": tools})), settings, Speech::Chat);
            let (answer, _) = exchange.text(&text, &text, "stop", Cuts::Text);
            assert_eq!(answer.named_calls(), [("find", arguments)], "{text}");
        }
    }
}

/// In qwen3_coder, a closer followed by another tag's opener used to become part of the value.
#[test]
fn closer_before_another_opener_ends_the_value() {
    let text = "<tool_call>\n<function=write_file>\n<parameter=path>\nnote.txt</parameter>\n<argument=content/>\n</function>\n</tool_call>";
    let answer = found("qwen3_coder", text);
    assert_eq!(read(&answer), [("write_file", json!({"path": "note.txt"}))]);
    assert!(answer.text.starts_with("<argument=content/>"), "{answer:?}");
    // These closers are quoted in a value, since no such opener follows them.
    for inner in
        ["</parameter>\n<b>", "</parameter> and", "</parameter>\n<parameter>x</parameter>\n<a href=\"b\">"]
    {
        let text = format!(
            "<tool_call>\n<function=run>\n<parameter=cmd>\nx {inner} y\n</parameter>\n</function>\n</tool_call>"
        );
        is("qwen3_coder", &text, "", &[("run", json!({"cmd": format!("x {inner} y")}))]);
    }
}

#[test]
fn stray_closers_after_a_call_are_dropped() {
    let call = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let now = [("now", json!({}))];
    for stray in [
        "</tool_call>",
        "\n</tool_call>\n",
        "</tool_response>",
        " </tool_call></tool_call>\n</tool_response>",
    ] {
        calls("hermes", &format!("{call}{stray}"), "", &now);
        calls(
            "hermes",
            &format!("A {call}{stray} B"),
            &answer(
                "hermes",
                &format!(
                    "A {call}{} B",
                    stray
                        .replace(['<', '/', '>', '_'], "")
                        .replace("toolcall", "")
                        .replace("toolresponse", "")
                ),
            )
            .text,
            &now,
        );
    }
    // Elsewhere, closers are text.
    for text in ["</tool_call>", "a </tool_call>", "</tool_response> b"] {
        calls("hermes", text, text, &[]);
        calls("hermes", &format!("{call} a {text}"), &format!("a {text}"), &now);
    }
    calls("hermes", &format!("{call}</tool_cal"), "</tool_cal", &now);
    calls("qwen3_coder", "<function=now>\n</function>\n</tool_call>", "", &now);
    calls(
        "qwen3_coder",
        "<tool_call>\n<function=now>\n</function>\n</tool_call>\n</function></tool_call>",
        "",
        &now,
    );
}

#[test]
fn invented_result_is_dropped() {
    let call = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let now = [("now", json!({}))];
    let result = "<tool_response>\n{\"name\":\"now\",\"content\":\"<b> </tool 12\"}\n</tool_response>";
    calls("hermes", &format!("{call}\n{result}"), "", &now);
    calls("hermes", &format!("{call}\n{result}\nIt is 12."), "It is 12.", &now);
    calls("hermes", &format!("{call}\n{result}{call}{result}"), "", &[now[0].clone(), now[0].clone()]);
    calls("hermes", &format!("{call}<tool_response>\n{{\"name\""), "", &now);
    calls(
        "qwen3_coder",
        &format!("<tool_call>\n<function=now>\n</function>\n</tool_call>\n{result}"),
        "",
        &now,
    );
    // Elsewhere, results are text.
    calls("hermes", result, result, &[]);
    calls("hermes", &format!("{call} a {result}"), &format!("a {result}"), &now);
    calls(
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜tool▁output▁begin｜>12<｜tool▁output▁end｜>",
        "",
        &now,
    );
}

#[test]
fn broken_calls_are_calls() {
    let good = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    for broken in [
        r#"<tool_call>{"name":"run","arguments":{"cmd": sqrt(144)}}</tool_call>"#,
        r#"<tool_call>{"name":"run","arguments":{"cmd":"a"]}</tool_call> Done."#,
    ] {
        for text in [broken.to_owned(), format!("{good}{broken}"), format!("{broken}{good}")] {
            assert_eq!(found("hermes", &text).finish.as_deref(), Some("tool_calls"), "{text}");
            assert_eq!(ended("hermes", &text, "length").finish.as_deref(), Some("length"), "{text}");
        }
    }
    let cut = r#"<tool_call>{"name":"run","arguments":{"cmd":"a"#;
    assert_eq!(found("hermes", cut).finish.as_deref(), Some("length"));
    assert_eq!(found("hermes", &format!("{good}{cut}")).finish.as_deref(), Some("length"));
}

#[test]
fn functions_namespace_in_names_is_accepted() {
    for namespace in ["functions.", "tools."] {
        for format in crate::regressions::with_calls() {
            let text = format.example.replace("get_weather", &format!("{namespace}get_weather"));
            let answer = crate::regressions::tried_in(
                &[format],
                &text.replace("functions.functions.", "functions."),
                "stop",
            );
            assert_eq!(
                answer.named_calls().first().map(|call| call.0),
                Some("get_weather"),
                "{}: {answer:?}",
                format.name
            );
            assert_eq!(answer.text, "", "{}", format.name);
        }
    }
}

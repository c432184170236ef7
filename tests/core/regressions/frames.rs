//! Tests that markup never reaches people: closers, frames and headers that belong to no message, empty containers,
//! ends of turns, and responses that are cut off inside markup.

use serde_json::{Value, json};
use toolwire::{
    format::{self, TURN_ENDS},
    rules::{Detect, Rules},
};

use crate::regressions::{
    Speech, by_characters, ended, exchange, found, found_in, is, read, tried, tried_in, with_calls,
};
use crate::support::{
    client::Answer,
    exchange::{Exchange, request},
};

/// Returns the answer to a request without tools.
fn without_tools(detect: Detect, text: &str, finish: &str) -> Answer {
    let settings = Rules { detect, ..Rules::default() };
    let exchange = Exchange::new(request(&json!({"stream": true})), settings, Speech::Chat);
    let (whole, _) = exchange.run([Speech::Chat.says(&[text], finish).as_slice()]);
    let pieces = Speech::Chat.says(&by_characters(text, 1), finish);
    assert_eq!(exchange.run([pieces.as_slice()]).0, whole, "{text}");
    whole
}

fn named(format: &'static str) -> Detect {
    Detect::Formats(vec![format])
}

/// Checks the text and the reasoning of an answer without calls.
fn says(format: &str, text: &str, reasoning: &str, visible: &str) {
    let answer = found(format, text);
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), (reasoning, visible), "{format}: {text}");
    assert_eq!(answer.calls.len(), 0, "{format}: {text}");
}

const CLOSERS: &[(&str, &str)] = &[
    ("seed_oss", "</seed:think>"),
    ("minimax_m2", "</mm:think>"),
    ("cline", "</thinking>"),
    ("hermes", "</think>"),
    ("hermes", "</reasoning>"),
    ("hermes", "</scratch_pad>"),
    ("mistral", "[/THINK]"),
    ("command_r7b", "<|END_THINKING|>"),
    ("gemma4", "<channel|>"),
    ("plamo3", "<|plamo:end_think:plamo|>"),
    ("k2_horizon", "</ifm|think>"),
    ("kimi_k3", "<|close|>think<|sep|>"),
];

/// llama.cpp and vLLM drop it: the prompt had the opener, and the model did not reason.
#[test]
fn closer_of_reasoning_at_the_start_is_dropped() {
    for (format, closer) in CLOSERS {
        says(format, &format!("{closer}Hello"), "", "Hello");
        says(format, &format!("`{closer}` ends it"), "", &format!("`{closer}` ends it"));
        let example = format::by_name(format).unwrap().example;
        let answer = found(format, &format!("{closer}{example}"));
        assert_eq!((answer.text.as_str(), answer.calls.len()), ("", 1), "{format}");
    }
}

#[test]
fn closer_of_reasoning_that_is_a_token_is_dropped_anywhere() {
    for (format, closer) in CLOSERS.iter().filter(|(_, closer)| format::is_token(closer)) {
        says(format, &format!("Hello{closer} you {closer}"), "", "Hello you ");
        says(format, &format!("It is `{closer}`."), "", &format!("It is `{closer}`."));
    }
    says("hermes", "Check </think> and <think> there.", "", "Check </think> and <think> there.");
}

#[test]
fn closer_of_reasoning_behind_a_call_is_dropped() {
    for (format, closer) in CLOSERS {
        let example = format::by_name(format).unwrap().example;
        let answer = found(format, &format!("{example}\n{closer}\nDone."));
        assert_eq!((answer.text.trim(), answer.calls.len()), ("Done.", 1), "{format}");
    }
}

/// llama.cpp, ollama, vLLM and smg show none of these.
#[test]
fn ends_of_messages_are_dropped() {
    for (format, text, visible) in [
        ("kimi_k3", "<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>", "Hi"),
        ("kimi_k3", "Good morning.<|close|>response<|sep|>", "Good morning."),
        ("kimi_k3", "Hi.<|close|>response<|sep|><|close|>message<|sep|>", "Hi."),
        ("inkling", "<|content_text|>Hi<|end_message|><|content_model_end_sampling|>", "Hi"),
        ("inkling", "<|content_text|>Hi<|content_model_end_sampling|>", "Hi"),
        ("inkling", "<|content_tool_error|>No.<|end_message|>", "No."),
        ("inkling", "<|content_invoke_tool_text|>No.<|end_message|>", "No."),
        ("inkling", "Good morning.<|end_message|>", "Good morning."),
        ("inkling", "hello world<|content_model_end_sampling|>", "hello world"),
        ("muse_atem", "<|message|>Good morning.<|eot|>", "Good morning."),
        ("harmony", "<|message|>Hi<|return|>", "Hi"),
        ("harmony", "Hi<|end|>", "Hi"),
        ("plamo3", "a < b<|plamo:tag|>", "a < b"),
        ("plamo3", "literal <|plamo:unknown<|plamo:tag|>", "literal <|plamo:unknown"),
    ] {
        says(format, text, "", visible);
        assert_eq!(without_tools(named(format::by_name(format).unwrap().name), text, "stop").text, visible);
        assert_eq!(without_tools(Detect::Auto, text, "stop").text, visible, "{text}");
    }
}

#[test]
fn header_may_begin_in_the_prompt() {
    let call = [("now", json!({}))];
    let text = r#"other_name<|content_invoke_tool_json|>{"name":"now","args":{}}<|end_message|>"#;
    is("inkling", text, "", &call);
    let text = "<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls><|eom|>";
    is("muse_atem", text, "", &call);
    says("inkling", "One word", "", "One word");
}

#[test]
fn response_that_skips_its_reasoning_is_text() {
    let mut exchange = exchange(&[&format::KIMI_K3], true);
    exchange.settings.starts_in_reasoning = true;
    let text = "<|open|>response<|sep|>Hello world<|close|>response<|sep|><|close|>message<|sep|>";
    let (answer, _) = exchange.run([Speech::Chat.says(&by_characters(text, 1), "stop").as_slice()]);
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("", "Hello world"));
}

/// llama.cpp and vllm-mlx read Gemma's channels so.
#[test]
fn channels_of_gemma_need_not_pair() {
    says("gemma4", "<|channel>thought\n<channel|>Hi<channel|>", "", "Hi");
    says("gemma4", "<|channel>thought\n<channel|>Hi<|channel>thought\n<channel|><channel|>", "", "Hi");
    says("gemma4", "<|channel><|channel>thought\n<channel|>Hi", "", "Hi");
    says("gemma4", "thought\nplan<channel|>Hi", "plan", "Hi");
    let answer = found("gemma4", "<|channel>thought\nA.\n<|channel>response\nSeven.");
    assert_eq!((answer.reasoning.as_str(), answer.text.trim()), ("A.", "Seven."));
    says("gemma4", "Hi<|channel>", "", "Hi");
}

#[test]
fn frames_that_are_tokens_count_in_any_text() {
    let text = "<|START_RESPONSE|>Hello.<|END_RESPONSE|>";
    assert_eq!(without_tools(Detect::Auto, text, "stop").text, "Hello.");
    let text = "<|START_THINKING|>p<|END_THINKING|><|START_TEXT|>Hi<|END_TEXT|>";
    let answer = without_tools(Detect::Auto, text, "stop");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("p", "Hi"));
    let answer = without_tools(Detect::Auto, "<|START_THINKING|>p<|START_RESPONSE|>Hi", "stop");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("p", "Hi"));
    // Fences are quotations.
    let fenced = "As in\n```\n<|START_RESPONSE|>x<|END_THINKING|>\n<think>\n```\n";
    assert_eq!(without_tools(Detect::Auto, fenced, "stop").text, fenced);
    assert_eq!(without_tools(Detect::Auto, "<answer>Hi</answer>", "stop").text, "<answer>Hi</answer>");
}

/// dynamo and vLLM drop them.
#[test]
fn empty_container_of_calls_is_dropped() {
    for (format, empty) in [
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
        ("deepseek_v31", "<｜tool▁calls▁begin｜> <｜tool▁calls▁end｜>"),
        ("deepseek_v32", "<｜DSML｜function_calls>\n</｜DSML｜function_calls>"),
        ("kimi_k3", "<|open|>tools<|sep|><|close|>tools<|sep|>"),
        ("plamo3", "<|plamo:begin_tool_requests:plamo|><|plamo:end_tool_requests:plamo|>"),
        ("command_r7b", "<|START_ACTION|>[]<|END_ACTION|>"),
        ("apertus", "<|tools_prefix|>[ ]<|tools_suffix|>"),
        ("gemma4", "<|tool_call><tool_call|>"),
        ("mistral", "[TOOL_CALLS][]"),
        ("lfm2", "<|tool_call_start|>[]<|tool_call_end|>"),
        ("k2_horizon", "<ifm|tool_calls></ifm|tool_calls>"),
    ] {
        says(format, &format!("Hi. {empty} Bye."), "", "Hi.  Bye.");
        let quoted = format!("It is `{empty}` there.");
        says(format, &quoted, "", &quoted);
    }
    for (format, empty) in [
        ("hermes", "<tool_call>\n</tool_call>"),
        ("hermes", "<tool_calls>[]</tool_calls>"),
        ("qwen3_coder", "<tool_call></tool_call>"),
        ("minimax_m2", "<minimax:tool_call>\n</minimax:tool_call>"),
        ("olmo3", "<function_calls>\n</function_calls>"),
    ] {
        let answer = found(format, &format!("Hi.\n{empty}\nBye."));
        assert_eq!(answer.text.split_whitespace().collect::<Vec<_>>(), ["Hi.", "Bye."], "{format}");
        let within = format!("Write {empty} around it.");
        says(format, &within, "", &within);
    }
}

#[test]
fn text_before_the_first_call_of_a_section_is_dropped() {
    let call = "<|tool_call_begin|>functions.now:0 <|tool_call_argument_begin|>{} <|tool_call_end|>";
    let text = format!("Hi. <|tool_calls_section_begin|> noise < {call}<|tool_calls_section_end|>");
    is("kimi_k2", &text, "Hi.", &[("now", json!({}))]);
    // Without a call, it is text.
    let text = "Hi. <|tool_calls_section_begin|> noise <|tool_calls_section_end|> Bye.";
    says("kimi_k2", text, "", text);
    let text = "<|tool_calls_section_begin|> begins a section.";
    says("kimi_k2", text, "", text);
    let long = format!("<|tool_calls_section_begin|>{}<|tool_calls_section_end|>", "word ".repeat(300));
    assert!(found("kimi_k2", &long).text.starts_with("<|tool_calls_section_begin|>word"));
}

#[test]
fn closers_are_markup_in_a_message_with_calls() {
    let section = "<|tool_calls_section_begin|>";
    let call = "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
    let text = format!("{section}{call} and then {call} at last <|tool_calls_section_end|>");
    is("kimi_k2", &text, "and then  at last", &[("now", json!({})), ("now", json!({}))]);
    let text = "Close it with <|tool_calls_section_end|> then.";
    says("kimi_k2", text, "", text);
}

/// Peers strip the ends of turns; the template of DeepSeek-R1-Distill-Llama writes one between two calls.
#[test]
fn ends_of_turns_are_dropped() {
    for end in TURN_ENDS {
        for detect in [Detect::Auto, named("hermes")] {
            assert_eq!(
                without_tools(detect.clone(), &format!("Hello.{end}\n"), "stop").text,
                "Hello.",
                "{end}"
            );
            for text in [format!("The token {end} ends a turn."), format!("It is `{end}`")] {
                assert_eq!(without_tools(detect.clone(), &text, "stop").text, text);
            }
        }
        let call = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
        let calls = [("now", json!({})), ("now", json!({}))];
        is("hermes", &format!("{call}{end}\n{call}{end}"), "", &calls);
    }
    assert_eq!(found("mistral", "Hello.</s>").text, "Hello.");
    assert_eq!(without_tools(Detect::Auto, "<s>old</s>", "stop").text, "<s>old</s>");
    let all = TURN_ENDS.concat();
    assert_eq!(without_tools(Detect::Auto, &format!("Hi.{all}"), "stop").text, "Hi.");
    let text = format!("Hi.{all} and more");
    assert_eq!(without_tools(Detect::Auto, &text, "stop").text, text);
}

#[test]
fn harmony_mentions_are_part_of_the_message() {
    let thought = "I must not write <|call|> or <|channel|>final myself; the tool call does it.";
    let text = format!(
        "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant to=functions.now<|channel|>commentary <|constrain|>json<|message|>{{}}"
    );
    let answer = found("harmony", &text);
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), (thought, ""));
    assert_eq!(read(&answer), [("now", json!({}))]);
    for end in ["<|call|>", "<|call|>\n", "<|call|><|start|>assistant<|channel|>final<|message|>Hi"] {
        let answer = found("harmony", &format!("<|channel|>analysis<|message|>p{end}"));
        assert_eq!(answer.reasoning, "p", "{end}");
        assert_eq!(answer.text, if end.ends_with("Hi") { "Hi" } else { "" });
    }
}

#[test]
fn harmony_header_may_have_line_ends_and_no_role() {
    for header in [
        "<|start|>assistant\n<|channel|>final\n<|message|>",
        "<|start|>\nassistant<|channel|>final<|message|>",
        "<|start|><|channel|>final\r\n<|message|>",
    ] {
        says("harmony", &format!("<|channel|>analysis<|message|>p{header}Hi"), "p", "Hi");
    }
    let text = "<|channel|>commentary to=functions.now\n<|constrain|>json\n<|message|>{}<|call|>";
    is("harmony", text, "", &[("now", json!({}))]);
    let user = "<|start|>user<|message|>And now?";
    says("harmony", &format!("<|channel|>final<|message|>Hi<|end|>{user}"), "", &format!("Hi{user}"));
}

#[test]
fn message_to_a_tool_that_is_not_read_keeps_its_header() {
    let message = "<|start|>assistant to=container.exec<|channel|>commentary<|message|>ls<|call|>";
    let text = format!("<|channel|>analysis<|message|>p<|end|>{message}");
    for detect in [Detect::Auto, named("harmony")] {
        let answer = without_tools(detect, &text, "stop");
        assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("p", message));
    }
}

/// gpt-oss wrote code to its own tools, which the request did not offer (llama.cpp drops it).
#[test]
fn message_to_an_undeclared_tool_that_is_not_a_call_is_left_out() {
    let before = "<|channel|>analysis<|message|>p<|end|><|start|>assistant";
    for header in [
        " to=container.exec<|channel|>commentary<|message|>",
        "<|channel|>commentary to=python <|constrain|>code<|message|>",
    ] {
        says("harmony", &format!("{before}{header}print(\"hello\")"), "p", "");
        let text = format!("{before}{header}ls<|call|><|start|>assistant<|channel|>final<|message|>Hi");
        says("harmony", &text, "p", "Hi");
        assert_eq!(ended("harmony", &format!("{before}{header}ls"), "length").text, "");
        let call = format!("{before}{header}{{\"a\": 1}}<|call|>");
        assert_eq!(read(&found("harmony", &call)).len(), 1, "{header}");
    }
    // On the channel of reasoning, it is reasoning.
    let text = format!("{before} to=python<|channel|>analysis code<|message|>1 + 1");
    says("harmony", &text, "p\n1 + 1", "");
}

/// vLLM's parser for RWKV reads a call of one format between the tags of another.
#[test]
fn opener_of_another_format_right_before_a_call_is_framing() {
    let hermes = "hermes";
    for (outer, inner, open, close) in [
        (hermes, "minimax_m2", "<tool_call>", "</tool_call>"),
        (hermes, "dots", "<tool_call>\n", "\n</tool_call>"),
        (hermes, "kimi_k2", "<tool_call>", "</tool_call>"),
        ("mistral", hermes, "[TOOL_CALLS] ", ""),
        ("jamba", hermes, "<tool_calls>\n", "\n</tool_calls>"),
    ] {
        let formats = [outer, inner].map(|name| format::by_name(name).unwrap());
        let example = formats[1].example;
        for (before, behind) in [("", ""), ("Hi.\n\n", ""), ("", " Bye."), ("Hi. ", " Bye.")] {
            let text = format!("{before}{open}{example}{close}{behind}");
            let answer = found_in(&formats, &text, "stop");
            assert_eq!(read(&answer), [("get_weather", json!({"city": "Paris"}))], "{text}");
            let words = answer.text.split_whitespace();
            assert!(words.eq(format!("{before}{behind}").split_whitespace()), "{text}: {}", answer.text);
        }
        // Without a call right behind it, it is text.
        for rest in ["x", "x\n", "\n\nx ", " <x"] {
            let text = format!("a {open}{rest}");
            assert_eq!(found_in(&formats, &text, "stop").text, text);
            let text = format!("{example}\na {open}{rest}");
            let answer = tried_in(&formats, &text, "stop");
            assert!(answer.text.contains(open.trim()), "{text}: {}", answer.text);
        }
        let quoted = format!("`{}`", open.trim());
        assert_eq!(found_in(&formats, &format!("{quoted} {example}"), "stop").text.trim(), quoted);
    }
    is("minimax_m2", "<tool_call><invoke name=\"now\"></invoke></tool_call>", "", &[("now", json!({}))]);
}

/// llama.cpp reads these messages of the model's own template.
#[test]
fn messages_of_solar_open_are_reasoning_and_text() {
    let thought = "<|think|>p<|end|><|begin|>assistant";
    says("solar_open", &format!("{thought}<|content|>Hi<|end|>"), "p", "Hi");
    says("solar_open", "<|content|>Hi<|end|>", "", "Hi");
    says("solar_open", "<|begin|>assistant<|content|>Hi", "", "Hi");
    let example = format::by_name("solar_open").unwrap().example;
    let answer = found("solar_open", &format!("{thought}{example}<|calls|>"));
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("p", ""));
    assert_eq!(read(&answer).len(), 1);
}

/// vllm#47903: the markup of a truncated call became text.
#[test]
fn response_cut_in_markup_ends_before_it() {
    let words = [
        "bare",
        "fenced",
        "pre",
        "openai_function_call",
        "react",
        "gemma3_toolcode",
        "cline",
        "morph_xml",
        "ui_tars",
    ];
    let unmarked = [
        "pythonic",
        "xlam",
        "phi4_mini",
        "command_r_plus",
        "llama3_json",
        "functionary_v32",
        "glm4_9b",
        "hyperclova",
        "rwkv",
    ];
    for format in
        with_calls().filter(|format| !words.contains(&format.name) && !unmarked.contains(&format.name))
    {
        for (at, _) in format.example.char_indices().skip(4) {
            let text = format!("Hi. {}", &format.example[..at]);
            let answer = tried(format.name, &text, "length");
            // Up to three bytes may begin text as well as a marker.
            let rest = answer.text.trim_end().strip_prefix("Hi.").map(str::trim_start);
            assert!(rest.is_some_and(|rest| rest.len() < 4), "{}: {text:?}: {:?}", format.name, answer.text);
            assert_eq!(answer.finish.as_deref(), Some("length"));
        }
    }
    let answer = ended("hermes", "Hi.<tool_call>{\"na", "length");
    assert_eq!(answer.text, "Hi.");
    // The model may have meant all of these.
    for text in [
        "a <",
        "if a <t",
        "<table",
        "{\"name\": \"no",
        "```json\n{\"name\"",
        "`<tool_call>{",
        "<tool_call> and",
    ] {
        assert_eq!(ended("hermes", text, "length").text, text);
    }
    assert_eq!(ended("hermes", "<tool_call>{\"na", "stop").text, "<tool_call>{\"na");
    let answer = ended("hermes", "<think>so</thi", "length");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("so", ""));
}

#[test]
fn escaped_keys_of_attributes_are_decoded() {
    let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "q&a": {"type": "string"}, "say \"hi\"": {"type": "string"}, "n": {"type": "integer"}
    }}}}]);
    let settings = Rules { detect: Detect::Formats(vec!["kimi_k3", "deepseek_v32"]), ..Rules::default() };
    let exchange = Exchange::new(request(&json!({"tools": tool, "stream": true})), settings, Speech::Chat);
    let arguments = |text: &str| -> Value {
        let (answer, _) = exchange.run([Speech::Chat.says(&[text], "stop").as_slice()]);
        assert_eq!(answer.text, "", "{text}");
        read(&answer).remove(0).1
    };
    let text = "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
        <|open|>argument key=\"q&amp;a\" type=\"string\"<|sep|>fish & chips &amp; peas<|close|>argument<|sep|>\
        <|open|>argument key=\"say &quot;hi&quot;\" type=\"string\"<|sep|>x<|close|>argument<|sep|>\
        <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>";
    assert_eq!(arguments(text), json!({"q&a": "fish & chips &amp; peas", "say \"hi\"": "x"}));
    // If the attribute says that a number is a string, the schema decides.
    for (key, is_string, value, wanted) in [
        ("n", "true", "5", json!({"n": 5})),
        ("n", "false", "5", json!({"n": 5})),
        ("q&a", "false", "5", json!({"q&a": 5})),
        ("q&a", "true", "5", json!({"q&a": "5"})),
        ("unknown", "true", "5", json!({"unknown": "5"})),
        ("unknown", "false", "5", json!({"unknown": 5})),
    ] {
        let text = format!(
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"{key}\" string=\"{is_string}\">{value}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        );
        assert_eq!(arguments(&text), wanted, "{text}");
    }
}

//! Inputs found by the fuzzer. Each one once gave different results for different splits or violated another rule,
//! and is named after the rule.

use toolwire::{
    event::Finish,
    format,
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::checks::{engine, find, quoted};

/// The rule, the formats to detect (the default if empty), and the text.
const FOUND: &[(&str, &[&str], &str)] = &[
    (
        "what a broken tag has begun with is text, wherever it was cut",
        &["minimax_m2"],
        "<invoke name=\"set\"><parameter name=\"s\">a</parameter><parameter n\name=\"n\">b</parameter>",
    ),
    (
        "arguments that have gone out are not said again as text",
        &["toolify", "qwen3_coder"],
        "<function_call><tool>set</tool><args_json>{\"s\"\"t\": 1}</args_json></function_call>\n\
         <function=set>{\"s\"\"t\": 1}</function>",
    ),
    (
        "a call that has gone out is no text, whatever follows it",
        &["minimax_m3"],
        "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"set\">]<]minimax[>[<s>]<]minimax[>[</s>]M",
    ),
    (
        "what is no JSON ends the arguments at the same character, mended or not",
        &["hermes"],
        r#"<tool_call>{"name":"a","arguments":{"a": "\ud83d\u<b"}}</tool_call>"#,
    ),
    (
        "what follows a call is the same text whether the call's end was plain at once or not",
        &["qwen3_coder"],
        "<tool_call>\n<function=set>\n<parameter=i>\n\u{c}</function>\u{c}\u{c}<function=\u{c}</ifm|think>\u{c}\n\
         </parameter>\n</function>\n</tool_call>",
    ),
    (
        "what follows a call is the same text however its end was told",
        &["qwen3_coder", "minimax_m2"],
        "<tool_call><function=set><parameter=i>\n1\n</function>\n\nx</tool_call>\n\
         <minimax:tool_call><invoke name=\"set\"><parameter name=\"s\">1</invoke>\n \nx",
    ),
    (
        "a declared name on a line of its own is a call, whatever follows it",
        &["glm45"],
        "<tool_call>get_weather\n<-rg_key>city</arg_key>",
    ),
    (
        "a tag with another in it is none, and so is one with two",
        &["kimi_k3"],
        "<|open|>call tool=\"set\"<|sep|><|open|>argument </<",
    ),
    (
        "calls under the keys of one object follow each other",
        &["apertus"],
        "<|tools_prefix|>[{\"set\": {\"s\": \"a\"}, \"b\": {\"y\": 1}}]<|tools_suffix|>",
    ),
    (
        "a line that begins behind a failed call begins a line",
        &["kimi_k3", "think"],
        "<|open|>call tool=\"set\"<|sep|><|open|>argument \n<think>",
    ),
];

#[test]
fn fuzz_findings_stay_fixed() {
    for (what, names, text) in FOUND {
        let detect = match names {
            ["auto"] => Detect::Auto,
            names => {
                Detect::Formats(names.iter().map(|name| format::by_name(name).expect(name).name).collect())
            }
        };
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            for (finish, repair) in [(Finish::Stop, true), (Finish::Length, true), (Finish::Stop, false)] {
                let settings = Rules { detect: detect.clone(), arguments, repair, ..Rules::default() };
                println!("{what}, {arguments:?}, {finish:?}, {repair}");
                (0..32).for_each(|seed| {
                    find(&settings, text, seed, finish, usize::MAX);
                });
            }
        }
    }
}

/// The rule, the check that failed, and its input.
const FAILED: &[Failed] = &[
    ("a header that the answer begins in is no text", engine, b"\x00\x02\x1c\xfe\x07\xe4\x07all\n"),
    (
        "a waiting call inside a spoken message becomes text with its header",
        engine,
        b"\x8f<|<|content_text|><|content_invoke_tool_json|>{\"name\":\"get_weather\",\"args\":s",
    ),
    ("a closing tag is no end of a citation", engine, b"\x98\x11\xd2q\x07</content><"),
    (
        "no element follows arguments that are JSON",
        engine,
        b"<p\n<Function_A/><function_calls><function_call><tool>r</tool><args_json><![CDATA[{\"\":\"\"}]]></args_json>\
          <tool_calls></tool_calls>",
    ),
    (
        "arguments that are JSON come once",
        engine,
        b"<p\n<Function_A/><function_calls><function_call><tool>r</tool><args_json>{\"a\":1}</args_json>\
          <arguments>{\"b\":2}</arguments></function_call></function_calls>",
    ),
    (
        "a quotation is read twice, not forever, if what follows it shows its end",
        quoted,
        b"`o\x00\x07<|tool_call>call:f{x,<<tool_call|><\0The page says:\n\
          <|tool_call>call:f{x,<<tool_call|><, and nothing else.",
    ),
];

type Failed = (&'static str, fn(&[u8]), &'static [u8]);

#[test]
fn inputs_that_failed_a_check_pass_now() {
    for (what, check, bytes) in FAILED {
        println!("{what}");
        check(bytes);
    }
}

/// Text that may still close a value is checked again with each piece, so it must stay short, or this test would
/// take almost forever.
#[test]
fn blanks_after_a_possible_closer_are_read_once() {
    for (name, open) in [
        ("qwen3_coder", "<tool_call><function=set><parameter=i>1</function>"),
        ("qwen3_coder", "<tool_call><function=set><parameter=s>1</function></tool_call>"),
        ("cline", "<set>\n<s>x</s>"),
    ] {
        let detect = Detect::Formats(vec![format::by_name(name).expect(name).name]);
        let settings = Rules { detect, ..Rules::default() };
        let text = open.to_owned() + &"\n".repeat(100_000);
        find(&settings, &text, 1, Finish::Stop, usize::MAX);
    }
}

/// Text between the opener of a section and its first call is left out up to a limit.
#[test]
fn text_before_the_first_call_of_a_section_has_the_same_limit_in_any_split() {
    let example = format::by_name("plamo3").expect("a format").example;
    let at = example.find("<|plamo:begin_tool_request:plamo|>").expect("a call");
    let (open, call) = example.split_at(at);
    for (words, is_text) in [(1023, false), (1024, false), (1025, true)] {
        let settings = Rules { detect: Detect::Formats(vec!["plamo3"]), ..Rules::default() };
        let text = [open, &"a \n".repeat(words), call].concat();
        let found = find(&settings, &text, 3, Finish::Stop, usize::MAX);
        assert_eq!((found.text.is_empty(), found.calls.len()), (!is_text, 1), "{words}");
    }
}

/// Texts in message-based formats, read with complete arguments: the format, the text, its visible part, and the
/// arguments of its calls.
const WAITED: &[(&str, &str, &str, &[&str])] = &[
    (
        "inkling",
        "<|content_text|>a<|content_invoke_tool_json|>{\"name\":\"set\",\"args\":x",
        "a<|content_invoke_tool_json|>{\"name\":\"set\",\"args\":x",
        &[],
    ),
    (
        "inkling",
        "<|content_invoke_tool_json|>[{\"name\":\"a\",\"args\":{}}, {\"name\":\"set\",\"args\":{\"s\":x",
        ", {\"name\":\"set\",\"args\":{\"s\":x",
        &["{}"],
    ),
    ("inkling", "<|content_invoke_tool_json|>[{\"name\":\"a\",\"args\":{}}, {\"na\"", ", {\"na\"", &["{}"]),
    (
        "harmony",
        "<|channel|>final<|message|>a<|start|>assistant<|channel|>commentary to=set<|message|>{\"s\": x",
        "a<|start|>assistant<|channel|>commentary to=set<|message|>{\"s\": x",
        &[],
    ),
    (
        "harmony",
        " \n<|channel|>commentary to=set<|message|>{\"s\": x",
        " \n<|channel|>commentary to=set<|message|>{\"s\": x",
        &[],
    ),
    (
        "harmony",
        "<|channel|>commentary to=set<|message|>{\"s\": \"t\"<|start|>assistant<|channel|>final to=set<|message|>{x",
        "<|start|>assistant<|channel|>final to=set<|message|>{x",
        &["{\"s\": \"t\"}"],
    ),
    (
        "functionary_v32",
        "python\nprint(1)>>>none\n>>>set\n{\"s\": x",
        ">>>set\n{\"s\": x",
        &["{\"code\": \"print(1)>>>none\\n\"}"],
    ),
    (
        "beam",
        "<|channel|>final<|message|>a<|start|>assistant to=set<|channel|>final <|constrain|>xml<|message|>\
         <rfl:parameter name=\"s\">b",
        "a<|start|>assistant to=set<|channel|>final <|constrain|>xml<|message|><rfl:parameter name=\"s\">b",
        &[],
    ),
];

#[test]
fn a_waiting_call_that_fails_is_text_with_its_header_and_nothing_before_it() {
    for (name, text, said, calls) in WAITED {
        let detect = Detect::Formats(vec![name]);
        let settings = Rules { detect, arguments: ArgumentDelivery::Whole, ..Rules::default() };
        let found = find(&settings, text, 3, Finish::Stop, usize::MAX);
        assert_eq!(found.text, *said, "{text}");
        let arguments: Vec<_> = found.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, *calls, "{text}");
    }
}

/// Text after a call stays text unless it becomes another call. The missing brackets of the call before it are
/// added only if repair is enabled.
#[test]
fn what_follows_a_call_in_its_message_is_text() {
    let inkling = |text: &str, arguments, repair| {
        let detect = Detect::Formats(vec!["inkling"]);
        let settings = Rules { detect, arguments, repair, ..Rules::default() };
        let found = find(&settings, text, 3, Finish::Stop, usize::MAX);
        (found.text, found.calls.len())
    };
    let text = "<|content_invoke_tool_json|>[{\"name\":\"a\",\"args\":{}}, {\"na";
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        assert_eq!(inkling(text, arguments, true), (", {\"na".to_owned(), 1));
    }
    let text = "<|content_invoke_tool_json|>{\"name\":\"set\",\"args\":{\"s\":\"t\"";
    assert_eq!(inkling(text, ArgumentDelivery::Whole, true), (String::new(), 1));
    assert_eq!(inkling(text, ArgumentDelivery::Whole, false), (text.to_owned(), 0));
    assert_eq!(inkling(text, ArgumentDelivery::Stream, false), (String::new(), 1));
}

/// Text in place of the arguments becomes the tool's only parameter, even if it starts like `to=`, which opens a
/// header only at the beginning of a message.
#[test]
fn bare_argument_may_begin_like_a_marker_of_the_message_start() {
    for code in ["ls", "touch a", "to=a"] {
        let text = format!("<|channel|>commentary to=functions.python<|message|>{code}<|call|>");
        let settings = Rules { detect: Detect::Formats(vec!["harmony"]), ..Rules::default() };
        let found = find(&settings, &text, 3, Finish::Stop, usize::MAX);
        let arguments: Vec<_> = found.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(
            (found.text.as_str(), arguments),
            ("", vec![format!("{{\"code\": \"{code}\"}}").as_str()])
        );
    }
}

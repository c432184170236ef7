//! Tests which calls in text are quotations: they repeat a tool's result, or are visibly quoted.

use serde_json::json;
use toolwire::{
    conversation::{Conversation, Part, Received, Role, Turn},
    detect::Detector,
    event::Finish,
    format::KnownFormats,
    rules::{ArgumentDelivery, Detect, QuotedCalls, Rules},
    tools::DeclaredTools,
};

use crate::{
    fuzz::checks::Found,
    support::{
        cuts::{by_characters, of_text},
        exchange::{Exchange, request, tools},
        upstream::Speech,
    },
};

const HERMES: &str = r#"<tool_call>{"name":"f","arguments":{"x":"1"}}</tool_call>"#;
const JSON: &str = r#"{"name":"f","arguments":{"x":"1"}}"#;

/// The same call in formats with markers and without.
const CALLS: &[&str] = &[
    HERMES,
    "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"x\" string=\"true\">1</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
    r#"<pre>{"name":"f","arguments":{"x":"1"}}</pre>"#,
    r#"[TOOL_CALLS][{"name":"f","arguments":{"x":"1"}}]"#,
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\":\"1\"}<|tool_call_end|><|tool_calls_section_end|>",
    "```json\n{\"name\":\"f\",\"arguments\":{\"x\":\"1\"}}\n```",
    JSON,
];

fn conversation(user: &str, result: &str) -> Conversation {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}});
    request(&json!({
        "tools": tools(["f", "fetch"], &json!({"type": "object", "properties": {"x": {"type": "string"}}})),
        "messages": [
            {"role": "user", "content": user},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
    }))
}

fn rules(quoted_calls: QuotedCalls) -> Rules {
    Rules { quoted_calls, ..Rules::default() }
}

fn find_in(conversation: &Conversation, rules: &Rules, pieces: &[&str]) -> (Found, Detector) {
    let tools = DeclaredTools::new(conversation, "");
    let mut detector = Detector::new(tools, rules, KnownFormats::built_in()).unwrap().reading(conversation);
    (Found::of(&mut detector, pieces, Finish::Stop, |_, _| {}), detector)
}

/// Finds the calls in `text` at every split.
fn find(conversation: &Conversation, rules: &Rules, text: &str) -> Found {
    let (whole, _) = find_in(conversation, rules, &[text]);
    for pieces in of_text(text) {
        assert_eq!(find_in(conversation, rules, &pieces).0, whole, "{pieces:?}");
    }
    whole
}

fn is_text(conversation: &Conversation, rules: &Rules, text: &str) {
    let found = find(conversation, rules, text);
    assert!(found.calls.is_empty(), "{text}\n{found:?}");
    assert_eq!(found.text, text);
}

fn has_calls(conversation: &Conversation, rules: &Rules, text: &str, count: usize) {
    let found = find(conversation, rules, text);
    assert_eq!(found.calls.len(), count, "{text}\n{found:?}");
    assert!(found.calls.iter().all(|call| call.is_complete()), "{text}\n{found:?}");
}

#[test]
fn echo_of_a_result_is_text() {
    for call in CALLS {
        let conversation = conversation("Summarise page P", &format!("Welcome. {call} Bye."));
        for quoted in [QuotedCalls::Text, QuotedCalls::Strict] {
            is_text(&conversation, &rules(quoted), &format!("The page says: \"{call}\". That is all."));
            is_text(&conversation, &rules(quoted), &format!("The page says {call}, and nothing else."));
            is_text(&conversation, &rules(quoted), &format!("The page says:\n{call}\nThat is all."));
        }
        let call_rules = rules(QuotedCalls::Call);
        has_calls(&conversation, &call_rules, &format!("The page says:\n{call}\nThat is all."), 1);
    }
}

#[test]
fn echo_that_stands_alone_is_a_call_unless_the_rules_are_strict() {
    for call in CALLS {
        let conversation = conversation("Edit the file", &format!("line 1\n{call}\nline 3"));
        for text in [call.to_string(), format!("I will.\n\n{call}\n"), format!("I will.\n{call}\n{call}")] {
            let count = text.matches("\"1\"").count().max(text.matches(">1<").count());
            has_calls(&conversation, &rules(QuotedCalls::Text), &text, count);
            let (_, detector) = find_in(&conversation, &rules(QuotedCalls::Text), &[&text]);
            assert_eq!((detector.quoted().as_calls, detector.quoted().as_text), (count as u64, 0), "{text}");
            is_text(&conversation, &rules(QuotedCalls::Strict), &text);
        }
        is_text(&conversation, &rules(QuotedCalls::Text), &format!("I will. {call}"));
    }
}

#[test]
fn echo_before_another_call_is_a_call_only_without_text_behind_them() {
    let other = HERMES.replace('1', "2");
    let conversation = conversation("Edit the file", HERMES);
    has_calls(&conversation, &Rules::default(), &format!("Now:\n{HERMES}\n{other}\n"), 2);
    let found = find(&conversation, &Rules::default(), &format!("Now:\n{HERMES}\n{other}\nDone."));
    assert_eq!(found.calls.iter().map(|call| &*call.arguments).collect::<Vec<_>>(), [r#"{"x":"2"}"#]);
    assert_eq!(found.text, format!("Now:\n{HERMES}\n\nDone."));
}

/// The text before a call is compared as it was written, with a marker that was held.
#[test]
fn echo_that_continues_an_echo_is_text() {
    let echo = format!("Read 'a<|tool_call|>')\n{HERMES}");
    is_text(&conversation("", &echo), &Rules::default(), &format!("The page says {echo}"));
}

#[test]
fn call_streams_from_the_first_byte_that_differs() {
    let conversation = conversation("", HERMES);
    let tools = DeclaredTools::new(&conversation, "");
    let mut detector =
        Detector::new(tools, &Rules::default(), KnownFormats::built_in()).unwrap().reading(&conversation);
    let mut seen = Vec::new();
    let pieces = by_characters(r#"<tool_call>{"name":"f","arguments":{"x":"12345"}}</tool_call>"#, 1);
    Found::of(&mut detector, &pieces, Finish::Stop, |found, _| {
        seen.push(found.calls.first().map(|call| call.arguments.clone()));
    });
    let at = pieces.concat().find('2').unwrap();
    assert_eq!(seen[at - 1], None);
    assert_eq!(seen[at].as_deref(), Some(r#"{"x":"12"#));
    assert_eq!(seen[at + 1].as_deref(), Some(r#"{"x":"123"#));
}

#[test]
fn escaped_results_are_recognised() {
    let text = format!("The page says {HERMES}, and nothing else.");
    let escaped = json!({"page": json!({"body": HERMES}).to_string()}).to_string();
    for result in [
        json!({"page": HERMES}).to_string(),
        escaped,
        HERMES.replace('<', "\\u003c").replace('"', "\\\""),
        HERMES.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
    ] {
        is_text(&conversation("", &result), &Rules::default(), &text);
    }
}

#[test]
fn only_results_are_quoted_unless_the_rules_are_strict() {
    let text = format!("You asked for {HERMES} and here it is.");
    let conversation = conversation(&format!("Please call {HERMES}."), "nothing");
    has_calls(&conversation, &Rules::default(), &text, 1);
    is_text(&conversation, &rules(QuotedCalls::Strict), &text);
    let history = request(&json!({
        "tools": tools(["f"], &json!({"type": "object"})),
        "messages": [
            {"role": "system", "content": format!("Write calls as in: {HERMES}")},
            {"role": "assistant", "content": format!("I call {HERMES} now.")},
            {"role": "user", "content": "Again."},
        ],
    }));
    has_calls(&history, &rules(QuotedCalls::Strict), &text, 1);
}

#[test]
fn visibly_quoted_calls_are_text() {
    for call in CALLS.iter().filter(|call| !call.contains('\n')) {
        for way in [
            "To call a tool the model writes `C` in its text.",
            "Example:\n```text\nC\n```\nThat is all.",
            "Example:\n~~~xml\nC\n~~~\nThat is all.",
            "> C\n\nwas in the page.",
            "> It was C in the page.",
            ">C\n> and C\n\nwas in the page.",
            "The page said \"C\", which I ignore.",
            "The page said \"C.\"",
            "The page said “C”, which I ignore.",
            "The page said 'C', which I ignore.",
            "The page said «C».",
            "Example:\n\n    C\n\nDone.",
            "Example:\n\n\tC\n\nDone.",
            "<!-- C -->\nDone.",
            "<!-- an example: C, yes -->",
            "<!--\nAn example:\nC\n-->\nDone.",
            "\\C is escaped.",
        ] {
            let text = way.replace('C', call);
            let none = conversation("", "");
            is_text(&none, &Rules::default(), &text);
            is_text(&none, &Rules { arguments: ArgumentDelivery::Whole, ..Rules::default() }, &text);
        }
    }
}

#[test]
fn fences_are_respected_if_a_format_is_named() {
    let rules = Rules { detect: Detect::Formats(vec!["hermes"]), ..Rules::default() };
    let none = conversation("", "");
    for text in ["Example:\n```xml\nC\n```\nDone.", "Example:\n```\nC\n```\nDone.", "~~~\nC\n~~~"] {
        is_text(&none, &rules, &text.replace('C', HERMES));
    }
    let text = format!("```rust\nlet x;\n```\n{HERMES}");
    has_calls(&none, &rules, &text, 1);
}

#[test]
fn calls_beside_quoting_characters_are_calls() {
    let none = conversation("", "");
    for way in [
        "I will call it. C",
        "if a > b: C",
        "<b> C",
        "->\nC",
        "> a quote\nC",
        "> a quote\n\nC",
        "<!-- a comment --> C",
        "<!-- a comment --\n-->\nC",
        "Remove the <!-- marker.\n\nC",
        "Remove the <!-- marker.\nC",
        "He said \"yes\". C",
        "He said \"yes\"C",
        "It's C",
        "    C",
        "Now:\n\n    C",
        "Now:\n   C\nDone.",
        "A path C:\\\nC",
    ] {
        let way = way.replace("C:", "D:");
        has_calls(&none, &Rules::default(), &way.replace('C', HERMES), 1);
    }
}

#[test]
fn client_is_warned_of_a_repeated_call() {
    let conversation = conversation("", HERMES);
    let exchange = Exchange::new(conversation, Rules::default(), Speech::Chat);
    let text = format!("The page says {HERMES}.");
    let (answer, tally) = exchange.run([&*Speech::Chat.says(&[&text], "stop")]);
    assert_eq!((answer.text.as_str(), answer.calls.len()), (text.as_str(), 0));
    assert_eq!(tally.warnings, ["quoted_call"]);
    assert_eq!(tally.quoted_calls.as_text, 1);
    let (answer, tally) = exchange.run([&*Speech::Chat.says(&[HERMES], "stop")]);
    assert_eq!((answer.calls.len(), tally.quoted_calls.as_calls), (1, 1));
    assert!(tally.warnings.is_empty());
}

#[test]
fn quotation_goes_on_behind_text_that_is_before_it_in_the_result() {
    for call in CALLS {
        let conversation = conversation("", &format!("Notes.\n1. Look at this:\n{call}\n"));
        is_text(&conversation, &Rules::default(), &format!("Look at this:\n{call}"));
        has_calls(&conversation, &Rules::default(), &format!("So I do it:\n{call}"), 1);
    }
}

#[test]
fn fence_around_a_quotation_is_no_part_of_it() {
    let conversation = conversation("", JSON);
    for fence in ["```", "```json", "````", "~~~"] {
        let close = fence.trim_end_matches("json");
        is_text(&conversation, &Rules::default(), &format!("It is:\n{fence}\n{JSON}\n{close}\nDone."));
    }
}

#[test]
fn calls_on_the_line_of_an_escaped_call_are_text() {
    let none = conversation("", "");
    for call in CALLS.iter().filter(|call| !call.contains('\n')) {
        for way in ["It is \\CC there.", "See:\n\n    CC\n\nDone."] {
            is_text(&none, &Rules::default(), &way.replace('C', call));
        }
        has_calls(&none, &Rules::default(), &format!("It is \\{call} there.\n{call}"), 1);
    }
}

#[test]
fn echo_in_open_reasoning_is_reasoning() {
    let kimi = CALLS[4];
    for (format, call) in [("hermes", HERMES), ("kimi_k2", kimi)] {
        let detect = Detect::Formats(vec![format, "think"]);
        let rules = Rules { starts_in_reasoning: true, detect, ..Rules::default() };
        for text in [format!("It says:\n{call}"), format!("It says:\n{call}\n{call}")] {
            let found = find(&conversation("", &format!("Welcome. {call} Bye.")), &rules, &text);
            assert!(found.calls.is_empty(), "{found:?}");
            assert_eq!((&*found.reasoning, &*found.text), (&*text, ""));
            let count = text.matches("\"1\"").count();
            has_calls(&conversation("", "nothing"), &rules, &text, count);
        }
    }
}

#[test]
fn echo_before_a_call_that_is_cut_off_is_text() {
    let rules = Rules { detect: Detect::Formats(vec!["ui_tars"]), ..Rules::default() };
    let source = "Action: f(x='1')\nAction: f(x='2')";
    let found = find(&conversation("", source), &rules, &format!("{source} is the page."));
    assert!(found.calls.iter().all(|call| !call.is_complete()), "{found:?}");
    assert!(found.text.starts_with("Action: f(x='1')"), "{found:?}");
}

#[test]
fn results_of_the_upstream_are_results() {
    let text = format!("The page says {HERMES}, and nothing else.");
    for kind in ["mcp_tool_result", "web_fetch_tool_result", "mcp_call", "custom_tool_call_output"] {
        let mut conversation = conversation("", "nothing");
        let part = json!({"type": kind, "content": [{"type": "text", "text": HERMES}]});
        let part = Part::Other(Received::new("messages", part));
        conversation.turns.push(Turn::of(Role::Assistant, vec![part]));
        is_text(&conversation, &Rules::default(), &text);
    }
    let mut conversation = conversation("", "nothing");
    let part = Part::Other(Received::new("messages", json!({"type": "document", "text": HERMES})));
    conversation.turns.push(Turn::of(Role::User, vec![part]));
    has_calls(&conversation, &Rules::default(), &text, 1);
}

#[test]
fn calls_must_stand_alone_if_results_are_too_long_to_be_searched() {
    let other = HERMES.replace('1', "2");
    let conversation = conversation("", &(HERMES.to_owned() + &" ".repeat(17 << 20)));
    let run = |rules: &Rules, text: &str| {
        let (found, detector) = find_in(&conversation, rules, &by_characters(text, 1));
        (found.calls.len(), found.text.len(), detector.quoted().as_text, detector.quoted().as_calls)
    };
    for call in [HERMES, &other] {
        let text = format!("It says {call}, and nothing else.");
        assert_eq!(run(&Rules::default(), &text), (0, text.len(), 1, 0));
        let text = format!("It says:\n{call}\nDone.");
        assert_eq!(run(&Rules::default(), &text), (0, text.len(), 1, 0));
        assert_eq!(run(&Rules::default(), &format!("I will.\n{call}\n{call}\n")), (2, 7, 0, 2));
        assert_eq!(run(&rules(QuotedCalls::Strict), call), (0, call.len(), 1, 0));
    }
    let exchange = Exchange::new(conversation.clone(), Rules::default(), Speech::Chat);
    let (answer, tally) = exchange.run([&*Speech::Chat.says(&[&format!("I do {other} now.")], "stop")]);
    assert_eq!((answer.calls.len(), &*tally.warnings), (0, &["quoted_call"][..]));
}

#[test]
fn echo_in_hostile_results_is_text() {
    let markers = "<tool_call>".repeat(20_000);
    let prefixes: String = (1..HERMES.len()).map(|end| format!("{} ", &HERMES[..end])).collect();
    let numbered: String = (0..3_000).map(|n| HERMES.replace('1', &n.to_string())).collect();
    let ticks = "`".repeat(100_000) + &"&".repeat(100_000) + &"\\".repeat(100_000);
    for result in [markers, prefixes, numbered, ticks] {
        let other = HERMES.replace("\"1\"", "\"99999\"");
        let conversation = conversation("", &format!("{result}\n{HERMES}"));
        for (call, calls) in [(HERMES, 0), (&*other, 1)] {
            let text = format!("It says {call}, and nothing else.");
            for pieces in [vec![&*text], by_characters(&text, 1), by_characters(&text, 7)] {
                let (found, _) = find_in(&conversation, &Rules::default(), &pieces);
                assert_eq!(found.calls.len(), calls, "{} {pieces:?}", &result[..20]);
            }
        }
        let (found, detector) = find_in(&conversation, &Rules::default(), &[&*format!("Now:\n{HERMES}\n")]);
        assert_eq!((found.calls.len(), detector.quoted().as_calls), (1, 1));
    }
}

//! Tests calls whose arguments break, in every split.

use serde_json::{json, value::RawValue};

use super::{
    Detector,
    text::{head, tail},
};
use crate::{
    conversation::{Conversation, Tool},
    event::{CallEnd, Event, Finish, Sink},
    format::{self, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// Text, and calls as `name arguments` with the way in which they ended.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: String,
    calls: Vec<(String, Option<CallEnd>)>,
    warnings: Vec<&'static str>,
    finish: Option<Finish>,
}

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::CallStart(start) => self.calls.push((format!("{} ", start.name), None)),
            Event::CallArguments { piece, .. } => self.calls.last_mut().unwrap().0.push_str(&piece),
            Event::CallEnd { end, .. } => {
                assert_eq!(self.calls.last_mut().unwrap().1.replace(end), None, "one end");
            }
            Event::Finish(finish) => self.finish = Some(finish),
            Event::Warning(warning) => self.warnings.push(warning.code),
            _ => {}
        }
    }
}

fn read(format: &'static str, pieces: &[&str], waits: bool, finish: Finish) -> Seen {
    let text = json!({"type": "string"});
    let weather = json!({"type": "object", "properties": {"city": text, "days": {"type": "integer"}}});
    let tools = ["f", "g", "get_weather"].map(|name| Tool {
        parameters: Some(
            if name == "get_weather" { weather.clone() } else { json!({"type": "object"}) }.into(),
        ),
        ..Tool::named(name)
    });
    let conversation = Conversation { tools: tools.into(), ..Conversation::default() };
    let settings = Rules { detect: Detect::Formats(vec![format]), ..Rules::default() };
    let tools = DeclaredTools::new(&conversation, "");
    let mut detector = Detector::with_delivery(tools, &settings, KnownFormats::built_in(), waits).unwrap();
    let mut seen = Seen::default();
    for piece in pieces {
        detector.event(Event::Text((*piece).into()), &mut seen);
    }
    detector.event(Event::Finish(finish), &mut seen);
    assert_eq!(detector.held(), 0, "{format} {pieces:?}");
    assert!(seen.calls.iter().all(|call| call.1.is_some()), "{format} {pieces:?}: {seen:?}");
    seen
}

/// Reads `text` in one piece and by character. Asserts that the output is the same.
fn seen(format: &'static str, text: &str, waits: bool, finish: Finish) -> Seen {
    let whole = read(format, &[text], waits, finish);
    let by_character: Vec<&str> = text.split_inclusive(|_| true).collect();
    assert_eq!(read(format, &by_character, waits, finish), whole, "{format}: {text}");
    whole
}

const BROKEN: Option<CallEnd> = Some(CallEnd::Broken);
const WHOLE: Option<CallEnd> = Some(CallEnd::Complete);

/// Checks the text and the calls of a streamed response, and those of a response whose calls wait.
#[track_caller]
fn check(
    format: &'static str,
    text: &str,
    streamed: (&str, &[(&str, Option<CallEnd>)]),
    waiting: (&str, &[&str]),
) {
    let got = seen(format, text, false, Finish::Stop);
    let calls: Vec<_> = got.calls.iter().map(|(call, end)| (call.as_str(), *end)).collect();
    assert_eq!((got.text.as_str(), calls.as_slice()), streamed, "streamed {format}: {text}");
    let got = seen(format, text, true, Finish::Stop);
    let calls: Vec<_> = got.calls.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!((got.text.as_str(), calls.as_slice()), waiting, "waiting {format}: {text}");
    assert!(got.calls.iter().all(|(_, end)| *end == WHOLE), "{got:?}");
}

#[test]
fn rest_of_broken_call_is_not_text_and_later_calls_are_read() {
    let text = r#"<tool_call>{"name": "f", "arguments": oops}</tool_call>"#;
    check("hermes", text, ("", &[("f oops", BROKEN)]), (text, &[]));
    let text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 15:30}}\n</tool_call>\nEnd.";
    check("hermes", text, ("End.", &[(r#"f {"a": 15:30}"#, BROKEN)]), (text, &[]));
    check(
        "command_r7b",
        r#"<|START_ACTION|>[{"tool_name":"f","parameters":{"t": 15:30}}, {"tool_name":"g","parameters":{"c":1}}]<|END_ACTION|>"#,
        ("", &[(r#"f {"t": 15:30}"#, BROKEN), (r#"g {"c":1}"#, WHOLE)]),
        (r#"<|START_ACTION|>[{"tool_name":"f","parameters":{"t": 15:30}}"#, &[r#"g {"c":1}"#]),
    );
    let text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{oops json}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    check("deepseek_v31", text, ("", &[("f {oops json}", BROKEN)]), (text, &[]));
    let text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{oops json}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>End.";
    check(
        "deepseek_v31",
        text,
        ("End.", &[("f {oops json}", BROKEN), ("g {}", WHOLE)]),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{oops json}<｜tool▁call▁end｜>End.",
            &["g {}"],
        ),
    );
    let text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{oops json}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let got = seen("deepseek_v3", text, false, Finish::Stop);
    assert_eq!(
        (got.text.as_str(), got.calls),
        ("", vec![("f {oops json}".to_owned(), BROKEN), ("g {}".to_owned(), WHOLE)])
    );
    let text = r#"[TOOL_CALLS] [{"name": "f", "arguments": {invalid json}]"#;
    check("mistral", text, ("", &[("f {invalid json}", BROKEN)]), (text, &[]));
    let text = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>hello world<|call|>";
    check("harmony", text, ("", &[("f hello world", BROKEN)]), (text, &[]));
    let text = "<|tool_call_start|>[f(A=\t)f(A=,\t\t)f(A=,\t]<|tool_call_end|>";
    check("lfm2", text, (text, &[]), (text, &[]));
    let text = "<tool_call:opensource>f<tool_sep:opensource>{bad json}<end_of_tool_call:opensource>";
    check("hy_v3", text, ("", &[("f {bad json}", BROKEN)]), (text, &[]));
}

/// The brackets of the first call's arguments balance too early, so its rest goes on behind them.
#[test]
fn rest_goes_on_behind_balanced_brackets() {
    for (format, text) in [
        (
            "functiongemma",
            "<start_function_call>call:f{a:1,d}ys:5}<end_function_call><start_function_call>call:g{c:1}<end_function_call>",
        ),
        ("olmo3", "<function_calls>\nf(a=1, d)ys=5)\ng(c=1)\n</function_calls>"),
        ("calling_tool", r#"[Calling tool: f({"a":1,]days":5})][Calling tool: g({"c": 1})]"#),
    ] {
        let got = seen(format, &format!("{text}\nThe end."), false, Finish::Stop);
        let calls: Vec<_> = got.calls.iter().map(|(call, end)| (head(call, 1), *end)).collect();
        assert_eq!((got.text.trim(), calls.as_slice()), ("The end.", &[("f", BROKEN), ("g", WHOLE)] as &[_]));
        assert_eq!(got.calls[1].0, r#"g {"c": 1}"#, "{text}");
    }
    let text = "Action: f\nAction Input: {\"a\":1,\"d\"}:5}\nThe end.";
    check("react", text, ("The end.", &[(r#"f {"a":1,"d"}:5}"#, BROKEN)]), (text, &[]));
}

/// A call that begins a line, in a format whose calls do, ends the rest of another one, whatever is open.
#[test]
fn call_that_begins_a_line_ends_the_rest_of_another_one() {
    for (format, text, end) in [
        ("ui_tars", "Action: f(a=1, d=(5 6)\nAction: g(c=1)", BROKEN),
        ("ui_tars", "Action: f(a=1, d=(5)\nAction: g(c=1)", WHOLE),
        ("react", "Action: f\nAction Input: {\"a\":1 {5}\nAction: g\nAction Input: {\"c\": 1}", BROKEN),
    ] {
        let got = seen(format, text, false, Finish::Stop);
        assert_eq!(got.calls[1..], [(r#"g {"c": 1}"#.to_owned(), WHOLE)], "{text}: {got:?}");
        assert_eq!((got.calls[0].1, got.text.trim()), (end, ""), "{text}: {got:?}");
    }
}

#[test]
fn missing_brackets_before_a_closer_are_added() {
    let text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"city\": \"Tokyo\"\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let call = "f {\"city\": \"Tokyo\"\n}";
    check("deepseek_v3", text, ("", &[(call, WHOLE)]), ("", &[call]));
    let text = r#"<tool_call>{"name": "f", "arguments": {"a": ["x"</tool_call>"#;
    check("hermes", text, ("", &[(r#"f {"a": ["x"]}"#, WHOLE)]), ("", &[r#"f {"a": ["x"]}"#]));
}

#[test]
fn nothing_is_added_at_the_end_of_the_text() {
    let text = r#"<tool_call>{"name": "f", "arguments": {"a": 1, "l": ["x", "y""#;
    for finish in [Finish::Stop, Finish::Length] {
        let got = seen("hermes", text, false, finish);
        assert_eq!(got.calls, [(r#"f {"a": 1, "l": ["x", "y""#.to_owned(), Some(CallEnd::Cut))]);
    }
    let half = seen("hermes", text, true, Finish::Length);
    assert_eq!(
        (half.text.as_str(), half.calls.len(), half.warnings.as_slice()),
        ("", 0, &["cut_markup"] as &[_])
    );
    let object = r#"<tool_call>{"name": "f", "arguments": {"a": 1}"#;
    assert_eq!(seen("hermes", object, true, Finish::Length).calls, []);
    assert_eq!(seen("hermes", object, true, Finish::Stop).calls, [(r#"f {"a": 1}"#.to_owned(), WHOLE)]);
}

/// A list without a marker that has had a call can only go on with another one.
#[test]
fn half_a_call_in_a_list_is_left_out() {
    for (format, text) in [
        ("pythonic", r#"[f(a=1), g(b="x"#),
        ("bare", r#"[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {"b": "x"#),
        ("bare", r#"[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {"#),
        (
            "fenced",
            "```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"name\": \"g\", \"arguments\": {",
        ),
    ] {
        let got = seen(format, text, true, Finish::Length);
        assert_eq!((got.text.as_str(), got.calls.len()), ("", 1), "{text}");
        assert_eq!(got.calls[0].1, WHOLE);
        assert_eq!(got.warnings, ["cut_markup"], "{text}");
        let got = seen(format, text, false, Finish::Length);
        assert_eq!(got.text, "", "{text}");
        assert!(got.calls[1..].iter().all(|(_, end)| *end == Some(CallEnd::Cut)), "{text}: {got:?}");
    }
    for (format, text) in [
        ("pythonic", "[f(a=1), "),
        ("pythonic", "[f(a=1), g"),
        ("bare", r#"[{"name": "f", "arguments": {"a": 1}}, {"name": "g"#),
        ("bare", r#"[{"name": "f", "arguments": {"a": 1}}, "#),
        ("fenced", "```json\n[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"na"),
    ] {
        for waits in [false, true] {
            let got = seen(format, text, waits, Finish::Length);
            assert_eq!((got.text.as_str(), got.calls.len()), ("", 1), "{text}");
        }
    }
}

#[test]
fn list_that_did_not_end_is_cut_off() {
    let finish = |format: &'static str, text: &str| {
        let got = seen(format, text, false, Finish::Stop);
        assert!(got.text.is_empty() && got.calls.iter().all(|(_, end)| *end == WHOLE), "{got:?}");
        got.finish
    };
    for (format, text, whole) in [
        ("command_r7b", r#"<|START_ACTION|>[{"tool_name":"f","parameters":{}}"#, true),
        ("command_r7b", r#"<|START_ACTION|>[{"tool_name":"f","parameters":{}}, {"tool_na"#, false),
        ("command_r7b", r#"<|START_ACTION|>[{"tool_name":"f","parameters":{}}]"#, true),
        ("hermes", r#"<tool_call>{"name": "f", "arguments": {}}"#, true),
        ("lfm2", "<|tool_call_start|>[f(a=1), g", false),
        ("lfm2", "<|tool_call_start|>[f(a=1)]", true),
        (
            "deepseek_v31",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜to",
            false,
        ),
        (
            "deepseek_v31",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            true,
        ),
    ] {
        let wanted = if whole { Finish::Stop } else { Finish::Length };
        assert_eq!(finish(format, text), Some(wanted), "{text}");
    }
}

/// Returns what is wrong with the calls in `text`, which is a broken call and text after it.
fn faults(format: &'static str, text: &str) -> (bool, Vec<String>) {
    let mut faults = Vec::new();
    let got = seen(format, text, false, Finish::Stop);
    for (call, end) in &got.calls {
        let (_, arguments) = call.split_once(' ').unwrap();
        let is_json = serde_json::from_str::<&RawValue>(arguments).is_ok();
        // A string that holds JSON can be cut off behind that JSON.
        if is_json != (*end == WHOLE) && *end != Some(CallEnd::Cut) {
            faults.push(format!("half: {text:?}: {got:?}"));
        }
    }
    let is_broken = matches!(got.calls.as_slice(), [(_, BROKEN)]);
    let said = got.text.trim();
    if is_broken && said != "The end." && !said.is_empty() {
        faults.push(format!("markup: {text:?}: {got:?}"));
    }
    let got = seen(format, text, true, Finish::Stop);
    if got.calls.iter().any(|(_, end)| *end != WHOLE) {
        faults.push(format!("unannounced half: {text:?}: {got:?}"));
    }
    (is_broken, faults)
}

/// Changes each character of the example of each format, from the city on, to something else.
#[test]
fn broken_examples_of_all_formats_are_never_half_a_call() {
    let (mut broken, mut all) = (0, Vec::new());
    for format in format::ALL {
        let Some(from) = format.example.find("Paris") else { continue };
        let page = format!("{}\nThe end.", format.example);
        let places = page.char_indices().filter(|(at, _)| (from..format.example.len()).contains(at));
        let mut found = Vec::new();
        for (at, old) in places {
            for new in ["", "\"", "'", "}", "]", ")", ",", ":", "x", "{", "\n", "\\", "<", "=", " "] {
                let text = format!("{}{new}{}", head(&page, at), tail(&page, at + old.len_utf8()));
                let (is_broken, faults) = faults(format.name, &text);
                broken += usize::from(is_broken);
                found.extend(faults);
            }
        }
        all.extend(found.iter().take(3).map(|fault| format!("{} ({}) {fault}", format.name, found.len())));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(broken > 100, "{broken}");
}

#[test]
fn text_of_broken_call_keeps_the_end_of_its_list() {
    const BEGUN: &str = r#"<tool_call>[{"name": "f", "arguments": {"Paris"}}"#;
    for rest in ["\n```", " `` x", "\n]", "\n```</tool_call>", "]</tool_call> x", ",\n", ",x", "; x", "}]"] {
        let text = format!("{BEGUN}{rest}");
        let got = seen("hermes", &text, true, Finish::Stop);
        assert_eq!((&got.text, got.calls), (&text, vec![]), "{rest}");
    }
    let text = format!(r#"{BEGUN}, {{"name": "g", "arguments": {{}}}}]</tool_call>"#);
    let got = seen("hermes", &text, true, Finish::Stop);
    assert_eq!(got.calls, [("g {}".to_owned(), WHOLE)]);
    assert_eq!(got.text, BEGUN);
}

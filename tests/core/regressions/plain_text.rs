//! Tests responses that are not searched for calls. Their reasoning and channels are still read.

use serde_json::{Value, json};
use toolwire::{
    format::{self, Format},
    rules::{Detect, Reasoning, Rules},
};

use crate::regressions::declared;
use crate::support::{
    client::Answer,
    exchange::{Cuts, Exchange, request},
    upstream::Speech,
};

fn answer(fields: &Value, detect: Detect, reasoning: Reasoning, text: &str) -> Answer {
    let settings = Rules { detect, reasoning, ..Rules::default() };
    Exchange::new(request(fields), settings, Speech::Chat)
        .text(text, text, "stop", if text.len() < 40 { Cuts::Text } else { Cuts::Sizes })
        .0
}

fn without_calls() -> [Value; 3] {
    [json!({}), json!({"tools": []}), json!({"tools": declared(), "tool_choice": "none"})]
}

fn said(detect: &Detect, text: &str) -> (String, String) {
    let mut same = None;
    for fields in without_calls() {
        let answer = answer(&fields, detect.clone(), Reasoning::Auto, text);
        assert_eq!((answer.calls.len(), answer.finish.as_deref()), (0, Some("stop")), "{text}");
        let said = (answer.text, answer.reasoning);
        assert_eq!(same.get_or_insert_with(|| said.clone()), &said, "{fields}");
    }
    same.unwrap()
}

fn pair(text: &str, reasoning: &str) -> (String, String) {
    (text.to_owned(), reasoning.to_owned())
}

#[test]
fn reasoning_is_read_without_tools() {
    for detect in [Detect::Auto, Detect::Formats(vec![format::HERMES.name]), Detect::Off] {
        for (text, seen, reasoning) in [
            ("<think>\na\n</think>\n\nHi", "Hi", "a"),
            ("</think>Hi", "Hi", ""),
            ("<seed:think>a</seed:think>Hi ", "Hi ", "a"),
            ("Hi <think> x", "Hi <think> x", ""),
            ("a\n\n b ", "a\n\n b ", ""),
            (" \n ", " \n ", ""),
            ("", "", ""),
        ] {
            assert_eq!(said(&detect, text), pair(seen, reasoning), "{detect:?} {text:?}");
        }
    }
    let known = Detect::AutoAnd(vec![format::GRANITE3.name]);
    let text = "Here is my thought process: a Here is my response: b";
    assert_eq!(said(&known, text), pair(" b", "a"));
    assert_eq!(said(&Detect::Auto, text), pair(text, ""));
}

#[test]
fn channels_are_read_without_tools() {
    let text = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Hi there";
    for detect in [Detect::Auto, Detect::Formats(vec![format::HARMONY.name]), Detect::Off] {
        assert_eq!(said(&detect, text), pair("Hi there", "a"), "{detect:?}");
    }
    let other = Detect::Formats(vec![format::HERMES.name]);
    assert_eq!(said(&other, text), pair("Hi there", "a"));
    let text = "<|content_thinking|>a<|end_message|><|content_text|>b<|end_message|>";
    assert_eq!(said(&Detect::Auto, text), pair("b", "a"));
    let named = Detect::Formats(vec![format::FUNCTIONARY_V32.name]);
    assert_eq!(said(&named, "all\nHi"), pair("Hi", ""));
}

#[test]
fn call_is_text_with_tool_choice_none() {
    for format in crate::regressions::with_calls() {
        let text = format!("A\n{}\nB ", format.example);
        let formats: [&'static Format; 2] = [format, &format::THINK];
        for detect in [Detect::Formats(format::names(&formats)), Detect::Auto] {
            // In these formats, markers of messages are framing even without a call.
            if matches!(format.name, "muse_atem" | "hyperclova") {
                continue;
            }
            let (seen, reasoning) = said(&detect, &text);
            assert_eq!((seen.as_str(), reasoning.as_str()), (text.as_str(), ""), "{}", format.name);
        }
    }
}

#[test]
fn reasoning_is_text_if_its_detection_is_off() {
    let text = "<think>a</think> <|channel|>final<|message|>b";
    for detect in [Detect::Auto, Detect::Off, Detect::Formats(vec![format::HARMONY.name])] {
        for fields in without_calls() {
            let answer = answer(&fields, detect.clone(), Reasoning::Off, text);
            assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), (text, ""), "{detect:?}");
        }
    }
    let call = r#"<think>a</think><tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let fields = json!({"tools": declared()});
    let off = answer(&fields, Detect::Auto, Reasoning::Off, call);
    assert_eq!((off.text.as_str(), off.named_calls().as_slice()), ("<think>a</think>", &[("now", "{}")][..]));
    // Reasoning is read even if the detection of calls is off.
    let off = answer(&fields, Detect::Off, Reasoning::Auto, call);
    assert_eq!(
        (off.text.as_str(), off.reasoning.as_str()),
        (r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#, "a")
    );
}

#[test]
fn reasoning_is_read_with_any_formats() {
    let call = r#"<think>a</think><tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let fields = json!({"tools": declared()});
    let answer = answer(&fields, Detect::Formats(vec![format::HERMES.name]), Reasoning::Auto, call);
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("", "a"));
    assert_eq!(answer.named_calls(), [("now", "{}")]);
}

/// In formats that are not listed, only reasoning is detected. The text outside the channels is searched for calls
/// in the listed formats.
#[test]
fn reasoning_channels_are_read_beside_listed_formats() {
    let fields = json!({"tools": declared()});
    let hermes = |text: &str| {
        let found = answer(&fields, Detect::Formats(vec![format::HERMES.name]), Reasoning::Auto, text);
        let calls: Vec<_> = found.named_calls().iter().map(|(name, _)| (*name).to_owned()).collect();
        (found.text, found.reasoning, calls)
    };
    let call = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;
    let begun = format!("<|channel|>analysis<|message|>plan {call}<|end|>");
    let reasoning = format!("plan {call}");
    let owned = |text: &str, reasoning: &str, calls: &[&str]| {
        (
            text.to_owned(),
            reasoning.to_owned(),
            calls.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
        )
    };
    let open = "<|start|>assistant<|channel|>final<|message|>";
    assert_eq!(hermes(&format!("{begun}{open}Hi there")), owned("Hi there", &reasoning, &[]));
    assert_eq!(hermes(&format!("{begun}{open}{call}")), owned("", &reasoning, &["now"]));
    assert_eq!(hermes(&format!("{begun}{call}")), owned("", &reasoning, &["now"]));
    let unended = "<|channel|>analysis<|message|>plan";
    assert_eq!(hermes(&format!("{unended}{open}Hi")), owned("Hi", "plan", &[]));
    assert_eq!(hermes(unended), owned("", "plan", &[]));
    // Without preceding reasoning, these headers are text, and so is a message to a tool.
    assert_eq!(hermes(&format!("{open}{call}")), owned(open, "", &["now"]));
    let to_tool = "<|start|>assistant<|channel|>commentary to=functions.now<|message|>{}<|call|>";
    assert_eq!(hermes(to_tool), owned(to_tool, "", &[]));
    assert_eq!(hermes(&format!("{begun}{to_tool}")), owned(to_tool, &reasoning, &[]));
}

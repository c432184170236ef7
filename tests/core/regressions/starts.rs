//! Responses whose start inside or outside of reasoning is only assumed (docs/protocols/text-formats.md#reasoning).

use toolwire::{
    format::{self, Format},
    rules::Rules,
};

use super::{exchange, found_in};
use crate::support::{client::Answer, cuts::by_characters, exchange::Exchange, upstream::Speech};

const HERMES: &[&Format] = &[&format::HERMES, &format::THINK];
const CALL: &str = r#"<tool_call>{"name":"now","arguments":{}}</tool_call>"#;

fn assumed(in_reasoning: bool, stream: bool) -> Exchange {
    let mut exchange = exchange(HERMES, stream);
    exchange.settings =
        Rules { starts_in_reasoning: in_reasoning, is_start_assumed: true, ..exchange.settings };
    exchange
}

fn parts(answer: &Answer) -> (String, String, usize) {
    (answer.reasoning.clone(), answer.text.clone(), answer.calls.len())
}

/// The reasoning, the text and the number of calls of a stream, in any split.
fn streamed(in_reasoning: bool, text: &str, finish: &str) -> (String, String, usize) {
    let exchange = assumed(in_reasoning, true);
    let stream = Speech::Chat.says(&[text], finish);
    let (whole, _) = exchange.run([stream.as_slice()]);
    for at in text.char_indices().map(|(at, _)| at) {
        let stream = Speech::Chat.says(&[&text[..at], &text[at..]], finish);
        assert_eq!(exchange.run([stream.as_slice()]).0, whole, "{text}: cut at {at}");
    }
    for size in [1, 2, 3] {
        let stream = Speech::Chat.says(&by_characters(text, size), finish);
        assert_eq!(exchange.run([stream.as_slice()]).0, whole, "{text}: pieces of {size}");
    }
    parts(&whole)
}

/// The same of a response that is not streamed.
fn complete(in_reasoning: bool, text: &str, finish: &str) -> (String, String, usize) {
    let exchange = assumed(in_reasoning, false);
    let stream = Speech::Chat.says(&[text], finish);
    let (whole, _) = exchange.run([stream.as_slice()]);
    let pieces = Speech::Chat.says(&by_characters(text, 1), finish);
    assert_eq!(exchange.run([pieces.as_slice()]).0, whole, "{text}");
    parts(&whole)
}

fn is(reasoning: &str, text: &str, calls: usize) -> (String, String, usize) {
    (reasoning.to_owned(), text.to_owned(), calls)
}

#[test]
fn complete_response_shows_how_it_started() {
    let called = format!("hm</think>{CALL}");
    for assumed in [false, true] {
        for (text, finish, expected) in [
            ("A fact.</think>Paris.", "stop", is("A fact.", "Paris.", 0)),
            ("A fact.\n</think>\n\nParis.", "stop", is("A fact.", "Paris.", 0)),
            ("A fact.</THINK>Paris.", "length", is("A fact.", "Paris.", 0)),
            ("Say \"no\"</think>No.", "stop", is("Say \"no\"", "No.", 0)),
            ("p[/THINK]Hi", "stop", is("p", "Hi", 0)),
            ("Paris.", "stop", is("", "Paris.", 0)),
            (&called, "stop", is("hm", "", 1)),
            ("<think>p</think>Hi", "stop", is("p", "Hi", 0)),
            ("<think>p</think>Hi</think> there", "stop", is("p", "Hi there", 0)),
        ] {
            assert_eq!(complete(assumed, text, finish), expected, "{assumed} {text}");
        }
    }
    assert_eq!(complete(true, "A fact", "length"), is("A fact", "", 0));
    assert_eq!(complete(false, "A fact", "length"), is("", "A fact", 0));
}

#[test]
fn stream_never_shows_a_closer_without_its_opener() {
    for (text, expected) in [
        ("A fact.</think>Paris.", "A fact.Paris."),
        ("A fact.\n</think>\n\nParis.", "A fact.\n\n\nParis."),
        ("Say \"no\"</think>No.", "Say \"no\"No."),
        ("Say `no`</think>", "Say `no`"),
        ("p[/THINK]Hi", "pHi"),
        ("p<|END_THINKING|>Hi", "pHi"),
        ("p</seed:think>Hi", "pHi"),
        ("p</mm:think>Hi", "pHi"),
        ("</think>\n\nHi", "Hi"),
        ("Hi</think> there</think>", "Hi there"),
    ] {
        assert_eq!(streamed(false, text, "stop"), is("", expected, 0), "{text}");
    }
    let called = format!("hm</think>{CALL}");
    assert_eq!(streamed(false, &called, "stop"), is("", "hm", 1));
    assert_eq!(streamed(true, &called, "stop"), is("hm", "", 1));
    assert_eq!(streamed(true, "A fact.</think>\n\nParis.", "stop"), is("A fact.", "Paris.", 0));
}

/// A text about markers is not changed.
#[test]
fn closer_that_is_mentioned_is_text() {
    for text in [
        "The tags are <think> and </think>.",
        "It ends with `</think>`, see above.",
        "It ends with \"</think>\".",
        "x < y </thing> [/THINKING]",
    ] {
        for certainly in [streamed(false, text, "stop"), complete(false, text, "stop")] {
            assert_eq!(certainly, is("", text, 0));
        }
    }
    let argument = r#"<tool_call>{"name":"now","arguments":{"x":"a</think>b"}}</tool_call>"#;
    assert_eq!(complete(false, argument, "stop"), is("", "", 1));
    assert_eq!(streamed(false, argument, "stop"), is("", "", 1));
}

#[test]
fn start_that_is_set_is_kept() {
    let text = "A fact.</think>Paris.";
    assert_eq!(parts(&found_in(HERMES, text, "stop")), is("", text, 0));
    let mut exchange = exchange(HERMES, false);
    exchange.settings.starts_in_reasoning = true;
    let stream = Speech::Chat.says(&["Paris."], "stop");
    assert_eq!(parts(&exchange.run([stream.as_slice()]).0), is("Paris.", "", 0));
}

/// llama.cpp, vLLM and ollama drop them too.
#[test]
fn line_ends_behind_reasoning_are_markup() {
    for (text, reasoning, visible) in [
        ("<think>p</think>\n\nHello", "p", "Hello"),
        ("<think>\np\n</think>\n \r\n  Hello\n", "p", "  Hello\n"),
        ("\n<think>p</think> Hello", "p", " Hello"),
        ("[THINK]p[/THINK]\nHello", "p", "Hello"),
        ("<think>p</think>\n\n", "p", ""),
        ("Hi\n\n<think>p</think>\n\nHello", "p", "Hi\n\nHello"),
        ("<think>a</think><think>b</think>Hi", "a\nb", "Hi"),
        ("<think>a</think>\n\n<think>\nb\n</think>\nHi", "a\nb", "Hi"),
        ("<think></think><think>b</think>Hi", "b", "Hi"),
        ("<think>a</think><think></think><think>b</think>Hi", "a\nb", "Hi"),
    ] {
        let answer = found_in(HERMES, text, "stop");
        assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), (reasoning, visible), "{text:?}");
    }
    let answer = found_in(
        &[&format::HUNYUAN_A13B, &format::THINK],
        "<think>\np\n</think>\n<answer>\nHello\n</answer>",
        "stop",
    );
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("p", "Hello"));
}

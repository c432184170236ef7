use serde_json::{Value, json};

use super::*;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn output(result: Value) -> Output {
    of(serde_json::from_value(result).expect("a result"))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn texts_are_joined() {
    assert_eq!(output(json!({"content": [text("a"), text("b")]})).content, "a\nb");
    assert_eq!(output(json!({"content": []})).content, "");
}

#[test]
fn structured_content_is_left_out_if_texts_say_the_same() {
    for (texts, structured) in [
        (&["{ \"t\": 2, \"u\": [1.0, \"é\"] }"][..], json!({"u": [1.0, "é"], "t": 2})),
        (&["Hello Bob"], json!({"result": "Hello Bob"})),
        (&["two\nlines\n"], json!({"content": "two\nlines\n"})),
        (&["two\nlines"], json!({"content": "two\nlines\n"})),
        (&[""], json!({"result": ""})),
        (&["\n"], json!({"result": "\n"})),
        (&["3"], json!({"result": 3})),
        (&["2.50"], json!({"result": 2.5})),
        (&["1.0"], json!({"result": 1})),
        (&["true"], json!({"result": true})),
        (&["False"], json!({"result": false})),
        (&["null"], json!({"result": null})),
        (&["None"], json!({"result": null})),
        (&[], json!({"result": null})),
        (&[], json!({"result": []})),
        (&["NaN"], json!({"result": null})),
        (&["a", "b", "c"], json!({"result": ["a", "b", "c"]})),
        (&["a\nb"], json!({"result": ["a", "b"]})),
        (&["[\n  1,\n  2\n]"], json!({"result": [1, 2]})),
        (&["{\"a\": 1}", "{\"a\": 2}"], json!({"result": [{"a": 1}, {"a": 2}]})),
        (&["\"2026-01-01T00:00:00\""], json!({"result": "2026-01-01T00:00:00"})),
        (&["{\"a\":1}"], json!({"result": {"a": 1}})),
        (&["a", "b"], json!({"content": [text("a"), text("b")]})),
        (&["Done:", "{\"t\":2}"], json!({"t": 2})),
    ] {
        let blocks: Vec<_> = texts.iter().map(|own| text(own)).collect();
        let output = output(json!({"content": blocks, "structuredContent": structured}));
        assert_eq!(output.content, texts.join("\n"), "{structured}");
    }
}

#[test]
fn structured_content_that_says_more_is_added() {
    for (texts, structured) in [
        (&["two"][..], json!({"t": 2})),
        (&["Hello Bob"], json!({"result": "Hello Eve"})),
        (&["a"], json!({"result": ["a", "b"]})),
        (&["3"], json!({"result": "3", "unit": "m"})),
        (&["12345678901234567890"], json!({"result": 12_345_678_901_234_567_891_u64})),
        (&["a b"], json!({"result": ["a", "b"]})),
        (&["1", "2", "3"], json!({"result": [[1, 2], [3]]})),
        (&[], json!({"t": 2})),
    ] {
        let blocks: Vec<_> = texts.iter().map(|own| text(own)).collect();
        let output = output(json!({"content": blocks, "structuredContent": structured}));
        let expected: Vec<_> = texts.iter().map(|own| (*own).to_owned()).chain([structured.to_string()]).collect();
        assert_eq!(output.content, expected.join("\n"));
    }
}

#[test]
fn files_in_structured_content_are_described_or_left_out() {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let both = output(json!({"content": [image], "structuredContent": {"content": [image]}}));
    assert_eq!((both.content.as_str(), both.media.len()), ("[image/png, 72 bytes]", 1));
    let more = json!({"pages": [image], "more": {"uri": "file:///a", "blob": "AAAAAAAA"}, "data": "stays"});
    let output = output(json!({"content": [image], "structuredContent": more}));
    let expected = "[image/png, 72 bytes]\n{\"pages\":[{\"type\":\"image\",\"data\":\"[image/png, 72 bytes]\",\"mimeType\":\"image/png\"}],\
                    \"more\":{\"uri\":\"file:///a\",\"blob\":\"[data, 6 bytes]\"},\"data\":\"stays\"}";
    assert_eq!(output.content, expected);
}

#[test]
fn errors_are_results_that_say_so() {
    let output = output(json!({"content": [text("no such file")], "isError": true}));
    assert_eq!((output.content.as_str(), output.is_error), ("no such file", true));
}

#[test]
fn files_are_described_and_returned() {
    let content = json!([
        {"type": "image", "data": PNG, "mimeType": "image/svg+xml"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRgAAAABXQVZFZm10IA==", "mimeType": "audio/x-wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the file"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b's text"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "JVBERi0xLjc="}},
        {"type": "resource", "resource": {"uri": "file:///d", "blob": "AAAA"}},
    ]);
    let expected = "[image/png, 72 bytes]\n[image/png, 3 bytes]\n[audio/wav, 18 bytes]\n[a](file:///a): the file\n\
                    file:///b:\nb's text\nfile:///c: [application/pdf, 9 bytes]\nfile:///d: [data, 3 bytes]";
    let output = output(json!({"content": content}));
    assert_eq!((output.content.as_str(), output.media.len()), (expected, 3));
}

#[test]
fn links_cannot_leave_their_place_in_markdown() {
    let link = |name: &str, uri: &str| {
        let link = json!({"type": "resource_link", "uri": uri, "name": name});
        output(json!({"content": [link]})).content
    };
    assert_eq!(
        link("Q3 report.pdf", "https://a.example/q3?x=1&y=2"),
        "[Q3 report.pdf](https://a.example/q3?x=1&y=2)"
    );
    assert_eq!(
        link("a](https://evil.example) [b\n# c", "file:///a b).md"),
        "[a\\](https://evil.example) \\[b # c](file:///a%20b%29.md)"
    );
    assert_eq!(
        link("![x]\\", "https://a.example/)\n![x](https://b"),
        "[!\\[x\\]\\\\](https://a.example/%29%0A![x]%28https://b)"
    );
    assert_eq!(
        link("é\u{202e}", "https://a.example/é\u{202e}<x>"),
        "[é ](https://a.example/é%E2%80%AE%3Cx%3E)"
    );
}

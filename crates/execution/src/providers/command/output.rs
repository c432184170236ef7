//! Turns what a program printed into the output of a call.
//!
//! The text itself is the result, unless it is clearly an [`Answer`].

use serde_json::Value;

use crate::{Output, providers::answer::Answer};

pub(super) fn read(text: &str) -> Output {
    let object = match serde_json::from_str(text) {
        Ok(Value::Object(object)) if Answer::is_one(&object) => Some(object),
        _ => None,
    };
    match object.and_then(Answer::read) {
        Some(Answer::Error(error, details)) => Output { details, ..Output::failed(error) },
        Some(Answer::Result(output)) => Output { summary: summary(&output.content), ..output },
        None => Output { summary: summary(text), ..Output::text(text) },
    }
}

/// A one-line summary of a result.
fn summary(content: &str) -> String {
    match serde_json::from_str::<Vec<serde::de::IgnoredAny>>(content) {
        Ok(elements) => counted(elements.len(), "result"),
        Err(_) => counted(content.chars().count(), "character"),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_and_other_json_are_results_as_they_are() {
        for text in [
            "",
            "42",
            "hello",
            r#"{"a": 1.50}"#,
            r#"{"content": "x"}"#,
            r#"{"error": null, "a": 1}"#,
            r#"{"error": 0, "a": 1}"#,
            "{}",
            r#"{"content": []}"#,
            r#"{"content": [{"title": "x"}]}"#,
            r#"["error"]"#,
        ] {
            let output = read(text);
            assert_eq!((output.content.as_str(), output.is_error), (text, false));
        }
        assert_eq!(read("[1, 2]").summary, "2 results");
        assert_eq!(read("ä").summary, "1 character");
    }

    #[test]
    fn an_answer_states_text_details_and_errors() {
        let parts = r#"{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "details": {"k": 1}}"#;
        let output = read(parts);
        assert_eq!((output.content.as_str(), &output.details), ("a b", &json!({"k": 1})));
        let output = read(r#"{"content": [], "error": "no such page"}"#);
        assert_eq!((output.content.as_str(), output.is_error), ("no such page", true));
        for (text, error) in [
            (r#"{"error": {"message": "m"}}"#, "m"),
            (r#"{"error": "x", "code": 3}"#, "x"),
            (r#"{"error": 5}"#, "5"),
            (r#"{"error": {"code": 7}, "content": "y"}"#, r#"{"code":7}"#),
            (r#"{"error": true}"#, "no reason given"),
        ] {
            let output = read(text);
            assert_eq!((output.content.as_str(), output.is_error), (error, true), "{text}");
        }
        let output = read(r#"{"content": [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}], "more": 1}"#);
        assert_eq!((output.content.as_str(), output.is_error), ("a [image]", false));
        let output = read(r#"{"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "iVBORw0KGgo="}]}"#);
        assert_eq!((output.content.as_str(), output.media.len()), ("a [image/png, 9 bytes]", 1));
        let output = read(r#"{"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/x"}]}"#);
        assert_eq!((output.content.as_str(), output.media.len()), ("[audio/x, 3 bytes]", 0));
        let output = read(r#"{"content": [{"type": "text", "text": ""}], "details": {"k": 1}}"#);
        assert_eq!(output.content, "ok");
    }
}

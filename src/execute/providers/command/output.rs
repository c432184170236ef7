//! What a program wrote, as the output of a call.
//!
//! Any text is a result as it is. An object with `content`, a list of parts with `type` and `text`, or with `error` is an answer in
//! the form that all external providers may use: `{"content": [{"type": "text", "text": …}], "details": …, "error": …}`.

use serde::Deserialize;
use serde_json::Value;

use crate::execute::Output;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    content: Vec<Part>,
    #[serde(default)]
    details: Value,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(rename = "type")]
    kind: Kind,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Text,
}

/// The output that `text` states.
pub(super) fn read(text: &str) -> Output {
    match serde_json::from_str::<Answer>(text) {
        Ok(Answer { error: Some(error), details, .. }) => Output { details, ..Output::failed(error) },
        Ok(Answer { content, details, error: None }) if !content.is_empty() => {
            let texts: Vec<_> = content
                .into_iter()
                .map(|Part { kind: Kind::Text, text }| text)
                .collect();
            let content = texts.join(" ");
            Output { summary: summary(&content), content, details, ..Output::default() }
        }
        _ => Output { summary: summary(text), ..Output::text(text) },
    }
}

/// One line about a result.
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
        for text in ["", "42", "hello", r#"{"a": 1.50}"#, r#"{"content": "x"}"#, r#"{"error": 5}"#, "{}", r#"{"content": []}"#] {
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
    }
}

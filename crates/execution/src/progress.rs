//! The line that is shown while a hosted tool runs, such as `Searching for: rust`.

use std::time::Duration;

use serde_json::{Map, Value};

use toolwire_net::untrusted_text::{clip, escaped};

/// In bytes.
const MAX_ARGUMENT: usize = 150;

/// In bytes.
const MAX_LINE: usize = 400;

/// Replaces each `{NAME}` in `template` with that argument of the call, escaped for display on one line. Missing
/// arguments are replaced with nothing. Strings are inserted as they are, other values as JSON. `covered` redacts
/// secrets in an argument before it is cut, because a truncated secret would not be recognized.
pub(super) fn line(
    template: &str,
    arguments: &Map<String, Value>,
    covered: impl Fn(&str) -> String,
) -> String {
    let (mut line, mut rest) = (String::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        line.push_str(before);
        let Some((name, after)) = behind.split_once('}') else {
            line.push('{');
            rest = behind;
            continue;
        };
        match arguments.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => line.push_str(&clip(covered(text).trim(), MAX_ARGUMENT)),
            Some(other) => line.push_str(&clip(&covered(&other.to_string()), MAX_ARGUMENT)),
        }
        rest = after;
    }
    line.push_str(rest);
    plain(&line)
}

/// Adds how long the call has taken to `line`, in whole seconds.
pub(super) fn timed(line: &str, elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0 => line.to_owned(),
        seconds => format!("{line} ({seconds} s)"),
    }
}

/// Escapes `text` for display on one line, and cuts it.
pub(super) fn plain(text: &str) -> String {
    // Escaping may make the text longer.
    clip(&escaped(text.trim()), MAX_LINE).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(template: &str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        line(template, &arguments, |text| text.replace("secret-word", "***"))
    }

    #[test]
    fn placeholders_are_arguments() {
        let arguments = json!({"query": " rust {count}\n", "count": 3, "tags": ["a"], "none": null});
        for (template, expected) in [
            ("Searching for: {query}", "Searching for: rust {count}"),
            ("{count} of {tags}", "3 of [\"a\"]"),
            ("Looking up {none}{missing}", "Looking up"),
            ("no placeholder", "no placeholder"),
            ("{", "{"),
            ("a {query", "a {query"),
            ("} {count}", "} 3"),
            ("{{count}}", "}"),
            ("", ""),
        ] {
            assert_eq!(shown(template, arguments.clone()), expected, "{template}");
        }
    }

    #[test]
    fn secrets_are_covered_before_the_line_is_cut() {
        let text = format!("{}secret-word", "x".repeat(MAX_ARGUMENT - 6));
        for value in [json!(text), json!([text])] {
            let line = shown("{a}", json!({"a": value}));
            assert!(!line.contains("secret") && line.contains("x***"), "{line}");
        }
    }

    #[test]
    fn line_is_safe_and_short() {
        assert_eq!(shown("{a}", json!({"a": "x\r\n\u{1b}[2J\u{202e}y"})), r"x\r\n\u{1b}[2J\u{202e}y");
        let clipped = shown("{a}!", json!({"a": "é".repeat(MAX_ARGUMENT)}));
        assert_eq!(clipped, format!("{}… [150 bytes more]!", "é".repeat(MAX_ARGUMENT / 2)));
        let exact = "x".repeat(MAX_ARGUMENT);
        assert_eq!(shown("{a}", json!({"a": exact})), exact);
        let many = shown(&"{a}".repeat(100), json!({"a": "\u{1b}".repeat(200)}));
        assert!(many.len() < MAX_LINE + 32 && many.ends_with("bytes more]"), "{many}");
    }
}

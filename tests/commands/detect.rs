//! Tests `toolwire detect`, which names the format of the calls in a text.

use std::fs;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{run, toolwire};

/// Runs the command on this text.
fn detect(text: &str, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempdir().unwrap();
    let file = folder.path().join("answer.txt");
    fs::write(&file, text).unwrap();
    run(toolwire(&["detect", file.to_str().unwrap()]).args(arguments))
}

#[test]
fn format_that_is_not_looked_for_comes_with_its_setting() {
    let (status, said, _) = detect("Action: web_search\nAction Input: {\"query\": \"x\"}", &[]);
    assert_eq!(status, 0, "{said}");
    assert!(said.starts_with("react (certain): "), "{said}");
    for line in ["  call: web_search {\"query\": \"x\"}\n", "    detect = [\"react\"]\n", "--detect react"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.lines().count() <= 24, "one screen: {said}");
}

#[test]
fn format_that_is_looked_for_needs_no_setting() {
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let (status, said, _) = detect(text, &["--declare", "g"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("set: nothing"), "{said}");
    assert!(said.contains("the request declares no tool `f`"), "{said}");
    let (_, said, _) = detect(text, &["--declare", "f"]);
    assert!(!said.contains("declares no"), "{said}");
}

#[test]
fn whole_responses_and_requests_are_read() {
    let response =
        json!({"choices": [{"message": {"role": "assistant", "content": "[get_weather(city=\"Oslo\")]"}}]});
    let folder = tempdir().unwrap();
    let request = folder.path().join("request.json");
    let tool = json!({"type": "function", "function": {"name": "get_weather"}});
    fs::write(&request, json!({"model": "m", "messages": [], "tools": [tool]}).to_string()).unwrap();
    let (status, said, stderr) =
        detect(&response.to_string(), &["--json", "--request", request.to_str().unwrap()]);
    assert_eq!(status, 0, "{stderr}");
    let found: Value = serde_json::from_str(&said).unwrap();
    let best = &found["formats"][0];
    assert_eq!((&best["name"], &best["automatic"]), (&json!("pythonic"), &json!(false)), "{found}");
    assert_eq!(best["calls"][0]["declared"], true, "{found}");
}

#[test]
fn text_without_calls_fails_and_says_what_next() {
    let (status, said, _) = detect("Hello.", &[]);
    assert_eq!(status, 1);
    assert!(said.contains("no format") && said.contains("docs/no-calls.md"), "{said}");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let (status, _, stderr) = run(&mut toolwire(&["detect", "no-such-file.txt"]));
    assert_eq!(status, 2);
    assert!(stderr.contains("no-such-file.txt"), "{stderr}");
    let (status, _, stderr) = detect(&"x".repeat((1 << 20) + 1), &[]);
    assert_eq!(status, 2);
    assert!(stderr.contains("1048576 bytes"), "{stderr}");
}

#[test]
fn control_characters_of_a_text_do_not_reach_the_terminal() {
    let (status, said, _) =
        detect("<tool_call>{\"name\": \"f\u{1b}[2J\", \"arguments\": {}}</tool_call>", &[]);
    assert!(!said.contains('\u{1b}'), "{status}: {said:?}");
}

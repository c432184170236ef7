//! Tests that chat templates are rendered like Python's Jinja does, and never exceed their limits.
//!
//! The templates and requests are in `templates/` and `requests/`. `render.py` renders them with Jinja into
//! `rendered.json`, and CI checks with it that the file is up to date.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failing test panics, wherever its helpers live"
)]

mod limits;

use std::{fs, path::Path};

use serde_json::{Value, json};
use toolwire_dialects::ClientDialect;
use toolwire_engine::{
    conversation::{Conversation, Prompt},
    failure::{Failure, Kind},
};
use toolwire_template::ChatTemplate;

/// 2026-03-09 14:05:07 UTC.
const NOW: u64 = 1_773_065_107;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/template"))
}

fn conversation(request: &Value) -> Conversation {
    ClientDialect::Chat.side().decode(request.to_string().as_bytes()).unwrap()
}

fn said(text: &str) -> Conversation {
    conversation(&json!({"model": "m", "messages": [{"role": "user", "content": text}]}))
}

fn render(template: &str, conversation: &Conversation) -> Result<String, Failure> {
    let template = ChatTemplate::parse(template, "test.jinja").unwrap();
    template.render(conversation, NOW).map(|Prompt { text, .. }| text)
}

/// Loads a template. Special tokens are added if the file is a bare template, which cannot define any.
fn template(name: &str) -> ChatTemplate {
    let text = fs::read_to_string(folder().join("templates").join(name)).unwrap();
    let text = match name.ends_with(".json") {
        true => text,
        false => json!({"bos_token": "<s>", "eos_token": "</s>", "chat_template": text}).to_string(),
    };
    ChatTemplate::parse(&text, name).unwrap()
}

fn request(name: &str) -> Conversation {
    let text = fs::read_to_string(folder().join("requests").join(format!("{name}.json"))).unwrap();
    conversation(&serde_json::from_str(&text).unwrap())
}

#[test]
fn templates_render_as_in_python() {
    let text = fs::read_to_string(folder().join("rendered.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut different = Vec::new();
    for (name, of_requests) in expected.as_object().unwrap() {
        let template = template(name);
        for (request_name, expected) in of_requests.as_object().unwrap() {
            let found = match template.render(&request(request_name), NOW) {
                Ok(prompt) => json!({"text": prompt.text}),
                Err(failure) if failure.kind() == Kind::Request => json!({"refused": failure.message()}),
                Err(failure) => {
                    assert!(failure.message().contains(&format!("{name}, line ")), "{failure}");
                    json!({"fails": true})
                }
            };
            if found != *expected {
                different.push(difference(&format!("{name} of {request_name}"), expected, &found));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn difference(what: &str, expected: &Value, found: &Value) -> String {
    let text = |value: &Value| value["text"].as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (expected, found) = (text(expected), text(found));
    let lines = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    let (expected_line, found_line) = lines.unwrap_or((&expected, &found));
    format!("{what}:\n  expected {expected_line:?}\n  found    {found_line:?}")
}

#[test]
fn syntax_error_names_its_line() {
    for (text, line) in [
        ("a\n{% if x %}\n{% endfor %}", Some(3)),
        ("{{ 'open }}", Some(1)),
        ("a\nb\n{% generation %}{% endwith2 %}", Some(3)),
        (r#"{"chat_template": "{{ x\n | }}"}"#, Some(2)),
        ("{% include 'x' %}", Some(1)),
        (r#"{"chat_template": 1}"#, None),
        (r#"{"chat_template": []}"#, None),
        ("{}", None),
        (r#"{"chat_template": "#, None),
    ] {
        let error = ChatTemplate::parse(text, "x").unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
    }
}

#[test]
fn failing_template_is_not_the_clients_fault() {
    let failure = render("a\n{{ messages.nothing.at_all }}", &said("x")).unwrap_err();
    assert_eq!((failure.kind(), failure.code()), (Kind::Internal, Some("chat_template")));
    assert!(failure.message().contains("test.jinja, line 2"), "{failure}");
    for unknown in ["{{ x | no_such_filter }}", "{{ no_such_function() }}"] {
        assert_eq!(render(unknown, &said("x")).unwrap_err().kind(), Kind::Internal);
    }
}

#[test]
fn refusal_of_a_template_is_a_request_error_with_its_message() {
    for template in [
        "{{ raise_exception('Only one!') }}",
        "{% macro m() %}{{ raise_exception('Only one!') }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}",
    ] {
        let failure = render(template, &said("x")).unwrap_err();
        assert_eq!((failure.kind(), failure.message()), (Kind::Request, "Only one!"));
    }
}

#[test]
fn client_text_is_never_evaluated() {
    let text = "{{ 7*7 }}{% raise %}{# x #}{{ raise_exception('x') }}";
    assert_eq!(render("{{ messages[0].content }}", &said(text)).unwrap(), text);
    let request = json!({"model": "m", "chat_template_kwargs": {"bos_token": "evil", "tools": [1], "x": "{{ 1 }}"},
        "messages": [{"role": "user", "content": "a"}]});
    let template = json!({"bos_token": "<s>", "chat_template": "{{ bos_token }}{{ tools }}{{ x }}"});
    assert_eq!(render(&template.to_string(), &conversation(&request)).unwrap(), "<s>None{{ 1 }}");
}

#[test]
fn tools_that_may_not_be_called_are_not_shown() {
    let tool = json!({"type": "function", "function": {"name": "f"}});
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": [tool]});
    let template = "{{ tools | length if tools else 0 }}";
    assert_eq!(render(template, &conversation(&request)).unwrap(), "1");
    request["tool_choice"] = "none".into();
    assert_eq!(render(template, &conversation(&request)).unwrap(), "0");
}

#[test]
fn instructions_are_what_the_template_says_of_tools() {
    let tools = request("tools").tools;
    let text = template("chatml.jinja").tool_instructions(&tools, NOW).unwrap();
    assert!(
        text.starts_with("# Tools\n\nYou may call these functions.\n<tools>\n{\"type\": \"function\""),
        "{text}"
    );
    assert!(text.ends_with("OBJECT}\n</tool_call>"), "{text}");
    for name in ["chatml.jinja", "turns.jinja", "spaced.jinja"] {
        template(name).check_instructions().unwrap();
    }
    for name in ["inst.jinja", "named.json"] {
        let error = template(name).check_instructions().unwrap_err();
        assert!(error.message.contains("within the system message"), "{name}: {error}");
    }
}

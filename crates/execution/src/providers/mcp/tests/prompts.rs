//! Prompts of servers.

use super::{elicitation::interactive, *};

fn texts(filled: &crate::FilledPrompt) -> Vec<(&str, &str)> {
    filled.messages.iter().map(|message| (message.role(), message.text.as_str())).collect()
}

async fn fill(server: &Started, name: &str, arguments: Value) -> Result<crate::FilledPrompt, ToolError> {
    let arguments = serde_json::from_value(arguments).expect("an object");
    timeout(LONG, server.0.fill(name, arguments)).await.expect("an end")
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let server = Started::ready(&interactive("plain")).await;
    let prompts: Vec<_> = server.0.prompts().iter().map(|prompt| prompt.json("s")).collect();
    let who = json!({"name": "who", "description": "Whom", "required": true});
    let tone = json!({"name": "tone", "description": "", "required": false});
    let expected = json!({"provider": "s", "name": "greet", "title": "Greet", "description": "", "arguments": [who, tone]});
    assert_eq!((prompts.len(), prompts.first()), (3, Some(&expected)));
    let filled = fill(&server, "greet", json!({"who": "you"})).await.expect("a text");
    assert_eq!(texts(&filled), [("user", "Greet you None: secret-word")]);
    assert_eq!(filled.description, "A greeting");
    // Files are named, not lost.
    let filled = fill(&server, "files", json!({})).await.expect("a text");
    assert_eq!(texts(&filled), [("user", "[image/png, 9 bytes]"), ("assistant", "test://a:\na page")]);
    assert_eq!(filled.text(), "user: [image/png, 9 bytes]\n\nassistant: test://a:\na page");
}

#[tokio::test]
async fn values_that_the_prompt_does_not_have_are_refused() {
    let server = Started::ready(&interactive("plain")).await;
    let long = "x".repeat(300 << 10);
    for (name, arguments, expected) in [
        ("none", json!({}), "The server has no prompt of this name."),
        ("greet", json!({}), "The argument `who` is missing."),
        ("greet", json!({"who": "a", "x": "b"}), "The prompt has no argument `x`."),
        ("greet", json!({"who": 1}), "The argument `who` is not a text."),
        ("greet", json!({"who": long}), "The arguments are larger than 262144 bytes."),
        ("huge", json!({}), "The prompt is larger than 262144 bytes."),
    ] {
        assert_eq!(fill(&server, name, arguments).await.expect_err(expected).message, expected);
    }
}

#[tokio::test]
async fn hostile_lists_of_prompts_are_filtered() {
    let server = Started::ready(&interactive("hostile-prompts")).await;
    let prompts = server.0.prompts();
    let names: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(names, ["ok", "told"]);
    let told = prompts.last().expect("a prompt");
    assert_eq!((told.title.as_str(), told.description.chars().count()), ("a [2Jb", 500));
    assert!(!told.description.contains(char::is_control));
    let endless = Started::ready(&interactive("endless-prompts")).await;
    assert_eq!(endless.0.prompts().len(), 200);
}

/// The tools of a server that does not list its prompts are offered nevertheless.
#[tokio::test]
async fn silence_about_prompts_withholds_no_tools() {
    let server = Started::ready(&interactive("silent-prompts")).await;
    assert_eq!(server.0.prompts().len(), 0);
    assert!(server.call("echo", json!({})).await.is_ok());
    // A server that needs no prompts has none.
    assert_eq!(Started::ready(&options("plain")).await.0.prompts().len(), 0);
}

#[tokio::test]
async fn changed_list_of_prompts_is_requested_again() {
    let modern = Options { protocol: Protocol::Discover, ..interactive("modern") };
    for (options, count) in [(interactive("plain"), 1), (interactive("plain"), 10_000), (modern, 1)] {
        let server = Started::ready(&options).await;
        assert_eq!(server.0.prompts().len(), 3);
        server.call("change_prompts", json!({"count": count})).await.expect("an output");
        server.until(|provider| provider.prompts().iter().any(|prompt| prompt.name == "after")).await;
    }
}

//! Tests that images which hosted tools return reach models that see.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    plan::{History, Plan, SPEECHES, Speaker, hop},
    script::{Scripted, call, end, scripted, speaking, text},
    vision,
};
use crate::{
    independent::upstream::Speech,
    support::{
        client::Client,
        proxy::{Proxy, Setup},
    },
};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// What the tool prints: an answer with `count` images.
fn answer(count: usize) -> String {
    let image = json!({"type": "image", "data": PNG});
    let parts: Vec<_> =
        std::iter::once(json!({"type": "text", "text": "Here:"})).chain(vec![image; count]).collect();
    json!({"content": parts}).to_string()
}

/// The setup for a plan whose hosted tool returns an image.
fn setup(plan: &Plan, upstream: &crate::support::upstream::Upstream, folder: &Path) -> Setup {
    let file = folder.join("answer");
    std::fs::write(&file, answer(1)).unwrap();
    let mut setup = plan.setup(upstream, folder);
    let printed = "printf 'found %s' \\\"$call\\\"";
    assert!(setup.execution.contains(printed), "{}", setup.execution);
    setup.execution = setup.execution.replace(printed, &format!("cat {}", file.display()));
    setup
}

#[tokio::test]
async fn image_is_part_of_the_result_at_every_upstream_that_takes_it() {
    for speech in SPEECHES {
        for speaker in [Speaker::Chat, Speaker::Messages, Speaker::Responses] {
            let plan = Plan::new(&[hop("", "s"), hop("", "s"), hop("Done.", "")], speech, speaker);
            let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
            let folder = tempfile::tempdir().unwrap();
            let proxy = setup(&plan, &upstream, folder.path()).start().await;
            let (answer, _) = plan.ask(&proxy, &History::new(speaker)).await;
            assert_eq!((answer.text.as_str(), answer.finish.as_deref()), ("Done.", Some("stop")), "{plan:?}");
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), 3, "{plan:?}");
            let count = |request: &Value| request.to_string().matches(PNG).count();
            let expected = if speech == Speech::Completions { [0, 0, 0] } else { [0, 1, 2] };
            assert_eq!([&asked[0], &asked[1], &asked[2]].map(count), expected, "{plan:?}: {}", asked[1]);
            assert!(asked[1].to_string().contains("/api/images/"), "{plan:?}: {}", asked[1]);
            let request = &asked[1];
            match speech {
                Speech::Chat => {
                    let messages = request["messages"].as_array().unwrap();
                    let (last, before) = messages.split_last().unwrap();
                    assert_eq!(before.last().unwrap()["role"], "tool", "{request}");
                    assert_eq!(
                        (&last["role"], &last["content"][1]["type"]),
                        (&json!("user"), &json!("image_url"))
                    );
                }
                Speech::Messages => {
                    let content = &request["messages"].as_array().unwrap().last().unwrap()["content"];
                    assert_eq!(
                        (&content[0]["type"], &content[0]["content"][1]["type"]),
                        (&json!("tool_result"), &json!("image")),
                        "{request}"
                    );
                }
                Speech::Responses => {
                    let item = request["input"].as_array().unwrap().last().unwrap();
                    assert_eq!(
                        (&item["type"], &item["output"][1]["type"]),
                        (&json!("function_call_output"), &json!("input_image")),
                        "{request}"
                    );
                }
                Speech::Completions => assert!(request.to_string().contains("was left out"), "{request}"),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn image_of_a_deferred_call_reaches_the_model_with_the_results_of_the_client() {
    for speech in [Speech::Chat, Speech::Messages, Speech::Gemini, Speech::Responses] {
        let plan = Plan::new(&[hop("", "s"), hop("Hm.", "sc"), hop("Done.", "")], speech, Speaker::Chat);
        let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
        let folder = tempfile::tempdir().unwrap();
        let proxy = setup(&plan, &upstream, folder.path()).start().await;
        let mut client = History::new(Speaker::Chat);
        let (answer, id) = plan.ask(&proxy, &client).await;
        client.add(&answer, id, true);
        let (answer, _) = plan.ask(&proxy, &client).await;
        assert_eq!(answer.text, "Done.", "{plan:?}");
        let asked = asked.lock().unwrap();
        assert_eq!(asked[2].to_string().matches(PNG).count(), 2, "{speech:?}: {}", asked[2]);
    }
}

/// A proxy whose tool `look` returns `count` images.
async fn looking(upstream: std::net::SocketAddr, count: usize) -> Proxy {
    let execution = format!(
        "[execution]\n[[providers]]\nname = \"look\"\nkind = \"command\"\ncommand = [\"echo\", '{}']\n",
        answer(count)
    );
    Setup { execution, ..Setup::new(upstream) }.start().await
}

fn look() -> Scripted {
    Scripted::stream((call(0, "c0", "look", "{}") + &end("tool_calls")).into())
}

fn done() -> Scripted {
    Scripted::stream((text("Done.") + &end("stop")).into())
}

const ASK: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn upstream_that_refuses_images_gets_the_request_without_them() {
    let refusal = r#"{"error":{"message":"messages[3]: unknown variant `image_url`, expected `text`"}}"#;
    let (upstream, asked) =
        scripted(vec![look(), Scripted::whole("400 Bad Request", refusal), done(), look(), done()]).await;
    let proxy = looking(upstream.address, 1).await;
    for _ in 0..2 {
        let response = Client::new().chat(&proxy, ASK).await.json().await;
        assert_eq!(response["choices"][0]["message"]["content"], "Done.", "{response}");
    }
    let asked: Vec<_> = asked.lock().unwrap().iter().map(Value::to_string).collect();
    let has_image: Vec<_> = asked.iter().map(|request| request.contains(PNG)).collect();
    // The second response does not try again.
    assert_eq!(has_image, [false, true, false, false, false]);
    for request in [&asked[2], &asked[4]] {
        assert!(
            request.contains("Here: [image/png, 72 bytes]") && request.contains("not shown"),
            "{request}"
        );
    }
}

#[tokio::test]
async fn error_that_is_not_about_images_ends_the_response() {
    let (upstream, asked) = scripted(vec![look(), Scripted::whole("401 Unauthorized", "{}")]).await;
    let proxy = looking(upstream.address, 1).await;
    let response = Client::new().chat(&proxy, ASK).await.json().await;
    assert!(response["error"].is_object(), "{response}");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn number_of_images_in_a_response_is_limited() {
    let (upstream, asked) = scripted(vec![look(), done()]).await;
    let proxy = looking(upstream.address, 23).await;
    Client::new().chat(&proxy, ASK).await.json().await;
    let request = asked.lock().unwrap()[1].to_string();
    assert_eq!(request.matches(PNG).count(), 20);
    assert!(request.contains("[3 of 23 files are not shown: too many in one response]"), "{request}");
}

#[tokio::test]
async fn images_are_described_for_a_model_that_does_not_see() {
    let streams = [call(0, "c0", "look", "{}") + &end("tool_calls"), text("A fox.") + &end("stop")];
    for (fails, description) in [(false, "a red fox"), (true, "it could not be described")] {
        let (upstream, asked) = vision::upstream(&streams, fails).await;
        let execution = format!(
            "[execution]\n[[providers]]\nname = \"look\"\nkind = \"command\"\ncommand = [\"echo\", '{}']\n",
            answer(2)
        );
        let proxy = vision::start(&upstream, &execution).await;
        Client::new().chat(&proxy, ASK).await.json().await;
        let asked = asked.lock().unwrap();
        assert_eq!((asked.describer.len(), asked.model.len()), (1, 2), "equal images are described once");
        let question = asked.describer[0].to_string();
        assert!(question.contains(PNG) && question.contains("Here:"), "{question}");
        let request = asked.model[1].to_string();
        let described = format!("[image 1: {description}]\\n[image 2: {description}]");
        assert!(request.contains(&described) && !request.contains(PNG), "{request}");
    }
}

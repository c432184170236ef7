//! Tests clients that send back the items of hosted calls. Upstreams get these items as calls with results, or not
//! at all.

use std::path::Path;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{
    plan::{Past, Plan, SPEECHES, Speaker, history, hop},
    script::speaking,
};
use crate::{
    independent::upstream::Speech,
    support::{
        client::Client,
        proxy::{Proxy, Setup},
        upstream::Upstream,
    },
};

/// A proxy that shows hosted calls as items.
fn setup(plan: &Plan, upstream: &Upstream, folder: &Path) -> Setup {
    let mut setup = plan.setup(upstream, folder);
    setup.execution = setup.execution.replacen("[execution]\n", "[execution]\nvisibility = \"items\"\n", 1);
    setup
}

/// The conversation of a client that sends back everything it gets.
struct ClientHistory {
    speaker: Speaker,
    items: Vec<Value>,
    previous: Option<Value>,
}

impl ClientHistory {
    fn new(speaker: Speaker) -> Self {
        Self { speaker, items: vec![json!({"role": "user", "content": "hi"})], previous: None }
    }

    /// Sends a request and keeps the answer. Returns the IDs of the client's calls.
    async fn ask(&mut self, proxy: &Proxy) -> Vec<Value> {
        let previous = self.previous.as_ref().and_then(Value::as_str);
        let (path, body) = self.speaker.request(&self.items, previous, false);
        let request = Request::post(proxy.url(path)).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let answer = Client::new().send(request).await.unwrap().rest().await;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match self.speaker {
            Speaker::Chat => {
                let message = answer["choices"][0]["message"].clone();
                let calls = list(&message["tool_calls"]);
                self.items.push(message);
                calls.iter().map(|call| call["id"].clone()).collect()
            }
            Speaker::Messages => {
                let calls = list(&answer["content"]).into_iter().filter(|block| block["type"] == "tool_use");
                self.items.push(json!({"role": "assistant", "content": answer["content"]}));
                calls.map(|call| call["id"].clone()).collect()
            }
            Speaker::Responses | Speaker::Continuing => {
                let output = list(&answer["output"]);
                let calls = output.iter().filter(|item| item["type"] == "function_call");
                let calls = calls.map(|call| call["call_id"].clone()).collect();
                match self.speaker {
                    Speaker::Continuing => {
                        self.items.clear();
                        self.previous = Some(answer["id"].clone());
                    }
                    _ => self.items.extend(output),
                }
                calls
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.items.push(json!({"role": "user", "content": text}));
    }

    fn result(&mut self, id: &Value) {
        self.items.push(match self.speaker {
            Speaker::Chat => json!({"role": "tool", "tool_call_id": id, "content": "own result"}),
            Speaker::Messages => {
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "own result"}]})
            }
            _ => json!({"type": "function_call_output", "call_id": id, "output": "own result"}),
        });
    }
}

fn past(text: &str, calls: &[(&str, usize)], results: &[&str]) -> Past {
    let calls = calls.iter().map(|(name, n)| ((*name).to_owned(), json!({"n": n}))).collect();
    let results = results.iter().map(|result| (*result).to_owned()).collect();
    Past { state: None, text: text.to_owned(), calls, results }
}

fn has_structure(speech: Speech) -> bool {
    !matches!(speech, Speech::LumoV1 | Speech::LumoV2 | Speech::Completions)
}

/// Checks that the request contains no items that upstreams do not know.
fn check_foreign(request: &Value, case: &str) {
    let text = request.to_string();
    for own in
        ["srvtoolu", "mcptoolu", "mcp_tool", "mcp_call", "server_tool_use", "tool_results", "call_toolwire"]
    {
        assert!(!text.contains(own), "{case}: {own} in {text}");
    }
}

#[tokio::test]
async fn shown_calls_come_back_as_calls_while_their_tool_is_known_and_leave_their_text_otherwise() {
    let hops = [hop("Look.", "s"), hop("It rains.", ""), hop("Bye.", "")];
    for speech in SPEECHES {
        for speaker in Speaker::ALL {
            let case = format!("{speech:?} {speaker:?}");
            let plan = Plan::new(&hops, speech, speaker);
            let folder = tempfile::tempdir().unwrap();
            let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
            let proxy = setup(&plan, &upstream, folder.path()).start().await;
            let mut kept = ClientHistory::new(speaker);
            assert!(kept.ask(&proxy).await.is_empty(), "{case}");
            kept.say("next");
            kept.ask(&proxy).await;
            let request =
                asked.lock().unwrap().get(2).cloned().unwrap_or_else(|| panic!("{case}: no request"));
            check_foreign(&request, &case);
            let found = r#"found {"n":0}"#;
            if has_structure(speech) {
                let call = [("hosted", 0)];
                let expected = match speaker {
                    // The call's position in the text is not known.
                    Speaker::Chat => [past("", &call, &[found]), past("Look.\n\nIt rains.", &[], &[])],
                    _ => [past("Look.", &call, &[found]), past("It rains.", &[], &[])],
                };
                let texts = |turns: &[Past]| -> Vec<Past> {
                    let trimmed = |past: &Past| Past { text: past.text.trim().to_owned(), ..past.clone() };
                    turns.iter().map(trimmed).collect()
                };
                assert_eq!(texts(&history(speech, &request)), expected, "{case}");
            } else {
                let text = request.to_string();
                assert!(text.contains("found ") && text.contains("It rains."), "{case}: {text}");
            }
            if speaker == Speaker::Continuing {
                continue;
            }
            // This proxy no longer has the tool.
            kept.items.truncate(kept.items.len() - 1);
            let (upstream, asked) = speaking(plan.responses().split_off(2), 1 << 20).await;
            let mut setup = setup(&plan, &upstream, folder.path());
            setup.execution = String::new();
            let proxy = setup.start().await;
            kept.ask(&proxy).await;
            let request = asked.lock().unwrap()[0].clone();
            check_foreign(&request, &case);
            let text = request.to_string();
            assert!(text.contains("It rains.") && !text.contains("found "), "{case}: {text}");
        }
    }
}

#[tokio::test]
async fn shown_calls_of_a_mixed_response_are_in_the_history_once() {
    let hops = [hop("First.", "s"), hop("Hm.", "cs"), hop("Done.", "")];
    for speech in SPEECHES.into_iter().filter(|speech| has_structure(*speech)) {
        for speaker in Speaker::ALL {
            let case = format!("{speech:?} {speaker:?}");
            let plan = Plan::new(&hops, speech, speaker);
            let folder = tempfile::tempdir().unwrap();
            let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
            let proxy = setup(&plan, &upstream, folder.path()).start().await;
            let mut kept = ClientHistory::new(speaker);
            let calls = kept.ask(&proxy).await;
            assert_eq!(calls.len(), 1, "{case}");
            kept.result(&calls[0]);
            kept.ask(&proxy).await;
            let request = asked.lock().unwrap()[2].clone();
            check_foreign(&request, &case);
            let expected = [
                past("First.", &[("hosted", 0)], &[r#"found {"n":0}"#]),
                past("Hm.", &[("own", 1), ("hosted", 2)], &["own result", r#"found {"n":2}"#]),
            ];
            assert_eq!(history(speech, &request), expected, "{case}");
        }
    }
}

/// A Messages response: thinking with a signature, then a call or text.
fn thinking(thought: &str, signature: &str, call: bool) -> Vec<u8> {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let delta =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    let (block, piece, reason) = match call {
        true => (
            json!({"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "hosted", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": r#"{"n":0}"#}),
            "tool_use",
        ),
        false => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "Done."}), "end_turn")
        }
    };
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let events = [
        start,
        json!({"type": "content_block_start", "index": 0, "content_block": thinking}),
        delta(0, json!({"type": "thinking_delta", "thinking": thought})),
        delta(0, json!({"type": "signature_delta", "signature": signature})),
        stop(0),
        json!({"type": "content_block_start", "index": 1, "content_block": block}),
        delta(1, piece),
        stop(1),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect::<String>().into_bytes()
}

/// A response in which Lumo searches. In v1, its calls have no ids.
fn lumo_search(speech: Speech) -> Vec<u8> {
    let arguments = json!({"query": "rain"});
    let found = json!({"results": [{"title": "A", "url": "https://a.example/"}]});
    let (call, result) = match speech {
        Speech::LumoV1 => (
            json!(["tc", json!({"name": "web_search", "arguments": arguments}).to_string()]),
            json!(["tr", found.to_string()]),
        ),
        _ => (
            json!(["stc", {"id": "n1", "name": "web_search", "arguments": arguments.to_string()}]),
            json!(["str", {"call_id": "n1", "content": found}]),
        ),
    };
    let end = if speech == Speech::LumoV1 { vec![] } else { vec![json!(["fin", "stop"])] };
    speech.stream(
        &[vec![json!(["m", "Look."]), call, result, json!(["m", "It rains."])], end, vec![json!(["done"])]]
            .concat(),
    )
}

#[tokio::test]
async fn searches_of_lumo_come_back_with_their_results() {
    for speech in [Speech::LumoV1, Speech::LumoV2] {
        for speaker in Speaker::ALL {
            let case = format!("{speech:?} {speaker:?}");
            let plan = Plan::new(&[], speech, speaker);
            let folder = tempfile::tempdir().unwrap();
            let (upstream, asked) = speaking(vec![lumo_search(speech); 2], 1 << 20).await;
            let mut setup = plan.setup(&upstream, folder.path());
            setup.execution = String::new();
            let proxy = setup.start().await;
            let mut history = ClientHistory::new(speaker);
            assert!(history.ask(&proxy).await.is_empty(), "{case}");
            history.say("And tomorrow?");
            history.ask(&proxy).await;
            let asked = asked.lock().unwrap();
            let again = asked[1].to_string();
            for expected in ["query", "https://a.example/", "Look.", "It rains."] {
                assert_eq!(again.matches(expected).count(), 1, "{case}: {expected} in {again}");
            }
            assert!(!again.contains("no result") && !again.contains("<result>"), "{case}: {again}");
        }
    }
}

#[tokio::test]
async fn lines_about_calls_are_in_no_signed_reasoning() {
    for speaker in [Speaker::Messages, Speaker::Responses] {
        let plan = Plan::new(&[], Speech::Messages, speaker);
        let folder = tempfile::tempdir().unwrap();
        let responses = vec![thinking("hm1", "SIG1", true), thinking("hm2", "SIG2", false)];
        let (upstream, _) = speaking(responses, 1 << 20).await;
        let mut setup = setup(&plan, &upstream, folder.path());
        setup.execution = setup.execution.replace("\"items\"", "\"reasoning\"");
        let proxy = setup.start().await;
        let mut kept = ClientHistory::new(speaker);
        kept.ask(&proxy).await;
        let texts: Vec<(String, bool)> = match speaker {
            Speaker::Messages => {
                let blocks = kept.items[1]["content"].as_array().unwrap().iter();
                let thinking = blocks.filter(|block| block["type"] == "thinking");
                thinking
                    .map(|block| (block["thinking"].as_str().unwrap().to_owned(), block["signature"] != ""))
                    .collect()
            }
            _ => {
                let items = kept.items.iter().filter(|item| item["type"] == "reasoning");
                let text = |item: &Value| item["summary"][0]["text"].as_str().unwrap().to_owned();
                items.map(|item| (text(item), item.get("encrypted_content").is_some())).collect()
            }
        };
        let [first, line, note, second] = &texts[..] else { panic!("{speaker:?} {texts:?}") };
        assert_eq!((first, second), (&("hm1".to_owned(), true), &("hm2".to_owned(), true)));
        assert_eq!(line, &("Running: hosted\n".to_owned(), false));
        assert!(note.0.starts_with("hosted: ") && !note.1, "{note:?}");
    }
}

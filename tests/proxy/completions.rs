//! Upstreams that complete text: the chat template's prompt, and calls in what the model writes.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use toolwire::{
    config::ToolStyle,
    dialect::{
        UpstreamDialect,
        completions::{Options, Server},
    },
    format,
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

/// Roles in brackets, tools in the system message, and an answer that begins with reasoning.
const TEMPLATE: &str = r#"{"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' and m.content == 'refuse' %}{{ raise_exception('No results, please.') }}{% endif %}[{{ m.role }}] {{ m.content }}{% if loop.first and tools %}Tools: {{ tools | tojson }}{% endif %}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}[assistant]{% if enable_thinking %}<think>\n{% endif %}"}"#;

/// A proxy before an upstream that answers with `status` and `body`, and the paths and bodies of its requests.
async fn before(
    server: Server,
    (status, kind, body): (&'static str, &'static str, String),
    change: impl FnOnce(&mut Setup),
) -> (Proxy, Upstream, Arc<Mutex<Vec<(String, Value)>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, body) = (asked.clone(), Arc::new(body));
    let upstream = Upstream::start(move |mut exchange| {
        let (seen, body) = (seen.clone(), body.clone());
        async move {
            let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().await.push((path, serde_json::from_slice(&exchange.body).unwrap()));
            exchange.whole(status, &format!("content-type: {kind}\r\n"), &body).await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Completions(Options { server, ..Options::default() });
    setup.chat_template = Some(TEMPLATE.to_owned());
    change(&mut setup);
    (setup.start().await, upstream, asked)
}

const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}})
}

async fn ask(proxy: &Proxy, fields: Value) -> (u16, Value) {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "{{ 7*7 }}"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let reply = Client::new().send(chat_request(proxy, body.to_string())).await.unwrap();
    (reply.status().as_u16(), reply.json().await)
}

#[tokio::test]
async fn prompt_is_rendered_and_calls_in_the_text_are_found() {
    let text = "Ok.\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>";
    let openai = json!({"choices": [{"text": text, "finish_reason": "stop"}]}).to_string();
    let llama = json!({"content": text, "stop": true}).to_string();
    let ollama = json!({"response": text, "done": true}).to_string();
    for (server, path, body) in [
        (Server::OpenAi, "/base/completions", openai),
        (Server::LlamaCpp, "/base/completion", llama),
        (Server::Ollama, "/base/api/generate", ollama),
    ] {
        let (proxy, _upstream, asked) = before(server, ("200 OK", JSON, body), |_| {}).await;
        let (status, answer) = ask(&proxy, json!({"tools": [tool()]})).await;
        assert_eq!(status, 200, "{answer}");
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
        assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
        assert_eq!(choice["message"]["content"], "Ok.");
        let asked = asked.lock().await;
        assert_eq!(asked[0].0, path);
        let tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", \"parameters\": {\"type\": \"object\"}}}]";
        assert_eq!(asked[0].1["prompt"], format!("[user] {{{{ 7*7 }}}}Tools: {tools}[assistant]"));
    }
}

#[tokio::test]
async fn end_of_the_prompt_decides_whether_the_response_starts_in_reasoning() {
    for (thinks, reasoning, content) in
        [(true, json!("hm"), json!("yes")), (false, Value::Null, json!("hm</think>yes"))]
    {
        let body = json!({"choices": [{"text": "hm</think>yes", "finish_reason": "stop"}]}).to_string();
        let (proxy, _upstream, _) = before(Server::OpenAi, ("200 OK", JSON, body), |_| {}).await;
        let (_, answer) = ask(&proxy, json!({"chat_template_kwargs": {"enable_thinking": thinks}})).await;
        let message = &answer["choices"][0]["message"];
        if thinks {
            assert_eq!(
                (&message["reasoning_content"], &message["content"]),
                (&reasoning, &content),
                "{answer}"
            );
        } else {
            assert_eq!(message.get("reasoning_content").unwrap_or(&Value::Null), &reasoning, "{answer}");
        }
    }
}

#[tokio::test]
async fn stream_is_passed_on_and_a_truncated_one_is_an_error() {
    let chunk = |text: &str, finish: Option<&str>| {
        let choice = json!({"index": 0, "text": text, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
    };
    for (body, expected) in [
        (chunk("hel", None) + &chunk("lo", Some("stop")) + "data: [DONE]\n\n", "data: [DONE]"),
        (chunk("hel", None) + &chunk("lo", None), "upstream_truncated"),
    ] {
        let (proxy, _upstream, asked) = before(Server::OpenAi, ("200 OK", SSE, body), |_| {}).await;
        let request = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let reply = Client::new().send(chat_request(&proxy, request.to_string())).await.unwrap();
        let told = reply.rest().await;
        assert!(told.contains("\"hel\"") && told.contains(expected), "{told}");
        let asked = asked.lock().await;
        assert_eq!(asked[0].1["stream_options"]["include_usage"], true);
    }
}

#[tokio::test]
async fn upstream_that_ignores_stream_is_read_all_the_same() {
    let body = "{\n \"choices\": [{\"text\": \"hello\", \"finish_reason\": \"stop\"}]\n}\n".to_owned();
    let (proxy, _upstream, _) = before(Server::OpenAi, ("200 OK", JSON, body), |_| {}).await;
    let request = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let reply = Client::new().send(chat_request(&proxy, request.to_string())).await.unwrap();
    let told = reply.rest().await;
    assert!(told.contains("\"hello\"") && told.contains("[DONE]"), "{told}");
}

#[tokio::test]
async fn refusals_of_upstream_and_template_reach_the_client() {
    let refused = r#"{"object":"error","message":"unknown field x","type":"BadRequestError","code":400}"#;
    let upstream = ("400 Bad Request", JSON, refused.to_owned());
    let (proxy, _upstream, asked) = before(Server::OpenAi, upstream, |_| {}).await;
    let (status, answer) = ask(&proxy, json!({})).await;
    assert_eq!((status, &answer["error"]["message"]), (400, &json!("unknown field x")));
    let result = json!([{"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": "}}]},
        {"role": "tool", "tool_call_id": "c", "content": "refuse"}]);
    let (status, answer) = ask(&proxy, json!({"messages": result})).await;
    assert_eq!((status, &answer["error"]["message"]), (400, &json!("No results, please.")), "{answer}");
    assert_eq!(asked.lock().await.len(), 1, "the refused conversation is not sent");
}

#[tokio::test]
async fn failing_template_is_a_server_error() {
    let change = |setup: &mut Setup| setup.chat_template = Some("{{ messages.a.b }}".to_owned());
    let (proxy, _upstream, asked) = before(Server::OpenAi, ("200 OK", JSON, String::new()), change).await;
    let (status, answer) = ask(&proxy, json!({})).await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!("chat_template")), "{answer}");
    assert!(asked.lock().await.is_empty());
}

#[tokio::test]
async fn instructions_of_a_chat_upstream_can_come_from_the_template() {
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]});
    let change = |setup: &mut Setup| {
        setup.upstream.options = Setup::new(([127, 0, 0, 1], 1).into()).upstream.options;
        setup.tools = ToolStyle::Format(format::by_name("hermes").unwrap());
        setup.instructions = Some("template".to_owned());
    };
    let (proxy, _upstream, asked) = before(Server::OpenAi, ("200 OK", JSON, body.to_string()), change).await;
    assert_eq!(ask(&proxy, json!({"tools": [tool()]})).await.0, 200);
    let asked = asked.lock().await;
    let system = asked[0].1["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Tools: [{\"type\": \"function\"") && system.ends_with("}}]"), "{system}");
    assert_eq!(asked[0].1.get("tools"), None);
}

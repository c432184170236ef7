//! Tests text completion upstreams: prompts rendered with the chat template, and calls written as text.

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
    rules::{Detect, Enforce},
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

/// A template with roles in brackets and with tools in the system message. The answer begins with reasoning.
const TEMPLATE: &str = r#"{"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' and m.content == 'refuse' %}{{ raise_exception('No results, please.') }}{% endif %}[{{ m.role }}] {{ m.content }}{% if loop.first and tools %}Tools: {{ tools | tojson }}{% endif %}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}[assistant]{% if enable_thinking %}<think>\n{% endif %}"}"#;

/// A proxy in front of an upstream that answers with `status` and `body`. Also returns the path and the body of
/// each request that the upstream receives.
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
        let body = reply.rest().await;
        assert!(body.contains("\"hel\"") && body.contains(expected), "{body}");
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
    let body = reply.rest().await;
    assert!(body.contains("\"hello\"") && body.contains("[DONE]"), "{body}");
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

const WHOLE: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\":{\"x\":1}}\n</tool_call>";

/// Sends a request with a required call. The upstream runs the software `server` and answers with `said`. Returns the
/// request that the upstream gets, and the response.
async fn required(
    (server, said): (Server, &str),
    fields: Value,
    change: impl FnOnce(&mut Setup),
) -> (Value, Value) {
    let body = match server {
        Server::LlamaCpp => json!({"content": said, "stop": true}),
        Server::Ollama => json!({"response": said, "done": true}),
        _ => json!({"choices": [{"text": said, "finish_reason": "stop"}]}),
    };
    let (proxy, _upstream, asked) = before(server, ("200 OK", JSON, body.to_string()), |setup| {
        setup.settings.detect = Detect::AutoAnd(vec!["hermes"]);
        change(setup);
    })
    .await;
    let mut request = json!({"tools": [tool()], "tool_choice": "required"});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let (status, answer) = ask(&proxy, request).await;
    assert_eq!(status, 200, "{answer}");
    let asked = asked.lock().await[0].1.clone();
    (asked, answer)
}

fn arguments(answer: &Value) -> &Value {
    assert_eq!(answer["choices"][0]["message"]["content"], Value::Null, "{answer}");
    &answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
}

#[tokio::test]
async fn each_server_is_asked_for_constraints_in_its_own_form() {
    let bare = r#"{"name": "f", "arguments": {"x":1}}"#;
    for (server, enforce, key, pointer, expected) in [
        (Server::Vllm, Enforce::Auto, "response_format", "/response_format/type", json!("structural_tag")),
        (Server::Vllm, Enforce::Schema, "response_format", "/response_format/type", json!("json_schema")),
        (Server::Vllm, Enforce::Grammar, "structured_outputs", "", Value::Null),
        (Server::Sglang, Enforce::Auto, "response_format", "/response_format/type", json!("structural_tag")),
        (
            Server::Sglang,
            Enforce::Schema,
            "response_format",
            "/response_format/json_schema/name",
            json!("tool_call"),
        ),
        (Server::Sglang, Enforce::Grammar, "ebnf", "", Value::Null),
        (Server::LlamaCpp, Enforce::Auto, "json_schema", "/json_schema/properties/name/const", json!("f")),
        (Server::LlamaCpp, Enforce::Grammar, "grammar", "", Value::Null),
        (Server::LlamaCppPython, Enforce::Auto, "grammar", "", Value::Null),
        (Server::Ollama, Enforce::Auto, "format", "/format/properties/name/const", json!("f")),
    ] {
        let what = format!("{server:?} {enforce:?}");
        let is_schema = ["json_schema", "format"].contains(&key)
            || pointer.contains("json_schema")
            || expected == "json_schema";
        let said = if is_schema { bare } else { WHOLE };
        let fields = json!({"response_format": {"type": "json_object"}, "skip_special_tokens": true});
        let (asked, answer) =
            required((server, said), fields, |setup| setup.settings.enforce = enforce).await;
        let found = asked.get(key).unwrap_or_else(|| panic!("{what}: {asked}"));
        if pointer.is_empty() {
            assert!(found.to_string().contains("root ::="), "{what}: {asked}");
        } else {
            assert_eq!(asked.pointer(pointer), Some(&expected), "{what}: {asked}");
        }
        assert!(asked["prompt"].as_str().unwrap().ends_with("[assistant]"), "{what}: {asked}");
        assert_eq!(arguments(&answer), "{\"x\":1}", "{what}: {answer}");
        let is_tagged = expected == "structural_tag";
        if is_tagged {
            assert_eq!(asked["skip_special_tokens"], false, "{what}: {asked}");
        }
    }
}

/// The prefill is at the end of the prompt, which every server continues.
#[tokio::test]
async fn prompt_ends_with_the_prefill() {
    for server in [Server::OpenAi, Server::Other, Server::Tgi, Server::Vllm, Server::LlamaCpp, Server::Ollama]
    {
        let rest = WHOLE.strip_prefix("<tool_call>\n{\"name\": \"f\", \"arguments\":").unwrap();
        let enforce = if server == Server::OpenAi { Enforce::Auto } else { Enforce::Prefill };
        let (asked, answer) =
            required((server, rest), json!({}), |setup| setup.settings.enforce = enforce).await;
        let prompt = asked["prompt"].as_str().unwrap();
        assert!(prompt.ends_with("[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\":"), "{prompt}");
        assert_eq!(arguments(&answer), "{\"x\":1}", "{answer}");
    }
}

/// A constraint on the first token would also apply to the reasoning.
#[tokio::test]
async fn nothing_is_enforced_inside_reasoning() {
    for (server, enforce) in [
        (Server::OpenAi, Enforce::Auto),
        (Server::Vllm, Enforce::Auto),
        (Server::LlamaCpp, Enforce::Schema),
        (Server::Ollama, Enforce::Auto),
        (Server::Sglang, Enforce::Grammar),
    ] {
        let said = format!("Hm.</think>{WHOLE}");
        let thinks = json!({"chat_template_kwargs": {"enable_thinking": true}});
        let (asked, answer) =
            required((server, &said), thinks, |setup| setup.settings.enforce = enforce).await;
        for key in ["response_format", "format", "json_schema", "grammar", "ebnf", "structured_outputs"] {
            assert!(asked.get(key).is_none(), "{server:?}: {asked}");
        }
        assert!(asked["prompt"].as_str().unwrap().ends_with("<think>\n"), "{asked}");
        assert_eq!(arguments(&answer), "{\"x\":1}", "{answer}");
        assert_eq!(answer["choices"][0]["message"]["reasoning_content"], "Hm.");
    }
}

/// The format in which the template writes calls is not known.
#[tokio::test]
async fn nothing_is_enforced_in_an_unknown_format() {
    let auto = |setup: &mut Setup| {
        setup.settings.enforce = Enforce::Auto;
        setup.settings.detect = Detect::Auto;
    };
    let (asked, answer) = required((Server::Vllm, WHOLE), json!({}), auto).await;
    assert!(asked.get("response_format").is_none(), "{asked}");
    assert_eq!(arguments(&answer), "{\"x\":1}", "{answer}");
}

#[tokio::test]
async fn taught_tools_are_enforced() {
    let taught = |setup: &mut Setup| {
        setup.settings.enforce = Enforce::Auto;
        setup.tools = ToolStyle::Format(&format::HERMES);
        setup.chat_template = None;
    };
    let (asked, answer) = required((Server::Vllm, WHOLE), json!({}), taught).await;
    assert_eq!(asked["response_format"]["format"]["triggers"], json!(["<tool_call>"]), "{asked}");
    assert_eq!(arguments(&answer), "{\"x\":1}", "{answer}");
}

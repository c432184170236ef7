//! Tests upstreams that need requests different from OpenAI's: names, IDs and fields.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolwire::{
    conversation::{IdForm, NameForm},
    dialect::{
        UpstreamDialect,
        chat::{Options, Profile},
    },
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream, at_once},
};

/// The path, the key header and the body of each request that an upstream has received.
type Asked = Arc<Mutex<Vec<(String, Option<String>, Value)>>>;

/// An upstream that calls the tool `name`.
async fn upstream(name: &'static str) -> (Upstream, Asked) {
    let asked = Asked::default();
    let upstream = Upstream::start_sharing(Arc::clone(&asked), move |exchange: Exchange, asked| async move {
        let body = serde_json::from_slice(&exchange.body).unwrap();
        let key = exchange.header("api-key").map(str::to_owned);
        let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
        asked.lock().unwrap().push((path, key, body));
        let chunk = |delta: Value, finish: Option<&str>| {
            let chunk = json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            format!("data: {chunk}\n\n")
        };
        let head =
            json!({"index": 0, "id": "c9", "type": "function", "function": {"name": name, "arguments": ""}});
        let rest = json!({"index": 0, "function": {"arguments": "{\"x\":1}"}});
        let frames = [
            chunk(json!({"role": "assistant", "content": null}), None),
            chunk(json!({"tool_calls": [head]}), None),
            chunk(json!({"tool_calls": [rest]}), None),
            chunk(json!({}), Some("tool_calls")),
            "data: [DONE]\n\n".to_owned(),
        ];
        exchange.stream(frames.concat()).await
    })
    .await;
    (upstream, asked)
}

/// Returns the response to `request`, and the request that the upstream gets for it.
async fn asked_by(
    name: &'static str,
    options: Options,
    request: &Value,
) -> (String, (String, Option<String>, Value)) {
    let (upstream, asked) = upstream(name).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Chat(options);
    let proxy = setup.start().await;
    let response = Client::new().send(chat_request(&proxy, request.to_string())).await.unwrap().rest().await;
    let asked = asked.lock().unwrap().pop().unwrap_or_else(|| panic!("{response}"));
    (response, asked)
}

fn of(profile: &str) -> Options {
    let host = match profile {
        "mistral" => "api.mistral.ai",
        "moonshot" => "api.moonshot.ai",
        "openai" => "api.openai.com",
        "azure" => "x.openai.azure.com",
        "gemini" => "generativelanguage.googleapis.com",
        "groq" => "api.groq.com",
        "deepseek" => "api.deepseek.com",
        _ => "",
    };
    let options = Options::of_host(host);
    assert_ne!(options.profile, Profile::None);
    options
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}, "strict": true}})
}

/// A streaming request whose history contains a call.
fn dialogue(fields: Value) -> Value {
    let call =
        json!({"id": "call_0123456789", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut request = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "1"},
    ], "tools": [function("f")]});
    for (key, value) in fields.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

#[tokio::test]
async fn names_that_the_upstream_rejects_are_mapped_and_mapped_back() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "tab.open", "arguments": "{}"}});
    let request = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ], "tools": [function("tab.open"), function("plain")],
    "tool_choice": {"type": "function", "function": {"name": "tab.open"}}});
    let (response, (_, _, body)) = asked_by("tab_open", Options::of_host(""), &request).await;
    assert_eq!(body["tools"][0], function("tab_open"));
    assert_eq!(body["tools"][1], function("plain"));
    assert_eq!(body["tool_choice"]["function"]["name"], "tab_open");
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], "tab_open");
    assert!(response.contains(r#""name":"tab.open""#) && !response.contains("tab_open"), "{response}");
    let whole = {
        let mut request = request.clone();
        request["stream"] = false.into();
        asked_by("tab_open", Options::of_host(""), &request).await.0
    };
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "tab.open");
    // An upstream that accepts such names gets and sends them unchanged.
    let keeps = Options { tool_names: NameForm::Any, ..Options::of_host("") };
    let (response, (_, _, body)) = asked_by("tab.open", keeps, &request).await;
    assert_eq!(body["tools"], request["tools"]);
    assert_eq!(body["messages"][1]["tool_calls"], request["messages"][1]["tool_calls"]);
    assert!(response.contains(r#""name":"tab.open""#), "{response}");
}

/// If the client's instructions mention the tool, the model may use either name.
#[tokio::test]
async fn the_clients_own_name_is_understood_too() {
    let request = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}],
        "tools": [function("Größe ändern")]});
    let (response, _) = asked_by("Größe ändern", Options::of_host(""), &request).await;
    assert!(response.contains(r#""name":"Größe ändern""#), "{response}");
    let (response, (_, _, body)) = asked_by("Gr__e__ndern", Options::of_host(""), &request).await;
    assert_eq!(body["tools"][0]["function"]["name"], "Gr__e__ndern");
    assert!(response.contains(r#""name":"Größe ändern""#), "{response}");
}

#[tokio::test]
async fn a_custom_tool_with_a_rejected_name_is_a_function_for_the_upstream() {
    let options = Options { keep_custom_tools: true, ..Options::of_host("") };
    let custom = json!({"type": "custom", "custom": {"name": "apply.patch"}});
    let request = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}],
        "tools": [custom]});
    let (response, (_, _, body)) = asked_by("apply_patch", options, &request).await;
    assert_eq!(body["tools"][0]["function"]["name"], "apply_patch");
    assert!(response.contains(r#""type":"custom","custom":{"name":"apply.patch""#), "{response}");
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_and_no_unknown_fields() {
    let mut request = dialogue(json!({"tool_choice": "required", "max_completion_tokens": 5}));
    request["messages"][1]["reasoning_content"] = "hm".into();
    let (_, (_, _, body)) = asked_by("f", of("mistral"), &request).await;
    let id = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][2]["tool_call_id"], id);
    assert_eq!(body["messages"][1].get("reasoning_content"), None);
    assert_eq!((&body["tool_choice"], &body["max_tokens"]), (&json!("any"), &json!(5)));
    assert_eq!((body.get("max_completion_tokens"), body.get("stream_options")), (None, None));
    let again = asked_by("f", of("mistral"), &request).await.1.2;
    assert_eq!(again, body, "the same request is the same again");
}

#[tokio::test]
async fn ids_of_the_upstream_reach_the_client_as_they_are() {
    let options = Options { call_ids: IdForm::Alphanumeric(9), ..Options::of_host("") };
    let (response, _) = asked_by("f", options, &dialogue(json!({}))).await;
    assert!(response.contains(r#""id":"c9""#), "{response}");
}

#[tokio::test]
async fn kimi_gets_a_placeholder_and_no_conflicting_fields() {
    let (_, (_, _, body)) =
        asked_by("f", of("moonshot"), &dialogue(json!({"reasoning_effort": "low"}))).await;
    assert_eq!(body["messages"][1]["reasoning_content"], "");
    assert_eq!((&body["reasoning_effort"], body.get("thinking")), (&json!("low"), None));
    let both = dialogue(json!({"reasoning_effort": "low", "thinking": {"type": "enabled"}}));
    let (_, (_, _, body)) = asked_by("f", of("moonshot"), &both).await;
    assert_eq!((body.get("reasoning_effort"), &body["thinking"]), (None, &json!({"type": "enabled"})));
    let forced = dialogue(json!({"thinking": {"type": "enabled"}, "tool_choice": "required"}));
    let (_, (_, _, body)) = asked_by("f", of("moonshot"), &forced).await;
    assert_eq!((&body["thinking"], &body["tool_choice"]), (&json!({"type": "disabled"}), &json!("required")));
    let off = dialogue(json!({"thinking": {"type": "disabled"}}));
    let (_, (_, _, body)) = asked_by("f", of("moonshot"), &off).await;
    assert_eq!(body["messages"][1].get("reasoning_content"), None);
    let mut own = dialogue(json!({}));
    own["messages"][1]["reasoning_content"] = "hm".into();
    let (_, (_, _, body)) = asked_by("f", of("moonshot"), &own).await;
    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
}

#[tokio::test]
async fn other_providers_get_what_they_demand() {
    let (_, (_, _, body)) = asked_by("f", of("gemini"), &dialogue(json!({}))).await;
    assert_eq!((&body["messages"][2]["name"], &body["messages"][2]["content"]), (&json!("f"), &json!("1")));
    let mut own = dialogue(json!({}));
    own["messages"][1]["reasoning_content"] = "hm".into();
    let (_, (_, _, body)) = asked_by("f", of("groq"), &own).await;
    assert_eq!(body["messages"][1].get("reasoning_content"), None);
    let (_, (_, _, body)) = asked_by("f", of("deepseek"), &dialogue(json!({}))).await;
    assert_eq!(body["messages"][1]["reasoning_content"], "");
    let (_, (_, _, body)) = asked_by("f", of("openai"), &dialogue(json!({"max_tokens": 5}))).await;
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(5)));
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], "call_0123456789");
    let mut long = dialogue(json!({}));
    long["messages"][1]["tool_calls"][0]["id"] = "x".repeat(41).into();
    long["messages"][2]["tool_call_id"] = "x".repeat(41).into();
    let (_, (_, _, body)) = asked_by("f", of("openai"), &long).await;
    let id = body["messages"][2]["tool_call_id"].as_str().unwrap();
    assert!(id.len() <= 40 && body["messages"][1]["tool_calls"][0]["id"] == id, "{body}");
}

#[tokio::test]
async fn azure_gets_its_key_and_its_deployment() {
    let (_, (path, key, _)) = asked_by("f", of("azure"), &dialogue(json!({}))).await;
    assert_eq!((path.as_str(), key.as_deref()), ("/base/chat/completions", Some("upstream-key")));
    let options = Options { api_version: Some("2024-10-21".to_owned()), ..of("azure") };
    let (_, (path, _, _)) = asked_by("f", options, &dialogue(json!({}))).await;
    assert_eq!(path, "/base/openai/deployments/m/chat/completions?api-version=2024-10-21");
}

/// Some servers treat `%2E` and `%2E%2E` as the path segments `.` and `..`.
#[tokio::test]
async fn deployment_whose_name_would_be_another_place_is_refused() {
    let upstream = Upstream::start(at_once).await;
    let models = [("one", "."), ("two", ".."), ("three", "..."), ("four", "..x")];
    let models = models.map(|(name, theirs)| {
        format!("[[models]]\nname = \"{name}\"\nupstream = \"u\"\nupstream_name = \"{theirs}\"\n")
    });
    let proxy = Proxy::of(&format!(
        "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"\n\
         [upstreams.chat]\napi_version = \"2024-10-21\"\n{}[[models]]\nname = \"*\"\nupstream = \"u\"\n",
        upstream.address,
        models.concat(),
    ));
    for (model, status) in
        [("one", 400), ("two", 400), ("three", 200), ("four", 200), ("..", 404), ("a/../b", 404)]
    {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let reply = Client::new().chat(&proxy, body).await;
        assert_eq!(reply.status(), status, "{model}");
        let body = reply.json().await;
        assert!(status == 200 || body["error"]["param"] == "model", "{model}: {body}");
    }
    assert_eq!(upstream.requests(), 2);
}

//! Tests that upstreams do not get what their models refuse, and that clients learn what was left out.

mod forced_calls;
mod learned;
mod members;

use std::sync::{Arc, Mutex};

use http::Request;
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::{
    independent::{
        client::{self, Answer},
        messages, responses,
        upstream::Speech,
    },
    support::{
        client::{Client, Reply},
        proxy::Proxy,
        upstream::{Exchange, Upstream},
    },
};

/// The requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Chat,
    Responses,
    Messages,
}

const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Messages];

impl Api {
    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// A request with a tool, `weather`, and another, `news`.
    fn request(self, model: &str, stream: bool, fields: Value) -> Value {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tools: Vec<Value> = ["weather", "news"]
            .iter()
            .map(|name| match self {
                Self::Chat => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
                Self::Responses => json!({"type": "function", "name": name, "parameters": schema}),
                Self::Messages => json!({"name": name, "input_schema": schema}),
            })
            .collect();
        let turns = json!([{"role": "user", "content": "hi"}]);
        let mut request = json!({"model": model, "stream": stream, "tools": tools});
        let request = request.as_object_mut().unwrap();
        request.insert(if self == Self::Responses { "input" } else { "messages" }.to_owned(), turns);
        if self == Self::Messages {
            request.insert("max_tokens".to_owned(), 100.into());
        }
        request.extend(if let Value::Object(fields) = fields { fields } else { Map::new() });
        Value::Object(request.clone())
    }

    /// The choice of the tool `weather`.
    fn named(self) -> Value {
        match self {
            Self::Chat => json!({"type": "function", "function": {"name": "weather"}}),
            Self::Responses => json!({"type": "function", "name": "weather"}),
            Self::Messages => json!({"type": "tool", "name": "weather"}),
        }
    }

    /// The choice of any tool.
    fn required(self) -> Value {
        if self == Self::Messages { json!({"type": "any"}) } else { json!("required") }
    }

    fn effort(self, effort: &str) -> Value {
        match self {
            Self::Chat => json!({"reasoning_effort": effort}),
            Self::Responses => json!({"reasoning": {"effort": effort}}),
            Self::Messages => json!({"output_config": {"effort": effort}}),
        }
    }

    fn read(self, stream: bool, body: &[u8]) -> Answer {
        match (self, stream) {
            (Self::Chat, true) => Answer::of_stream(body),
            (Self::Chat, false) => client::Answer::of_body(body, 200),
            (Self::Responses, true) => responses::of_stream(body),
            (Self::Responses, false) => responses::of_body(body, 200),
            (Self::Messages, true) => messages::of_stream(body),
            (Self::Messages, false) => messages::of_body(body, 200),
        }
    }
}

/// What an upstream does with a request.
enum Does {
    Says(&'static str),
    Calls(&'static str),
    Refuses(u16, &'static str),
}

/// An upstream that does this with each request.
async fn upstream(
    speech: Speech,
    does: impl Fn(&Value) -> Does + Send + Sync + 'static,
) -> (Upstream, Asked) {
    let (asked, does) = (Asked::default(), Arc::new(does));
    let seen = Arc::clone(&asked);
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let (seen, does) = (Arc::clone(&seen), Arc::clone(&does));
        async move {
            if exchange.head.starts_with("get ") {
                exchange.whole("404 Not Found", "", "").await;
                return exchange;
            }
            let request: Value = serde_json::from_slice(&exchange.body).unwrap();
            let answer = does(&request);
            seen.lock().unwrap().push(request);
            let stream = match answer {
                Does::Says(text) => speech.says(&[text], "stop"),
                Does::Calls(name) => speech.stream(&[
                    json!(["d", {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                        "function": {"name": name, "arguments": "{\"city\":\"Rome\"}"}}]}]),
                    json!(["fin", "tool_calls"]),
                    json!(["done"]),
                ]),
                Does::Refuses(status, message) => {
                    let error = json!({"error": {"message": message}}).to_string();
                    let status = format!("{status} Refused");
                    exchange.whole(&status, "content-type: application/json\r\n", &error).await;
                    return exchange;
                }
            };
            exchange.stream(String::from_utf8(stream).unwrap()).await
        }
    })
    .await;
    (upstream, asked)
}

/// A proxy in front of the upstream, with the settings of its dialect and those of the model.
fn proxy(upstream: &Upstream, dialect: &str, settings: &str, model: &str) -> Proxy {
    let base = format!("http://{}/v1", upstream.address);
    Proxy::of(&format!(
        "[[upstreams]]\nname = \"up\"\ndialect = \"{dialect}\"\nbase_url = \"{base}\"\n{settings}\n[[models]]\nname = \"*\"\n{model}\n"
    ))
}

async fn ask(proxy: &Proxy, api: Api, request: &Value) -> Reply {
    let request = Request::post(proxy.url(api.path()))
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .body(Full::from(request.to_string()))
        .unwrap();
    Client::new().send(request).await.unwrap()
}

fn speech(dialect: &str) -> Speech {
    match dialect {
        "chat" => Speech::Chat,
        "responses" => Speech::Responses,
        "messages" => Speech::Messages,
        "gemini" => Speech::Gemini,
        other => panic!("{other}"),
    }
}

fn profile(profile: &str) -> String {
    match profile {
        "" => String::new(),
        profile => format!("[upstreams.chat]\nprofile = \"{profile}\""),
    }
}

/// The request that an upstream of `dialect` gets, and the header of the response that names what was left out.
async fn sent(
    (dialect, provider, model): (&str, &str, &str),
    (api, stream): (Api, bool),
    settings: &str,
    fields: Value,
) -> (Value, Option<String>) {
    let (upstream, asked) = upstream(speech(dialect), |_| Does::Says("hi")).await;
    let proxy = proxy(&upstream, dialect, &profile(provider), settings);
    let reply = ask(&proxy, api, &api.request(model, stream, fields)).await;
    let status = reply.status().as_u16();
    let header = reply.header("x-toolwire-left-out").map(str::to_owned);
    let body = reply.bytes().await;
    assert_eq!(status, 200, "{:?}", str::from_utf8(&body));
    assert_eq!(api.read(stream, &body).text, "hi");
    let mut asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    (asked.remove(0), header)
}

fn names(header: Option<&str>) -> Vec<&str> {
    header.into_iter().flat_map(|header| header.split(", ")).collect()
}

//! Tests how it is learned whether responses start inside reasoning (docs/protocols/text-formats.md#reasoning).

use serde_json::{Value, json};
use toolwire::dialect::{
    UpstreamDialect,
    chat::{Options, Server},
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream},
};

const TEMPLATE: &str =
    "{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}</think>{% endif %}";

/// Like [`echo`], but also answers with a template.
async fn echo_with_template(mut exchange: Exchange) -> Exchange {
    if !exchange.head.contains("/props ") {
        return echo(exchange).await;
    }
    let props = json!({"build_info": "b", "default_generation_settings": {}, "chat_template": TEMPLATE});
    exchange.whole("200 OK", "content-type: application/json\r\n", &props.to_string()).await;
    exchange
}

/// Answers with the text of the newest message.
async fn echo(mut exchange: Exchange) -> Exchange {
    if exchange.head.starts_with("GET ") {
        exchange.whole("404 Not Found", "", "").await;
        return exchange;
    }
    let request: Value = serde_json::from_slice(&exchange.body).unwrap();
    let text = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let choice = |key: &str, value: Value, finish: Value| {
        json!({"id": "r", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, key: value, "finish_reason": finish}]})
    };
    if request["stream"] == true {
        let characters: Vec<_> = text.as_str().unwrap().chars().collect();
        let pieces = characters.chunks(3).map(|piece| {
            let piece: String = piece.iter().collect();
            format!("data: {}\n\n", choice("delta", json!({"content": piece}), Value::Null))
        });
        let end = format!("data: {}\n\ndata: [DONE]\n\n", choice("delta", json!({}), json!("stop")));
        return exchange.stream(pieces.collect::<String>() + &end).await;
    }
    let whole = choice("message", json!({"role": "assistant", "content": text}), json!("stop"));
    exchange.whole("200 OK", "content-type: application/json\r\n", &whole.to_string()).await;
    exchange
}

async fn start() -> (Upstream, Proxy) {
    start_on(Upstream::start(echo).await, |_| {}).await
}

async fn start_with(change: impl FnOnce(&mut Setup)) -> (Upstream, Proxy) {
    start_on(Upstream::start(echo_with_template).await, change).await
}

async fn start_on(upstream: Upstream, change: impl FnOnce(&mut Setup)) -> (Upstream, Proxy) {
    let mut setup = Setup::new(upstream.address);
    setup.wildcard = true;
    setup.decides_start = true;
    change(&mut setup);
    let proxy = setup.start().await;
    (upstream, proxy)
}

/// The reasoning and the text of the answer to a request whose upstream says `text`.
async fn ask(proxy: &Proxy, model: &str, stream: bool, text: &str, fields: Value) -> (String, String) {
    let mut body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let reply = Client::new().send(chat_request(proxy, body.to_string())).await.unwrap();
    let body = reply.rest().await;
    let bodies: Vec<Value> = match stream {
        true => {
            body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
        }
        false => vec![serde_json::from_str(&body).unwrap()],
    };
    let key = if stream { "delta" } else { "message" };
    let joined = |field: &str| {
        bodies.iter().filter_map(|body| body["choices"][0][key][field].as_str()).collect::<String>()
    };
    (joined("reasoning_content"), joined("content"))
}

fn is(reasoning: &str, text: &str) -> (String, String) {
    (reasoning.to_owned(), text.to_owned())
}

#[tokio::test]
async fn next_response_starts_as_the_last_one_did() {
    let closed = "A fact.</think>Paris.";
    for (first, in_first) in [(true, is("", "A fact.Paris.")), (false, is("A fact.", "Paris."))] {
        for second in [true, false] {
            let (_upstream, proxy) = start().await;
            let ask = |stream, text| ask(&proxy, "new-model", stream, text, json!({}));
            assert_eq!(ask(first, closed).await, in_first);
            assert_eq!(ask(second, closed).await, is("A fact.", "Paris."));
            // The server has changed: a complete response shows it at once, a stream in the next response.
            assert_eq!(ask(false, "Paris.").await, is("", "Paris."));
            assert_eq!(ask(true, "Paris.").await, is("", "Paris."));
        }
    }
}

#[tokio::test]
async fn kinds_of_requests_are_learned_apart() {
    let (_upstream, proxy) = start().await;
    let off = || json!({"chat_template_kwargs": {"enable_thinking": false}});
    let closed = "A fact.</think>Paris.";
    ask(&proxy, "new-model", true, closed, json!({})).await;
    assert_eq!(ask(&proxy, "new-model", true, "Paris.", off()).await, is("", "Paris."));
    assert_eq!(ask(&proxy, "new-model", true, closed, json!({})).await, is("A fact.", "Paris."));
    assert_eq!(ask(&proxy, "other-model", true, "Paris.", json!({})).await, is("", "Paris."));
}

/// A server may treat a known model otherwise. A single response may be an exception.
#[tokio::test]
async fn family_that_is_wrong_is_corrected() {
    let (_upstream, proxy) = start().await;
    let ask = |text| ask(&proxy, "zai-org/GLM-4.7", true, text, json!({}));
    for _ in 0..2 {
        assert_eq!(ask("Paris.").await, is("Paris.", ""));
    }
    assert_eq!(ask("A fact.</think>Paris.").await, is("A fact.", "Paris."));
    for _ in 0..3 {
        assert_eq!(ask("Paris.").await, is("Paris.", ""));
    }
    assert_eq!(ask("Paris.").await, is("", "Paris."));
    assert_eq!(ask("A fact.</think>Paris.").await, is("", "A fact.Paris."));
    assert_eq!(ask("A fact.</think>Paris.").await, is("A fact.", "Paris."));
}

#[tokio::test]
async fn request_decides_for_a_known_family() {
    let closed = "A fact.</think>\n\nParis.";
    for (model, fields, thinks) in [
        ("zai-org/GLM-4.7", json!({}), true),
        ("zai-org/GLM-5.3", json!({"chat_template_kwargs": {"enable_thinking": false}}), false),
        ("moonshotai/Kimi-K2.6", json!({"thinking": {"type": "disabled"}}), false),
        ("Qwen/Qwen3.8-27B", json!({"reasoning_effort": "none"}), false),
        ("deepseek-ai/DeepSeek-V4.1-Flash", json!({}), false),
        ("deepseek-ai/DeepSeek-V4.1-Flash", json!({"chat_template_kwargs": {"thinking": true}}), true),
    ] {
        for stream in [true, false] {
            let (_upstream, proxy) = start().await;
            let (text, expected) =
                if thinks { (closed, is("A fact.", "Paris.")) } else { ("Paris.", is("", "Paris.")) };
            assert_eq!(ask(&proxy, model, stream, text, fields.clone()).await, expected, "{model} {fields}");
        }
    }
}

/// The server is asked in the background, so the first responses do not depend on its template.
#[tokio::test]
async fn template_of_llama_server_decides() {
    let llama = |setup: &mut Setup| {
        setup.upstream.options =
            UpstreamDialect::Chat(Options { server: Server::LlamaCpp, ..Options::default() });
    };
    let (_upstream, proxy) = start_with(llama).await;
    let off = json!({"chat_template_kwargs": {"enable_thinking": false}});
    soon("the template is known", async {
        while ask(&proxy, "new-model", true, "Paris.", json!({})).await == is("", "Paris.") {}
    })
    .await;
    assert_eq!(
        ask(&proxy, "new-model", true, "A fact.</think>Paris.", json!({})).await,
        is("A fact.", "Paris.")
    );
    assert_eq!(ask(&proxy, "new-model", true, "Paris.", off).await, is("", "Paris."));
}

#[tokio::test]
async fn configured_template_decides_for_each_request() {
    let closed = "A fact.</think>Paris.";
    let templated = |setup: &mut Setup| setup.chat_template = Some(TEMPLATE.to_owned());
    let (_upstream, proxy) = start_with(templated).await;
    for _ in 0..2 {
        assert_eq!(ask(&proxy, "new-model", true, closed, json!({})).await, is("A fact.", "Paris."));
        let off = json!({"chat_template_kwargs": {"enable_thinking": false}});
        assert_eq!(ask(&proxy, "new-model", true, "Paris.", off).await, is("", "Paris."));
    }
}

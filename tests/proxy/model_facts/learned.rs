//! Tests members that upstreams turn out to refuse.

use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::{APIS, Api, Asked, Does, ask, names, proxy, upstream};
use crate::{
    independent::upstream::Speech,
    support::{client::Client, proxy::Proxy, upstream::Upstream},
};

/// An upstream that refuses these members with these words.
async fn refusing(refused: &'static [(&'static str, &'static str)]) -> (Upstream, Asked) {
    upstream(Speech::Chat, |request| {
        let found = refused.iter().find(|(member, _)| request.get(*member).is_some());
        found.map_or(Does::Says("hi"), |(_, message)| Does::Refuses(400, message))
    })
    .await
}

#[tokio::test]
async fn member_that_an_unknown_model_refuses_is_left_out_from_then_on() {
    for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let (upstream, asked) = refusing(&[
            ("temperature", "Unsupported parameter: 'temperature' is not supported with this model."),
            ("top_p", "`top_p` is deprecated for this model."),
        ])
        .await;
        let proxy = proxy(&upstream, "chat", "", "");
        let request = api.request("mine", stream, json!({"temperature": 0.2, "top_p": 0.5}));
        for expected in [3, 4] {
            let reply = ask(&proxy, api, &request).await;
            assert_eq!(reply.status().as_u16(), 200);
            let header = reply.header("x-toolwire-left-out").map(str::to_owned);
            assert_eq!(api.read(stream, &reply.bytes().await).text, "hi");
            let named = names(header.as_deref());
            assert!(named.contains(&"temperature") && named.contains(&"top_p"), "{api:?} {named:?}");
            assert_eq!(asked.lock().unwrap().len(), expected, "{api:?} {stream}");
        }
        let other = api.request("other", stream, json!({"temperature": 0.2}));
        let _ = ask(&proxy, api, &other).await.rest().await;
        assert_eq!(asked.lock().unwrap().len(), 6, "what was learned is about one model");
        let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
        let counted = "toolwire_dropped_fields_total{upstream=\"up\",field=\"temperature\"} 3";
        assert!(metrics.contains(counted), "{metrics}");
    }
}

#[tokio::test]
async fn other_refusals_go_to_the_client() {
    for (member, message) in [
        ("temperature", "temperature must be between 0 and 2"),
        ("temperature", "`temperature` and `top_p` cannot both be used: unsupported"),
        ("tools", "Unsupported parameter: 'tools' is not supported with this model."),
        ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
        ("messages", "the message `temperature` is unknown to the policy of this server: overloaded"),
    ] {
        let (upstream, asked) = upstream(Speech::Chat, move |request| {
            if request.get(member).is_some() { Does::Refuses(400, message) } else { Does::Says("hi") }
        })
        .await;
        let proxy = proxy(&upstream, "chat", "", "");
        let fields = json!({"temperature": 0.2, "top_p": 0.5, "stop": "x"});
        for _ in 0..2 {
            let reply = ask(&proxy, Api::Chat, &Api::Chat.request("mine", false, fields.clone())).await;
            assert_eq!(reply.status().as_u16(), 400, "{member}: {message}");
        }
        let asked = asked.lock().unwrap();
        assert!(
            asked.iter().step_by(asked.len() / 2).all(|request| request["temperature"] == 0.2),
            "{message}"
        );
        assert!(asked.len() <= 4, "{message}: {}", asked.len());
    }
}

#[tokio::test]
async fn what_one_client_learned_is_not_imposed_on_others() {
    let (upstream, asked) = refusing(&[(
        "temperature",
        "Unsupported parameter: 'temperature' is not supported with this model.",
    )])
    .await;
    let base = format!("http://{}/v1", upstream.address);
    let proxy = Proxy::of(&format!(
        "api_keys = [\"key-of-the-first\", \"key-of-the-other\"]\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"{base}\"\n[[models]]\nname = \"*\"\n"
    ));
    let request = Api::Chat.request("mine", false, json!({"temperature": 0.2})).to_string();
    for (key, expected) in [("key-of-the-first", 2), ("key-of-the-first", 3), ("key-of-the-other", 5)] {
        let request = Request::post(proxy.url("/v1/chat/completions"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"))
            .body(Full::from(request.clone()))
            .unwrap();
        let reply = Client::new().send(request).await.unwrap();
        assert_eq!(reply.status().as_u16(), 200);
        assert_eq!(asked.lock().unwrap().len(), expected, "{key}");
    }
}

//! Checks that of the headers that the SDKs send, only those reach an upstream of which the tables of types say so.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use toolwire::dialect::{Dialect, UpstreamDialect};

use crate::support::{
    client::{Client, chat_request},
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

type Kinds<T> = BTreeMap<String, BTreeMap<String, T>>;

#[tokio::test]
async fn headers_of_the_sdks_become_what_their_tables_say() {
    let question = json!([{"role": "user", "content": "q"}]);
    for (own, path, fields) in [
        (Dialect::Chat, "/v1/chat/completions", json!({ "messages": question })),
        (Dialect::Responses, "/v1/responses", json!({"input": "q", "store": false})),
        (Dialect::Messages, "/v1/messages", json!({"messages": question, "max_tokens": 9})),
    ] {
        let mut body = fields;
        body["model"] = "m".into();
        for upstream in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini] {
            check(own, path, &body, upstream).await;
        }
    }
}

async fn check(own: Dialect, path: &str, body: &Value, upstream: Dialect) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let instances = root.join(format!("tests/core/types/instances/{own}.json"));
    let instances: Kinds<Value> = serde_json::from_str(&fs::read_to_string(instances).unwrap()).unwrap();
    let table = root.join(format!("crates/dialects/src/{own}/types.toml"));
    let table: Kinds<String> = toml::from_str(&fs::read_to_string(table).unwrap()).unwrap();

    let heads = Arc::new(Mutex::new(String::new()));
    let keep = heads.clone();
    let server = Upstream::start(move |mut exchange: Exchange| {
        keep.lock().unwrap().push_str(&exchange.head.to_ascii_lowercase());
        async move {
            exchange.whole("400 Bad Request", "content-type: application/json\r\n", "{}").await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(server.address);
    setup.upstream.options = UpstreamDialect::try_from(upstream).unwrap();
    let proxy = setup.start().await;
    let mut request = chat_request(&proxy, body.to_string());
    *request.uri_mut() = proxy.url(path).parse().unwrap();
    for name in instances["header"].keys().filter(|name| *name != "content-type") {
        let value = HeaderValue::try_from(format!("sent-{name}")).unwrap();
        request.headers_mut().insert(HeaderName::try_from(name).unwrap(), value);
    }
    Client::new().send(request).await.unwrap().rest().await;

    let head = heads.lock().unwrap().clone();
    assert!(!head.is_empty(), "the upstream was asked");
    for name in instances["header"].keys().filter(|name| *name != "content-type") {
        let claims = &table["header"][name];
        let carried = format!("{upstream}: carried");
        let is_carried = claims.split("; ").any(|claim| claim.starts_with(&carried));
        assert_eq!(
            head.contains(&format!("sent-{name}\r\n")),
            is_carried,
            "{own} to {upstream}, {name}: {head}"
        );
    }
}

//! Tests data that another program would take for objects, code or a query.

use serde_json::{Value, json};

use crate::{
    clients::{ADMIN, ALICE, TABLES, answer_as, ask, ask_as, bearer, proxy, proxy_with},
    hosted::result_of,
    support::{
        proxy::Setup,
        upstream::{Upstream, at_once},
    },
};

/// CVE-2025-68664 (LangChain): data with the key of a serialized object became that object, or the value of a variable
/// of the environment.
#[tokio::test]
async fn data_that_looks_like_an_object_stays_data() {
    let repeat = "[[providers]]\nname = \"repeat\"\nkind = \"command\"\ncommand = [\"cat\"]\n";
    for value in [
        json!({"lc": 1, "type": "secret", "id": ["PATH"]}),
        json!({"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "id"}}),
        json!({"__class__": "os.system", "__proto__": {"x": 1}, "constructor": {"prototype": {}}}),
        json!({"$ref": "env:PATH", "x": "env:PATH", "y": "file:/etc/passwd", "z": "${PATH}"}),
        json!({"py/object": "os.system", "@type": "java.lang.Runtime", "!!python/object": []}),
    ] {
        let result = result_of(repeat, "hi", "repeat", &json!({"x": value}).to_string()).await;
        assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), json!({"x": value}));
    }
}

/// CVE-2025-68664 (LangChain): as above, in what an admin saves.
#[tokio::test]
async fn saved_setting_is_not_a_reference() {
    let state = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.state_dir = Some(state.path().to_owned());
    setup.execution = format!(
        "{TABLES}[execution]\n[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"the-key-of-serper\"\n"
    );
    let proxy = setup.start().await;
    let settings = ("PATCH", "/admin/settings");
    for value in ["env:PATH", "file:/etc/passwd", "file:../x"] {
        let change = json!({"providers.serper.api_key": value});
        let (status, answer) = answer_as(&proxy, ADMIN, settings, &change).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (422, &json!("invalid_settings")),
            "{value}: {answer}"
        );
    }
    let change = json!({"providers.serper.api_key": "another-key-of-serper"});
    assert_eq!(answer_as(&proxy, ADMIN, settings, &change).await.0, 200);
    let shown = ask_as(&proxy, ADMIN, ("GET", "/admin/settings"), &Value::Null).await.body;
    assert!(!shown.contains("key-of-serper"), "{shown}");
}

/// CVE-2025-27520 (BentoML), CVE-2026-3059, CVE-2026-3060 (SGLang): a pickled body was loaded, which runs what it
/// names.
#[tokio::test]
async fn pickled_body_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let pickle = format!("cos\nsystem\n(S'touch {}'\ntR.", ran.display());
    let (upstream, proxy) = proxy().await;
    for kind in [
        "application/vnd.bentoml+pickle",
        "application/octet-stream",
        "application/json",
        "application/x-python-pickle",
    ] {
        for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
            let headers = format!("{}payload-container: pickle\r\ncontent-type: {kind}\r\n", bearer(ALICE));
            let response = ask(&proxy, ("POST", path), ("localhost", &headers), &pickle).await;
            assert!([400, 415].contains(&response.status), "{kind} {path}: {}", response.status);
        }
    }
    assert_eq!(upstream.requests(), 0);
    assert!(!ran.exists());
}

/// CVE-2025-67644 (LangGraph): the filter of a search was a part of a database query.
#[tokio::test]
async fn filter_of_exchanges_is_not_a_query() {
    let (_upstream, proxy) = proxy_with("").await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(ask_as(&proxy, ALICE, ("POST", "/v1/chat/completions"), &body).await.status, 200);
    let found = async |filter: &str| {
        let (status, list) =
            answer_as(&proxy, ADMIN, ("GET", &format!("/admin/exchanges?q={filter}")), &Value::Null).await;
        (status, list["exchanges"].as_array().map(Vec::len))
    };
    assert_eq!(found("model:m").await, (200, Some(1)));
    assert_eq!(found("model:other").await, (200, Some(0)));
    for filter in [
        "model:other'%20OR%20'1'='1",
        "model:x%22%20OR%201=1--",
        "key:%27;DROP%20TABLE%20exchanges;--",
        "model:x%27)%20UNION%20SELECT%201--",
        "$where:1",
    ] {
        let (status, rows) = found(filter).await;
        assert!(
            (status, rows) == (200, Some(0)) || (status, rows) == (400, None),
            "{filter}: {status} {rows:?}"
        );
    }
    assert_eq!(found("model:m").await, (200, Some(1)));
}

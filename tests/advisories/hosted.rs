//! A model that calls a hosted tool.

use serde_json::{Value, json};

use crate::{
    script::{self, call, end, text},
    support::{client::Client, proxy::Setup},
};

/// What a model is told that calls this tool once, after the user has said `said`. `tables` declare the providers.
pub(super) async fn result_of(tables: &str, said: &str, name: &str, arguments: &str) -> String {
    let streams = [call(0, "call_0", name, arguments) + &end("tool_calls"), text("Done.") + &end("stop")];
    let (upstream, asked) = script::upstream(streams).await;
    let setup = Setup { execution: format!("[execution]\n{tables}"), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": said}]});
    let answer = Client::new().chat(&proxy, body.to_string()).await.json().await;
    assert_eq!(answer["choices"][0]["message"]["content"], "Done.", "{answer}");
    let asked = asked.lock().unwrap();
    let messages = asked[1]["messages"].as_array().unwrap();
    let result = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

/// The code of a result that is an error, or null.
pub(super) fn code(result: &str) -> Value {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    result["error"]["code"].clone()
}

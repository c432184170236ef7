//! Tests what happens if the descriptions of tools exceed the size limit of instructions.

use serde_json::{Value, json};
use toolwire::{dialect::chat::Server, rules::Enforce};

use crate::support::{
    client::{Client, chat_request},
    taught::{ModelAnswer, model, response, setup},
};

/// A request with two tools whose descriptions together are too long for the smallest `max_instructions`.
fn request(stream: bool) -> Value {
    let tool = |name: &str| {
        let described = "a detail of the weather that matters much ".repeat(40);
        json!({"type": "function", "function": {"name": name, "description": described, "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}},
        }}})
    };
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "?"}],
           "tools": [tool("now"), tool("later")]})
}

#[tokio::test]
async fn client_learns_which_tools_the_instructions_left_out() {
    for (max_instructions, expected) in [(Some(1), 1), (None, 0)] {
        let (upstream, asked) = model(|_| ModelAnswer::text("Hello.")).await;
        let mut setup = setup(&upstream, Server::Other, Enforce::Off);
        setup.settings.showing.max_instructions = max_instructions;
        let proxy = setup.start().await;
        let whole = response(&proxy, &request(false)).await;
        let streamed = Client::new().send(chat_request(&proxy, request(true).to_string())).await.unwrap();
        let streamed = streamed.rest().await;
        let last = streamed.lines().rfind(|line| line.contains("\"stop\""));
        let last = last.unwrap_or_else(|| panic!("{streamed}"));
        let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        for body in [whole, last] {
            let warnings = body["toolwire"]["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
            assert_eq!(warnings.len(), expected, "{body}");
            for warning in warnings {
                assert_eq!(warning["code"], "tools_left_out");
                assert!(warning["message"].as_str().unwrap().contains("`later`"), "{warning}");
            }
        }
        let prompt = asked.lock().unwrap()[0]["messages"].to_string();
        assert_eq!(prompt.contains("later"), expected == 0);
        let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
        assert_eq!(
            metrics.contains("toolwire_tools_left_out_total{model=\"m\"} 2"),
            expected == 1,
            "{metrics}"
        );
    }
}

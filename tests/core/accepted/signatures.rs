//! Tests that past calls have the signatures that Gemini 3 requires.

use super::*;

/// A conversation of two turns with two steps each. The second step of each turn makes two calls.
fn steps() -> Value {
    let calls = |ids: &[&str]| {
        let call =
            |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "R"});
    json!({"model": "m", "messages": [{"role": "user", "content": "1"}, calls(&["a"]), result("a"), calls(&["b", "c"]), result("b"),
        result("c"), {"role": "assistant", "content": "done"}, {"role": "user", "content": "2"}, calls(&["d"]), result("d"),
        {"role": "user", "content": "(a reminder)"}, calls(&["e", "f"]), result("e"), result("f")]})
}

#[test]
fn first_call_of_each_step_of_the_turn_is_signed_for_gemini_3() {
    let conversation = decoded(ClientDialect::Chat, &steps());
    for model in ["gemini-3-flash", "models/gemini-3.1-pro-preview", "gemini-pro-latest"] {
        let body = sent(Dialect::Gemini, &conversation, model);
        let signed: Vec<&Value> = objects(&body)
            .into_iter()
            .filter(|object| object.get("thoughtSignature").is_some())
            .map(|part| {
                assert_eq!(part["thoughtSignature"], "skip_thought_signature_validator");
                &part["functionCall"]["id"]
            })
            .collect();
        assert_eq!(signed, ["d", "e"], "{model}: {body}");
    }
    for model in ["gemini-2.5-pro", "gemma-3-27b-it", "m"] {
        assert!(
            !sent(Dialect::Gemini, &conversation, model).to_string().contains("thoughtSignature"),
            "{model}"
        );
    }
}

#[test]
fn first_call_of_each_step_is_signed_over_the_compatible_api_of_gemini_3() {
    let host = "generativelanguage.googleapis.com";
    let body = |conversation: &Conversation, model: &str| {
        sent_with(upstream(Dialect::Chat), host, conversation, model)
    };
    let stand_in = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
    for client in [ClientDialect::Chat, ClientDialect::Messages] {
        let conversation = match client {
            ClientDialect::Chat => decoded(client, &steps()),
            _ => decoded(
                client,
                &json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "1"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "d", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "d", "content": "R"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "e", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "f", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "e", "content": "R"},
                    {"type": "tool_result", "tool_use_id": "f", "content": "R"}]}]}),
            ),
        };
        let sent = body(&conversation, "gemini-3-flash");
        let signed = objects(&sent).into_iter().filter(|object| object.get("extra_content").is_some());
        let signed: Vec<_> = signed.map(|call| (&call["id"], &call["extra_content"])).collect();
        assert_eq!(signed, [(&json!("d"), &stand_in), (&json!("e"), &stand_in)], "{sent}");
        assert!(!body(&conversation, "gemini-2.5-pro").to_string().contains("extra_content"));
        assert!(
            !sent_with(upstream(Dialect::Chat), "localhost", &conversation, "gemini-3-flash")
                .to_string()
                .contains("extra_content")
        );
    }
    let own = json!({"google": {"thought_signature": "own"}});
    let mut known = steps();
    known["messages"][8]["tool_calls"][0]["extra_content"] = own.clone();
    let sent = body(&decoded(ClientDialect::Chat, &known), "gemini-3-flash");
    assert_eq!(sent["messages"][8]["tool_calls"][0]["extra_content"], own);
}

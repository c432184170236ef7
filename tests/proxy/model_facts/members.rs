//! Tests members that are left out, changed or renamed because of facts and settings.

use serde_json::{Value, json};

use super::{APIS, Api, Does, ask, names, proxy, sent, upstream};
use crate::independent::upstream::Speech;

#[tokio::test]
async fn sampling_is_left_out_where_the_model_refuses_it() {
    for target in [
        ("messages", "", "claude-opus-4-7"),
        ("messages", "", "us.anthropic.claude-opus-4-8-v1:0"),
        ("messages", "", "claude-fable-5-1[1m]"),
        ("messages", "", "claude-mythos-preview"),
        ("chat", "openrouter", "anthropic/claude-opus-4.7"),
        ("chat", "openai", "gpt-5-mini-2025-08-07"),
        ("chat", "", "openai/gpt-5"),
        ("responses", "", "o4-mini"),
        ("responses", "", "gpt-5.6-terra"),
        ("chat", "moonshot", "kimi-k2.6"),
    ] {
        for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
            let fields = json!({"temperature": 0.2, "top_p": 0.5});
            let (body, header) = sent(target, (api, stream), "", fields).await;
            assert_eq!(
                (&body["temperature"], &body["top_p"]),
                (&Value::Null, &Value::Null),
                "{target:?} {api:?}"
            );
            let names = names(header.as_deref());
            assert!(
                names.contains(&"temperature") && names.contains(&"top_p"),
                "{target:?} {api:?} {names:?}"
            );
        }
    }
}

#[tokio::test]
async fn sampling_is_sent_where_it_is_accepted() {
    for target in [
        ("messages", "", "claude-opus-4-6"),
        ("messages", "", "claude-sonnet-4-5-20250929"),
        ("messages", "", "acme/claude-5-distill-8b"),
        ("chat", "openai", "gpt-4.1"),
        ("chat", "openai", "gpt-5.2"),
        ("chat", "", "gpt-oss-120b"),
        ("chat", "together", "moonshotai/kimi-k2.6"),
        ("responses", "", "m"),
    ] {
        for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
            let fields = json!({"temperature": 0.2, "top_p": 0.5});
            let (body, header) = sent(target, (api, stream), "", fields).await;
            assert_eq!(
                (&body["temperature"], &body["top_p"]),
                (&json!(0.2), &json!(0.5)),
                "{target:?} {api:?}"
            );
            assert!(!names(header.as_deref()).contains(&"temperature"), "{target:?} {api:?} {header:?}");
        }
    }
    // The only value that is accepted is also the default.
    let fields = json!({"temperature": 1, "top_p": 0.99});
    let (body, header) = sent(("messages", "", "claude-opus-5"), (Api::Messages, false), "", fields).await;
    assert_eq!((&body["temperature"], &body["top_p"], header), (&json!(1), &json!(0.99), None));
}

#[tokio::test]
async fn newer_models_of_openai_sample_only_if_they_do_not_reason() {
    for (model, effort, is_sent) in [
        ("gpt-5.2", None, true),
        ("gpt-5.2", Some("none"), true),
        ("gpt-5.2", Some("high"), false),
        ("gpt-5.6-sol", None, false),
        ("gpt-5.6-sol", Some("none"), true),
        ("gpt-5.6-sol", Some("low"), false),
    ] {
        for api in APIS {
            let mut fields = effort.map_or_else(|| json!({}), |effort| api.effort(effort));
            fields["temperature"] = json!(0.2);
            let (body, _) = sent(("responses", "", model), (api, false), "", fields).await;
            assert_eq!(body["temperature"] == json!(0.2), is_sent, "{model} {effort:?} {api:?}: {body}");
        }
    }
}

#[tokio::test]
async fn efforts_become_ones_that_the_model_accepts() {
    for (dialect, provider, model, effort, expected) in [
        ("chat", "", "gpt-5", "none", Some("minimal")),
        ("chat", "", "gpt-5", "xhigh", Some("high")),
        ("chat", "", "gpt-5.1", "minimal", Some("low")),
        ("chat", "", "gpt-5.1", "none", Some("none")),
        ("chat", "", "gpt-5-codex", "minimal", Some("low")),
        ("chat", "", "gpt-5.4-pro", "low", Some("medium")),
        ("chat", "", "o3", "max", Some("high")),
        ("chat", "", "gpt-4.1", "low", None),
        ("chat", "", "gpt-4o-2024-11-20", "low", None),
        ("chat", "", "x-ai/grok-4", "low", None),
        ("chat", "", "grok-4.3", "low", Some("low")),
        ("chat", "gemini", "gemini-3-pro-preview", "none", Some("low")),
        ("chat", "gemini", "gemini-2.5-pro", "none", Some("minimal")),
        ("chat", "gemini", "gemini-2.5-flash", "none", Some("none")),
        ("chat", "", "m", "xhigh", Some("xhigh")),
        ("chat", "openai", "gpt-5.4", "high", Some("none")),
        ("chat", "azure", "gpt-5.6-terra", "none", Some("none")),
        ("chat", "openrouter", "openai/gpt-5.4", "high", Some("high")),
    ] {
        for (api, stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
            let target = (dialect, provider, model);
            let (body, header) = sent(target, (api, stream), "", api.effort(effort)).await;
            assert_eq!(body["reasoning_effort"].as_str(), expected, "{target:?} {api:?} {effort}");
            let is_named = names(header.as_deref()).contains(&"reasoning_effort");
            assert_eq!(is_named, expected != Some(effort), "{target:?} {api:?} {effort}: {header:?}");
        }
    }
    // These models reason by default, which excludes tools.
    let (body, _) = sent(("chat", "openai", "gpt-5.6"), (Api::Chat, false), "", json!({})).await;
    assert_eq!(body["reasoning_effort"], "none");
    let (body, _) = sent(("chat", "openai", "gpt-5.6"), (Api::Chat, false), "", json!({"tools": []})).await;
    assert_eq!(body["reasoning_effort"], Value::Null);
}

#[tokio::test]
async fn thinking_is_asked_for_as_the_model_has_it() {
    let thinking = |model, thinking: Value| async move {
        let fields = json!({"thinking": thinking, "temperature": 1});
        let target = ("messages", "", model);
        sent(target, (Api::Messages, false), "", fields).await
    };
    let budget = json!({"type": "enabled", "budget_tokens": 2048, "display": "summarized"});
    let (body, header) = thinking("claude-opus-4-7", budget.clone()).await;
    assert_eq!(body["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(header.as_deref(), Some("thinking"));
    let (body, header) = thinking("claude-opus-4-6", budget.clone()).await;
    assert_eq!((&body["thinking"], header), (&budget, None));
    let off = json!({"type": "disabled"});
    let (body, header) = thinking("claude-fable-5-1", off.clone()).await;
    assert_eq!((&body["thinking"], header.as_deref()), (&Value::Null, Some("thinking")));
    let (body, header) = thinking("claude-opus-5", off.clone()).await;
    assert_eq!((&body["thinking"], header), (&off, None));
    for api in [Api::Chat, Api::Responses] {
        let target = ("messages", "", "claude-mythos-5-2");
        let (body, header) = sent(target, (api, false), "", api.effort("none")).await;
        assert_eq!((&body["thinking"], &body["output_config"]["effort"]), (&Value::Null, &json!("low")));
        assert!(names(header.as_deref()).contains(&"reasoning_effort"));
    }
    // The setting for older models does not harm newer ones.
    let (upstream, asked) = upstream(Speech::Messages, |_| Does::Says("hi")).await;
    let proxy = proxy(&upstream, "messages", "[upstreams.messages]\neffort = \"thinking\"", "");
    let fields = json!({"reasoning_effort": "high", "max_tokens": 9000});
    let _ = ask(&proxy, Api::Chat, &Api::Chat.request("claude-opus-4-7", false, fields)).await.rest().await;
    assert_eq!(asked.lock().unwrap()[0]["output_config"]["effort"], "high");
}

#[tokio::test]
async fn other_members_are_left_out_or_renamed() {
    for (target, member, value, expected) in [
        (("chat", "", "gemini-3.1-pro-preview"), "presence_penalty", json!(0.5), Value::Null),
        (("chat", "", "gemini-3.1-pro-preview"), "presence_penalty", json!(0), json!(0)),
        (("chat", "", "gemini-2.0-flash"), "presence_penalty", json!(0.5), json!(0.5)),
        (("chat", "", "grok-4.5"), "frequency_penalty", json!(0), Value::Null),
        (("chat", "", "grok-3"), "frequency_penalty", json!(0.5), json!(0.5)),
        (("chat", "groq", "llama-3.3-70b"), "logprobs", json!(true), Value::Null),
        (("chat", "", "llama-3.3-70b"), "logprobs", json!(true), json!(true)),
        (("chat", "openai", "o3"), "stop", json!(["x"]), Value::Null),
        (("chat", "openai", "gpt-5"), "logit_bias", json!({"1": 1}), Value::Null),
        (("chat", "mistral", "mistral-large"), "seed", json!(7), Value::Null),
    ] {
        let (body, header) = sent(target, (Api::Chat, false), "", json!({ member: value })).await;
        assert_eq!(body[member], expected, "{target:?} {member}");
        let is_lost = expected.is_null() && member != "seed";
        assert_eq!(names(header.as_deref()).contains(&member), is_lost, "{target:?} {member} {header:?}");
        if member == "seed" {
            assert_eq!(body["random_seed"], 7);
        }
    }
    let fields = json!({"presence_penalty": 0.5, "temperature": 0.5});
    let (body, header) = sent(("gemini", "", "gemini-2.5-flash"), (Api::Chat, false), "", fields).await;
    assert_eq!(body["generationConfig"], json!({"temperature": 0.5}));
    assert_eq!(header.as_deref(), Some("presence_penalty"));
    let top_k = json!({"top_k": 5});
    let (body, header) = sent(("messages", "", "claude-opus-5"), (Api::Messages, false), "", top_k).await;
    assert_eq!((&body["top_k"], header.as_deref()), (&Value::Null, Some("top_k")));
}

#[tokio::test]
async fn limit_and_schemas_are_as_openais_models_demand_at_any_server() {
    for api in APIS {
        let limit = if api == Api::Responses { "max_output_tokens" } else { "max_tokens" };
        let mut fields = json!({ limit: 50 });
        if api == Api::Chat {
            fields["tools"] =
                json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
        }
        let (body, _) = sent(("chat", "", "azure/gpt-5-nano"), (api, false), "", fields.clone()).await;
        assert_eq!(
            (&body["max_completion_tokens"], &body["max_tokens"]),
            (&json!(50), &Value::Null),
            "{api:?}"
        );
        assert!(body["tools"][0]["function"]["parameters"]["properties"].is_object(), "{body}");
        let (body, _) = sent(("chat", "", "gpt-oss-20b"), (api, false), "", fields).await;
        assert_eq!(
            (&body["max_completion_tokens"], &body["max_tokens"]),
            (&Value::Null, &json!(50)),
            "{api:?}"
        );
        if api == Api::Chat {
            assert_eq!(body["tools"][0]["function"]["parameters"], json!({"type": "object"}));
        }
    }
    let settings = "[upstreams.chat]\nmax_tokens_field = \"max_tokens\"";
    let (upstream, asked) = upstream(Speech::Chat, |_| Does::Says("hi")).await;
    let proxy = proxy(&upstream, "chat", settings, "");
    let request = Api::Chat.request("gpt-5", false, json!({"max_tokens": 50}));
    let _ = ask(&proxy, Api::Chat, &request).await.rest().await;
    assert_eq!(asked.lock().unwrap()[0]["max_tokens"], 50);
}

#[tokio::test]
async fn configuration_adds_and_removes_facts() {
    let fields = || json!({"temperature": 0.2, "top_k": 5});
    let settings = "refuses = [\"top_k\", \"tool_choice\", \"min_p\"]";
    let (body, header) = sent(("chat", "", "mine"), (Api::Chat, false), settings, fields()).await;
    assert_eq!((&body["temperature"], &body["top_k"]), (&json!(0.2), &Value::Null));
    assert_eq!(names(header.as_deref()), ["top_k"]);
    let settings = "accepts = [\"temperature\"]";
    let fields = || json!({"temperature": 0.2, "top_p": 0.2});
    let (body, header) =
        sent(("messages", "", "claude-opus-5"), (Api::Chat, false), settings, fields()).await;
    assert_eq!((&body["temperature"], &body["top_p"]), (&json!(0.2), &Value::Null));
    assert_eq!(names(header.as_deref()), ["top_p"]);
    let (body, header) =
        sent(("messages", "", "claude-opus-5"), (Api::Chat, false), "accepts = [\"*\"]", fields()).await;
    assert_eq!((&body["temperature"], &body["top_p"], header), (&json!(0.2), &json!(0.2), None));
}

/// Names of members that a client invents go into a header, so they must be harmless there.
#[tokio::test]
async fn header_names_only_plain_members() {
    let mut fields = json!({"a\r\nset-cookie: x": 1, "é": 1});
    for number in 0..100 {
        fields[format!("invented_{number}")] = 1.into();
    }
    let (_, header) = sent(("chat", "", "m"), (Api::Messages, false), "", fields).await;
    let header = header.unwrap();
    assert!(header.len() < 400 && header.ends_with(", other"), "{header}");
    assert!(names(Some(&header)).iter().all(|name| name.starts_with("invented_") || *name == "other"));
    let (_, header) = sent(("chat", "", "m"), (Api::Messages, false), "", json!({"é": 1})).await;
    assert_eq!(header.as_deref(), Some("other"));
}

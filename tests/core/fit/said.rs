//! Tests what is said in text because the upstream's API has no field for it, and fields that several APIs have.

use std::borrow::Cow;

use toolwire::dialect::{MemberSettings, ModelFacts, UpstreamSide};

use super::*;

/// The members of a request for a Chat Completions server, with these settings changed.
fn chat_with(
    client: ClientDialect,
    fields: &Value,
    change: impl Fn(&mut toolwire::dialect::chat::Options),
) -> (Value, Vec<String>) {
    let mut request = json!({"model": "m"});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let conversation = client.side().decode(request.to_string().as_bytes()).unwrap();
    let mut options = toolwire::dialect::chat::Options::default();
    change(&mut options);
    let request = options.encode(&conversation, "m");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

#[test]
fn examples_of_a_tools_input_are_in_its_description() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "number"}}});
    let examples = json!([{"n": 1.50}, {}]);
    let fields = |description: Value| {
        let tool = json!({"name": "f", "description": description, "input_schema": schema, "input_examples": examples});
        json!({"messages": [{"role": "user", "content": "q"}], "tools": [tool]})
    };
    let chat = |description| sent(ClientDialect::Messages, fields(description), Dialect::Chat).unwrap();
    assert_eq!(
        chat(json!("It.")).pointer("/tools/0/function/description").unwrap(),
        "It.\n\nExamples of its input:\n{\"n\":1.5}\n{}"
    );
    assert_eq!(
        chat(Value::Null).pointer("/tools/0/function/description").unwrap(),
        "Examples of its input:\n{\"n\":1.5}\n{}"
    );
    let same = sent(ClientDialect::Messages, fields(json!("It.")), Dialect::Messages).unwrap();
    assert_eq!(
        (&same["tools"][0]["description"], &same["tools"][0]["input_examples"]),
        (&json!("It."), &examples)
    );
}

#[test]
fn description_of_a_namespace_is_in_those_of_its_tools() {
    let tool = |name: &str, about: &str| json!({"type": "function", "name": name, "description": about});
    let tools = json!([tool("f", "One."), tool("g", "")]);
    let namespace = json!({"type": "namespace", "name": "crm", "description": "Customers.", "tools": tools});
    for upstream in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
        let fields = json!({"input": "q", "tools": [namespace, tool("h", "Three.")]});
        let sent = sent(ClientDialect::Responses, fields, upstream).unwrap();
        let description = |place: usize| {
            let tool = &sent["tools"][place];
            tool.get("function").unwrap_or(tool)["description"].as_str().unwrap().to_owned()
        };
        let found = [0, 1, 2].map(description);
        assert!(found.contains(&"One.\n\ncrm: Customers.".to_owned()), "{found:?}");
        assert!(found.contains(&"crm: Customers.".to_owned()), "{found:?}");
        assert!(found.contains(&"Three.".to_owned()), "{found:?}");
    }
}

#[test]
fn past_call_of_an_mcp_server_names_the_server() {
    for (label, name) in [("docs", "docs__find"), ("upstream", "find")] {
        let call = json!({"type": "mcp_call", "id": "mcp_1", "server_label": label, "name": "find", "arguments": "{}", "output": "o"});
        let sent = sent(ClientDialect::Responses, between(json!([call])), Dialect::Chat).unwrap();
        assert_eq!(sent.pointer("/messages/1/tool_calls/0/function/name").unwrap(), name);
    }
    let used = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "server_name": "docs", "name": "find", "input": {}});
    let result = json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": "o"});
    let fields = json!({"messages": [
        {"role": "user", "content": "q"}, {"role": "assistant", "content": [used, result]}, {"role": "user", "content": "r"},
    ]});
    let sent = sent(ClientDialect::Messages, fields, Dialect::Chat).unwrap();
    assert_eq!(sent.pointer("/messages/1/tool_calls/0/function/name").unwrap(), "docs__find");
}

#[test]
fn names_of_speakers_are_said_where_they_tell_speakers_apart() {
    let of = |names: [Value; 2]| {
        let [first, second] = names;
        let fields = json!({"messages": [
            {"role": "system", "name": "example_user", "content": "e"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "name": first, "content": "a"},
            {"role": "assistant", "name": second, "content": "b"},
            {"role": "user", "content": "r"},
        ]});
        sent(ClientDialect::Chat, fields, Dialect::Messages).unwrap()
    };
    let several = of([json!("ann"), json!("bob")]);
    assert_eq!(several["system"], "example_user:\ne");
    let said = several["messages"][1]["content"].to_string();
    assert!(said.contains("ann:\\na") && said.contains("bob:\\nb"), "{said}");
    for names in [[json!("ann"), json!("ann")], [json!("ann"), Value::Null], [Value::Null, json!("")]] {
        assert!(!of(names)["messages"].to_string().contains("ann"));
    }
}

#[test]
fn name_of_a_file_precedes_it_where_files_have_no_names() {
    const PDF: &str = "data:application/pdf;base64,JVBERi0xLjQK";
    let file = json!({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}});
    let fields = user(json!([{"type": "text", "text": "q"}, file]));
    let sent = sent(ClientDialect::Chat, fields, Dialect::Gemini).unwrap();
    let parts = &sent["contents"][0]["parts"];
    assert_eq!((&parts[0]["text"], &parts[1]["text"]), (&json!("q"), &json!("a.pdf:")), "{sent}");
    assert_eq!(parts[2]["inlineData"]["mimeType"], "application/pdf");
}

#[test]
fn any_json_is_asked_for_in_words_where_only_schemas_are_formats() {
    let fields =
        |format: Value| json!({"messages": [{"role": "user", "content": "q"}], "response_format": format});
    let to = |format: Value| sent(ClientDialect::Chat, fields(format), Dialect::Messages).unwrap();
    let any = to(json!({"type": "json_object"}));
    assert!(any["system"].as_str().unwrap().contains("JSON object"), "{any}");
    assert!(any.get("output_config").is_none());
    let text = to(json!({"type": "text"}));
    assert!(text.get("system").is_none(), "{text}");
    let schema = json!({"type": "object"});
    let described = json!({"name": "n", "description": "A point.", "schema": schema});
    let with_schema = to(json!({"type": "json_schema", "json_schema": described}));
    assert!(with_schema.get("system").is_none(), "{with_schema}");
    assert_eq!(
        with_schema["output_config"]["format"]["schema"],
        json!({"type": "object", "description": "A point."})
    );
}

#[test]
fn fields_of_both_openai_apis_go_from_one_to_the_other() {
    let shared = json!({"prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "s", "user": "u", "service_tier": "flex"});
    let mut fields = shared.clone();
    fields["messages"] = json!([{"role": "user", "content": "q"}]);
    fields["verbosity"] = "low".into();
    let responses = sent(ClientDialect::Chat, fields, Dialect::Responses).unwrap();
    for (key, value) in shared.as_object().unwrap() {
        assert_eq!(&responses[key], value, "{key}");
    }
    assert_eq!(responses["text"], json!({"verbosity": "low"}));

    let mut fields = shared.clone();
    fields["input"] = "q".into();
    fields["text"] = json!({"verbosity": "low"});
    let (chat, dropped) =
        chat_with(ClientDialect::Responses, &fields, |options| options.adapt_to_host("api.openai.com"));
    for (key, value) in shared.as_object().unwrap() {
        assert_eq!(&chat[key], value, "{key}");
    }
    assert_eq!((&chat["verbosity"], dropped), (&json!("low"), vec![]));
    // Some servers reject what they do not know.
    let (chat, dropped) = chat_with(ClientDialect::Responses, &fields, |_| {});
    assert!(chat.get("prompt_cache_key").is_none() && chat.get("verbosity").is_none(), "{chat}");
    assert!(dropped.contains(&"prompt_cache_key".to_owned()) && dropped.contains(&"text".to_owned()));
    let (chat, _) =
        chat_with(ClientDialect::Responses, &fields, |options| options.adapt_to_host("api.moonshot.ai"));
    assert_eq!((&chat["prompt_cache_key"], chat.get("user")), (&json!("k"), None));
}

#[test]
fn suffix_for_the_long_context_is_no_part_of_the_models_name() {
    for (given, expected) in
        [("claude-fable-5-1[1m]", "claude-fable-5-1"), ("m", "m"), ("[1m]", "[1m]"), ("m[1m]x", "m[1m]x")]
    {
        let body = json!({"model": given, "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]});
        let conversation = ClientDialect::Messages.side().decode(body.to_string().as_bytes()).unwrap();
        assert_eq!(conversation.model, expected);
    }
}

#[test]
fn top_k_goes_where_it_exists() {
    let messages = json!([{"role": "user", "content": "q"}]);
    let clients = [
        (ClientDialect::Chat, json!({"messages": messages, "top_k": 5})),
        (ClientDialect::Messages, json!({"messages": messages, "top_k": 5})),
        (ClientDialect::Ollama, json!({"messages": messages, "options": {"top_k": 5}})),
        (
            ClientDialect::Gemini,
            json!({"contents": [{"parts": [{"text": "q"}]}], "generationConfig": {"top_k": 5}}),
        ),
    ];
    for (client, fields) in clients {
        let to = |upstream| sent(client, fields.clone(), upstream).unwrap();
        assert_eq!(to(Dialect::Gemini)["generationConfig"]["topK"], 5, "{client:?}");
        assert_eq!(to(Dialect::Gemini).get("top_k"), None, "{client:?}");
        assert_eq!(to(Dialect::Ollama)["options"]["top_k"], 5, "{client:?}");
        assert_eq!(to(Dialect::Messages)["top_k"], 5, "{client:?}");
        assert_eq!(to(Dialect::Chat).get("top_k").is_some(), client == ClientDialect::Chat);
        let (chat, dropped) = chat_with(client, &fields, |options| options.adapt_to_host("openrouter.ai"));
        assert_eq!((&chat["top_k"], dropped), (&json!(5), vec![]), "{client:?}");
    }
}

#[test]
fn penalties_go_where_they_exist() {
    let fields = json!({
        "contents": [{"parts": [{"text": "q"}]}],
        "generationConfig": {"presencePenalty": 0.5, "frequencyPenalty": -0.5},
    });
    let to = |upstream| sent(ClientDialect::Gemini, fields.clone(), upstream).unwrap();
    for sent in [to(Dialect::Chat), to(Dialect::Ollama)["options"].take()] {
        assert_eq!((&sent["presence_penalty"], &sent["frequency_penalty"]), (&json!(0.5), &json!(-0.5)));
    }
    assert_eq!(to(Dialect::Gemini)["generationConfig"], fields["generationConfig"]);
}

#[test]
fn models_that_think_only_on_request_get_an_effort_for_thinking() {
    let fields = |more: Value| {
        let mut fields =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let effort = |model: &str, more: Value, upstream: Dialect| {
        let body = fields(more).to_string();
        let conversation = ClientDialect::Messages.side().decode(body.as_bytes()).unwrap();
        let facts = ModelFacts::new(model, "openai", &MemberSettings::default());
        let mut sent = Cow::Borrowed(&conversation);
        facts.adjust(&mut sent, upstream, &[]);
        sent.sampling.reasoning_effort.clone()
    };
    let budget = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    for (tokens, expected) in
        [(1024, "low"), (4095, "low"), (4096, "medium"), (16_383, "medium"), (16_384, "high")]
    {
        assert_eq!(effort("gpt-5.1", budget(tokens), Dialect::Chat).as_deref(), Some(expected), "{tokens}");
    }
    let adaptive = || json!({"thinking": {"type": "adaptive"}});
    assert_eq!(effort("gpt-5.1", adaptive(), Dialect::Responses).as_deref(), Some("medium"));
    for (model, more, upstream) in [
        ("gpt-5.1", json!({}), Dialect::Chat),
        ("gpt-5.1", json!({"thinking": {"type": "disabled"}}), Dialect::Chat),
        ("gpt-5.1", json!({"thinking": 5}), Dialect::Chat),
        ("gpt-4.1", adaptive(), Dialect::Chat),
        ("unheard-of", adaptive(), Dialect::Chat),
        // Its own API gets what the client wrote.
        ("gpt-5.1", adaptive(), Dialect::Messages),
    ] {
        assert_eq!(effort(model, more.clone(), upstream), None, "{model} {more} {upstream}");
    }
    let both = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}});
    assert_eq!(effort("gpt-5.1", both, Dialect::Chat).as_deref(), Some("high"));
}

#[test]
fn thinking_that_a_client_turns_on_is_turned_on_where_it_is_off() {
    let with =
        |thinking: Value| json!({"messages": [{"role": "user", "content": "q"}], "thinking": thinking});
    let enabled = with(json!({"type": "enabled", "budget_tokens": 5000}));
    for (host, expected) in
        [("api.deepseek.com", json!({"type": "enabled"})), ("api.openai.com", Value::Null)]
    {
        let (chat, _) = chat_with(ClientDialect::Messages, &enabled, |options| options.adapt_to_host(host));
        assert_eq!(chat.get("thinking").cloned().unwrap_or_default(), expected, "{host}");
    }
    let (chat, dropped) = chat_with(ClientDialect::Messages, &with(json!({"type": "disabled"})), |options| {
        options.adapt_to_host("api.deepseek.com");
    });
    assert_eq!((&chat["thinking"], dropped), (&json!({"type": "disabled"}), vec![]));
    // Some servers of Chat Completions have the same member as Messages.
    let messages = sent(ClientDialect::Chat, enabled.clone(), Dialect::Messages).unwrap();
    assert_eq!(messages["thinking"], json!({"type": "enabled", "budget_tokens": 5000}));
    let same = sent(ClientDialect::Messages, enabled, Dialect::Messages).unwrap();
    assert_eq!((&same["thinking"]["budget_tokens"], same.get("output_config")), (&json!(5000), None));
}

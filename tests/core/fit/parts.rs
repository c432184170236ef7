//! Tests parts of messages and results, and turns that become empty.

use super::*;

#[test]
fn turn_of_which_nothing_is_left_is_not_sent() {
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I think"}]}),
        json!({"type": "message", "role": "assistant", "content": []}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]}),
    ];
    for item in items {
        for upstream in UPSTREAMS {
            if upstream == Dialect::Responses {
                continue;
            }
            let sent = sent(ClientDialect::Responses, between(json!([item])), upstream).unwrap();
            let plain =
                json!({"input": [{"role": "user", "content": "q"}, {"role": "user", "content": "r"}]});
            assert_eq!(
                sent,
                super::sent(ClientDialect::Responses, plain, upstream).unwrap(),
                "{upstream} {item}"
            );
        }
    }
}

#[test]
fn reasoning_with_the_upstreams_own_state_is_kept() {
    let thinking = json!({"type": "thinking", "thinking": "t", "signature": "S"});
    let fields = json!({"messages": [
        {"role": "user", "content": "q"}, {"role": "assistant", "content": [thinking]}, {"role": "user", "content": "r"},
    ]});
    let sent = sent(ClientDialect::Messages, fields, Dialect::Messages).unwrap();
    assert_eq!(sent["messages"][1]["content"][0], thinking);
}

#[test]
fn empty_instructions_are_not_sent() {
    let fields = json!({"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "q"}]});
    for upstream in [Dialect::Gemini, Dialect::Ollama, Dialect::Messages, Dialect::Responses] {
        let sent = sent(ClientDialect::Chat, fields.clone(), upstream).unwrap();
        assert_eq!(sent, super::sent(ClientDialect::Chat, user(json!("q")), upstream).unwrap(), "{upstream}");
    }
}

#[test]
fn request_of_which_no_message_is_left_is_refused() {
    let fields = json!({"instructions": "i", "input": [{"type": "reasoning", "summary": [], "encrypted_content": "E"}]});
    for upstream in [Dialect::Chat, Dialect::Gemini, Dialect::Messages] {
        let (message, _) = refused(ClientDialect::Responses, fields.clone(), upstream);
        assert!(message.contains("no message is left"), "{message}");
    }
}

#[test]
fn text_in_a_result_of_any_form_reaches_the_model() {
    let document = json!({"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "SAID"}});
    let content = json!({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "SAID"}]}});
    let found = json!({"type": "search_result", "source": "https://a", "title": "T", "content": [{"type": "text", "text": "SAID"}]});
    let blocks = [
        json!({"type": "tool_reference", "tool_name": "SAID"}),
        document,
        content,
        found,
        json!({"type": "new_kind", "text": "SAID"}),
        json!({"type": "new_kind", "content": [{"type": "text", "text": "SAID"}]}),
        json!({"type": "new_kind", "other": "SAID"}),
        json!({"type": "resource", "resource": {"uri": "a://b", "text": "SAID"}}),
        json!({"type": "input_text", "text": "SAID"}),
    ];
    for block in blocks {
        for upstream in UPSTREAMS {
            if upstream == Dialect::Messages {
                continue;
            }
            let sent = sent(
                ClientDialect::Messages,
                result(json!([{"type": "text", "text": "a"}, block])),
                upstream,
            );
            let sent = sent.unwrap().to_string();
            assert!(sent.contains("SAID"), "{upstream} {block}: {sent}");
            assert!(!sent.contains("Attached to the result"), "{upstream} {block}: {sent}");
        }
    }
}

#[test]
fn blocks_of_text_are_written_with_their_titles() {
    let text = |block: Value| {
        let sent = sent(ClientDialect::Messages, result(json!([block])), Dialect::Chat).unwrap();
        sent["messages"][2]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(text(json!({"type": "tool_reference", "tool_name": "CronList"})), "Loaded: CronList");
    let found = json!({"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "x"}]});
    assert_eq!(text(found), "t (u):\nx");
    let source = json!({"type": "text", "media_type": "text/plain", "data": "x"});
    assert_eq!(text(json!({"type": "document", "source": source, "title": "t", "context": "c"})), "t:\nc\nx");
    assert_eq!(text(json!({"type": "document", "source": source})), "x");
}

#[test]
fn blocks_of_a_result_stay_as_they_are_for_their_own_api() {
    let blocks = json!([{"type": "tool_reference", "tool_name": "g"}, {"type": "new_kind", "x": 1}]);
    let sent = sent(ClientDialect::Messages, result(blocks.clone()), Dialect::Messages).unwrap();
    assert_eq!(sent["messages"][2]["content"][0]["content"], blocks);
}

#[test]
fn part_of_another_api_is_read_as_what_it_plainly_is() {
    const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";
    let texts = [
        json!({"type": "input_text", "text": "SAID"}),
        json!({"type": "output_text", "text": "SAID"}),
        json!({"type": "text", "text": "SAID"}),
    ];
    let images = [
        json!({"type": "image_url", "image_url": {"url": IMAGE}}),
        json!({"type": "input_image", "image_url": IMAGE}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}),
    ];
    // Messages of Ollama's API have no parts, and parts of Gemini's have no types.
    for client in [ClientDialect::Chat, ClientDialect::Messages, ClientDialect::Responses] {
        let fields = |part: &Value| match client {
            ClientDialect::Responses => input(json!([part])),
            _ => user(json!([part])),
        };
        for upstream in UPSTREAMS {
            for part in &texts {
                let sent = sent(client, fields(part), upstream).unwrap();
                let plain =
                    super::sent(client, fields(&json!({"type": "text", "text": "SAID"})), upstream).unwrap();
                assert_eq!(sent, plain, "{client:?} {upstream} {part}");
                assert!(sent.to_string().contains("SAID"), "{client:?} {upstream} {part}");
            }
            for part in &images {
                let sent = sent(client, fields(part), upstream).unwrap().to_string();
                assert!(sent.contains("iVBORw0KGgo="), "{client:?} {upstream} {part}: {sent}");
            }
        }
    }
}

#[test]
fn unknown_part_of_a_users_message_is_refused_by_its_place() {
    let part = json!([{"type": "text", "text": "x"}, {"type": "hologram", "hologram": {}}]);
    let (message, param) = refused(ClientDialect::Chat, user(part.clone()), Dialect::Gemini);
    assert_eq!(param, "messages[0].content[1]");
    assert!(message.contains("`messages[0].content[1]`") && message.contains("`hologram`"), "{message}");
    assert_eq!(
        refused(ClientDialect::Messages, user(part.clone()), Dialect::Chat).1,
        "messages[0].content[1]"
    );
    assert_eq!(
        refused(ClientDialect::Responses, input(part.clone()), Dialect::Responses).1,
        "input[0].content[1]"
    );
    // An upstream with the client's API may know the part, so it is forwarded.
    let sent = sent(ClientDialect::Chat, user(part.clone()), Dialect::Chat).unwrap();
    assert_eq!(sent["messages"][0]["content"], part);
}

#[test]
fn image_in_instructions_is_refused_where_they_are_text() {
    let image = json!([{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]);
    let fields =
        json!({"messages": [{"role": "system", "content": image}, {"role": "user", "content": "q"}]});
    for upstream in [Dialect::Gemini, Dialect::Messages, Dialect::Responses, Dialect::Lumo] {
        assert_eq!(
            refused(ClientDialect::Chat, fields.clone(), upstream).1,
            "messages[0].content[0].image_url.url"
        );
    }
}

#[test]
fn what_is_beside_the_content_of_an_assistants_message_is_sent() {
    let fields = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "refusal": "I will not"},
        {"role": "assistant", "content": "", "images":
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
        {"role": "assistant", "content": "spoken", "audio": {"id": "audio_1"}},
        {"role": "user", "content": "r"},
    ]});
    for upstream in [Dialect::Messages, Dialect::Gemini, Dialect::Ollama, Dialect::Responses] {
        let sent = sent(ClientDialect::Chat, fields.clone(), upstream).unwrap().to_string();
        for part in ["I will not", "iVBORw0KGgo=", "[a recording, audio_1, was left out"] {
            assert!(sent.contains(part), "{upstream} {part}: {sent}");
        }
    }
}

#[test]
fn call_in_a_users_message_is_refused() {
    let call = json!([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]);
    assert_eq!(
        refused(ClientDialect::Messages, user(call.clone()), Dialect::Chat).1,
        "messages[0].content[0]"
    );
    let sent = sent(ClientDialect::Messages, result(call), Dialect::Chat).unwrap();
    assert!(sent["messages"][2]["content"].as_str().unwrap().contains("web_search"), "{sent}");
}

#[test]
fn calls_of_the_client_stay_beside_their_results() {
    let fields = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            {"type": "fallback", "from": "a"},
            {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "2"},
        ]},
    ]});
    let sent = sent(ClientDialect::Messages, fields, Dialect::Chat).unwrap();
    let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "user", "assistant", "tool", "tool"], "{sent}");
    assert_eq!(sent["messages"][1]["content"], r#"[fallback: {"from":"a"}]"#);
}

#[test]
fn summary_of_a_compaction_is_text_and_a_sealed_one_is_refused() {
    let block = json!({"type": "compaction", "content": "SUMMARY"});
    let fields = json!({"messages": [
        {"role": "user", "content": "q"}, {"role": "assistant", "content": [block]}, {"role": "user", "content": "r"},
    ]});
    let sent = sent(ClientDialect::Messages, fields, Dialect::Chat).unwrap();
    let text = "This summary replaces the earlier part of the conversation:\n\nSUMMARY";
    assert_eq!(sent["messages"][1], json!({"role": "user", "content": text}));
    let sealed = between(json!([{"type": "compaction", "id": "cmp_1", "encrypted_content": "A"}]));
    let (message, param) = refused(ClientDialect::Responses, sealed.clone(), Dialect::Chat);
    assert_eq!(param, "input[1]");
    assert!(message.contains("compaction"), "{message}");
    assert!(super::sent(ClientDialect::Responses, sealed, Dialect::Responses).is_ok());
    let trigger = between(json!([{"type": "compaction_trigger"}]));
    assert!(refused(ClientDialect::Responses, trigger, Dialect::Gemini).0.contains("last item"));
}

/// Members that say that a part of the conversation, or of what the model may do, is on a server.
#[test]
fn request_whose_rest_is_elsewhere_is_never_sent_without_it() {
    let (messages, responses) = (ClientDialect::Messages, ClientDialect::Responses);
    for (client, key, value) in [
        (messages, "thread", json!({"type": "create"})),
        (messages, "thread", json!({"type": "continue", "previous_message_id": "msg_1"})),
        (messages, "container", json!("container_1")),
        (messages, "container", json!({"id": "container_1", "skills": []})),
        (messages, "mcp_servers", json!([{"type": "url", "url": "https://a", "name": "a"}])),
        (responses, "conversation", json!("conv_1")),
        (responses, "conversation", json!({"id": "conv_1"})),
        (responses, "prompt", json!({"id": "pmpt_1"})),
        (responses, "previous_response_id", json!("resp_1")),
    ] {
        let mut fields = if client == messages { user(json!("q")) } else { input(json!("q")) };
        fields[key] = value.clone();
        for upstream in UPSTREAMS {
            match sent(client, fields.clone(), upstream) {
                Ok(sent) => {
                    assert_eq!((upstream, &sent[key]), (client.dialect(), &value), "{key}");
                }
                Err(failure) => {
                    let status = if key == "previous_response_id" { 404 } else { 400 };
                    assert_eq!((failure.status(), failure.param()), (status, Some(key)), "{upstream}");
                }
            }
        }
    }
}

#[test]
fn member_that_only_anthropics_servers_support_is_named_in_the_error() {
    for (key, value) in [
        ("thread", json!({"type": "create"})),
        ("container", json!("container_1")),
        ("mcp_servers", json!([{"type": "url", "url": "https://a", "name": "a"}])),
        ("compaction", json!({"type": "summarize"})),
        ("inference_geo", json!("us")),
    ] {
        let mut fields = user(json!("q"));
        fields[key] = value.clone();
        let failure = sent(ClientDialect::Messages, fields.clone(), Dialect::Chat).unwrap_err();
        let body: Value =
            serde_json::from_slice(&ClientDialect::Messages.side().error_body(&failure)).unwrap();
        let details = json!({"error_code": format!("{key}_unsupported_request"), "unsupported": [key]});
        assert_eq!(body["error"]["details"], details);
        // A setting without a value does not make the request unsupported.
        let mut fields = user(json!("q"));
        fields[key] = if key == "mcp_servers" { json!([]) } else { Value::Null };
        assert!(sent(ClientDialect::Messages, fields, Dialect::Chat).is_ok());
    }
}

/// Whoever asks for checked contents or a spoken answer must not get something else.
#[test]
fn request_that_relies_on_its_api_is_refused() {
    let checks = json!({"model": "omni-moderation-latest", "policy": {"output": {"mode": "block"}}});
    for (client, key, value) in [
        (ClientDialect::Chat, "moderation", checks.clone()),
        (ClientDialect::Responses, "moderation", checks),
        (ClientDialect::Chat, "modalities", json!(["text", "audio"])),
    ] {
        let mut fields = if client == ClientDialect::Chat { user(json!("q")) } else { input(json!("q")) };
        fields[key] = value;
        for upstream in UPSTREAMS.into_iter().filter(|upstream| *upstream != client.dialect()) {
            assert_eq!(refused(client, fields.clone(), upstream).1, key);
        }
        assert!(sent(client, fields, client.dialect()).is_ok());
    }
    let mut fields = user(json!("q"));
    fields["modalities"] = json!(["text"]);
    assert!(sent(ClientDialect::Chat, fields, Dialect::Gemini).is_ok());
}

/// OpenAI's models tell the participants of a conversation apart by `name`.
#[test]
fn name_of_a_user_reaches_the_model() {
    let message = |content: Value| json!({"messages": [{"role": "user", "name": "ann", "content": content}]});
    for upstream in UPSTREAMS.into_iter().filter(|upstream| *upstream != Dialect::Chat) {
        let image = json!([{"type": "text", "text": "hi"}]);
        for content in [json!("hi"), image] {
            let sent = sent(ClientDialect::Chat, message(content), upstream).unwrap();
            assert!(sent.to_string().contains("ann:\\nhi"), "{upstream}: {sent}");
        }
    }
    let fields = message(json!("hi"));
    assert_eq!(
        sent(ClientDialect::Chat, fields.clone(), Dialect::Chat).unwrap()["messages"],
        fields["messages"]
    );
}

#[test]
fn what_stands_beside_the_contents_of_a_result_reaches_the_model() {
    let ran = json!({
        "type": "code_execution_result", "return_code": 3, "stdout": "OUT", "stderr": "ERR",
        "content": [{"type": "code_execution_output", "file_id": "file_1"}],
    });
    let fields = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "x"}},
            {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": ran},
        ]},
        {"role": "user", "content": "r"},
    ]});
    for upstream in UPSTREAMS.into_iter().filter(|upstream| *upstream != Dialect::Messages) {
        let sent = sent(ClientDialect::Messages, fields.clone(), upstream).unwrap().to_string();
        for said in ["OUT", "ERR", "return_code", "file_1"] {
            assert!(sent.contains(said), "{said} for {upstream}: {sent}");
        }
    }
}

#[test]
fn context_of_a_file_reaches_the_model() {
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"});
    let document = json!({"type": "document", "title": "T", "context": "ABOUT", "source": source});
    for upstream in [Dialect::Chat, Dialect::Responses, Dialect::Gemini] {
        let sent = sent(ClientDialect::Messages, user(json!([document])), upstream).unwrap().to_string();
        assert!(sent.contains("T:\\nABOUT") && sent.contains("JVBERi0x"), "{upstream}: {sent}");
    }
}

#[test]
fn conversation_without_contents_is_refused() {
    for messages in [
        json!([{"role": "system", "content": []}]),
        json!([{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]),
    ] {
        for upstream in UPSTREAMS.into_iter().filter(|upstream| *upstream != Dialect::Chat) {
            let (message, _) = refused(ClientDialect::Chat, json!({ "messages": messages }), upstream);
            assert!(message.contains("no message is left"), "{message}");
        }
    }
}

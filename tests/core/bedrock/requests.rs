//! Tests requests: what clients of other APIs say, in Bedrock's words.

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{
        ClientDialect, Dialect, File, Observed, Source, UpstreamDialect, UpstreamSide,
        bedrock::{CachePoints, Effort, Options},
        fitted,
    },
};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-20250514-v1:0";

fn decoded(client: ClientDialect, fields: Value) -> Conversation {
    let mut body = json!({"model": "m", "max_tokens": 5000, "messages": [{"role": "user", "content": "U"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    client.side().decode(body.to_string().as_bytes()).unwrap()
}

fn encoded_by(options: &Options, client: ClientDialect, model: &str, fields: Value) -> (Value, Vec<String>) {
    let conversation = decoded(client, fields);
    let conversation = fitted(&conversation, client.dialect(), options).unwrap();
    let request = options.encode(&conversation, model);
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

fn of_chat(model: &str, fields: Value) -> (Value, Vec<String>) {
    encoded_by(&Options::default(), ClientDialect::Chat, model, fields)
}

fn of_messages(model: &str, fields: Value) -> (Value, Vec<String>) {
    encoded_by(&Options::default(), ClientDialect::Messages, model, fields)
}

#[test]
fn path_names_the_model_and_says_whether_to_stream() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0";
    for (model, stream, path) in [
        ("amazon.nova-lite-v1:0", true, "model/amazon.nova-lite-v1%3A0/converse-stream"),
        ("amazon.nova-lite-v1:0", false, "model/amazon.nova-lite-v1%3A0/converse"),
        (
            arn,
            true,
            "model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.amazon.nova-lite-v1%3A0\
             /converse-stream",
        ),
        ("../x?y#z", false, "model/..%2Fx%3Fy%23z/converse"),
    ] {
        let request =
            Options::default().encode(&decoded(ClientDialect::Chat, json!({"stream": stream})), model);
        assert_eq!((request.path.as_deref(), request.stream), (Some(path), stream));
    }
}

#[test]
fn settings_and_tools_have_their_places() {
    let tool = json!({"type": "function", "function": {"name": "f", "description": "D", "strict": true,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let fields = json!({"stream": true, "temperature": 1.5, "top_p": 0.9, "max_completion_tokens": 2000,
        "stop": ["a", " "], "seed": 1, "top_k": 3, "logprobs": true, "parallel_tool_calls": false,
        "service_tier": "flex", "reasoning_effort": "high", "stream_options": {"include_usage": true},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "tools": [tool, {"type": "function", "function": {"name": "g"}}], "tool_choice": "required"});
    let (body, dropped) = of_chat(CLAUDE, fields);
    let expected = json!({
        "messages": [{"role": "user", "content": [{"text": "U"}]}],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "f", "description": "D",
                    "inputSchema": {"json": {"type": "object", "properties": {"a": {"type": "string"}}}}}},
                {"toolSpec": {"name": "g", "inputSchema": {"json": {"type": "object", "properties": {}}}}},
            ],
            "toolChoice": {"any": {}},
        },
        "inferenceConfig": {"maxTokens": 2000, "temperature": 1, "topP": 0.9, "stopSequences": ["a"]},
        "outputConfig": {"textFormat": {"type": "json_schema",
            "structure": {"jsonSchema": {"schema": "{\"type\":\"object\"}", "name": "n"}}}},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1999}, "top_k": 3},
        "serviceTier": {"type": "flex"},
    });
    assert_eq!(body, expected);
    assert_eq!(dropped, ["logprobs", "parallel_tool_calls", "seed", "stop", "temperature", "tools[].strict"]);
}

#[test]
fn history_alternates_and_results_come_first() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let messages = json!([
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,/9j/AAAA"}},
            {"type": "file", "file": {"filename": "my_report.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            {"type": "file", "file": {"filename": "my_report.pdf", "file_data": "data:application/pdf;base64,JVBERi1="}}]},
        {"role": "assistant", "content": null, "tool_calls": [call("1", "{\"b\": 1.0, \"a\": 2}"), call("2", "broken")]},
        {"role": "user", "content": "go on"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "tool", "tool_call_id": "1", "content": ""},
        {"role": "assistant", "content": "  "},
        {"role": "user", "content": "end"},
    ]);
    let (body, dropped) = of_chat(CLAUDE, json!({"messages": messages, "max_tokens": null}));
    let expected = json!({
        "system": [{"text": "S"}],
        "messages": [
            {"role": "user", "content": [{"text": "a"},
                {"image": {"format": "jpeg", "source": {"bytes": "/9j/AAAA"}}},
                {"document": {"format": "pdf", "source": {"bytes": "JVBERi0="}, "name": "my-report"}},
                {"document": {"format": "pdf", "source": {"bytes": "JVBERi1="}, "name": "my-report (2)"}}]},
            {"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "1", "name": "f", "input": {"b": 1.0, "a": 2}}},
                {"toolUse": {"toolUseId": "2", "name": "f", "input": {"input": "broken"}}}]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "1", "content": []}},
                {"toolResult": {"toolUseId": "2", "content": [{"text": "two"}]}},
                {"text": "go on"}, {"text": "end"}]},
        ],
        // The API requires it wherever there are calls.
        "toolConfig": {"tools": [{"toolSpec": {"name": "f",
            "inputSchema": {"json": {"type": "object", "properties": {}}}}}]},
    });
    assert_eq!((body, dropped), (expected, vec![]));
}

#[test]
fn results_keep_their_images_and_errors() {
    let messages = json!([
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [
            {"type": "text", "text": "bad"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoA"}}]}]},
    ]);
    let (body, dropped) = of_messages(CLAUDE, json!({"messages": messages}));
    let expected = json!({"toolResult": {"toolUseId": "t", "status": "error", "content": [{"text": "bad"},
        {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgoA"}}}]}});
    assert_eq!(body["messages"][2]["content"], json!([expected]));
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn reasoning_is_sent_back_with_its_signature_and_only_to_bedrock() {
    let messages = json!([
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "bedrock:c2ln"},
            {"type": "redacted_thinking", "data": "bedrock:aGlk"},
            {"type": "thinking", "thinking": "Other.", "signature": "b3RoZXI="},
            {"type": "text", "text": "A"}]},
        {"role": "user", "content": "V"},
    ]);
    let (body, dropped) = of_messages(CLAUDE, json!({"messages": messages}));
    let expected = json!([
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "aGlk"}},
        {"text": "A"},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(dropped, ["messages[].reasoning"]);
}

#[test]
fn tool_choice_says_which_tools_may_be_called() {
    let tools: Value =
        ["f", "g"].iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    let history = json!([
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": null,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
    ]);
    let named = |body: &Value| {
        let tools = body["toolConfig"]["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["toolSpec"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (choice, names, expected) in [
        (json!("auto"), vec!["f", "g"], Value::Null),
        (json!("none"), vec![], Value::Null),
        (
            json!({"type": "function", "function": {"name": "g"}}),
            vec!["f", "g"],
            json!({"tool": {"name": "g"}}),
        ),
    ] {
        let (body, _) = of_chat(CLAUDE, json!({"tools": tools, "tool_choice": choice}));
        assert_eq!(named(&body), names, "{choice}");
        assert_eq!(body["toolConfig"]["toolChoice"], expected);
    }
    let (body, dropped) =
        of_chat(CLAUDE, json!({"tools": tools, "tool_choice": "none", "messages": history}));
    assert_eq!((named(&body), dropped), (vec!["f".to_owned()], vec!["tool_choice".to_owned()]));
}

#[test]
fn cache_points_follow_what_clients_want_cached() {
    let hint = json!({"type": "ephemeral", "ttl": "1h"});
    let fields = json!({
        "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": hint}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "U", "cache_control": hint}, {"type": "text", "text": "V"}]}],
    });
    let point = json!({"cachePoint": {"type": "default", "ttl": "1h"}});
    let (body, dropped) = of_messages(CLAUDE, fields.clone());
    assert_eq!(body["system"], json!([{"text": "S"}, {"cachePoint": {"type": "default"}}]));
    assert_eq!(body["toolConfig"]["tools"][1], point);
    assert_eq!(body["messages"][0]["content"], json!([{"text": "U"}, point, {"text": "V"}]));
    assert_eq!(dropped, Vec::<String>::new());
    let of_chat_client = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "U", "cache_control": hint}]}]});
    let (body, dropped) = of_chat("amazon.nova-pro-v1:0", of_chat_client);
    assert_eq!((&body["messages"][0]["content"][1], dropped), (&point, vec![]));
    // Models that know no cache points reject them.
    let (body, dropped) = of_messages("meta.llama4-scout-17b-instruct-v1:0", fields.clone());
    assert!(!body.to_string().contains("cachePoint"));
    assert_eq!(dropped, ["cache_control"]);
    let always = Options { cache_points: CachePoints::Always, ..Options::default() };
    let (body, _) = encoded_by(&always, ClientDialect::Messages, "arn:x", fields);
    assert_eq!(body.to_string().matches("cachePoint").count(), 3);
    let (body, _) = of_messages(CLAUDE, json!({"cache_control": {"type": "ephemeral"}}));
    assert_eq!(body["messages"][0]["content"][1], json!({"cachePoint": {"type": "default"}}));
}

#[test]
fn effort_is_written_as_the_model_expects_it() {
    let sent = |effort: Effort, model: &str, word: &str| {
        let options = Options { effort, ..Options::default() };
        let (body, dropped) =
            encoded_by(&options, ClientDialect::Chat, model, json!({"reasoning_effort": word}));
        let fields = &body["additionalModelRequestFields"];
        (if fields.is_null() { body["outputConfig"].clone() } else { fields.clone() }, !dropped.is_empty())
    };
    let thinking = |budget: u64| json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
    let nova = "global.amazon.nova-2-lite-v1:0";
    for (effort, model, word, expected) in [
        (Effort::Auto, CLAUDE, "low", (thinking(1024), false)),
        (Effort::Auto, CLAUDE, "medium", (thinking(4096), false)),
        (Effort::Auto, CLAUDE, "max", (thinking(4999), false)),
        (Effort::Auto, CLAUDE, "none", (json!({"thinking": {"type": "disabled"}}), false)),
        (Effort::OutputConfig, CLAUDE, "xhigh", (json!({"effort": "xhigh"}), false)),
        (
            Effort::Auto,
            nova,
            "low",
            (json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}), false),
        ),
        (Effort::Auto, nova, "none", (json!({"reasoningConfig": {"type": "disabled"}}), false)),
        (Effort::Auto, "openai.gpt-oss-120b-1:0", "minimal", (json!({"reasoning_effort": "low"}), false)),
        (Effort::Auto, "meta.llama4-scout-17b-instruct-v1:0", "high", (Value::Null, true)),
        (Effort::Drop, CLAUDE, "high", (Value::Null, true)),
    ] {
        assert_eq!(sent(effort, model, word), expected, "{effort:?} {model} {word}");
    }
    // What a client of Anthropic's own API says is passed on to its models.
    let own = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}});
    let (body, dropped) = of_messages(CLAUDE, own.clone());
    assert_eq!(body["additionalModelRequestFields"], json!({"thinking": {"type": "adaptive"}}));
    assert_eq!((&body["outputConfig"], dropped), (&json!({"effort": "max"}), vec![]));
    let (body, dropped) = of_messages("meta.llama4", own);
    assert_eq!(body["additionalModelRequestFields"], Value::Null);
    assert_eq!(dropped, ["reasoning_effort", "thinking"]);
    // Newer models have no budgets.
    let side = UpstreamDialect::try_from(Dialect::Bedrock).unwrap();
    let side = side.observing(Observed { no_thinking_budget: true, ..Observed::default() });
    let conversation = decoded(ClientDialect::Chat, json!({"reasoning_effort": "low"}));
    let request = side.side().encode(&conversation, CLAUDE);
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        (&body["outputConfig"], &body["additionalModelRequestFields"]),
        (&json!({"effort": "low"}), &Value::Null)
    );
}

#[test]
fn files_become_blocks_of_their_kinds() {
    let side = Options::default();
    let file = |name: &str, mime: &str, source: Source| {
        let part = side.file_part(&File { name: name.into(), mime: mime.into(), source });
        part.map(|part| match part {
            toolwire::conversation::Part::Other(other) => other.from_dialect("bedrock").unwrap().clone(),
            part => panic!("{part:?}"),
        })
    };
    let data = || Source::Data("AAAA".into());
    assert_eq!(
        file("a.csv", "text/csv", data()),
        Some(json!({"document": {"format": "csv", "source": {"bytes": "AAAA"}, "name": "a"}}))
    );
    assert_eq!(
        file("", "audio/wav", data()),
        Some(json!({"audio": {"format": "wav", "source": {"bytes": "AAAA"}}}))
    );
    assert_eq!(
        file("v", "video/mp4", Source::Url("s3://bucket/v.mp4".into())),
        Some(json!({"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/v.mp4"}}}}))
    );
    assert_eq!(file("x", "application/zip", data()), None);
    assert_eq!(file("x", "application/pdf", Source::Url("https://x/a.pdf".into())), None);
    for (url, takes) in [
        ("data:image/png;base64,AA==", true),
        ("data:image/bmp;base64,AA==", false),
        ("s3://bucket/a.png", true),
        ("https://x/a.png", false),
    ] {
        assert_eq!(side.takes_image(url), takes, "{url}");
    }
}

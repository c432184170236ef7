//! Tests the tools that this API defines and that clients run, such as `shell`.

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::{BuiltIn, Conversation, Part, ToolChoice},
    dialect::{
        Answering, ClientDialect, Dialect, Reader, Stamp, UpstreamDialect, Writer, fitted,
        responses::{self, ReaderSettings},
    },
    event::{CallEnd, CallStart, Event, Finish, Runner, Sink, Source},
    failure::Failure,
};

use crate::read::read_splits;

fn decode(fields: Value) -> Result<Conversation, Failure> {
    let mut body = json!({"model": "m", "input": "?"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ClientDialect::Responses.side().decode(body.to_string().as_bytes())
}

/// All tools of this kind.
fn tools() -> Value {
    json!([
        {"type": "shell", "environment": {"type": "local", "skills": [
            {"name": "charts", "description": "Draw charts.", "path": "/skills/charts"}]}},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "computer"},
        {"type": "tool_search", "execution": "client", "description": "Find tools.", "parameters": {
            "type": "object", "properties": {"goal": {"type": "string"}}}},
    ])
}

/// A call to each of [`tools`] as an item, the function's name, and its arguments.
fn calls() -> Vec<(Value, &'static str, Value)> {
    vec![
        (
            json!({"type": "shell_call", "action": {"commands": ["ls", "echo \"é\""], "timeout_ms": 5}}),
            "shell",
            json!({"commands": ["ls", "echo \"é\""], "timeout_ms": 5}),
        ),
        (
            json!({"type": "local_shell_call", "action": {"command": ["ls"], "user": "me", "env": {}, "type": "exec"}}),
            "local_shell",
            json!({"command": ["ls"], "user": "me"}),
        ),
        (
            json!({"type": "apply_patch_call", "operation": {"type": "create_file", "path": "a", "diff": "+x"}}),
            "apply_patch",
            json!({"type": "create_file", "path": "a", "diff": "+x"}),
        ),
        (
            json!({"type": "computer_call", "actions": [{"type": "wait"}], "pending_safety_checks": []}),
            "computer",
            json!({"actions": [{"type": "wait"}]}),
        ),
        (
            json!({"type": "tool_search_call", "arguments": {"goal": "x"}, "execution": "client"}),
            "tool_search",
            json!({"goal": "x"}),
        ),
    ]
}

#[test]
fn tools_are_functions_with_names_of_their_own() {
    let conversation = decode(json!({ "tools": tools() })).unwrap();
    let names: Vec<_> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["shell", "local_shell", "apply_patch", "computer", "tool_search"]);
    assert!(conversation.server_tools.is_empty() && conversation.rest.from_dialect("responses").is_none());
    assert_eq!(conversation.built_in[0], BuiltIn { name: "shell".to_owned(), kind: "shell".to_owned() });
    assert!(conversation.tools[0].description.contains("charts (/skills/charts): Draw charts."));
    assert_eq!(conversation.tools[4].description, "Find tools.");
    let schema = conversation.tools[4].parameters.as_ref().unwrap().view().raw();
    assert!(schema.contains("goal"), "{schema}");
    let preview = json!({"type": "computer_use_preview", "display_width": 8, "display_height": 6, "environment": "mac"});
    let conversation = decode(json!({ "tools": [preview] })).unwrap();
    assert!(conversation.tools[0].description.contains("8 x 6") && conversation.tools[0].name == "computer");
}

#[test]
fn tools_that_servers_run_are_no_functions() {
    let hosted = json!([
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "tool_search"},
        {"type": "web_search"},
        {"type": "programmatic_tool_calling"},
    ]);
    let conversation = decode(json!({ "tools": hosted })).unwrap();
    assert_eq!((conversation.tools.len(), conversation.server_tools.len()), (0, 4));
    assert_eq!(conversation.rest.from_dialect("responses").unwrap()["tools"], hosted);
}

#[test]
fn names_differ_from_those_of_functions() {
    let function = json!({"type": "function", "name": "shell", "parameters": {"type": "object"}});
    let call = json!({"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}});
    let fields =
        json!({"tools": [{"type": "shell"}, function], "tool_choice": {"type": "shell"}, "input": [call]});
    let conversation = decode(fields).unwrap();
    let (function, name) = (&conversation.tools[0].name, &conversation.tools[1].name);
    assert!(function == "shell" && name.starts_with("shell__shell_"), "{name}");
    assert_eq!(conversation.tool_choice, ToolChoice::Named(name.clone()));
    let Part::Call(call) = &conversation.turns[0].parts[0] else { panic!() };
    assert_eq!(&call.name, name);
    let twice = decode(json!({"tools": [{"type": "shell"}, {"type": "shell"}]})).unwrap_err();
    assert_eq!((twice.status(), twice.param()), (400, Some("tools[1]")));
}

#[test]
fn choices_mean_functions() {
    for (choice, name) in [
        (json!({"type": "apply_patch"}), "apply_patch"),
        (json!({"type": "computer_use"}), "computer"),
        (json!({"type": "computer_use_preview"}), "computer"),
    ] {
        let conversation = decode(json!({"tools": tools(), "tool_choice": choice})).unwrap();
        assert_eq!(conversation.tool_choice, ToolChoice::Named(name.to_owned()), "{choice}");
    }
    let choice = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "shell"}, {"type": "apply_patch"}]});
    let conversation = decode(json!({"tools": tools(), "tool_choice": choice})).unwrap();
    let names = vec!["shell".to_owned(), "apply_patch".to_owned()];
    assert_eq!(conversation.tool_choice, ToolChoice::Allowed { names, required: true });
    // A tool that is not declared belongs to the API's servers.
    let conversation =
        decode(json!({"tools": [{"type": "web_search"}], "tool_choice": {"type": "shell"}})).unwrap();
    assert_eq!(conversation.tool_choice, ToolChoice::Auto);
}

/// The request that an upstream of `dialect` gets.
fn sent(fields: Value, dialect: Dialect) -> Value {
    let conversation = decode(fields).unwrap();
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let fitted = fitted(&conversation, Dialect::Responses, upstream.side()).unwrap();
    serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap()
}

#[test]
fn upstreams_of_this_api_get_everything_as_it_is() {
    let mut input = vec![json!({"role": "user", "content": "q"})];
    for (number, (mut call, ..)) in calls().into_iter().enumerate() {
        let id = format!("c{number}");
        call["call_id"] = json!(id);
        call["status"] = json!("completed");
        input.push(call.clone());
        let kind = call["type"].as_str().unwrap();
        input.push(match kind {
            "local_shell_call" => json!({"type": "local_shell_call_output", "id": id, "output": "a"}),
            "tool_search_call" => {
                json!({"type": "tool_search_output", "call_id": id, "execution": "client", "tools": []})
            }
            "computer_call" => {
                json!({"type": "computer_call_output", "call_id": id, "acknowledged_safety_checks": [],
                "output": {"type": "computer_screenshot", "file_id": "file_1"}})
            }
            "shell_call" => {
                json!({"type": "shell_call_output", "call_id": id, "max_output_length": 9, "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]})
            }
            _ => {
                json!({"type": "apply_patch_call_output", "call_id": id, "status": "failed", "output": "no"})
            }
        });
    }
    let body =
        sent(json!({"tools": tools(), "input": input, "tool_choice": {"type": "shell"}}), Dialect::Responses);
    let mut expected = input.clone();
    expected[0] =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]});
    assert_eq!(body["input"], json!(expected));
    assert_eq!((&body["tools"], &body["tool_choice"]), (&tools(), &json!({"type": "shell"})));
    // Beside a call to a tool in a namespace, whose name changes, calls are written from their parts.
    let read = json!({"type": "function_call", "call_id": "n", "namespace": "files", "name": "read", "arguments": "{}"});
    let namespace =
        json!({"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "read"}]});
    let shell = json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}});
    let output = json!({"type": "shell_call_output", "call_id": "c", "output": []});
    let answer = json!({"type": "function_call_output", "call_id": "n", "output": "x"});
    let fields = json!({"tools": [{"type": "shell"}, namespace], "input": [{"role": "user", "content": "q"}, read, shell, output, answer]});
    let body = sent(fields, Dialect::Responses);
    let shell =
        json!({"type": "shell_call", "call_id": "c", "status": "completed", "action": {"commands": ["ls"]}});
    assert_eq!((&body["input"][2], &body["input"][3]), (&shell, &output));
}

#[test]
fn calls_of_servers_keep_the_ids_of_others() {
    let hosted = json!({"type": "shell_call", "call_id": "h", "action": {"commands": ["a"]},
        "environment": {"type": "container_reference", "container_id": "k"}});
    let own = json!({"type": "shell_call", "call_id": "o", "action": {"commands": ["b"]}});
    let items = json!([{"role": "user", "content": "q"}, hosted, own,
        {"type": "shell_call_output", "call_id": "o", "output": []}]);
    let body = sent(json!({"tools": [{"type": "shell"}], "input": items}), Dialect::Responses);
    assert_eq!((&body["input"][1], &body["input"][2]), (&hosted, &own));
}

#[test]
fn other_upstreams_get_functions_calls_and_results() {
    for (mut item, name, arguments) in calls() {
        item["call_id"] = json!("c");
        let output = match item["type"].as_str().unwrap() {
            "tool_search_call" => {
                let found = json!({"type": "function", "name": "found", "parameters": {"type": "object"}});
                json!({"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [found]})
            }
            "computer_call" => json!({"type": "computer_call_output", "call_id": "c", "output": {
                "type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}}),
            kind => {
                json!({"type": format!("{kind}_output"), "call_id": "c", "status": "completed", "output": "DONE"})
            }
        };
        let input = json!([{"role": "user", "content": "q"}, item, output]);
        let body = sent(json!({"tools": tools(), "input": input}), Dialect::Chat);
        let function = &body["messages"][1]["tool_calls"][0]["function"];
        assert_eq!(function["name"], name);
        let written: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(written, arguments, "{name}");
        assert_eq!(body["messages"][2]["tool_call_id"], "c");
        let declared = body["tools"].as_array().unwrap();
        assert!(declared.iter().all(|tool| tool["type"] == "function"), "{body}");
        match name {
            "tool_search" => {
                assert_eq!((declared.len(), &body["messages"][2]["content"]), (6, &json!("Loaded: found")))
            }
            "computer" => assert!(body.to_string().contains("image_url"), "{body}"),
            _ => assert_eq!(body["messages"][2]["content"], "DONE"),
        }
    }
}

#[test]
fn result_of_a_tool_search_names_the_tools_as_they_are_declared() {
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}});
    let told = |found: Value| {
        let call =
            json!({"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}});
        let output = json!({"type": "tool_search_output", "call_id": "c", "execution": "client", "status": "completed", "tools": found});
        let tools = json!([{"type": "tool_search", "execution": "client"}]);
        let body = sent(json!({"tools": tools, "input": [call, output]}), Dialect::Chat);
        let tools = body["tools"].as_array().unwrap().iter().skip(1);
        let declared: Vec<_> =
            tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
        let content = body["messages"].as_array().unwrap().iter().find(|turn| turn["role"] == "tool");
        (declared, content.unwrap()["content"].as_str().unwrap().to_owned())
    };
    let space =
        json!({"type": "namespace", "name": "mcp__numbers", "tools": [function("add"), function("halve")]});
    let (declared, content) = told(json!([space, function("f")]));
    assert_eq!(declared, ["mcp__numbers__add", "mcp__numbers__halve", "f"]);
    assert_eq!(content.matches("Loaded: ").count(), 3);
    for name in declared {
        assert!(content.contains(&format!("Loaded: {name}")), "{content}");
    }
    assert_eq!(told(json!([])), (Vec::new(), "No tools were found.".to_owned()));
}

fn answering(stream: bool) -> Answering {
    let conversation = decode(json!({"tools": tools(), "stream": stream})).unwrap();
    Answering::new(&conversation, Stamp { seed: 7, created: 17 })
}

fn start(name: &str, source: Source) -> Event<'_> {
    Event::CallStart(CallStart {
        index: 0,
        id: "c".into(),
        name: name.into(),
        runner: Runner::Client,
        source,
        signature: None,
    })
}

/// What a client receives for one call whose arguments arrive in `pieces`.
fn written(stream: bool, name: &str, source: Source, pieces: &[&str], ended: (CallEnd, Finish)) -> String {
    let mut writer = ClientDialect::Responses.side().writer(&answering(stream));
    let mut out = BytesMut::new();
    writer.event(&start(name, source), &mut out);
    for piece in pieces {
        writer.event(&Event::CallArguments { index: 0, piece: (*piece).into() }, &mut out);
    }
    writer.event(&Event::CallEnd { index: 0, end: ended.0 }, &mut out);
    writer.event(&Event::Finish(ended.1), &mut out);
    writer.finish(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

const WHOLE: (CallEnd, Finish) = (CallEnd::Complete, Finish::Calls);

fn events(stream: &str) -> Vec<Value> {
    let data = stream.split_terminator("\n\n").filter_map(|frame| frame.split_once("\ndata: "));
    data.map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn calls_are_the_items_that_clients_expect() {
    for (mut expected, name, arguments) in calls() {
        let arguments = arguments.to_string();
        let pieces: Vec<&str> =
            arguments.split_inclusive(|letter: char| letter.is_ascii_punctuation()).collect();
        let whole: Value =
            serde_json::from_str(&written(false, name, Source::Format("hermes"), &pieces, WHOLE)).unwrap();
        let item = &whole["output"][0];
        expected["id"] = item["id"].clone();
        expected["call_id"] = json!("c");
        expected["status"] = json!("completed");
        assert_eq!((item, whole["output"].as_array().unwrap().len()), (&expected, 1), "{name}");
        assert_eq!(whole["status"], "completed");
        let events = events(&written(true, name, Source::Native, &pieces, WHOLE));
        let of_items: Vec<_> = events[2..events.len() - 1].iter().collect();
        let (added, done) = (of_items[0], of_items[of_items.len() - 1]);
        assert_eq!(
            (&added["type"], &done["type"]),
            (&json!("response.output_item.added"), &json!("response.output_item.done"))
        );
        assert_eq!((&done["item"], &added["item"]["status"]), (&expected, &json!("in_progress")));
        assert_eq!(events.last().unwrap()["response"]["output"], json!([expected]));
        let kinds: Vec<_> = of_items.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let commands = ["added", "delta", "done"].map(|kind| format!("response.shell_call_command.{kind}"));
        match name {
            "shell" => {
                assert_eq!(added["item"]["action"]["commands"], json!([]));
                assert_eq!(kinds[1..7], [commands.clone(), commands].concat());
                assert_eq!(
                    (&of_items[5]["delta"], &of_items[5]["command_index"]),
                    (&json!("echo \"é\""), &json!(1))
                );
            }
            _ => assert_eq!(kinds.len(), 2, "{name}"),
        }
    }
}

#[test]
fn call_without_a_valid_item_is_text_with_a_warning() {
    for (name, arguments) in [
        ("shell", r#"{"timeout_ms":5}"#),
        ("shell", r#"{"commands":["#),
        ("apply_patch", "[]"),
        ("apply_patch", r#"{"type":"create_file"}"#),
        ("computer", r#"{"actions":[{"type":"click"}]}"#),
        ("local_shell", "null"),
    ] {
        for end in [CallEnd::Complete, CallEnd::Broken] {
            let ended = (end, Finish::Calls);
            let whole = written(false, name, Source::Native, &[arguments], ended);
            let whole: Value = serde_json::from_str(&whole).unwrap();
            assert_eq!(whole["output"].as_array().unwrap().len(), 1);
            assert_eq!(whole["output"][0]["content"][0]["text"], arguments, "{name}");
            assert_eq!(whole["toolwire"]["warnings"][0]["code"], "unfit_arguments");
            let events = events(&written(true, name, Source::Native, &[arguments], ended));
            assert_eq!(events.last().unwrap()["response"]["output"], whole["output"]);
        }
    }
}

#[test]
fn call_that_was_cut_off_is_no_item() {
    for stream in [false, true] {
        // Even arguments that look complete.
        let text = written(
            stream,
            "shell",
            Source::Native,
            &[r#"{"commands":["rm -r /tmp/x"]}"#],
            (CallEnd::Cut, Finish::Length),
        );
        let response = match stream {
            true => events(&text).pop().unwrap()["response"].take(),
            false => serde_json::from_str(&text).unwrap(),
        };
        assert_eq!((&response["status"], &response["output"]), (&json!("incomplete"), &json!([])));
        assert_eq!(response["toolwire"]["warnings"][0]["code"], "cut_call");
        assert!(!text.contains("output_item"), "{text}");
    }
}

proptest! {
    /// Whatever a model writes, an item is one that the client's types allow, and the response does not depend on the cuts.
    #[test]
    fn no_arguments_make_an_invalid_item(
        tool in 0_usize..5,
        arguments in prop_oneof![
            "[ -~]{0,40}",
            r#"\{("(commands|command|type|path|diff|actions|action|x|y)":("(create_file|click|ls)"|1|null|\[\]|\["a"\]|\[1\]|\{\}),?){0,4}\}"#,
        ],
        cut in 0_usize..40,
    ) {
        let (_, name, _) = &calls()[tool];
        let cut = cut.min(arguments.len());
        let pieces = [&arguments[..cut], &arguments[cut..]];
        let whole = written(false, name, Source::Native, &pieces, WHOLE);
        prop_assert_eq!(&whole, &written(false, name, Source::Native, &[&*arguments], WHOLE));
        let whole: Value = serde_json::from_str(&whole).unwrap();
        for item in whole["output"].as_array().unwrap() {
            let is_texts = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string));
            match item["type"].as_str().unwrap() {
                "message" => {}
                "shell_call" => prop_assert!(is_texts(&item["action"]["commands"])),
                "local_shell_call" => prop_assert!(is_texts(&item["action"]["command"]) && item["action"]["env"].is_object()),
                "apply_patch_call" => {
                    let operation = &item["operation"];
                    let has_diff = operation["type"] == "delete_file" || operation["diff"].is_string();
                    prop_assert!(has_diff && operation["path"].is_string());
                }
                "computer_call" => prop_assert!(item["actions"].as_array().is_some_and(|list| !list.is_empty())),
                "tool_search_call" => prop_assert!(item["arguments"].is_object()),
                other => prop_assert!(false, "{}", other),
            }
        }
    }
}

/// A stream of an upstream with this item, and the response's `status`.
fn upstream_stream(item: &Value, status: &str) -> String {
    let mut begun = item.clone();
    begun["status"] = json!("in_progress");
    if begun["type"] == "shell_call" {
        begun["action"]["commands"] = json!([]);
    }
    let response = json!({"id": "r", "object": "response", "status": status, "output": [item],
        "incomplete_details": {"reason": "max_output_tokens"}});
    [
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
        json!({"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "l"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": format!("response.{status}"), "response": response}),
    ]
    .iter()
    .map(|event| format!("data: {event}\n\n"))
    .collect()
}

struct ToClient(Writer, BytesMut);

impl Sink for ToClient {
    fn event(&mut self, event: Event<'_>) {
        self.0.event(&event, &mut self.1);
    }
}

#[test]
fn items_of_an_upstream_reach_the_client_unchanged() {
    for (mut item, name, arguments) in calls() {
        item["id"] = json!("x_1");
        item["call_id"] = json!("c");
        item["status"] = json!("completed");
        match name {
            "computer" => item["pending_safety_checks"] = json!([{"id": "s", "code": "odd"}]),
            "shell" => item["environment"] = json!({"type": "local"}),
            _ => {}
        }
        let read = read_splits(ReaderSettings::default(), upstream_stream(&item, "completed").as_bytes());
        assert!(read.summary().starts_with(&format!("c {name} ")), "{}", read.summary());
        if !matches!(name, "computer" | "shell") {
            assert_eq!(read.summary(), format!("c {name} {arguments} | calls"));
        }
        let mut client = ToClient(ClientDialect::Responses.side().writer(&answering(false)), BytesMut::new());
        let mut reader = Reader::Responses(responses::Reader::new(ReaderSettings::default()));
        reader.push(upstream_stream(&item, "completed").as_bytes(), &mut client).unwrap();
        reader.finish(&mut client).unwrap();
        client.0.finish(&mut client.1);
        let response: Value = serde_json::from_slice(&client.1).unwrap();
        item["id"] = response["output"][0]["id"].clone();
        assert_eq!(response["output"], json!([item]));
    }
}

#[test]
fn item_that_an_upstream_did_not_finish_is_cut_off() {
    let item = json!({"type": "shell_call", "id": "x", "call_id": "c", "status": "incomplete", "action": {"commands": ["rm -r /"]}});
    let read = read_splits(ReaderSettings::default(), upstream_stream(&item, "incomplete").as_bytes());
    assert_eq!(read.summary(), "c shell  cut | length");
}

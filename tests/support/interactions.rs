//! A client of Google's Interactions API that shares no code with the library and panics on anything that a client could
//! reject. It returns the same [`Answer`] as the Chat Completions client and maps statuses to finish reasons of Chat
//! Completions.

use serde_json::Value;

use super::client::{Answer, Call};

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut answer = Answer { status: 200, ..Answer::default() };
    // The open step: its type, and the arguments so far.
    let (mut id, mut steps, mut open) = (Value::Null, 0, None::<(String, String)>);
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for frame in text.split_inclusive("\n\n") {
        let frame = frame.strip_suffix("\n\n").expect("events end with an empty line");
        let (name, data) = frame.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("an event's name");
        let data = data.strip_prefix("data: ").expect("data");
        assert!(!data.contains(['\n', '\r']), "one line of data: {data:?}");
        assert!(!answer.done, "{data} behind the end mark");
        if data == "[DONE]" {
            assert_eq!((name, answer.error.is_none()), ("done", true));
            answer.done = true;
            continue;
        }
        let event: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
        assert_eq!(event["event_type"], name);
        assert!(answer.finish.is_none() && answer.error.is_none(), "{data} behind the end");
        assert_eq!(id.is_null(), name == "interaction.created", "{data}");
        match name {
            "interaction.created" => {
                id = event["interaction"]["id"].clone();
                assert!(id.is_string() && event["interaction"]["status"] == "in_progress", "{data}");
            }
            "step.start" => {
                // A call without a proper end is not stopped.
                let broken = open.take().into_iter().filter(|(kind, _)| kind == "function_call");
                broken.for_each(|_| _ = answer.calls.pop());
                assert_eq!(event["index"], steps, "{data}");
                steps += 1;
                step(&mut answer, &event["step"]);
                open = Some((event["step"]["type"].as_str().expect("a type").to_owned(), String::new()));
            }
            "step.delta" => {
                let (kind, arguments) = open.as_mut().expect("an open step");
                assert_eq!(event["index"], steps - 1, "{data}");
                delta(&mut answer, kind, arguments, &event["delta"]);
            }
            "step.stop" => {
                let (kind, arguments) = open.take().expect("an open step");
                assert_eq!(event["index"], steps - 1, "{data}");
                if kind == "function_call" {
                    let given = if arguments.is_empty() { "{}" } else { &arguments };
                    assert!(
                        serde_json::from_str::<Value>(given).is_ok_and(|given| given.is_object()),
                        "{given}"
                    );
                    given.clone_into(&mut answer.calls.last_mut().unwrap().arguments);
                }
            }
            "interaction.completed" => {
                assert!(open.take().is_none_or(|(kind, _)| kind == "function_call"), "{data}");
                assert_eq!(event["interaction"]["id"], id);
                end(&mut answer, &event["interaction"]);
            }
            "error" => {
                assert!(
                    event["error"]["code"].is_string() && event["error"]["message"].is_string(),
                    "{data}"
                );
                answer.error = Some(event["error"].clone());
                answer.done = true;
            }
            other => panic!("{other}"),
        }
    }
    answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
    let mut answer = Answer { status, ..Answer::default() };
    if body["error"].is_object() {
        let error = &body["error"];
        assert!(
            error["code"].is_u64() && error["message"].is_string() && error["status"].is_string(),
            "{error}"
        );
        answer.error = Some(error.clone());
        return answer;
    }
    assert!(body["object"] == "interaction" && body["id"].is_string() && body["model"].is_string(), "{body}");
    body["steps"].as_array().expect("steps").iter().for_each(|each| step(&mut answer, each));
    end(&mut answer, &body);
    answer
}

/// Reads a complete step, or the start of one.
fn step(answer: &mut Answer, step: &Value) {
    let list = |key: &str| step[key].as_array().into_iter().flatten();
    match step["type"].as_str().expect("a type") {
        "model_output" => list("content").for_each(|each| content(answer, each)),
        "thought" => {
            list("summary").for_each(|each| answer.reasoning.push_str(each["text"].as_str().unwrap()));
            assert!(step["signature"].is_null() || step["signature"].is_string(), "{step}");
        }
        "function_call" => {
            assert!(step["arguments"].is_object(), "{step}");
            begin(answer, step, step["arguments"].to_string());
        }
        other => panic!("{other}"),
    }
}

fn begin(answer: &mut Answer, call: &Value, arguments: String) {
    let [id, name] = ["id", "name"].map(|key| call[key].as_str().expect("a string").to_owned());
    assert!(!id.is_empty() && !name.is_empty());
    assert!(answer.calls.iter().all(|call| call.id != id), "ids differ");
    answer.calls.push(Call { id, name, arguments });
}

fn content(answer: &mut Answer, content: &Value) {
    match content["type"].as_str().expect("a type") {
        "text" => answer.text.push_str(content["text"].as_str().expect("text")),
        "image" => answer.images.push(content.clone()),
        other => panic!("{other}"),
    }
    answer.annotations.extend(content["annotations"].as_array().into_iter().flatten().cloned());
}

fn delta(answer: &mut Answer, kind: &str, arguments: &mut String, delta: &Value) {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    match (kind, delta["type"].as_str().expect("a type")) {
        ("model_output", "text" | "image") => content(answer, delta),
        ("model_output", "text_annotation_delta") => {
            answer.annotations.extend(delta["annotations"].as_array().expect("a list").iter().cloned());
        }
        ("thought", "thought_summary") => answer.reasoning.push_str(&text(&delta["content"]["text"])),
        ("thought", "thought_signature") => assert!(!text(&delta["signature"]).is_empty()),
        ("function_call", "arguments_delta") => {
            arguments.push_str(&text(&delta["arguments"]));
            // A truncated stream has the arguments so far.
            answer.calls.last_mut().unwrap().arguments.clone_from(arguments);
        }
        (kind, delta) => panic!("{delta} in {kind}"),
    }
}

fn end(answer: &mut Answer, interaction: &Value) {
    let own = &interaction["toolwire"];
    let list = |key: &str| own[key].as_array().into_iter().flatten();
    // Those that a stream has begun are the last calls that have no end.
    answer.calls.retain(|call| list("broken_calls").all(|broken| broken["id"] != call.id.as_str()));
    for call in list("broken_calls").chain(list("calls")) {
        begin(answer, call, call["arguments"].as_str().expect("text").to_owned());
    }
    answer.warnings.extend(list("warnings").map(|warning| warning["code"].as_str().unwrap().to_owned()));
    for result in list("tool_results") {
        let content = result["content"].as_str().unwrap_or_default().to_owned();
        match (result["index"].as_u64(), result["name"].as_str()) {
            (Some(index), None) => answer.results.push((index, content, result["is_error"] == true)),
            (_, name) => {
                let arguments = result["arguments"].as_str().unwrap_or_default().to_owned();
                answer.server_calls.push((name.unwrap().to_owned(), arguments, content));
            }
        }
    }
    answer.usage = Some(interaction["usage"].clone()).filter(Value::is_object);
    let errors = interaction["errors"].as_array().into_iter().flatten();
    let codes: Vec<_> = errors.map(|error| error["code"].as_str().expect("a code")).collect();
    let finish = match (interaction["status"].as_str().expect("a status"), codes.as_slice()) {
        ("completed", []) => "stop",
        ("requires_action", []) | ("incomplete", ["malformed_function_call"]) => "tool_calls",
        ("incomplete", ["max_tokens"]) => "length",
        ("incomplete", ["content_filter"]) => "content_filter",
        other => panic!("{other:?}"),
    };
    answer.finish = Some(finish.to_owned());
}

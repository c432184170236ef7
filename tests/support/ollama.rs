//! A client of Ollama's API that shares no code with the library and panics on anything that a client could reject. It
//! returns the same [`Answer`] as the Chat Completions client and maps finish reasons to those of Chat Completions.

use serde_json::{Value, json};

use super::client::{Answer, Call};

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut answer = Answer { status: 200, ..Answer::default() };
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for line in text.split_inclusive('\n') {
        let line = line.strip_suffix('\n').expect("lines end with a line break");
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(!answer.done && answer.error.is_none(), "{line} behind the end");
        read(&mut answer, &line);
    }
    answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
    let mut answer = Answer { status, ..Answer::default() };
    read(&mut answer, &body);
    assert!(answer.done || answer.error.is_some(), "{body}");
    answer
}

/// Reads a line, or a complete response, which has the same form.
fn read(answer: &mut Answer, line: &Value) {
    if !line["error"].is_null() {
        let message = line["error"].as_str().expect("an error is a text");
        answer.error = Some(json!({ "message": message }));
        return;
    }
    assert!(line["model"].is_string() && line["created_at"].is_string(), "{line}");
    let message = &line["message"];
    assert_eq!(message["role"], "assistant", "{line}");
    answer.reasoning.push_str(message["thinking"].as_str().unwrap_or_default());
    answer.text.push_str(message["content"].as_str().expect("the content is a string"));
    answer.images.extend(message["images"].as_array().into_iter().flatten().cloned());
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        assert!(function["arguments"].is_object(), "{call}");
        begin(answer, &call["id"], &function["name"], function["arguments"].to_string());
    }
    match line["done"].as_bool().expect("whether the line is the last") {
        true => last(answer, line),
        false => assert!(line["done_reason"].is_null(), "{line}"),
    }
}

fn begin(answer: &mut Answer, id: &Value, name: &Value, arguments: String) {
    let [id, name] = [id, name].map(|value| value.as_str().expect("a string").to_owned());
    assert!(!id.is_empty() && !name.is_empty());
    assert!(answer.calls.iter().all(|call| call.id != id), "ids differ");
    answer.calls.push(Call { id, name, arguments });
}

fn last(answer: &mut Answer, line: &Value) {
    answer.done = true;
    let own = &line["toolwire"];
    let list = |key: &str| own[key].as_array().into_iter().flatten();
    let calls_client = !answer.calls.is_empty() || list("broken_calls").next().is_some();
    for call in list("broken_calls").chain(list("server_calls")) {
        let arguments = call["arguments"].as_str().expect("text").to_owned();
        begin(answer, &call["id"], &call["name"], arguments);
    }
    let codes = list("warnings").map(|warning| warning["code"].as_str().unwrap().to_owned());
    answer.warnings.extend(codes);
    answer.annotations.extend(list("annotations").cloned());
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
    let reason = line["done_reason"].as_str().expect("a reason");
    let finish = if reason == "stop" && calls_client { "tool_calls" } else { reason };
    answer.finish = Some(finish.to_owned());
    let count = |key: &str| Some((key.to_owned(), Some(&line[key]).filter(|count| count.is_u64())?.clone()));
    let counts: serde_json::Map<_, _> =
        ["prompt_eval_count", "eval_count"].into_iter().filter_map(count).collect();
    answer.usage = (!counts.is_empty()).then_some(counts.into());
}

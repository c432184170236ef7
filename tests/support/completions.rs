//! A client of text completions that shares no code with the library and panics on anything that a client could reject.
//! It returns the same [`Answer`] as the Chat Completions client.

use serde_json::Value;

use super::client::{Answer, Call};

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut answer = Answer { status: 200, ..Answer::default() };
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for frame in text.split_inclusive("\n\n") {
        let frame = frame.strip_suffix("\n\n").expect("an event ends with an empty line");
        if frame.starts_with(':') {
            continue;
        }
        let data = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {frame:?}"));
        assert!(!answer.done, "{data} behind the end");
        if data == "[DONE]" {
            answer.done = true;
            continue;
        }
        assert!(answer.error.is_none(), "{data} behind an error");
        read(&mut answer, &serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}")));
    }
    answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
    let mut answer = Answer { status, ..Answer::default() };
    read(&mut answer, &body);
    answer.done = answer.error.is_none();
    assert!(answer.error.is_some() || answer.finish.is_some(), "{body}");
    answer
}

/// Reads a chunk, or a complete response, which has the same form.
fn read(answer: &mut Answer, chunk: &Value) {
    if !chunk["error"].is_null() {
        assert!(chunk["error"]["message"].is_string() && chunk["error"]["type"].is_string(), "{chunk}");
        answer.error = Some(chunk["error"].clone());
        return;
    }
    assert_eq!(chunk["object"], "text_completion", "{chunk}");
    assert!(chunk["id"].is_string() && chunk["created"].is_u64() && chunk["model"].is_string(), "{chunk}");
    for choice in chunk["choices"].as_array().expect("choices").iter().filter(|choice| choice["index"] == 0) {
        assert!(answer.finish.is_none(), "{choice} behind the finish reason");
        answer.text.push_str(choice["text"].as_str().expect("a text"));
        answer.reasoning.push_str(choice["reasoning_content"].as_str().unwrap_or_default());
        if let Some(finish) = choice["finish_reason"].as_str() {
            assert!(["stop", "length", "content_filter"].contains(&finish), "{choice}");
            own(answer, &chunk["toolwire"]);
            let calls = finish == "stop" && !answer.calls.is_empty();
            answer.finish = Some(if calls { "tool_calls" } else { finish }.to_owned());
        }
    }
    if chunk["usage"].is_object() {
        answer.usage = Some(chunk["usage"].clone());
    }
}

/// Reads toolwire's own member.
fn own(answer: &mut Answer, own: &Value) {
    let list = |key: &str| own[key].as_array().into_iter().flatten();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    for call in list("calls") {
        let (id, name, arguments) = (text(call, "id"), text(call, "name"), text(call, "arguments"));
        assert!(answer.calls.iter().all(|call| call.id != id), "ids differ");
        answer.calls.push(Call { id, name, arguments });
    }
    answer.warnings.extend(list("warnings").map(|warning| text(warning, "code")));
    answer.annotations.extend(list("annotations").cloned());
    answer.images.extend(list("images").cloned());
    for result in list("tool_results") {
        let content = text(result, "content");
        match (result["index"].as_u64(), result["name"].as_str()) {
            (Some(index), None) => answer.results.push((index, content, result["is_error"] == true)),
            (_, name) => {
                answer.server_calls.push((name.unwrap().to_owned(), text(result, "arguments"), content))
            }
        }
    }
}

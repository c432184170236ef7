//! A client of Gemini's API that shares no code with the library and is as strict as the strictest client library: it
//! assembles a response and panics on anything that a client could reject. It returns the same [`Answer`] as the
//! Chat Completions client and maps finish reasons to those of Chat Completions.

use serde_json::{Value, json};

use super::client::{Answer, Call};

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut answer = Answer { status: 200, ..Answer::default() };
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for frame in text.split_inclusive("\n\n") {
        let frame = frame.strip_suffix("\n\n").expect("events end with an empty line");
        let data = frame.trim_start_matches('\n').strip_prefix("data: ");
        let data = data.unwrap_or_else(|| panic!("no data: {frame:?}"));
        assert!(!data.contains(['\n', '\r']), "one line a frame: {data:?}");
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
        assert!(!answer.done && answer.error.is_none(), "{data} behind the end");
        response(&mut answer, &data);
    }
    answer
}

/// Reads a stream in the form of an array, which may be truncated.
pub(crate) fn of_array(bytes: &[u8]) -> Answer {
    let mut answer = Answer { status: 200, ..Answer::default() };
    let elements: Vec<Value> = serde_json::from_slice(bytes).expect("a JSON array");
    elements.iter().for_each(|element| response(&mut answer, element));
    answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let mut answer = Answer { status, ..Answer::default() };
    response(&mut answer, &serde_json::from_slice(bytes).expect("a JSON body"));
    answer
}

fn response(answer: &mut Answer, body: &Value) {
    if body["error"].is_object() {
        let error = &body["error"];
        assert!(
            error["code"].is_u64() && error["message"].is_string() && error["status"].is_string(),
            "{error}"
        );
        answer.error = Some(error.clone());
        return;
    }
    assert!(body["responseId"].is_string() && body["modelVersion"].is_string(), "{body}");
    let candidates = body["candidates"].as_array().expect("candidates");
    assert_eq!(candidates.len(), 1, "{body}");
    let candidate = &candidates[0];
    assert_eq!((&candidate["index"], &candidate["content"]["role"]), (&json!(0), &json!("model")));
    let parts = candidate["content"]["parts"].as_array().expect("parts");
    assert!(!parts.is_empty(), "{body}");
    parts.iter().for_each(|each| part(answer, each));
    let chunks = candidate["groundingMetadata"]["groundingChunks"].as_array().into_iter().flatten();
    answer.annotations.extend(chunks.cloned());
    for warning in body["toolwire"]["warnings"].as_array().into_iter().flatten() {
        answer.warnings.push(warning["code"].as_str().unwrap().to_owned());
    }
    if body["usageMetadata"].is_object() {
        answer.usage = Some(body["usageMetadata"].clone());
    }
    // Calls without valid arguments are told as text.
    let broken = candidate["finishMessage"].as_str().into_iter().flat_map(|told| told.split("The call of `"));
    for told in broken.filter(|told| !told.is_empty()) {
        let (name, rest) = told.split_once('`').expect("a name");
        let arguments = rest.split_once(": ").expect("arguments").1.trim_end_matches('\n').to_owned();
        let id = format!("broken_{}", answer.calls.len());
        answer.calls.push(Call { id, name: name.to_owned(), arguments });
    }
    if let Some(reason) = candidate["finishReason"].as_str() {
        let finish = match reason {
            "STOP" if answer.calls.is_empty() => "stop",
            "STOP" => "tool_calls",
            "MAX_TOKENS" => "length",
            "SAFETY" => "content_filter",
            "MALFORMED_FUNCTION_CALL" => "tool_calls",
            other => panic!("{other}"),
        };
        answer.finish = Some(finish.to_owned());
        answer.done = true;
    }
}

fn part(answer: &mut Answer, part: &Value) {
    let kinds = [
        "text",
        "functionCall",
        "toolCall",
        "toolResponse",
        "inlineData",
        "executableCode",
        "codeExecutionResult",
    ];
    let given: Vec<_> = kinds.iter().filter(|kind| !part[**kind].is_null()).collect();
    assert_eq!(given.len(), 1, "{part}");
    if let Some(signature) = part["thoughtSignature"].as_str() {
        assert!(!signature.is_empty());
    }
    match *given[0] {
        "text" if part["thought"] == true => answer.reasoning.push_str(part["text"].as_str().unwrap()),
        "text" => answer.text.push_str(part["text"].as_str().unwrap()),
        "functionCall" => {
            let call = &part["functionCall"];
            let text = |key: &str| call[key].as_str().unwrap().to_owned();
            assert!(call["args"].is_object(), "{call}");
            let call = Call { id: text("id"), name: text("name"), arguments: call["args"].to_string() };
            assert!(answer.calls.iter().all(|known| known.id != call.id), "ids differ");
            answer.calls.push(call);
        }
        "toolCall" => {
            let call = &part["toolCall"];
            let name = call["name"].as_str().unwrap().to_owned();
            answer.server_calls.push((name, call["args"].to_string(), String::new()));
        }
        "toolResponse" => assert!(part["toolResponse"]["id"].is_string(), "{part}"),
        "inlineData" => answer.images.push(part.clone()),
        "executableCode" => {
            let code = part["executableCode"].to_string();
            answer.server_calls.push(("code_execution".to_owned(), code, String::new()));
        }
        _ => {}
    }
}

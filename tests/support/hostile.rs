//! Malformed streams of every dialect: valid streams with one part changed.

use serde_json::{Value, json};

use super::upstream::Speech;

/// All upstream dialects except Ollama's text completions, which have fewer kinds of events.
pub(crate) const SPEECHES: [Speech; 9] = [
    Speech::LumoV1,
    Speech::LumoV2,
    Speech::Chat,
    Speech::Completions,
    Speech::Messages,
    Speech::Responses,
    Speech::Gemini,
    Speech::Interactions,
    Speech::OllamaChat,
];

/// Returns events other than pieces of text and reasoning: calls of all kinds, and the deviations listed in
/// docs/protocols/lumo.md#deviations and docs/protocols/chat.md#upstream-deviations.
pub(crate) fn deviations(speech: Speech) -> Vec<Value> {
    match speech {
        Speech::LumoV1 => vec![
            json!(["q"]),
            json!(["ing", "message"]),
            json!(["t", "A title"]),
            json!(["tc", "{\"name\":\"web_search\",\"arguments\":{\"query\":\"é\"}}"]),
            json!(["tc", "{\"name\":\"user:a\",\"arg"]),
            json!(["tc", "uments\":{\"x\":1}}{\"name\":\"b\"}"]),
            json!(["tr", "{\"error\":true}"]),
            json!(["tr", "plain words"]),
            json!(["m", null]),
        ],
        Speech::LumoV2 => vec![
            json!(["c", "queued"]),
            json!(["stc", {"id": "n1", "name": "web_search"}]),
            json!(["stc", {"id": "n1", "name": "web_search", "arguments": "{\"query\":\"q\"}"}]),
            json!(["stc", {"id": "n2", "name": "a", "arguments": {"x": 1}}]),
            json!(["str", {"call_id": "n1", "content": "{\"results\":[]}"}]),
            json!(["str", {"call_id": "zz", "content": "x"}]),
            json!(["img", {"id": "i", "data": "AAAA"}]),
            json!(["d", {"target": "title", "content": "T"}]),
            json!(["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "{\"x\":"}}]}]),
            json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]),
            json!(["d", {"tool_calls": [{"index": 1, "id": "q", "function": {"name": "b", "arguments": "{}"}}]}]),
            json!(["d", null]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]),
        ],
        Speech::Completions | Speech::Ollama => vec![
            json!(["c", " keep-alive"]),
            json!(["m", null]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]),
        ],
        Speech::Messages => vec![
            json!(["c", " keep-alive"]),
            json!(["d", {"type": "ping"}]),
            json!(["d", {"type": "content_block_stop", "index": 0}]),
            json!(["d", {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "é"}}]),
            json!(["d", {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}]),
            json!(["d", {"type": "content_block_start", "index": 7, "content_block": {"type": "server_tool_use", "id": "n1", "name": "web_search", "input": {"query": "q"}}}]),
            json!(["d", {"type": "content_block_start", "index": 8, "content_block": {"type": "web_search_tool_result", "tool_use_id": "n1", "content": []}}]),
            json!(["d", {"type": "content_block_stop", "index": 7}]),
            json!(["d", {"type": "content_block_start", "index": 9, "content_block": {"type": "later", "x": 1}}]),
            json!(["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "{\"x\":"}}]}]),
            json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]),
            json!(["d", {"tool_calls": [{"index": 1, "id": "q", "function": {"name": "b", "arguments": ""}}]}]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2}]),
        ],
        Speech::Responses => vec![
            json!(["c", " keep-alive"]),
            json!(["d", {"type": "response.in_progress", "response": {}}]),
            json!(["d", {"type": "response.output_text.delta", "delta": "é"}]),
            json!(["d", {"type": "response.output_text.delta", "output_index": 0, "content_index": 1, "delta": "🌤"}]),
            json!(["d", {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "A text."}]),
            json!(["d", {"type": "response.refusal.delta", "output_index": 7, "delta": "no"}]),
            json!(["d", {"type": "response.web_search_call.searching", "output_index": 8}]),
            json!(["d", {"type": "response.output_item.done", "item": {"type": "web_search_call", "id": "n1", "status": "completed", "action": {"type": "search", "query": "q"}}}]),
            json!(["d", {"type": "response.output_item.done", "item": {"type": "mcp_call", "id": "n2", "name": "a", "arguments": "{\"x\":1}", "output": "3"}}]),
            json!(["d", {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "s"}}]),
            json!(["d", {"type": "response.later", "x": 1}]),
            json!(["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "{\"x\":"}}]}]),
            json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]),
            json!(["d", {"tool_calls": [{"index": 1, "id": "q", "function": {"name": "b", "arguments": ""}}]}]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]),
        ],
        Speech::Gemini => vec![
            json!(["c", " keep-alive"]),
            json!(["d", {"functionCall": {"name": "a", "args": {"x": 1}}, "thoughtSignature": "s"}]),
            json!(["d", {"functionCall": {"name": "b", "id": "q"}}]),
            json!(["d", {"executableCode": {"language": "PYTHON", "code": "1+2"}}]),
            json!(["d", {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3"}}]),
            json!(["d", {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]),
            json!(["d", {"text": "", "thoughtSignature": "t"}]),
            json!(["d", {"later": 1}]),
            json!(["fin", "stop"]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2}]),
        ],
        Speech::Interactions => vec![
            json!(["c", " keep-alive"]),
            json!(["d", {"type": "model_output", "content": [{"type": "text", "text": "é",
                "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}]}]}]),
            json!(["d", {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "hm"}]}]),
            json!(["d", {"type": "google_search_call", "id": "n1", "arguments": {"queries": ["q"]}}]),
            json!(["d", {"type": "google_search_result", "call_id": "n1", "result": [{"search_suggestions": "x"}]}]),
            json!(["d", {"type": "later", "x": 1}]),
            json!(["d", {"event_type": "interaction.status_update", "interaction_id": "v1_up", "status": "in_progress"}]),
            json!(["d", {"event_type": "step.stop", "index": 0}]),
            json!(["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "{\"x\":"}}]}]),
            json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]),
            json!(["d", {"tool_calls": [{"index": 1, "id": "q", "function": {"name": "b", "arguments": ""}}]}]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2}]),
        ],
        Speech::OllamaChat => vec![
            json!(["d", {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "a", "arguments": {"x": 1}}}]}]),
            json!(["d", {"role": "assistant", "content": "é", "tool_calls": [{"id": "q", "function": {"index": 1, "name": "b", "arguments": {}}}]}]),
            json!(["d", {"role": "assistant", "content": null}]),
            json!(["d", {"role": "assistant", "content": "", "later": 1}]),
            json!(["d", null]),
        ],
        Speech::Chat => vec![
            json!(["c", " keep-alive"]),
            json!(["d", {"content": "", "padding": "xxx"}]),
            json!(["d", {"tool_calls": [{"index": 0, "id": "p", "type": "function", "function": {"name": "get_", "arguments": ""}}]}]),
            json!(["d", {"tool_calls": [{"index": 0, "function": {"name": "weather", "arguments": "{}"}}]}]),
            json!(["d", {"tool_calls": [{"index": 1, "id": "q", "function": {"name": "b", "arguments": {"y": [2]}}}]}]),
            json!(["d", {"refusal": "no"}]),
            json!(["d", {"reasoning": "hm"}]),
            json!(["d", {}]),
            json!(["u", {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]),
        ],
    }
}

/// Returns the frames of a response with every kind of event, each frame with its separator. In Messages and
/// Responses, the first frames open the response.
pub(crate) fn frames(speech: Speech) -> Vec<String> {
    let mut events = vec![json!(["m", "Hi"]), json!(["r", "hm"])];
    if speech != Speech::Ollama {
        events.extend(deviations(speech).into_iter().filter(|event| *event != json!(["fin", "stop"])));
    }
    events.push(json!(["m", "."]));
    events.extend((speech != Speech::LumoV1).then(|| json!(["fin", "stop"])));
    events.push(json!(["done"]));
    frames_of(speech, &events)
}

pub(crate) fn frames_of(speech: Speech, events: &[Value]) -> Vec<String> {
    let stream = String::from_utf8(speech.stream(events)).unwrap();
    let end = if is_lines(speech) { "\n" } else { "\n\n" };
    let frames = stream.split_inclusive(end).map(str::to_owned);
    frames.filter(|frame| !frame.trim().is_empty()).collect()
}

/// Whether frames are lines of JSON rather than SSE events.
fn is_lines(speech: Speech) -> bool {
    matches!(speech, Speech::Ollama | Speech::OllamaChat)
}

/// Strings that identify the frame that completes a response: its finish reason or its end marker.
pub(crate) const END_MARKS: [&str; 8] = [
    "finish_reason\":\"",
    "stop_reason\":\"",
    "\"type\":\"done\"",
    "[DONE]",
    "\"type\":\"response.completed\"",
    "\"finishReason\":\"",
    "\"event_type\":\"interaction.completed\"",
    "\"done\":true",
];

pub(crate) fn is_end(frame: &str) -> bool {
    END_MARKS.iter().any(|mark| frame.contains(mark))
}

/// A non-streaming response, or `None` if the dialect has none.
pub(crate) fn whole(speech: Speech) -> Option<Value> {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    Some(match speech {
        Speech::LumoV1 | Speech::LumoV2 => return None,
        Speech::Chat => {
            json!({"id": "up", "object": "chat.completion", "created": 7, "model": "m", "choices": [{
            "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Hi", "reasoning_content": "hm",
            "tool_calls": [{"id": "p", "type": "function", "function": {"name": "a", "arguments": "{\"x\":1}"}}]}}], "usage": usage})
        }
        Speech::Completions => json!({"id": "up", "object": "text_completion", "created": 7, "model": "m",
            "choices": [{"index": 0, "text": "Hi", "logprobs": null, "finish_reason": "stop"}], "usage": usage}),
        Speech::Messages => {
            json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "m", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "p", "name": "a", "input": {"x": 1}}], "stop_reason": "tool_use",
            "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 2}})
        }
        Speech::Responses => {
            json!({"id": "resp_up", "object": "response", "created_at": 7, "model": "m", "status": "completed",
            "output": [{"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "id": "t", "role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
            {"type": "function_call", "id": "f", "call_id": "p", "name": "a", "arguments": "{\"x\":1}"}], "error": null,
            "incomplete_details": null, "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}})
        }
        Speech::Gemini => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": true},
            {"text": "Hi"}, {"functionCall": {"name": "a", "args": {"x": 1}}}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}, "modelVersion": "m", "responseId": "up"})
        }
        Speech::Interactions => {
            json!({"id": "v1_up", "object": "interaction", "status": "requires_action", "model": "m", "steps": [
            {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "hm"}]},
            {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
            {"type": "function_call", "id": "p", "name": "a", "arguments": {"x": 1}}],
            "usage": {"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5}})
        }
        Speech::OllamaChat => {
            json!({"model": "m", "message": {"role": "assistant", "content": "Hi", "thinking": "hm", "tool_calls":
            [{"function": {"name": "a", "arguments": {"x": 1}}}]}, "done": true, "done_reason": "stop", "eval_count": 2})
        }
        Speech::Ollama => {
            json!({"model": "m", "response": "Hi", "thinking": "hm", "done": true, "done_reason": "stop",
            "eval_count": 2})
        }
    })
}

/// Returns copies of `value`, each with one part replaced by a value of another type or, for a number, by one far
/// out of range. Each copy comes with the path of the part and its replacement.
pub(crate) fn changed(value: &Value) -> Vec<(String, Value)> {
    let others = [json!(null), json!(5), json!("x"), json!(""), json!([null]), json!({})];
    let numbers = [json!(-1), json!(1_u64 << 31), json!(1_u64 << 63), json!(u64::MAX), json!(1e300)];
    let mut changed = Vec::new();
    for path in paths(value) {
        let own = value.pointer(&path).unwrap();
        for other in others.iter().chain(numbers.iter().filter(|_| own.is_number())) {
            if other != own {
                let mut copy = value.clone();
                *copy.pointer_mut(&path).unwrap() = other.clone();
                changed.push((format!("{path} = {other}"), copy));
            }
        }
        let (holder, key) = path.rsplit_once('/').unwrap_or_default();
        let mut copy = value.clone();
        if copy.pointer_mut(holder).and_then(|holder| holder.as_object_mut()?.remove(key)).is_some() {
            changed.push((format!("no {path}"), copy));
        }
    }
    changed
}

/// Returns the JSON pointers of all parts of a value, including the value itself.
fn paths(value: &Value) -> Vec<String> {
    let below = |key: &str, part: &Value| {
        paths(part).into_iter().map(move |path| format!("/{key}{path}")).collect::<Vec<_>>()
    };
    let parts: Vec<String> = match value {
        Value::Object(members) => members.iter().flat_map(|(key, part)| below(key, part)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().flat_map(|(at, part)| below(&at.to_string(), part)).collect()
        }
        _ => Vec::new(),
    };
    [String::new()].into_iter().chain(parts).collect()
}

/// Returns the JSON in a frame, as text and parsed. `None` if it contains none.
pub(crate) fn json_of(frame: &str) -> Option<(&str, Value)> {
    let text = frame.get(frame.find('{')?..)?.trim_end();
    Some((text, serde_json::from_str(text).ok()?))
}

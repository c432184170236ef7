//! A Responses client that shares no code with the library and is as strict as the strictest client library: it
//! assembles a response and panics on anything that a client could reject. It returns the same [`Answer`] as the
//! Chat Completions client and maps finish reasons to those of Chat Completions.

use serde_json::{Value, json};

use super::client::{Answer, Call};

#[derive(Debug, Default)]
struct Response {
    answer: Answer,
    id: Option<String>,
    in_progress: bool,
    items: Vec<Item>,
    sequence: u64,
    over: bool,
}

#[derive(Debug)]
struct Item {
    item: Value,
    /// The parts of a message or a summary: each part, its text, and whether it is done.
    parts: Vec<(Value, String, bool)>,
    annotations: Vec<Value>,
    arguments: String,
    arguments_done: bool,
    done: bool,
}

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut response =
        Response { answer: Answer { status: 200, ..Answer::default() }, ..Response::default() };
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for frame in text.split_inclusive("\n\n") {
        let frame = frame.strip_suffix("\n\n").expect("events end with an empty line");
        let (name, data) = frame.split_once('\n').unwrap_or_else(|| panic!("two lines: {frame:?}"));
        let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("a name: {frame:?}"));
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("data: {frame:?}"));
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
        assert_eq!(data["type"], name);
        assert_eq!(data["sequence_number"], response.sequence, "{data}");
        response.sequence += 1;
        response.event(name, &data);
    }
    if !response.answer.done {
        let items: Vec<_> = response.items.iter().map(Item::so_far).collect();
        content(&mut response.answer, items.iter());
    }
    response.answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
    let mut answer = Answer { status, ..Answer::default() };
    if body["error"].is_object() {
        answer.error = Some(body["error"].clone());
        return answer;
    }
    whole(&body);
    end(&mut answer, &body);
    answer
}

/// Checks the fields that the API's schema requires in every response.
fn whole(response: &Value) {
    assert_eq!(response["object"], "response");
    assert!(response["id"].as_str().is_some_and(|id| id.starts_with("resp_")), "{response}");
    assert!(response["created_at"].is_u64() && response["model"].is_string(), "{response}");
    assert!(response["output"].is_array() && response["tools"].is_array(), "{response}");
    assert!(response["parallel_tool_calls"].is_boolean() && !response["tool_choice"].is_null(), "{response}");
    assert!(response["metadata"].is_object(), "{response}");
    for key in ["error", "incomplete_details", "instructions", "usage", "previous_response_id", "temperature"]
    {
        assert!(response.get(key).is_some(), "{key}: {response}");
    }
}

fn end(answer: &mut Answer, response: &Value) {
    let usage = &response["usage"];
    for path in [
        "/input_tokens",
        "/output_tokens",
        "/total_tokens",
        "/input_tokens_details/cached_tokens",
        "/output_tokens_details/reasoning_tokens",
    ] {
        assert!(usage.pointer(path).is_some_and(Value::is_u64), "{path}: {usage}");
    }
    answer.usage = Some(usage.clone());
    for warning in response["toolwire"]["warnings"].as_array().into_iter().flatten() {
        answer.warnings.push(warning["code"].as_str().unwrap().to_owned());
    }
    let output = response["output"].as_array().unwrap();
    content(answer, output.iter());
    let is_whole_call = |item: &Value| !item["call_id"].is_null() && item["status"] == "completed";
    let has_whole_call = output.iter().any(is_whole_call);
    let finish = match response["status"].as_str().expect("a status") {
        "completed" if has_whole_call => "tool_calls",
        "completed" => "stop",
        "incomplete" => match response["incomplete_details"]["reason"].as_str().expect("a reason") {
            "max_output_tokens" => "length",
            "content_filter" => "content_filter",
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    answer.finish = Some(finish.to_owned());
    answer.done = true;
}

impl Response {
    fn event(&mut self, name: &str, data: &Value) {
        assert!(!self.over, "{data} behind the end");
        assert!(self.answer.error.is_none() || name == "response.failed", "{data} behind an error");
        match name {
            "response.created" => {
                assert!(self.id.is_none(), "created once");
                let response = self.response(data, "in_progress");
                assert_eq!((&response["output"], &response["usage"]), (&json!([]), &Value::Null));
            }
            "response.in_progress" => {
                assert!(!std::mem::replace(&mut self.in_progress, true), "in progress once");
                self.response(data, "in_progress");
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let status = name.strip_prefix("response.").unwrap();
                let response = self.response(data, status).clone();
                self.over = true;
                if name == "response.failed" {
                    assert!(
                        response["error"]["code"].is_string() && response["error"]["message"].is_string()
                    );
                    assert!(self.answer.error.is_some(), "clients that ignore `failed` raise the error");
                    return;
                }
                assert!(self.items.iter().all(|item| item.done), "every item is done");
                let items: Vec<_> = self.items.iter().map(|item| item.item.clone()).collect();
                assert_eq!(response["output"], Value::from(items), "the output is that of the stream");
                end(&mut self.answer, &response);
            }
            "error" => {
                assert!(data["message"].is_string() && data["code"].is_string(), "{data}");
                assert_eq!(data["error"]["message"], data["message"]);
                self.answer.error = Some(data["error"].clone());
            }
            _ => {
                assert!(self.in_progress, "{name} before the beginning");
                self.item_event(name, data);
            }
        }
    }

    fn response<'d>(&mut self, data: &'d Value, status: &str) -> &'d Value {
        let response = &data["response"];
        whole(response);
        assert_eq!(response["status"], status);
        let id = response["id"].as_str().unwrap();
        assert_eq!(self.id.get_or_insert_with(|| id.to_owned()), id, "the id stays");
        response
    }

    fn item_event(&mut self, name: &str, data: &Value) {
        let index = usize::try_from(data["output_index"].as_u64().expect("an index")).unwrap();
        if name == "response.output_item.added" {
            assert_eq!(index, self.items.len(), "indices from 0 without gaps");
            let item = data["item"].clone();
            let id = item["id"].as_str().expect("an id");
            assert!(self.items.iter().all(|other| other.item["id"] != id), "ids differ");
            if item["type"] == "message" {
                assert_eq!((&item["content"], &item["role"]), (&json!([]), &json!("assistant")));
            }
            self.items.push(Item {
                item,
                parts: Vec::new(),
                annotations: Vec::new(),
                arguments: String::new(),
                arguments_done: false,
                done: false,
            });
            return;
        }
        let is_last = index + 1 == self.items.len();
        let item = self.items.get_mut(index).expect("an item that has begun");
        // An item for a call that the client does not run stays open until its result arrives.
        let is_own = ["message", "reasoning", "function_call", "custom_tool_call"]
            .iter()
            .any(|kind| item.item["type"] == *kind);
        assert!(is_last || !is_own, "items do not interleave: {data}");
        assert!(!item.done, "{data} behind the item's end");
        if name == "response.output_item.done" {
            item.end(&data["item"]);
        } else {
            assert_eq!(data["item_id"], item.item["id"]);
            item.event(name.strip_prefix("response.").unwrap(), data);
        }
    }
}

impl Item {
    /// Returns what a client has of the item if the stream breaks off here.
    fn so_far(&self) -> Value {
        let mut item = self.item.clone();
        if self.done {
            return item;
        }
        let part = |(part, text, _): &(Value, String, bool)| {
            let mut part = part.clone();
            let key = if part["type"] == "refusal" { "refusal" } else { "text" };
            part[key] = text.clone().into();
            part
        };
        let parts: Value = self.parts.iter().map(part).collect();
        match item["type"].as_str().unwrap() {
            "message" => item["content"] = parts,
            "reasoning" => item["summary"] = parts,
            "custom_tool_call" => item["input"] = self.arguments.clone().into(),
            _ => item["arguments"] = self.arguments.clone().into(),
        }
        item["status"] = "incomplete".into();
        item
    }

    fn event(&mut self, name: &str, data: &Value) {
        let kind = self.item["type"].as_str().unwrap().to_owned();
        let place = || {
            let place = data["content_index"].as_u64().or(data["summary_index"].as_u64());
            usize::try_from(place.expect("an index")).unwrap()
        };
        match (kind.as_str(), name) {
            ("message", "content_part.added") | ("reasoning", "reasoning_summary_part.added") => {
                assert_eq!(place(), self.parts.len());
                assert!(self.parts.iter().all(|(_, _, done)| *done), "one part after the other");
                self.parts.push((data["part"].clone(), String::new(), false));
            }
            ("message", "output_text.delta" | "refusal.delta")
            | ("reasoning", "reasoning_summary_text.delta") => {
                let (_, text, done) = self.parts.get_mut(place()).expect("a part that has begun");
                let piece = data["delta"].as_str().unwrap();
                assert!(!*done && !piece.is_empty());
                text.push_str(piece);
            }
            ("message", "output_text.done") | ("reasoning", "reasoning_summary_text.done") => {
                assert_eq!(data["text"], self.parts[place()].1);
            }
            ("message", "refusal.done") => assert_eq!(data["refusal"], self.parts[place()].1),
            ("message", "output_text.annotation.added") => {
                assert!(!self.parts[place()].2);
                self.annotations.push(data["annotation"].clone());
            }
            ("message", "content_part.done") | ("reasoning", "reasoning_summary_part.done") => {
                let (part, text, done) = self.parts.get_mut(place()).expect("a part that has begun");
                assert!(!std::mem::replace(done, true), "done once");
                *part = data["part"].clone();
                let told = if part["type"] == "refusal" { &part["refusal"] } else { &part["text"] };
                assert_eq!(told, text.as_str());
            }
            ("function_call", "function_call_arguments.delta")
            | ("custom_tool_call", "custom_tool_call_input.delta")
            | ("mcp_call", "mcp_call_arguments.delta") => {
                let piece = data["delta"].as_str().unwrap();
                assert!(!self.arguments_done && !piece.is_empty());
                self.arguments.push_str(piece);
            }
            ("function_call", "function_call_arguments.done")
            | ("custom_tool_call", "custom_tool_call_input.done")
            | ("mcp_call", "mcp_call_arguments.done") => {
                assert!(!std::mem::replace(&mut self.arguments_done, true), "done once");
                let key = if kind == "custom_tool_call" { "input" } else { "arguments" };
                assert_eq!(data[key], self.arguments);
            }
            (
                "web_search_call",
                "web_search_call.in_progress" | "web_search_call.searching" | "web_search_call.completed",
            )
            | ("mcp_call", "mcp_call.in_progress" | "mcp_call.completed" | "mcp_call.failed")
            | (
                "image_generation_call",
                "image_generation_call.in_progress"
                | "image_generation_call.generating"
                | "image_generation_call.completed",
            ) => {}
            other => panic!("an event that does not belong here: {other:?}"),
        }
    }

    fn end(&mut self, item: &Value) {
        assert_eq!((&item["id"], &item["type"]), (&self.item["id"], &self.item["type"]));
        let parts: Value = self
            .parts
            .iter()
            .map(|(part, _, done)| {
                assert!(*done, "every part is done");
                part.clone()
            })
            .collect();
        match item["type"].as_str().unwrap() {
            "message" => {
                assert_eq!(item["content"], parts);
                let cited =
                    parts.as_array().unwrap().iter().filter_map(|part| part["annotations"].as_array());
                assert_eq!(cited.flatten().cloned().collect::<Vec<_>>(), self.annotations);
            }
            "reasoning" => assert_eq!(item["summary"], parts),
            // A call that an upstream of this API ran is forwarded whole.
            "mcp_call" if !self.arguments_done => assert_eq!(item["arguments"], self.item["arguments"]),
            "function_call" | "mcp_call" => {
                assert!(self.arguments_done);
                assert_eq!(item["arguments"], self.arguments);
            }
            "custom_tool_call" => {
                assert!(self.arguments_done);
                assert_eq!(item["input"], self.arguments);
            }
            _ => {}
        }
        if matches!(item["type"].as_str(), Some("function_call" | "custom_tool_call")) {
            let names = ["call_id", "name", "namespace"];
            assert_eq!(names.map(|key| &item[key]), names.map(|key| &self.item[key]));
        }
        self.item = item.clone();
        self.done = true;
    }
}

fn content<'i>(answer: &mut Answer, items: impl Iterator<Item = &'i Value>) {
    for item in items {
        let text = |key: &str| item[key].as_str().unwrap_or_else(|| panic!("{key}: {item}")).to_owned();
        let status = item["status"].as_str();
        match item["type"].as_str().unwrap() {
            "message" => {
                assert!(matches!(status, Some("completed" | "incomplete")), "{item}");
                for part in item["content"].as_array().unwrap() {
                    match part["type"].as_str().unwrap() {
                        "output_text" => answer.text.push_str(part["text"].as_str().unwrap()),
                        "refusal" => answer.refusal.push_str(part["refusal"].as_str().unwrap()),
                        other => panic!("an unknown part: {other}"),
                    }
                    answer.annotations.extend(part["annotations"].as_array().into_iter().flatten().cloned());
                }
            }
            "reasoning" => {
                for part in item["summary"].as_array().unwrap() {
                    answer.reasoning.push_str(part["text"].as_str().unwrap());
                }
            }
            "function_call" | "custom_tool_call" => {
                let (id, name) = (text("call_id"), text("name"));
                assert!(!id.is_empty() && !name.is_empty());
                assert!(answer.calls.iter().all(|call| call.id != id), "ids differ");
                let key = if item["type"] == "function_call" { "arguments" } else { "input" };
                answer.calls.push(Call { id, name, arguments: text(key) });
            }
            "web_search_call" => {
                let query = json!({"query": item["action"]["query"]}).to_string();
                answer.server_calls.push(("web_search".to_owned(), query, String::new()));
            }
            "mcp_call" => {
                assert!(matches!(status, Some("completed" | "failed" | "incomplete")), "{item}");
                let error = item["error"]["content"][0]["text"].as_str();
                assert!(error.is_none() || item["error"]["type"] == "mcp_tool_execution_error", "{item}");
                let output = item["output"].as_str().or(error).unwrap_or_default();
                answer.server_calls.push((text("name"), text("arguments"), output.to_owned()));
            }
            "image_generation_call" => answer.images.push(item["result"].clone()),
            // The type that hostile streams have. An item that toolwire does not know is passed on.
            "x" => {}
            other => panic!("an unknown item: {other}"),
        }
    }
}

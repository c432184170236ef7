//! A Messages client that shares no code with the library and is as strict as the strictest client library: it
//! assembles a response and panics on anything that a client could reject. It returns the same [`Answer`] as the
//! Chat Completions client and maps finish reasons to those of Chat Completions.

use serde_json::{Value, json};

use super::client::{Answer, Call};

#[derive(Debug, Default)]
struct Message {
    answer: Answer,
    blocks: Vec<Block>,
    started: bool,
    stopped: bool,
}

#[derive(Debug)]
struct Block {
    block: Value,
    /// The concatenated pieces of a block's input.
    input: String,
    open: bool,
}

/// Reads a stream, which may be truncated.
pub(crate) fn of_stream(bytes: &[u8]) -> Answer {
    let mut message = Message { answer: Answer { status: 200, ..Answer::default() }, ..Message::default() };
    let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
    for frame in text.split_inclusive("\n\n") {
        let frame = frame.strip_suffix("\n\n").expect("events end with an empty line");
        let (name, data) = frame.split_once('\n').unwrap_or_else(|| panic!("two lines: {frame:?}"));
        let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("a name: {frame:?}"));
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("data: {frame:?}"));
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
        assert_eq!(data["type"], name);
        message.event(name, &data);
    }
    let blocks = message.blocks.into_iter().map(|Block { mut block, input, open: _ }| {
        if !input.is_empty() {
            block["input"] = input.into();
        }
        block
    });
    content(&mut message.answer, blocks);
    message.answer
}

/// Reads a non-streaming response or an error body.
pub(crate) fn of_body(bytes: &[u8], status: u16) -> Answer {
    let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
    let mut answer = Answer { status, ..Answer::default() };
    if body["type"] == "error" {
        answer.error = Some(body["error"].clone());
        return answer;
    }
    head(&body);
    content(&mut answer, body["content"].as_array().expect("a list of blocks").iter().cloned());
    end(&mut answer, &body, &body["usage"]);
    warnings(&mut answer, &body);
    answer
}

fn head(message: &Value) {
    assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
    assert!(message["id"].as_str().is_some_and(|id| id.starts_with("msg_")), "{message}");
    assert!(message["model"].is_string(), "{message}");
    counts(&message["usage"]);
}

fn counts(usage: &Value) {
    assert!(usage["input_tokens"].is_u64() && usage["output_tokens"].is_u64(), "{usage}");
}

fn end(answer: &mut Answer, holder: &Value, usage: &Value) {
    counts(usage);
    answer.usage = Some(usage.clone());
    let reason = holder["stop_reason"].as_str().expect("a stop reason");
    answer.finish = Some(
        match reason {
            "end_turn" => "stop",
            "tool_use" => "tool_calls",
            "max_tokens" => "length",
            "refusal" => "content_filter",
            other => panic!("{other}"),
        }
        .to_owned(),
    );
    answer.done = true;
}

fn warnings(answer: &mut Answer, holder: &Value) {
    for warning in holder["toolwire"]["warnings"].as_array().into_iter().flatten() {
        answer.warnings.push(warning["code"].as_str().unwrap().to_owned());
    }
}

impl Message {
    fn event(&mut self, name: &str, data: &Value) {
        assert!(!self.stopped && self.answer.error.is_none(), "{data} behind the end");
        assert!(self.started || matches!(name, "message_start" | "error"), "{name} before the start");
        let index = data["index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match name {
            "message_start" => {
                assert!(!std::mem::replace(&mut self.started, true), "starts once");
                head(&data["message"]);
                assert_eq!(data["message"]["content"], json!([]));
                assert!(data["message"]["stop_reason"].is_null());
            }
            "content_block_start" => {
                assert_eq!(index, Some(self.blocks.len()), "indices from 0 without gaps");
                let block = data["content_block"].clone();
                self.blocks.push(Block { block, input: String::new(), open: true });
            }
            "content_block_delta" => {
                assert_eq!(index, self.blocks.len().checked_sub(1), "blocks do not interleave: {data}");
                let block = self.blocks.get_mut(index.unwrap()).expect("a block that has begun");
                assert!(block.open, "{data} behind the block's end");
                block.delta(&data["delta"]);
            }
            "content_block_stop" => {
                assert_eq!(index, self.blocks.len().checked_sub(1), "blocks do not interleave: {data}");
                let block = self.blocks.get_mut(index.unwrap()).expect("a block that has begun");
                assert!(std::mem::replace(&mut block.open, false), "stops once");
            }
            "message_delta" => {
                assert!(self.blocks.iter().all(|block| !block.open), "all blocks have ended");
                end(&mut self.answer, &data["delta"], &data["usage"]);
                warnings(&mut self.answer, data);
                self.answer.done = false;
            }
            "message_stop" => {
                self.stopped = true;
                self.answer.done = true;
            }
            "ping" => {}
            "error" => self.answer.error = Some(data["error"].clone()),
            other => panic!("an unknown event: {other}"),
        }
    }
}

impl Block {
    fn delta(&mut self, delta: &Value) {
        let block = &mut self.block;
        let (kind, key, to) = match delta["type"].as_str().unwrap() {
            "text_delta" => ("text", "text", "text"),
            "thinking_delta" => ("thinking", "thinking", "thinking"),
            "signature_delta" => {
                assert_eq!(block["type"], "thinking");
                block["signature"] = delta["signature"].clone();
                return;
            }
            "citations_delta" => {
                assert_eq!(block["type"], "text");
                if !block["citations"].is_array() {
                    block["citations"] = json!([]);
                }
                block["citations"].as_array_mut().unwrap().push(delta["citation"].clone());
                return;
            }
            "input_json_delta" => {
                assert!(block["type"].as_str().unwrap().ends_with("tool_use"), "{block}");
                assert_eq!(block["input"], json!({}));
                self.input.push_str(delta["partial_json"].as_str().unwrap());
                return;
            }
            "x" => return,
            other => panic!("an unknown delta: {other}"),
        };
        assert_eq!(block["type"], kind);
        let piece = delta[key].as_str().unwrap();
        assert!(!piece.is_empty(), "pieces have text");
        block[to] = format!("{}{piece}", block[to].as_str().unwrap()).into();
    }
}

fn content(answer: &mut Answer, blocks: impl Iterator<Item = Value>) {
    for block in blocks {
        let text = |key: &str| block[key].as_str().unwrap_or_else(|| panic!("{key}: {block}")).to_owned();
        match block["type"].as_str().unwrap() {
            "text" => {
                answer.text.push_str(&text("text"));
                answer.annotations.extend(block["citations"].as_array().into_iter().flatten().cloned());
            }
            "thinking" => {
                _ = text("signature");
                answer.reasoning.push_str(&text("thinking"));
            }
            "redacted_thinking" => _ = text("data"),
            "tool_use" => {
                let (id, name) = (text("id"), text("name"));
                assert!(!id.is_empty() && !name.is_empty());
                assert!(answer.calls.iter().all(|call| call.id != id), "ids differ");
                answer.calls.push(Call { id, name, arguments: arguments(&block["input"]) });
            }
            "server_tool_use" | "mcp_tool_use" => {
                answer.server_calls.push((text("name"), arguments(&block["input"]), String::new()));
            }
            "web_search_tool_result" | "mcp_tool_result" => _ = text("tool_use_id"),
            // Kinds that the tests' upstreams invent. Clients of the API get them unchanged.
            "later" | "x" => {}
            other => panic!("an unknown block: {other}"),
        }
    }
}

/// Returns the arguments as text: a streamed string unchanged, or an object as JSON.
fn arguments(input: &Value) -> String {
    input.as_str().map_or_else(|| input.to_string(), str::to_owned)
}

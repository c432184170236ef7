//! A Chat Completions client that shares no code with the library and is as strict as the strictest client library:
//! it assembles a response and panics on anything that a client could reject.

use serde_json::Value;

/// The response that a client has assembled by the end of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) refusal: String,
    pub(crate) calls: Vec<Call>,
    /// Results of calls that the client did not have to run: index, content, and whether it is an error.
    pub(crate) results: Vec<(u64, String, bool)>,
    pub(crate) server_calls: Vec<(String, String, String)>,
    pub(crate) annotations: Vec<Value>,
    pub(crate) images: Vec<Value>,
    /// The kinds of content in the order in which they arrived, without repetitions.
    pub(crate) order: Vec<&'static str>,
    pub(crate) usage: Option<Value>,
    pub(crate) warnings: Vec<String>,
    pub(crate) finish: Option<String>,
    pub(crate) error: Option<Value>,
    pub(crate) done: bool,
    /// The HTTP status: 200 unless the response failed before it began.
    pub(crate) status: u16,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Answer {
    /// Reads a stream, which may be truncated.
    pub(crate) fn of_stream(bytes: &[u8]) -> Self {
        let mut answer = Self { status: 200, ..Self::default() };
        let text = std::str::from_utf8(bytes).expect("the client gets UTF-8");
        for frame in text.split_inclusive("\n\n") {
            let data = frame.strip_suffix("\n\n").expect("frames end with an empty line");
            let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {data:?}"));
            let lines = [b'\n', b'\r'].iter().any(|end| data.as_bytes().contains(end));
            assert!(!lines, "one line a frame: {data:?}");
            assert!(!answer.done, "{data:?} behind the end mark");
            if data == "[DONE]" {
                answer.done = true;
                continue;
            }
            answer.chunk(&serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}")));
        }
        answer
    }

    /// Reads a non-streaming response or an error body.
    pub(crate) fn of_body(bytes: &[u8], status: u16) -> Self {
        let body: Value = serde_json::from_slice(bytes).expect("a JSON body");
        let mut answer = Self { status, ..Self::default() };
        if body["error"].is_object() {
            answer.error = Some(body["error"].clone());
            return answer;
        }
        assert_eq!(body["object"], "chat.completion");
        let choice = &body["choices"][0];
        let message = &choice["message"];
        assert_eq!(message["role"], "assistant");
        assert_ne!(message["content"], "", "no text is null");
        let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        answer.text = text("content");
        answer.reasoning = text("reasoning_content");
        answer.refusal = text("refusal");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let (kind, arguments) = kind_of(call);
            assert_eq!(call["type"], kind);
            let [name, arguments] = ["name", arguments].map(|key| call[kind][key].as_str().unwrap());
            let id = call["id"].as_str().unwrap();
            answer.begin_call(id, name).arguments.push_str(arguments);
        }
        answer.lists(message);
        answer.usage = Some(body["usage"].clone()).filter(|usage| !usage.is_null());
        answer.warnings(&body);
        answer.finish = Some(choice["finish_reason"].as_str().expect("a finish reason").to_owned());
        answer
    }

    fn chunk(&mut self, chunk: &Value) {
        assert_eq!(self.error, None, "{chunk} behind an error");
        if !chunk["error"].is_null() {
            self.error = Some(chunk["error"].clone());
            return;
        }
        let choices = chunk["choices"].as_array().unwrap_or_else(|| panic!("no choices: {chunk}"));
        if chunk["usage"].is_object() {
            assert_eq!(self.usage, None, "usage once");
            self.usage = Some(chunk["usage"].clone());
        }
        let Some(choice) = choices.first() else {
            let is_notice = chunk["usage"].is_null();
            assert!(is_notice || self.finish.is_some(), "usage has no choice, and comes last: {chunk}");
            return;
        };
        assert_eq!((choices.len(), &choice["index"]), (1, &Value::from(0)), "{chunk}");
        assert_eq!(self.finish, None, "{chunk} behind the finish");
        self.delta(&choice["delta"]);
        self.warnings(chunk);
        self.finish = choice["finish_reason"].as_str().map(str::to_owned);
    }

    fn warnings(&mut self, outer: &Value) {
        for warning in outer["toolwire"]["warnings"].as_array().into_iter().flatten() {
            assert!(warning["message"].is_string(), "{warning}");
            self.warnings.push(warning["code"].as_str().unwrap().to_owned());
        }
    }

    fn delta(&mut self, delta: &Value) {
        assert!(delta.is_object(), "{delta}");
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        if delta["role"].is_null() {
            assert!(!self.order.is_empty() || delta.as_object().is_some_and(serde_json::Map::is_empty));
        } else {
            assert!(self.order.is_empty(), "the role comes first and once: {delta}");
            self.order.push("role");
        }
        for (key, what) in [("content", "text"), ("reasoning_content", "reasoning"), ("refusal", "refusal")] {
            let piece = text(key);
            if !piece.is_empty() {
                self.saw(what);
                match what {
                    "text" => self.text.push_str(piece),
                    "reasoning" => self.reasoning.push_str(piece),
                    _ => self.refusal.push_str(piece),
                }
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call_delta(call);
        }
        self.lists(delta);
    }

    /// Checks that the first delta of an index carries the ID, the type and the complete name, and that later
    /// deltas carry only arguments.
    fn call_delta(&mut self, call: &Value) {
        let index = usize::try_from(call["index"].as_u64().expect("an index")).unwrap();
        let (kind, arguments) = kind_of(call);
        let function = &call[kind];
        let arguments = function[arguments].as_str().unwrap_or_default().to_owned();
        if index == self.calls.len() {
            assert_eq!(call["type"], kind, "{call}");
            let name = function["name"].as_str().expect("the name comes first").to_owned();
            let id = call["id"].as_str().expect("the id comes first").to_owned();
            self.begin_call(&id, &name);
        } else {
            for value in [&call["id"], &call["type"], &function["name"]] {
                assert!(value.is_null(), "told once: {call}");
            }
        }
        self.calls.get_mut(index).expect("indices from 0 without gaps").arguments.push_str(&arguments);
    }

    fn begin_call(&mut self, id: &str, name: &str) -> &mut Call {
        assert!(!name.is_empty() && !id.is_empty(), "a call has an id and a name");
        assert!(self.calls.iter().all(|call| call.id != id), "ids differ");
        self.saw("call");
        self.calls.push(Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
        self.calls.last_mut().unwrap()
    }

    fn lists(&mut self, holder: &Value) {
        for result in holder["tool_results"].as_array().into_iter().flatten() {
            self.saw("result");
            let index = result["index"].as_u64().expect("an index");
            if let Some(name) = result["name"].as_str() {
                let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
                self.server_calls.push((name.to_owned(), text("arguments"), text("content")));
                continue;
            }
            let call = self.calls.get(usize::try_from(index).unwrap()).expect("a result has a call");
            assert_eq!(result["id"], call.id.as_str());
            let content = result["content"].as_str().unwrap().to_owned();
            self.results.push((index, content, result["is_error"] == true));
        }
        for (key, list) in [("annotations", &mut self.annotations), ("images", &mut self.images)] {
            for element in holder[key].as_array().into_iter().flatten() {
                let mut element = element.clone();
                // Client libraries merge lists in deltas by each element's `index`.
                if let Some(index) = element.as_object_mut().and_then(|object| object.remove("index")) {
                    assert_eq!(index, list.len(), "{holder}");
                }
                list.push(element);
            }
        }
    }

    fn saw(&mut self, what: &'static str) {
        if self.order.last() != Some(&what) {
            self.order.push(what);
        }
    }

    pub(crate) fn named_calls(&self) -> Vec<(&str, &str)> {
        self.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
    }
}

/// Returns the key of the object that describes the call, and the key of the arguments inside it.
fn kind_of(call: &Value) -> (&'static str, &'static str) {
    if call["custom"].is_null() { ("function", "arguments") } else { ("custom", "input") }
}

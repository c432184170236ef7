//! A plan of what a model does, hop by hop, and a client that follows the plan to its end, for every pair of dialects.
//!
//! A hop has some text and calls to the hosted tool `hosted` and to the client's tool `own`. Each call has its number as the
//! argument, so all calls differ. A response ends with the first hop that has a client call or no call at all. The client
//! then sends the results of its calls, and the next response continues the plan.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    config::ToolStyle,
    conversation::WantsBack,
    dialect::{Dialect, UpstreamDialect, chat, lumo},
    format::HERMES,
};

use super::script::{Asked, speaking};
use crate::{
    independent::{client::Answer, messages, responses, upstream::Speech},
    support::{
        client::Client,
        proxy::{Proxy, Setup},
        upstream::Upstream,
    },
};

/// A hop: the model's text, and its calls in order, where `true` stands for a call to the hosted tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hop {
    pub(super) text: String,
    pub(super) calls: Vec<bool>,
}

/// Creates a hop. In `calls`, `s` (server) stands for a hosted call and `c` for a client call.
pub(super) fn hop(text: &str, calls: &str) -> Hop {
    Hop { text: text.to_owned(), calls: calls.chars().map(|letter| letter == 's').collect() }
}

/// The API that the client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Chat,
    Messages,
    /// Responses, with the complete history in each request.
    Responses,
    /// Responses, with `previous_response_id`.
    Continuing,
}

impl Speaker {
    /// Returns the path and the body of a request with this history and the tool `own`. `previous` is the ID of the
    /// response to continue.
    pub(super) fn request(
        self,
        items: &[Value],
        previous: Option<&str>,
        stream: bool,
    ) -> (&'static str, Value) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let mut body = json!({"model": "m", "stream": stream});
        let path = match self {
            Speaker::Chat => {
                body["messages"] = items.into();
                body["tools"] =
                    json!([{"type": "function", "function": {"name": "own", "parameters": schema}}]);
                "/v1/chat/completions"
            }
            Speaker::Messages => {
                body["messages"] = items.into();
                body["max_tokens"] = 99.into();
                body["tools"] = json!([{"name": "own", "input_schema": schema}]);
                "/v1/messages"
            }
            Speaker::Responses | Speaker::Continuing => {
                body["input"] = items.into();
                body["tools"] = json!([{"type": "function", "name": "own", "parameters": schema}]);
                if let Some(previous) = previous {
                    body["previous_response_id"] = previous.into();
                }
                "/v1/responses"
            }
        };
        (path, body)
    }

    pub(super) const ALL: [Self; 4] = [Self::Chat, Self::Messages, Self::Responses, Self::Continuing];
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) hops: Vec<Hop>,
    pub(super) speech: Speech,
    pub(super) speaker: Speaker,
    pub(super) stream: bool,
    /// The size of the pieces in which the upstream sends its response, in bytes.
    pub(super) size: usize,
    /// Whether the client sends its results in the order of the calls.
    pub(super) in_order: bool,
    /// Whether toolwire is restarted before each of the client's later requests.
    pub(super) restarts: bool,
    /// Whether the model's turns carry state that must be sent back to the upstream.
    pub(super) states: bool,
    /// The value of `mixed_turns`.
    pub(super) mode: &'static str,
    /// A shell command that the hosted tool runs before it answers.
    pub(super) work: String,
    pub(super) key: &'static str,
}

/// The upstreams whose turns may carry state.
pub(super) const WITH_STATE: [Speech; 4] =
    [Speech::Chat, Speech::Messages, Speech::Gemini, Speech::Responses];

/// All upstreams. Lumo and text completions write their calls as text.
pub(super) const SPEECHES: [Speech; 8] = [
    Speech::Chat,
    Speech::Messages,
    Speech::Responses,
    Speech::Gemini,
    Speech::OllamaChat,
    Speech::LumoV1,
    Speech::LumoV2,
    Speech::Completions,
];

/// A template with roles in brackets.
const TEMPLATE: &str = r#"{"bos_token": "<s>", "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}[assistant]"}"#;

fn arguments(number: usize) -> String {
    format!(r#"{{"n":{number}}}"#)
}

fn name(is_hosted: bool) -> &'static str {
    if is_hosted { "hosted" } else { "own" }
}

/// A hop in the upstream's history: its state, text, calls and results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Past {
    pub(super) state: Option<String>,
    pub(super) text: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) results: Vec<String>,
}

impl Plan {
    pub(super) fn new(hops: &[Hop], speech: Speech, speaker: Speaker) -> Self {
        Self {
            hops: hops.to_vec(),
            speech,
            speaker,
            stream: true,
            size: 1 << 20,
            in_order: true,
            restarts: false,
            states: false,
            mode: "defer",
            work: ":".to_owned(),
            key: "",
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.speech, Speech::LumoV1 | Speech::LumoV2 | Speech::Completions)
    }

    /// Returns the number of the first call of each hop.
    fn firsts(&self) -> Vec<usize> {
        let counts = self.hops.iter().scan(0, |count, hop| {
            *count += hop.calls.len();
            Some(*count - hop.calls.len())
        });
        counts.collect()
    }

    pub(super) fn responses(&self) -> Vec<Vec<u8>> {
        let hops = self.hops.iter().zip(self.firsts());
        hops.enumerate().map(|(place, (hop, first))| self.response(place, hop, first)).collect()
    }

    fn response(&self, place: usize, hop: &Hop, first: usize) -> Vec<u8> {
        let mut events = self.state_events(place);
        // Sends the text in two pieces.
        let (half, rest) = hop.text.split_at(hop.text.len() / 2);
        events.extend([half, rest].iter().filter(|text| !text.is_empty()).map(|text| json!(["m", text])));
        for (index, is_hosted) in hop.calls.iter().enumerate() {
            events.push(self.call(place, (index, first + index), *is_hosted));
        }
        if self.speech != Speech::LumoV1 {
            let is_native = !hop.calls.is_empty() && !self.is_text();
            events.push(json!(["fin", if is_native { "tool_calls" } else { "stop" }]));
        }
        events.push(json!(["done"]));
        self.speech.stream(&events)
    }

    /// Returns the events for state that precedes the text.
    fn state_events(&self, place: usize) -> Vec<Value> {
        if !self.states {
            return Vec::new();
        }
        let state = format!("state {place}");
        match self.speech {
            Speech::Chat => vec![json!(["r", state])],
            Speech::Messages => {
                let block = json!({"type": "redacted_thinking", "data": state});
                vec![
                    json!(["d", {"type": "content_block_start", "index": 0, "content_block": block}]),
                    json!(["d", {"type": "content_block_stop", "index": 0}]),
                ]
            }
            Speech::Responses => {
                let item = json!({"type": "reasoning", "id": format!("rs_{place}"), "summary": [], "encrypted_content": state});
                vec![json!(["d", {"type": "response.output_item.done", "item": item}])]
            }
            _ => Vec::new(),
        }
    }

    fn call(&self, place: usize, (index, number): (usize, usize), is_hosted: bool) -> Value {
        let (name, arguments) = (name(is_hosted), arguments(number));
        let object: Value = serde_json::from_str(&arguments).unwrap();
        match self.speech {
            Speech::LumoV1 | Speech::LumoV2 | Speech::Completions => {
                json!(["m", format!(r#"<tool_call>{{"name":"{name}","arguments":{arguments}}}</tool_call>"#)])
            }
            Speech::Gemini => {
                let mut part = json!({"functionCall": {"name": name, "args": object}});
                if self.states && index == 0 {
                    part["thoughtSignature"] = format!("state {place}").into();
                }
                json!(["d", part])
            }
            Speech::OllamaChat => {
                let call = json!({"function": {"name": name, "arguments": object}});
                json!(["d", {"role": "assistant", "content": "", "tool_calls": [call]}])
            }
            // The server numbers its calls from 0, so IDs repeat.
            _ => {
                json!(["d", {"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "function",
                "function": {"name": name, "arguments": arguments}}]}])
            }
        }
    }

    /// Returns the first `count` hops as the upstream's history must contain them.
    fn past(&self, count: usize) -> Vec<Past> {
        let hops = self.hops.iter().zip(self.firsts()).take(count).enumerate();
        let past = |(place, (hop, first)): (usize, (&Hop, usize))| {
            let calls = hop.calls.iter().enumerate().map(|(index, is_hosted)| (first + index, *is_hosted));
            let has_state = self.states && !hop.calls.is_empty();
            Past {
                state: has_state.then(|| format!("state {place}")),
                text: hop.text.clone(),
                calls: calls
                    .clone()
                    .map(|(number, is_hosted)| (name(is_hosted).to_owned(), json!({"n": number})))
                    .collect(),
                results: {
                    let mut results: Vec<_> =
                        calls.map(|(number, is_hosted)| result(number, is_hosted)).collect();
                    if !self.in_order && self.has_ids() && !self.is_completed(place) {
                        results.reverse();
                    }
                    results
                },
            }
        };
        hops.map(past).collect()
    }

    /// Whether the upstream matches results to calls by ID rather than by order.
    fn has_ids(&self) -> bool {
        matches!(self.speech, Speech::Chat | Speech::Messages | Speech::Responses)
    }

    /// Whether the response that contains this hop has hosted calls, which toolwire adds to the client's history.
    fn is_completed(&self, place: usize) -> bool {
        let is_own = |hop: &&Hop| hop.calls.contains(&false);
        let before = self.hops.iter().take(place).rev().take_while(|hop| !is_own(hop));
        self.hops.get(place).into_iter().chain(before).any(|hop| hop.calls.contains(&true))
    }

    pub(super) fn setup(&self, upstream: &Upstream, folder: &Path) -> Setup {
        let mut setup = Setup::new(upstream.address);
        let of = |dialect| UpstreamDialect::try_from(dialect).unwrap();
        setup.upstream.options = match self.speech {
            Speech::Messages => of(Dialect::Messages),
            Speech::Responses => of(Dialect::Responses),
            Speech::Gemini => of(Dialect::Gemini),
            Speech::OllamaChat => of(Dialect::Ollama),
            Speech::Completions => of(Dialect::Completions),
            Speech::LumoV1 => UpstreamDialect::Lumo(lumo::Options {
                version: lumo::Version::V1,
                ..lumo::Options::default()
            }),
            Speech::LumoV2 => UpstreamDialect::Lumo(lumo::Options::default()),
            _ if self.states => {
                let options =
                    chat::Options { wants_back: WantsBack::Reasoning, ..chat::Options::of_host("") };
                UpstreamDialect::Chat(options)
            }
            _ => setup.upstream.options,
        };
        match self.speech {
            Speech::LumoV1 | Speech::LumoV2 => setup.tools = ToolStyle::Format(&HERMES),
            Speech::Completions => setup.chat_template = Some(TEMPLATE.to_owned()),
            _ => {}
        }
        setup.state_dir = Some(folder.join("state"));
        let (mode, work, notes) = (self.mode, &self.work, notes(folder));
        setup.execution = format!(
            "[execution]\nmixed_turns = \"{mode}\"\nmax_rounds = 20\nmax_calls = 100\n[[providers]]\nname = \"hosted\"\nkind = \"command\"\n\
             command = [\"sh\", \"-c\", \"call=$(cat); {work}; echo \\\"$call\\\" >> {}; printf 'found %s' \\\"$call\\\"\"]\n\
             parameters = {{ type = \"object\", properties = {{ n = {{ type = \"integer\" }} }} }}\n",
            notes.display()
        );
        setup
    }

    /// Carries out the plan. Checks the client's answers and the upstream's requests, and that each hosted call ran
    /// once.
    pub(super) async fn play(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (upstream, asked) = speaking(self.responses(), self.size).await;
        let mut proxy = self.setup(&upstream, folder.path()).start().await;
        let mut history = History::new(self.speaker);
        let mut done = 0;
        loop {
            let (answer, id) = self.ask(&proxy, &history).await;
            let (text, calls, hops) = self.expected(done);
            done += hops;
            assert_eq!(answer.error, None, "{self:?}");
            assert_eq!(answer.text, text, "{self:?}");
            let got: Vec<_> = answer.calls.iter().map(|call| call.arguments.clone()).collect();
            assert_eq!(got, calls, "{self:?}");
            assert!(answer.calls.iter().all(|call| call.name == "own"), "{self:?}");
            assert_eq!(answer.finish.as_deref(), Some(if calls.is_empty() { "stop" } else { "tool_calls" }));
            assert!(
                answer.server_calls.is_empty() && answer.results.is_empty() && answer.warnings.is_empty(),
                "{answer:?}"
            );
            self.check(&asked, done);
            if done == self.hops.len() {
                break;
            }
            history.add(&answer, id, self.in_order);
            if self.restarts {
                // Calls that are still running when toolwire stops have no result.
                ran(folder.path(), self.hosted(done)).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                proxy.stop();
                proxy.ended().await;
                drop(proxy);
                proxy = self.setup(&upstream, folder.path()).start().await;
            }
        }
        let mut notes: Vec<_> = ran(folder.path(), self.hosted(done)).await;
        notes.sort();
        let mut expected: Vec<_> = self.past(done).into_iter().flat_map(|past| past.calls).collect();
        expected.retain(|(name, _)| name == "hosted");
        let mut expected: Vec<_> = expected.into_iter().map(|(_, arguments)| arguments.to_string()).collect();
        expected.sort();
        assert_eq!(notes, expected, "every hosted call ran once: {self:?}");
    }

    fn hosted(&self, count: usize) -> usize {
        self.hops.iter().take(count).flat_map(|hop| &hop.calls).filter(|is_hosted| **is_hosted).count()
    }

    /// Returns what the client must get after `done` hops: the text, the arguments of its calls, and how many hops
    /// its answer comprises.
    fn expected(&self, done: usize) -> (String, Vec<String>, usize) {
        let (mut texts, mut count) = (Vec::new(), 0);
        for (hop, first) in self.hops.iter().zip(self.firsts()).skip(done) {
            count += 1;
            if !hop.text.is_empty() {
                texts.push(hop.text.as_str());
            }
            let own = hop.calls.iter().enumerate().filter(|(_, is_hosted)| !**is_hosted);
            let own: Vec<_> = own.map(|(index, _)| arguments(first + index)).collect();
            if hop.calls.is_empty() || !own.is_empty() {
                return (texts.join("\n\n"), own, count);
            }
        }
        (texts.join("\n\n"), Vec::new(), count)
    }

    pub(super) async fn ask(&self, proxy: &Proxy, history: &History) -> (Answer, String) {
        let (path, body) = history.request(self.stream);
        let mut request = Request::post(proxy.url(path)).header("content-type", "application/json");
        if !self.key.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let reply = Client::new().send(request).await.unwrap();
        assert_eq!(reply.status(), 200, "{self:?}: {}", reply.rest().await);
        let bytes = reply.bytes().await;
        let answer = match (self.speaker, self.stream) {
            (Speaker::Chat, true) => Answer::of_stream(&bytes),
            (Speaker::Chat, false) => Answer::of_body(&bytes, 200),
            (Speaker::Messages, true) => messages::of_stream(&bytes),
            (Speaker::Messages, false) => messages::of_body(&bytes, 200),
            (_, true) => responses::of_stream(&bytes),
            (_, false) => responses::of_body(&bytes, 200),
        };
        let text = String::from_utf8(bytes).unwrap();
        let id = text.split_once("\"id\":\"resp_").map_or("", |(_, id)| id.split('"').next().unwrap());
        (answer, format!("resp_{id}"))
    }

    /// Checks that the history in every upstream request follows the plan.
    fn check(&self, asked: &Asked, done: usize) {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), done, "{self:?}");
        for (count, request) in asked.iter().enumerate() {
            let expected = self.past(count);
            if self.is_text() {
                self.check_text(request, &expected);
                continue;
            }
            let mut history = history(self.speech, request);
            if self.restarts {
                // The state of turns without hosted calls is only in memory, so a restart loses it.
                history.iter_mut().for_each(|past| past.state = None);
            }
            assert_eq!(history, expected, "{self:?}: {request}");
        }
    }

    /// Checks that the results in a history written as text are in order and complete, without duplicates.
    fn check_text(&self, request: &Value, expected: &[Past]) {
        let text = request.to_string().replace('\\', "").replace(": ", ":");
        let mut at = 0;
        for past in expected {
            for result in &past.results {
                assert_eq!(text.matches(result.as_str()).count(), 1, "{self:?}: {result}: {text}");
                let place = text.find(result.as_str()).unwrap();
                assert!(place > at, "{self:?}: {result}: {text}");
                at = place;
            }
            assert!(text.contains(&past.text), "{self:?}: {text}");
        }
    }
}

pub(super) fn notes(folder: &Path) -> PathBuf {
    folder.join("notes")
}

/// Waits until `count` hosted calls have run, and returns their arguments.
pub(super) async fn ran(folder: &Path, count: usize) -> Vec<String> {
    for _ in 0..2000 {
        let notes = fs::read_to_string(notes(folder)).unwrap_or_default();
        if notes.lines().count() >= count {
            return notes.lines().map(str::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{count} hosted calls did not run: {:?}", fs::read_to_string(notes(folder)));
}

fn result(number: usize, is_hosted: bool) -> String {
    format!("{} {}", if is_hosted { "found" } else { "told" }, arguments(number))
}

pub(super) struct History {
    speaker: Speaker,
    items: Vec<Value>,
    previous: Option<String>,
}

impl History {
    pub(super) fn new(speaker: Speaker) -> Self {
        Self { speaker, items: vec![json!({"role": "user", "content": "hi"})], previous: None }
    }

    fn request(&self, stream: bool) -> (&'static str, Value) {
        self.speaker.request(&self.items, self.previous.as_deref(), stream)
    }

    pub(super) fn say(&mut self, text: &str) {
        self.items.push(json!({"role": "user", "content": text}));
    }

    pub(super) fn replace_last_result(&mut self, content: &str) {
        self.items.last_mut().unwrap()["content"] = content.into();
    }

    pub(super) fn add(&mut self, answer: &Answer, id: String, in_order: bool) {
        let number =
            |arguments: &str| serde_json::from_str::<Value>(arguments).unwrap()["n"].as_u64().unwrap();
        let told = |arguments: &str| result(usize::try_from(number(arguments)).unwrap(), false);
        let mut results: Vec<_> =
            answer.calls.iter().map(|call| (call.id.clone(), told(&call.arguments))).collect();
        if !in_order {
            results.reverse();
        }
        let has_text = !answer.text.is_empty();
        match self.speaker {
            Speaker::Chat => {
                let calls = answer.calls.iter().map(|call| {
                    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
                });
                let content = if has_text { json!(answer.text) } else { Value::Null };
                self.items.push(
                    json!({"role": "assistant", "content": content, "tool_calls": calls.collect::<Vec<_>>()}),
                );
                let results = results.into_iter();
                self.items
                    .extend(results.map(
                        |(id, content)| json!({"role": "tool", "tool_call_id": id, "content": content}),
                    ));
            }
            Speaker::Messages => {
                let text = has_text.then(|| json!({"type": "text", "text": answer.text}));
                let calls = answer.calls.iter().map(|call| {
                    let input: Value = serde_json::from_str(&call.arguments).unwrap();
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
                });
                let content: Vec<_> = text.into_iter().chain(calls).collect();
                self.items.push(json!({"role": "assistant", "content": content}));
                let results = results.into_iter();
                let results = results.map(
                    |(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content}),
                );
                self.items.push(json!({"role": "user", "content": results.collect::<Vec<_>>()}));
            }
            Speaker::Responses | Speaker::Continuing => {
                if self.speaker == Speaker::Continuing {
                    self.items.clear();
                    self.previous = Some(id);
                } else {
                    let part = json!({"type": "output_text", "text": answer.text});
                    let text = json!({"type": "message", "role": "assistant", "content": [part]});
                    self.items.extend(has_text.then_some(text));
                    self.items.extend(answer.calls.iter().map(|call| {
                        json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
                    }));
                }
                let results = results.into_iter();
                self.items.extend(results.map(
                    |(id, output)| json!({"type": "function_call_output", "call_id": id, "output": output}),
                ));
            }
        }
    }
}

/// Parses the model's turns and the results of their calls from a request. Asserts that their IDs match.
pub(super) fn history(speech: Speech, request: &Value) -> Vec<Past> {
    let mut reading = Reading::default();
    match speech {
        Speech::Chat | Speech::OllamaChat => reading.chat(request),
        Speech::Messages => reading.messages(request),
        Speech::Responses => reading.responses(request),
        Speech::Gemini => reading.gemini(request),
        other => panic!("{other:?} has no structure"),
    }
    assert!(reading.open.is_empty(), "calls without results: {:?}", reading.open);
    reading.turns
}

#[derive(Default)]
struct Reading {
    turns: Vec<Past>,
    open: Vec<String>,
    /// State that belongs to the next turn.
    state: Option<String>,
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Reading {
    /// Returns the current turn, or starts a new one if the current turn already has results.
    fn turn(&mut self) -> &mut Past {
        if self.turns.last().is_none_or(|turn| !turn.results.is_empty()) {
            let state = self.state.take();
            self.turns.push(Past { state, ..Past::default() });
        }
        self.turns.last_mut().unwrap()
    }

    fn call(&mut self, id: &Value, name: &Value, arguments: Value) {
        self.turn().calls.push((string(name), arguments));
        assert!(!self.open.contains(&string(id)), "ids differ: {id}");
        self.open.push(string(id));
    }

    fn result(&mut self, id: &Value, content: String) {
        let place = self.open.iter().position(|open| *open == string(id));
        self.open.remove(place.unwrap_or_else(|| panic!("{id} is not open: {:?}", self.open)));
        self.turns.last_mut().unwrap().results.push(content);
    }

    fn chat(&mut self, request: &Value) {
        for (place, message) in list(&request["messages"]).enumerate() {
            match message["role"].as_str().unwrap() {
                "assistant" => {
                    let turn = self.turn();
                    turn.text = string(&message["content"]);
                    turn.state = message["reasoning_content"].as_str().map(str::to_owned);
                    for (index, call) in list(&message["tool_calls"]).enumerate() {
                        let function = &call["function"];
                        let arguments = match &function["arguments"] {
                            Value::String(text) => serde_json::from_str(text).unwrap(),
                            object => object.clone(),
                        };
                        // Calls in Ollama have no IDs.
                        let id = call.get("id").cloned().unwrap_or_else(|| json!(format!("{place} {index}")));
                        self.call(&id, &function["name"], arguments);
                    }
                }
                "tool" => {
                    let own = self.open.first().cloned().unwrap();
                    let id = message.get("tool_call_id").cloned().unwrap_or_else(|| own.into());
                    self.result(&id, string(&message["content"]));
                }
                _ => {}
            }
        }
    }

    fn messages(&mut self, request: &Value) {
        for message in list(&request["messages"]) {
            if let (Some(text), "assistant") =
                (message["content"].as_str(), message["role"].as_str().unwrap())
            {
                self.turn().text.push_str(text);
            }
            for block in list(&message["content"]) {
                match block["type"].as_str().unwrap() {
                    "text" if message["role"] == "assistant" => {
                        self.turn().text.push_str(block["text"].as_str().unwrap())
                    }
                    "redacted_thinking" => self.turn().state = Some(string(&block["data"])),
                    "tool_use" => self.call(&block["id"], &block["name"], block["input"].clone()),
                    "tool_result" => {
                        let content = &block["content"];
                        let content = content.as_str().or_else(|| content[0]["text"].as_str());
                        self.result(&block["tool_use_id"], content.unwrap().to_owned());
                    }
                    _ => {}
                }
            }
        }
    }

    fn responses(&mut self, request: &Value) {
        for item in list(&request["input"]) {
            match item["type"].as_str().unwrap_or("message") {
                "message" if item["role"] == "assistant" => {
                    let content = &item["content"];
                    let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap();
                    self.turn().text.push_str(text);
                }
                "reasoning" => self.turn().state = Some(string(&item["encrypted_content"])),
                "function_call" => {
                    let arguments = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
                    self.call(&item["call_id"], &item["name"], arguments);
                }
                "function_call_output" => self.result(&item["call_id"], string(&item["output"])),
                _ => {}
            }
        }
    }

    fn gemini(&mut self, request: &Value) {
        for content in list(&request["contents"]) {
            let parts = list(&content["parts"]);
            for (index, part) in parts.enumerate() {
                if let (Some(text), "model") = (part["text"].as_str(), content["role"].as_str().unwrap()) {
                    self.turn().text.push_str(text);
                }
                if let Some(signature) = part["thoughtSignature"].as_str() {
                    self.turn().state = Some(signature.to_owned());
                }
                let call = &part["functionCall"];
                if call.is_object() {
                    let place = json!(format!("{} {index}", self.turns.len()));
                    let id = call.get("id").cloned().unwrap_or(place);
                    self.call(&id, &call["name"], call["args"].clone());
                }
                let response = &part["functionResponse"];
                if response.is_object() {
                    let id = response.get("id").cloned().unwrap_or_else(|| self.open[0].clone().into());
                    // Text and errors are wrapped in an object with one member. A result that is an object already
                    // is not wrapped.
                    let said = &response["response"];
                    let members = said.as_object().unwrap();
                    let said = members.values().next().filter(|_| members.len() == 1).unwrap_or(said);
                    self.result(&id, said.as_str().map_or_else(|| said.to_string(), str::to_owned));
                }
            }
        }
    }
}

//! Clients of text completions: what their prompts become, and what they get.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{
        Answering, ClientDialect, Dialect, Reader, Stamp, UpstreamDialect, UpstreamSide, chat,
        completions::{self, Options, Server},
        fitted,
    },
    failure::{Failure, Kind},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::{Reasoning, Rules},
};

const CLIENT: ClientDialect = ClientDialect::Completions;

fn decode(request: &Value) -> Result<Conversation, Failure> {
    CLIENT.side().decode(request.to_string().as_bytes())
}

/// Decodes a request with these members.
fn prompt(members: Value) -> Conversation {
    let mut request = json!({"model": "m", "prompt": "Once"});
    request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    decode(&request).unwrap_or_else(|failure| panic!("{request}: {failure:?}"))
}

/// The request to an upstream: its path, its body, and the names of the members that it does not get.
fn sent(conversation: &Conversation, side: &dyn UpstreamSide) -> (Option<String>, Value, Vec<String>) {
    let fitted = fitted(conversation, Dialect::Completions, side).unwrap();
    let request = side.encode(&fitted, "served");
    (request.path, serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

fn options(server: Server) -> Options {
    Options { server, ..Options::default() }
}

#[test]
fn prompt_reaches_upstreams_of_the_dialect_as_it_is() {
    for prompts in [
        json!("  Once\n"),
        json!(""),
        json!(["a", "b", ""]),
        json!([1, 2, 3]),
        json!([[1, 2], [3], []]),
        json!([[1]]),
    ] {
        let members = json!({"prompt": prompts, "suffix": "end", "echo": true, "logprobs": 5, "n": 2, "best_of": 3,
            "user": "u", "logit_bias": {"5": -1}, "temperature": 0.50, "stop": ["\n"], "seed": 7, "min_p": 0.1,
            "guided_regex": "a*", "max_tokens": 9, "stream": true, "stream_options": {"include_usage": true, "x": 1}});
        let conversation = prompt(members.clone());
        for server in [Server::OpenAi, Server::Vllm, Server::LlamaCpp, Server::Unknown] {
            let (path, mut body, dropped) = sent(&conversation, &options(server));
            assert_eq!(body["model"].take(), "served");
            let mut wanted = members.clone();
            wanted["model"] = Value::Null;
            assert_eq!((body, dropped), (wanted, Vec::new()), "{server:?}");
            let is_root = server == Server::LlamaCpp;
            assert_eq!(path, is_root.then(|| "v1/completions".to_owned()), "{server:?}");
        }
    }
}

/// Without a limit, servers apply their own, which clients of this API know.
#[test]
fn nothing_is_added_to_a_request() {
    let (_, body, _) = sent(&prompt(json!({})), &options(Server::OpenAi));
    assert_eq!(body, json!({"model": "served", "prompt": "Once", "stream": false}));
    assert_eq!(prompt(json!({"prompt": ["Once"]})), prompt(json!({})));
}

#[test]
fn prompt_is_a_message_for_upstreams_of_other_dialects() {
    let conversation =
        prompt(json!({"max_tokens": 9, "user": "u", "presence_penalty": 1, "best_of": 2, "logprobs": 3}));
    let at_openai = chat::Options { server: Server::OpenAi, ..chat::Options::default() };
    let (_, body, dropped) = sent(&conversation, &at_openai);
    assert_eq!(body["messages"], json!([{"role": "user", "content": "Once"}]));
    assert_eq!(
        (&body["max_tokens"], &body["user"], &body["presence_penalty"]),
        (&json!(9), &json!("u"), &json!(1))
    );
    assert_eq!(dropped, ["best_of", "logprobs"]);
    for upstream in UpstreamDialect::all().into_iter().filter(|upstream| upstream.absence().is_none()) {
        let (_, body, _) = sent(&conversation, upstream.side());
        assert!(body.to_string().contains("Once"), "{body}");
    }
}

#[test]
fn what_an_upstream_would_ignore_is_refused() {
    let others = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama];
    let others = others.map(|dialect| UpstreamDialect::try_from(dialect).unwrap());
    let raw = UpstreamDialect::Completions(options(Server::Ollama));
    for (members, param) in [
        (json!({"prompt": ["a", "b"]}), "prompt"),
        (json!({"prompt": [1, 2]}), "prompt"),
        (json!({"suffix": "x"}), "suffix"),
        (json!({"echo": true}), "echo"),
    ] {
        for upstream in others.iter().chain([&raw]) {
            let unfit = fitted(&prompt(members.clone()), Dialect::Completions, upstream.side()).unwrap_err();
            let failure = unfit.failure(None);
            assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{failure:?}");
        }
    }
    let harmless = prompt(json!({"suffix": "", "echo": false}));
    assert!(others.iter().all(|upstream| fitted(&harmless, Dialect::Completions, upstream.side()).is_ok()));
}

#[test]
fn invalid_requests_name_the_member() {
    for (request, param) in [
        (json!({"model": "m"}), "prompt"),
        (json!({"model": "m", "prompt": null}), "prompt"),
        (json!({"model": "m", "prompt": 5}), "prompt"),
        (json!({"model": "m", "prompt": {"text": "a"}}), "prompt"),
        (json!({"model": "m", "prompt": []}), "prompt"),
        (json!({"model": "m", "prompt": ["a", 1]}), "prompt[1]"),
        (json!({"model": "m", "prompt": [1, "a"]}), "prompt[1]"),
        (json!({"model": "m", "prompt": [1, -1]}), "prompt[1]"),
        (json!({"model": "m", "prompt": [1.5]}), "prompt[0]"),
        (json!({"model": "m", "prompt": [null]}), "prompt[0]"),
        (json!({"model": "m", "prompt": [[1], [[2]]]}), "prompt[1]"),
        (json!({"model": "m", "prompt": "a", "n": 0}), "n"),
        (json!({"model": "m", "prompt": "a", "n": -1}), "n"),
        (json!({"model": "m", "prompt": "a", "max_tokens": -1}), "max_tokens"),
        (json!({"model": "m", "prompt": "a", "stop": [1]}), "stop[0]"),
        (json!({"model": "m", "prompt": "a", "stream": "yes"}), "stream"),
        (json!({"model": "m", "prompt": "a", "Prompt": "b"}), "Prompt"),
        (json!({"model": "m", "prompt": "a", "Echo": true}), "Echo"),
        (json!({"model": "m", "prompt": "a", "tools": [{"type": "function"}]}), "tools"),
        (json!({"model": "m", "prompt": "a", "tool_choice": "auto"}), "tool_choice"),
        (json!({"model": "m", "prompt": "a", "functions": [{"name": "f"}]}), "functions"),
        (json!({"model": "m", "messages": [{"role": "user", "content": "a"}]}), "messages"),
    ] {
        let failure = decode(&request).expect_err(&request.to_string());
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{request} {failure:?}");
        let body: Value = serde_json::from_slice(&CLIENT.side().error_body(&failure)).unwrap();
        assert_eq!(body["error"]["type"], "invalid_request_error");
    }
    assert!(decode(&json!({"model": "m", "prompt": "a", "tools": [], "functions": null})).is_ok());
}

#[test]
fn a_million_prompts_are_read_in_linear_time() {
    let body =
        |element: &str| format!("{{\"model\":\"m\",\"prompt\":[{}]}}", vec![element; 1 << 20].join(","));
    for (element, choices) in [("\"\"", Some(1 << 20)), ("[]", Some(1 << 20)), ("7", None)] {
        let conversation = CLIENT.side().read(&Bytes::from(body(element))).unwrap();
        assert_eq!((conversation.choices, conversation.turns.len()), (choices, 1));
    }
    let huge = decode(&json!({"model": "m", "prompt": ["a", "b"], "n": u64::MAX})).unwrap();
    assert_eq!(huge.choices, Some(u64::MAX));
}

/// What a client receives from an upstream of the dialect, whose bytes arrive in pieces of this size.
fn received(conversation: &Conversation, upstream: &str, size: usize) -> String {
    let settings = completions::ReaderSettings { verbatim: true, ..completions::ReaderSettings::default() };
    let reader = Reader::Completions(completions::Reader::new(settings));
    let rules = Rules { reasoning: Reasoning::Off, ..Rules::default() };
    let answering = Answering::new(conversation, Stamp { seed: 1, created: 1 });
    let writer = CLIENT.side().writer(&answering);
    let mut pipeline =
        Pipeline::new(conversation, &rules, KnownFormats::built_in(), reader, writer, &answering);
    let mut out = BytesMut::new();
    for piece in upstream.as_bytes().chunks(size) {
        pipeline.push(piece, &mut out);
    }
    pipeline.finish(&mut out);
    assert_eq!(pipeline.state(), State::Done, "{upstream}: {:?}", pipeline.failure());
    String::from_utf8(out.to_vec()).unwrap()
}

fn at_every_size(conversation: &Conversation, upstream: &str) -> String {
    let whole = received(conversation, upstream, usize::MAX);
    for size in [1, 2, 3, 7, 50] {
        assert_eq!(received(conversation, upstream, size), whole, "pieces of {size}");
    }
    whole
}

/// A frame as OpenAI's servers write it.
fn frame(choice: &Value) -> String {
    let head = r#"{"id":"cmpl-9","object":"text_completion","created":5,"model":"m","choices":["#;
    format!("data: {head}{choice}]}}\n\n")
}

fn choice(index: u64, text: &str, logprobs: Value, finish: Option<&str>) -> Value {
    json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish})
}

fn logprobs(token: &str) -> Value {
    json!({"tokens": [token], "token_logprobs": [-0.50], "top_logprobs": [{token: -0.5}], "text_offset": [0]})
}

#[test]
fn streams_of_upstreams_of_the_dialect_are_forwarded_as_they_are() {
    let done = "data: [DONE]\n\n";
    let frames = [
        frame(&choice(0, "a <think>", logprobs("a"), None)),
        frame(&choice(1, "b", Value::Null, None)),
        frame(&choice(0, "", Value::Null, None)),
        frame(&choice(0, "", json!({"x": 1}), None)),
        frame(&choice(0, "</think>\n```json", Value::Null, None)),
        frame(&choice(0, "", Value::Null, Some("stop"))),
        frame(&choice(1, "c", logprobs("c"), Some("length"))),
    ];
    let several = prompt(json!({"stream": true, "n": 2}));
    let told = at_every_size(&several, &(frames.concat() + done));
    let silent = &frames[2];
    let wanted: String = frames.iter().filter(|frame| *frame != silent).map(String::as_str).collect();
    assert_eq!(told, wanted + done);
    // A client that asked for one choice gets one.
    let one = at_every_size(&prompt(json!({"stream": true})), &(frames.concat() + done));
    assert!(!one.contains("\"index\":1") && one.ends_with(done), "{one}");
}

#[test]
fn last_piece_of_text_keeps_what_its_frame_says() {
    let last = json!({"text": "z", "index": 0, "logprobs": logprobs("z"), "finish_reason": "length", "stop_reason": 7});
    let told = at_every_size(&prompt(json!({"stream": true})), &(frame(&last) + "data: [DONE]\n\n"));
    let mut unfinished = last.clone();
    unfinished["finish_reason"] = Value::Null;
    assert!(told.starts_with(&frame(&unfinished)), "{told}");
    assert_eq!(told.matches("\"length\"").count(), 1, "{told}");
}

#[test]
fn usage_is_told_if_the_client_asked_for_it() {
    let usage = r#"{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"own":{"x":1}}"#;
    let counts = format!(
        "data: {{\"id\":\"cmpl-9\",\"object\":\"text_completion\",\"created\":5,\"model\":\"m\",\"choices\":[],\"usage\":{usage}}}\n\n"
    );
    let upstream = frame(&choice(0, "a", Value::Null, Some("stop"))) + &counts + "data: [DONE]\n\n";
    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    assert!(at_every_size(&prompt(asked), &upstream).contains(usage));
    assert!(!at_every_size(&prompt(json!({"stream": true})), &upstream).contains("usage"));
    let whole: Value = serde_json::from_str(&at_every_size(&prompt(json!({})), &upstream)).unwrap();
    assert_eq!(whole["usage"].to_string(), usage);
}

#[test]
fn whole_response_keeps_all_choices_and_members() {
    let body = json!({
        "id": "cmpl-9", "object": "text_completion", "created": 5, "model": "m", "system_fingerprint": "fp",
        "choices": [
            {"text": "a", "index": 0, "logprobs": logprobs("a"), "finish_reason": "stop", "prompt_logprobs": [null]},
            choice(1, "b", logprobs("b"), Some("length")),
            choice(2, "", Value::Null, Some("stop")),
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    let conversation = prompt(json!({"n": 3}));
    for text in [body.to_string(), format!("{body:#}")] {
        let told: Value = serde_json::from_str(&at_every_size(&conversation, &text)).unwrap();
        assert_eq!(told, body);
    }
    // A server that streams although the client did not ask for it.
    let frames = [
        frame(&choice(1, "b", logprobs("b"), None)),
        frame(&choice(0, "a", logprobs("a"), None)),
        frame(&choice(1, "c", logprobs("c"), Some("length"))),
        frame(&choice(0, "", Value::Null, Some("stop"))),
    ];
    let told = at_every_size(&conversation, &(frames.concat() + "data: [DONE]\n\n"));
    let told: Value = serde_json::from_str(&told).unwrap();
    let joined = json!({"tokens": ["b", "c"], "token_logprobs": [-0.5, -0.5], "top_logprobs": [{"b": -0.5}, {"c": -0.5}],
        "text_offset": [0, 0]});
    assert_eq!(
        told["choices"],
        json!([choice(0, "a", logprobs("a"), Some("stop")), choice(1, "bc", joined, Some("length")),])
    );
}

//! Tests text completion upstreams: requests in three formats, and responses in each of them, split at arbitrary
//! points.

mod clients;

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Prompt},
    dialect::{
        ClientDialect, UpstreamSide,
        completions::{Bos, Options, ReaderSettings, Server},
    },
    failure::Kind,
    format::KnownFormats,
};

use crate::read::{read_in, read_splits};

const SETTINGS: ReaderSettings =
    ReaderSettings { max_frame: 1 << 16, tolerate_truncation: false, verbatim: false };

/// Summarizes a body. Asserts that no split changes the result.
#[track_caller]
fn read(body: &str) -> String {
    read_splits(SETTINGS, body.as_bytes()).summary()
}

#[test]
fn text_is_read_in_all_forms_however_it_is_cut() {
    for (body, expected) in [
        (
            "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"é\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
            "aé | stop",
        ),
        ("data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n", "a | stop"),
        (
            "data: {\"choices\":[{\"text\":\"\\ud83d\"}]}\n\ndata: {\"choices\":[{\"text\":\"\\ude00\",\"finish_reason\":\"length\"}]}\n\n",
            "😀 | length",
        ),
        ("data: {\"choices\":[{\"text\":\"a\\ud83d\",\"finish_reason\":\"stop\"}]}\n\n", "a\u{fffd} | stop"),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"tool_calls\"}]}\n\n",
            "a | stop",
        ),
        (
            ": ping\n\ndata: {\"content\":\"a\",\"stop\":false}\n\ndata: {\"content\":\"b\",\"stop\":true,\"stopped_limit\":true}\n\n",
            "ab | length",
        ),
        ("data: {\"content\":\"a\",\"stop\":true,\"stop_type\":\"word\"}\n\n", "a | stop"),
        (
            "{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"done\":true,\"done_reason\":\"length\"}\n",
            "ab | length",
        ),
        ("{\"response\":\"a\",\"done\":false}\r\n\r\n{\"response\":\"\",\"done\":true}", "a | stop"),
        ("{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}", "a | stop"),
        ("{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n", "a | stop"),
        ("{\n \"content\": \"a\",\n \"stop\": true\n}\n", "a | stop"),
        ("\u{feff} {\"content\":\"a\"}", "a | stop"),
        (
            "{\"content\":\"a\",\"stop\":true,\"tokens_evaluated\":3,\"tokens_predicted\":1}",
            "a | stop | usage 3 1 4",
        ),
        (
            "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
            "a | stop | usage 4 1 5",
        ),
    ] {
        assert_eq!(read(body), expected, "{body}");
    }
}

#[test]
fn failures_are_reported_and_truncated_responses_never_look_complete() {
    for (body, kind) in [
        ("", Kind::Truncated),
        ("data: {\"choices\":[{\"text\":\"a\"}]}\n\n", Kind::Truncated),
        ("data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choi", Kind::Truncated),
        ("data: {\"content\":\"a\",\"stop\":false}\n\n", Kind::Truncated),
        ("{\"response\":\"a\",\"done\":false}\n", Kind::Truncated),
        ("{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"do", Kind::Truncated),
        ("{\"response\":\"a\",\"done\":false}", Kind::Truncated),
        ("{\"choices\":[{\"text\":\"a\"", Kind::Protocol),
        ("data: [DONE]\n\n", Kind::Truncated),
        ("data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"abort\"}]}\n\n", Kind::Upstream),
        ("data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: garbage\n\n", Kind::Protocol),
        ("event: error\ndata: {\"message\":\"x\"}\n\n", Kind::Upstream),
        ("{\"error\":\"model not found\"}\n", Kind::Upstream),
        ("{\"response\":\"a\",\"done\":false}\n{\"error\":\"out of memory\"}\n", Kind::Upstream),
        ("{\"object\":\"error\",\"message\":\"no\",\"code\":400}", Kind::Request),
        ("[]", Kind::Protocol),
        ("{}", Kind::Protocol),
        ("<html>no</html>", Kind::Protocol),
        ("no stream at all", Kind::Protocol),
    ] {
        let read = read(body);
        assert!(read.contains(&format!("error {kind:?} ")) && !read.contains("stop"), "{body}: {read}");
    }
}

/// One chunk per format. `TEXT` stands for the text, and `#` for a number that changes from chunk to chunk.
const CHUNKS: [&str; 5] = [
    r##"{"id":"c","created":#,"choices":[{"index":0,"text":TEXT,"logprobs":null,"finish_reason":null}]}"##,
    r##"{"choices":[{"delta":{"content":TEXT},"finish_reason":""}],"created":7}"##,
    r##"{"index":0,"content":TEXT,"tokens":[#],"stop":false,"tokens_predicted":#,"tokens_evaluated":9}"##,
    r##"{"content":TEXT,"tokens_evaluated":9,"tokens_predicted":#}"##,
    r##"{"model":"m","created_at":"2026-11-22T10:00:#","response":TEXT,"done":false}"##,
];

const ENDS: [&str; 7] = [
    "",
    r##"{"content":"","done":true}"##,
    r##"{"choices":[{"text":"!","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"##,
    r##"{"choices":[{"text":"","finish_reason":"stop"}]}"##,
    r##"{"error":"x"}"##,
    "[DONE]",
    "garbage",
];

/// An unknown member that differs in every chunk forces the slow path.
#[test]
fn fast_path_reads_what_the_slow_path_reads() {
    let texts =
        ["\"a\"", "\"\"", r#""\ud83d""#, r#""\ude00""#, r#""\"b\u00e9""#, "\"c\"", "null", "7", "\"d\""];
    for chunk in CHUNKS {
        for (end, late) in ENDS.iter().flat_map(|end| [(end, false), (end, true)]) {
            let stream = |is_slow: bool| {
                let odd = |count: usize| {
                    if is_slow {
                        format!("{{\"x\":{},", "[".repeat(count + 1) + &"]".repeat(count + 1))
                    } else {
                        "{".to_owned()
                    }
                };
                let one = |count: usize, text: &str| {
                    let chunk = chunk.replacen('{', &odd(count), 1);
                    chunk.replace('#', &(count + 10).to_string()).replace("TEXT", text)
                };
                let mut data: Vec<String> =
                    texts.iter().enumerate().map(|(count, text)| one(count, text)).collect();
                data.push((*end).to_owned());
                if late {
                    data.push(one(texts.len(), "\"late\""));
                }
                data.into_iter().map(|data| format!("data: {data}\n\n")).collect::<String>()
            };
            let read = |body: String| read_in(SETTINGS, [body.as_bytes()], true).summary();
            assert_eq!(read(stream(false)), read(stream(true)), "{chunk} {end} {late}");
        }
    }
}

#[test]
fn counts_of_the_last_chunk_are_told_on_the_fast_path_too() {
    let chunk = |text: &str, count: usize| {
        format!(
            "data: {{\"content\":\"{text}\",\"tokens\":[{count}],\"stop\":false,\"tokens_predicted\":{count},\"tokens_evaluated\":9}}\n\n"
        )
    };
    let body: String = (1..=12).map(|count| chunk("a", count)).collect();
    assert_eq!(
        read(&format!("{body}data: {{\"content\":\"\",\"stop\":true}}\n\n")),
        format!("{} | stop | usage 9 12 21", "a".repeat(12))
    );
}

#[test]
fn what_follows_the_end_is_not_read() {
    assert_eq!(read("{\"response\":\"a\",\"done\":true}\ngarbage\n"), "a | stop");
}

#[test]
fn thinking_is_reasoning() {
    let lines =
        "{\"response\":\"\",\"thinking\":\"Hm.\",\"done\":false}\n{\"response\":\"a\",\"done\":true}\n";
    assert_eq!(read(lines), "(Hm.) | a | stop");
}

fn conversation(fields: Value) -> Conversation {
    let mut request = json!({"model": "m", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ClientDialect::Chat.side().decode(request.to_string().as_bytes()).unwrap()
}

fn encoded(options: &Options, fields: Value) -> (Value, Vec<String>) {
    let prompt = Prompt { text: "<s>Hello \"you\"\n".into(), bos: 3 };
    let request = options.encode_prompt(&prompt, &conversation(fields), "up");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

#[test]
fn sampling_of_clients_of_other_apis_is_sent() {
    let fields = json!({
        "contents": [{"parts": [{"text": "q"}]}],
        "generationConfig": {"topK": 5, "presencePenalty": 0.5},
    });
    let conversation = ClientDialect::Gemini.side().decode(fields.to_string().as_bytes()).unwrap();
    let prompt = Prompt { text: "q".into(), bos: 0 };
    let request = Options::default().encode_prompt(&prompt, &conversation, "m");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["top_k"], &body["presence_penalty"]), (&json!(5), &json!(0.5)));
    assert_eq!(request.dropped, [] as [&str; 0]);
}

#[test]
fn each_server_gets_its_own_form_of_a_request() {
    let fields = json!({"stream": true, "temperature": 0.5, "max_completion_tokens": 7, "stop": ["a"], "seed": 1, "top_k": 3,
        "logit_bias": {"1": 2}, "chat_template_kwargs": {"x": 1}, "metadata": {}, "logprobs": true});
    let dropped = |more: &[&str]| {
        let mut names: Vec<_> =
            ["logprobs", "metadata"].iter().chain(more).map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    let openai = json!({"model": "up", "prompt": "Hello \"you\"\n", "max_tokens": 7, "temperature": 0.5, "stop": ["a"], "seed": 1,
        "top_k": 3, "logit_bias": {"1": 2}, "stream": true, "stream_options": {"include_usage": true}});
    assert_eq!(encoded(&Options::default(), fields.clone()), (openai, dropped(&[])));
    let llama = Options { server: Server::LlamaCpp, bos: Bos::Prompt, ..Options::default() };
    let expected = json!({"model": "up", "prompt": "<s>Hello \"you\"\n", "n_predict": 7, "temperature": 0.5, "stop": ["a"],
        "seed": 1, "top_k": 3, "stream": true});
    assert_eq!(encoded(&llama, fields.clone()), (expected, dropped(&["logit_bias"])));
    let ollama = Options { server: Server::Ollama, ..Options::default() };
    let expected = json!({"model": "up", "prompt": "Hello \"you\"\n", "raw": true, "stream": true, "options": {"num_predict": 7,
        "temperature": 0.5, "stop": ["a"], "seed": 1, "top_k": 3}});
    assert_eq!(encoded(&ollama, fields), (expected, dropped(&["logit_bias"])));
}

#[test]
fn openai_servers_get_a_limit_of_tokens_and_the_others_none() {
    let options = Options { keep_special_tokens: true, ..Options::default() };
    let (body, _) = encoded(&options, json!({}));
    assert_eq!((&body["max_tokens"], &body["skip_special_tokens"]), (&json!(2048), &json!(false)));
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
    let (body, _) = encoded(&Options { server: Server::LlamaCpp, ..Options::default() }, json!({}));
    assert_eq!(body.get("n_predict"), None);
}

#[test]
fn without_a_template_the_prompt_is_the_bare_text() {
    let request = Options::default().encode(&conversation(json!({})), "");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["prompt"], body.get("model")), (&json!("S\n\nU"), None));
}

#[test]
fn prompt_that_ends_with_an_opener_starts_in_reasoning() {
    let known = KnownFormats::built_in();
    for prompt in [
        "<|im_start|>assistant\n<think>\n",
        "x<THINK>",
        "x[THINK]",
        "<think:opensource>",
        "<|START_THINKING|>",
    ] {
        assert!(known.opens_reasoning(prompt), "{prompt}");
    }
    for prompt in [
        "",
        "<think>\n\n</think>\n\n",
        "<|im_start|>assistant\n",
        "<think>a",
        "think>",
        "a <think b>",
        "<thinker>",
    ] {
        assert!(!known.opens_reasoning(prompt), "{prompt}");
    }
}

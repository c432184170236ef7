use super::*;

#[test]
fn prompts_that_are_too_long_are_recognised_in_the_words_of_every_server() {
    let openai =
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let llama = r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_ctx":256}}"#;
    for (status, body) in [(400, openai), (413, openai), (400, llama), (500, llama)] {
        assert_eq!(refusal(status, None, body.as_bytes()).kind(), Kind::ContextLength, "{status} {body}");
    }
    let sentences = [
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 268000)",
        "Prompt exceeds max length",
        "prompt token count of 150000 exceeds the limit of 128000",
        "Trying to keep the first 12000 tokens when context the overflows. However, the model is loaded with context \
         length of only 4096 tokens, which is not enough.",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens",
        "Context size has been exceeded.",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        "Too many input tokens. Max input tokens: 300000, request input token count: 400000",
        "length of prompt_tokens (99000) must be less than max_seq_len (32768).",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "The decoder prompt (length 88049) is longer than the maximum model length of 32768.",
        "The input (5163 tokens) is longer than the model's context length (2621 tokens).",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 9000 > 200000",
        "Your input exceeds the context window of this model.",
        "the request exceeds the available context size, try increasing it",
        "prompt too long; exceeded max context length by 42 tokens",
        "the input length exceeds the context length",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    ];
    for sentence in sentences {
        let body = serde_json::json!({ "error": { "message": sentence } }).to_string();
        let failure = refusal(400, None, body.as_bytes());
        assert_eq!((failure.kind(), failure.status()), (Kind::ContextLength, 400), "{sentence}");
        assert_ne!(refusal(503, None, body.as_bytes()).kind(), Kind::ContextLength, "{sentence}");
    }
    for other in [
        "max_tokens must be positive",
        "Request too large on tokens per minute",
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 12000, please reduce the \
         length of the prompt",
        "Too many tokens, please wait before trying again.",
        "'user' exceeds the maximum length of 512",
    ] {
        let body = serde_json::json!({ "error": other }).to_string();
        for status in [400, 413, 429] {
            assert_ne!(refusal(status, None, body.as_bytes()).kind(), Kind::ContextLength, "{other}");
        }
    }
    let coded = |code: Value| serde_json::json!({ "error": { "message": "m", "code": code } }).to_string();
    for code in ["1261".into(), 1261.into(), "model_max_prompt_tokens_exceeded".into()] {
        assert_eq!(refusal(400, None, coded(code).as_bytes()).kind(), Kind::ContextLength);
    }
}

#[test]
fn objects_that_report_a_failure_are_told_from_others() {
    for (frame, message) in [
        (r#"{"code":1113,"msg":"Insufficient balance","success":false}"#, "Insufficient balance"),
        (r#"{"error":"overloaded"}"#, "overloaded"),
        (r#"{"error":true,"message":"m"}"#, "m"),
        (r#"{"errors":[{"message":"m","code":3}]}"#, "m"),
        (r#"{"errors":["m"]}"#, "m"),
        (r#"{"detail":"m"}"#, "m"),
        (r#"{"detail":[{"loc":["body"],"msg":"m"}]}"#, "m"),
        (r#"{"message":"Internal server error"}"#, "Internal server error"),
        (r#"{"status":"error","message":"m"}"#, "m"),
        (r#"{"base_resp":{},"status_code":2013,"status_msg":"m"}"#, "m"),
        (r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"m"}}"#, "m"),
        (r#"{"header":{"code":11200,"message":"m","sid":"x"}}"#, "m"),
        (r#"{"Error":{"Message":"m","Code":"x"},"RequestId":"y"}"#, "m"),
        (r#"{"ret":-1,"errmsg":"m"}"#, "m"),
        (r#"{"err":"m"}"#, "m"),
        (r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#, "m"),
    ] {
        let failure = told(frame).unwrap_or_else(|| panic!("{frame}"));
        assert_eq!(failure.message(), message, "{frame}");
    }
    for other in [
        "{}",
        "[]",
        r#"{"error":null}"#,
        r#"{"error":false,"message":""}"#,
        r#"{"type":"ping"}"#,
        r#"{"code":0,"msg":"ok"}"#,
        r#"{"code":200,"message":"success"}"#,
        r#"{"status":"processing","message":"Loading the model"}"#,
        r#"{"message":"queued","position":3}"#,
        r#"{"success":true,"message":"m"}"#,
        r#"{"details":[]}"#,
        r#"{"base_resp":{"status_code":0,"status_msg":"success"}}"#,
    ] {
        assert_eq!(told(other), None, "{other}");
    }
}

#[test]
fn quoted_text_is_short_and_on_one_line() {
    assert_eq!(first_words(b" \n"), None);
    assert_eq!(first_words(b"a\n  b\tc").unwrap(), "a b c");
    assert_eq!(first_words(b"<html><title> 502 Bad\nGateway </title>x").unwrap(), "502 Bad Gateway");
    assert_eq!(first_words("é".as_bytes().get(..1).unwrap()), None);
    assert_eq!(first_words(b"ok \xff").unwrap(), "ok");
    let long = first_words("wörd ".repeat(100).as_bytes()).unwrap();
    assert!(long.ends_with('…') && long.chars().count() <= 125, "{long}");
    let one = first_words("ö".repeat(500).as_bytes()).unwrap();
    assert_eq!(one.chars().count(), 121);
}

//! Converts an upstream's errors (HTTP error responses, and error objects within a stream) to a [`Failure`]
//! that preserves the upstream's message, code and status.

use serde_json::Value;

use crate::{
    failure::{Failure, Kind},
    status,
    wire::json::Json,
};

/// The failure for an HTTP error response. `retry_after` is the value of that header. `body` may contain
/// anything and may be truncated.
pub fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let words = Words::of_body(body);
    let lead = match status {
        404 => "the upstream has no such path (status 404); its `base_url` may be wrong".to_owned(),
        300..=399 | 405 => {
            format!("the upstream responded with status {status}; its `base_url` may be wrong")
        }
        _ => format!("the upstream responded with status {status}"),
    };
    let failure = match status {
        404 if words.is_model_missing() || words.is_of_thread() => None,
        _ => status::failure_of_hop(status, words.sentence(&lead)),
    };
    let mut failure = failure.unwrap_or_else(|| words.failure(Some(status)));
    if let Some(value) = retry_after {
        failure = failure.with_retry_after(value);
    }
    failure
}

/// The failure for an error within a stream. `error` is an object or a string.
pub(crate) fn reported(error: &Value) -> Failure {
    let words = Words::of_error(error);
    let status = words.status;
    words.failure(status)
}

/// Like [`reported`], for an error that has not been converted to a [`Value`].
pub(crate) fn reported_json(error: Json<'_>) -> Failure {
    reported(&serde_json::from_str(error.raw()).unwrap_or_default())
}

/// The failure for a server-sent event of the type `error`. Its data may be the error object, an object that
/// contains it, or plain text.
pub(crate) fn reported_event(data: &[u8]) -> Failure {
    match serde_json::from_slice::<Value>(data) {
        Ok(value) => reported(value.get("error").unwrap_or(&value)),
        Err(_) => reported(&first_words(data).into()),
    }
}

/// The failure that an object reports even though it is not part of a response: an error, or a message
/// together with a member that marks the object as an error. `None` if it reports no failure.
pub(crate) fn told(frame: &str) -> Option<Failure> {
    let object = serde_json::from_str::<Value>(frame).ok().filter(Value::is_object)?;
    let words = Words::of_response(&object);
    let nested = nested(&object);
    let says_why = ["error", "errors", "detail", "details", "Error", "err"]
        .iter()
        .any(|key| says_something(object.get(key)));
    let has_words = words.message.is_some() || words.code.is_some();
    let is_failure = match outcome(nested.unwrap_or(&object)) {
        Some(is_failure) => is_failure && has_words,
        None => has_words && (says_why || is_bare_message(&object)),
    };
    is_failure.then(|| {
        let status = words.status;
        words.failure(status)
    })
}

/// The nested object in which MiniMax, Spark and Tencent report the outcome of a request.
fn nested(object: &Value) -> Option<&Value> {
    let has_message = |inner: &&Value| MESSAGE_KEYS.iter().any(|key| says_something(inner.get(key)));
    ["base_resp", "header", "Error"].iter().find_map(|key| object.get(key)).filter(has_message)
}

const MESSAGE_KEYS: [&str; 10] = [
    "message",
    "Error",
    "msg",
    "Message",
    "error_message",
    "error_msg",
    "errorMessage",
    "status_msg",
    "errmsg",
    "err",
];

fn says_something(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    }
}

/// Whether a code, a status or a flag in an object reports a failure. `None` if there is no such member.
fn outcome(object: &Value) -> Option<bool> {
    let of_word = |word: &str| match word.to_ascii_lowercase().as_str() {
        "" => None,
        "error" | "fail" | "failed" | "failure" => Some(true),
        "0" | "200" | "ok" | "success" | "succeeded" | "true" => Some(false),
        word => word.parse::<i64>().is_ok().then_some(true),
    };
    let of = |key: &str| match object.get(key)? {
        Value::Bool(flag) => Some(!flag),
        Value::Number(number) => Some(!matches!(number.as_i64(), Some(0 | 200..=299))),
        Value::String(word) if key == "code" && !word.is_empty() => Some(of_word(word).unwrap_or(true)),
        Value::String(word) => of_word(word),
        _ => None,
    };
    let keys = [
        "success",
        "ok",
        "code",
        "error_code",
        "errorCode",
        "errcode",
        "ret",
        "status_code",
        "statusCode",
        "status",
    ];
    keys.into_iter().chain(["type", "object"]).find_map(of)
}

/// Whether an object contains only a message and members that often accompany an error message.
fn is_bare_message(object: &Value) -> bool {
    let beside = |key: &str| {
        let key = key.to_ascii_lowercase().replace(['_', '-'], "");
        matches!(&*key, "requestid" | "traceid" | "logid" | "id" | "timestamp" | "time" | "path" | "param")
    };
    object
        .as_object()
        .is_some_and(|members| members.keys().all(|key| MESSAGE_KEYS.contains(&key.as_str()) || beside(key)))
}

/// The values of `code` and `type` for a prompt that exceeds the model's context, as used by OpenAI, Z.ai,
/// llama.cpp, Copilot and gateways.
const TOO_LONG_CODES: [&str; 7] = [
    "context_length_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "context_window_exceeded",
    "prompt_too_long",
    "input_too_long",
];

/// Messages of servers without such codes, in lower case. All strings of an entry must occur in the message.
const TOO_LONG: [&[&str]; 28] = [
    // OpenAI, vLLM, Mistral, OpenRouter, DeepSeek
    &["maximum context length"],
    &["context window"],
    // OpenAI, Groq, Cerebras
    &["reduce the length of the"],
    // Anthropic
    &["prompt is too long"],
    &["exceed context limit"],
    // vLLM
    &["maximum model length"],
    // SGLang, Together
    &["model's context length"],
    // TGI
    &["`inputs` tokens + `max_new_tokens` must be"],
    &["`inputs` must have less than"],
    // llama.cpp
    &["available context size"],
    &["context size", "exceeded"],
    // Ollama
    &["max context length"],
    &["exceeds the context length"],
    &["input length", "exceed"],
    // LM Studio
    &["greater than the context length"],
    &["loaded with context length"],
    // Gemini
    &["input token count"],
    // xAI
    &["maximum prompt length"],
    // Bedrock
    &["input is too long"],
    &["too many input tokens", "max"],
    // Moonshot
    &["exceeded model token limit"],
    // Z.ai
    &["prompt exceeds max length"],
    // Copilot
    &["prompt token count", "exceeds"],
    // Qwen
    &["range of input length should be"],
    // Cohere
    &["number of tokens in the prompt cannot exceed"],
    // SiliconFlow
    &["prompt_tokens", "max_seq_len"],
    // Volcengine
    &["exceed max message tokens"],
    // MiniMax
    &["tokens exceed", "context"],
];

/// Groq's code for a call that the model wrote but Groq could not parse
/// (docs/protocols/chat.md#upstream-deviations).
const UNREAD_CALL: &str = "tool_use_failed";

/// Words in messages about rate limits. These may mention tokens, too, but have nothing to do with the
/// context.
const RATES: [&str; 6] = ["per minute", "per day", "per hour", "per second", "rate limit", "quota"];

#[derive(Debug, Default)]
struct Words {
    message: Option<String>,
    code: Option<String>,
    kind: Option<String>,
    param: Option<String>,
    status: Option<u16>,
    /// The model's text, if the server could not parse a call in it.
    generation: Option<String>,
    /// Whether a numeric code says that the prompt is too long.
    is_too_long: bool,
}

impl Words {
    fn of_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::of_response(&value),
            Err(_) => Self { message: first_words(body), ..Self::default() },
        }
    }

    /// Reads the known formats of bodies: `{"error": …}`, the same in an array (Gemini's compatibility
    /// layer), the error's fields at the top level (vLLM), and `{"detail": …}` (FastAPI).
    fn of_response(response: &Value) -> Self {
        let response = response.get(0).unwrap_or(response);
        let error = ["error", "errors", "detail"].iter().map(|key| response.get(key));
        match error.flatten().find(|error| says_something(Some(error))) {
            Some(Value::String(text)) => Self { message: Some(text.clone()), ..Self::of_error(response) },
            Some(Value::Bool(_)) => Self::of_error(response),
            Some(error) => Self::of_error(error.get(0).unwrap_or(error)),
            None => Self::of_error(nested(response).unwrap_or(response)),
        }
    }

    fn of_error(error: &Value) -> Self {
        let text = |key: &str| Some(error.get(key)?.as_str()?.to_owned()).filter(|text| !text.is_empty());
        let message = match error {
            Value::String(text) => Some(text.clone()),
            Value::Object(_) => MESSAGE_KEYS.iter().find_map(|key| text(key)),
            Value::Null => None,
            other => Some(other.to_string()),
        };
        let number = |key: &str| match error.get(key)? {
            Value::String(digits) => digits.parse().ok(),
            number => u16::try_from(number.as_u64()?).ok(),
        };
        // Groq's field for text in which it could not parse a call.
        let generation = text("failed_generation");
        let message = match (message, &generation) {
            (Some(message), Some(text)) => Some(format!("{message} (failed_generation: {text})")),
            (message, _) => message,
        };
        let code = text("code").filter(|code| code.parse::<u16>().is_err());
        // Anthropic's code, as in `{"details": {"error_code": "thread_not_found"}}`.
        let code = code.or_else(|| Some(error.get("details")?.get("error_code")?.as_str()?.to_owned()));
        // Z.ai's code, which is a number or a string.
        let is_too_long = error.get("code").is_some_and(|code| code == "1261" || code.as_u64() == Some(1261));
        Self {
            message,
            is_too_long,
            generation: generation.filter(|_| code.as_deref() == Some(UNREAD_CALL)),
            code,
            // Gemini has a word for the type in `status`.
            kind: text("type").or_else(|| text("status")),
            param: text("param"),
            status: number("code").or_else(|| number("status")).filter(|code| (400..600).contains(code)),
        }
    }

    /// Whether the upstream lacks a thread, or cannot continue it.
    fn is_of_thread(&self) -> bool {
        self.code.as_deref().is_some_and(|code| code.starts_with("thread_"))
    }

    fn is_model_missing(&self) -> bool {
        // Anthropic sends `{"type": "not_found_error", "message": "model: NAME"}`.
        let names_model = || self.message.as_deref().is_some_and(|message| message.starts_with("model: "));
        self.code.as_deref() == Some("model_not_found")
            || (self.kind.as_deref() == Some("not_found_error") && names_model())
    }

    /// Whether the error means that the prompt is too long, judging by its code or, for servers without
    /// codes, by its message. llama.cpp and Ollama sometimes report this with status 500.
    fn is_context_length(&self, status: Option<u16>) -> bool {
        let is_code =
            |word: &Option<String>| word.as_deref().is_some_and(|word| TOO_LONG_CODES.contains(&word));
        let says_so = |message: &String| {
            let message = message.to_ascii_lowercase();
            TOO_LONG.iter().any(|parts| parts.iter().all(|words| message.contains(words)))
                && !RATES.iter().any(|words| message.contains(words))
        };
        let may_say_so = status.is_none_or(|status| status <= 500 && !matches!(status, 401 | 429));
        self.is_too_long
            || is_code(&self.code)
            || is_code(&self.kind)
            || (may_say_so && self.message.as_ref().is_some_and(says_so))
    }

    fn sentence(&self, lead: &str) -> String {
        match &self.message {
            Some(message) => format!("{lead}: {message}"),
            None => lead.to_owned(),
        }
    }

    fn failure(self, status: Option<u16>) -> Failure {
        let kind = self.kind(status);
        let message = match (&self.message, status) {
            (Some(message), _) if kind != Kind::Unauthorized => message.clone(),
            (Some(_), _) => self.sentence("the upstream refused the key it was given"),
            (None, Some(status)) => format!("the upstream responded with status {status} and no message"),
            (None, None) => "the upstream reported an error without a message".to_owned(),
        };
        let mut failure = Failure::new(kind, message);
        if let Some(status) = status.filter(|_| keeps_status(kind)) {
            failure = failure.with_status(status);
        }
        if let Some(code) = self.code.filter(|_| kind != Kind::ContextLength) {
            failure = failure.with_code(code);
        }
        if let Some(param) = self.param {
            failure = failure.with_param(param);
        }
        if let Some(text) = self.generation {
            failure = failure.with_generation(text);
        }
        failure
    }

    fn kind(&self, status: Option<u16>) -> Kind {
        if self.is_context_length(status) {
            return Kind::ContextLength;
        }
        if let Some(status) = status {
            return status::kind_of(status);
        }
        let word = |word: &Option<String>| word.as_deref().and_then(kind_of_word);
        word(&self.code).or_else(|| word(&self.kind)).unwrap_or(Kind::Upstream)
    }
}

/// Whether failures of this kind keep their status, because clients may handle the statuses differently.
fn keeps_status(kind: Kind) -> bool {
    matches!(kind, Kind::Request | Kind::Forbidden | Kind::Upstream)
}

/// The kind for a value of `code` or `type`. Within a stream there is no status, so upstreams rely on these.
fn kind_of_word(word: &str) -> Option<Kind> {
    Some(match word {
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "insufficient_quota"
        | "too_many_requests"
        | "RESOURCE_EXHAUSTED" => Kind::RateLimit,
        "invalid_request_error" | "invalid_request" | "BadRequestError" | "INVALID_ARGUMENT" => Kind::Request,
        "invalid_api_key" | "authentication_error" | "UNAUTHENTICATED" => Kind::Unauthorized,
        "permission_error" | "permission_denied" | "billing_error" | "PERMISSION_DENIED" => Kind::Forbidden,
        "request_too_large" => Kind::TooLarge,
        "model_not_found" | "not_found_error" | "NOT_FOUND" => Kind::NotFound,
        "overloaded" | "overloaded_error" | "service_unavailable" | "UNAVAILABLE" => Kind::Overloaded,
        "timeout" | "timeout_error" | "DEADLINE_EXCEEDED" => Kind::Timeout,
        _ => return None,
    })
}

/// The first words of an unexpected body: the title of an HTML page, or the start of other text. `None` if
/// there is no text.
pub(crate) fn first_words(body: &[u8]) -> Option<String> {
    /// Maximum number of characters to quote: enough for one line of a log.
    const LONGEST: usize = 120;
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => body.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok())?,
    };
    let text = title(text).unwrap_or(text);
    let mut words = String::new();
    for word in text.split_whitespace() {
        if words.chars().count() + word.chars().count() > LONGEST {
            words.extend(word.chars().take(LONGEST.saturating_sub(words.chars().count())));
            words.push('…');
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    Some(words).filter(|words| !words.is_empty())
}

fn title(page: &str) -> Option<&str> {
    let (_, behind) = page.split_once("<title>")?;
    let (title, _) = behind.split_once("</title>")?;
    Some(title).filter(|title| !title.trim().is_empty())
}

#[cfg(test)]
mod tests;

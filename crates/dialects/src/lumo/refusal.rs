//! Interprets the upstream's errors, both within the stream and before it ([`refusal`],
//! docs/protocols/lumo.md#errors-before-the-stream).

use std::borrow::Cow;

use crate::{
    failure::{Failure, Kind},
    status,
    wire::json::{Json, Kind as JsonKind},
};

/// The failure for a response with the error status `status`. `retry_after` is the value of that header, and
/// `body` is as much of the body as was read.
pub fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let json = Json::parse_bytes(body).ok();
    let failure = json.and_then(|body| described(body, status)).unwrap_or_else(|| {
        bare(status, &format!("{}{}", status_message(status), body_kind(body, json.is_some())))
    });
    match retry_after {
        Some(value) => failure.with_retry_after(value),
        None => failure,
    }
}

/// The failure described by a JSON body that is not a stream, even with status 200: Proton's `{Code, Error}`, or
/// OpenAI's `{error}`. `None` for any other body.
pub(super) fn described(body: Json<'_>, status: u16) -> Option<Failure> {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Some(openai(error, status));
    }
    let code = body.get("Code").and_then(|code| code.as_u64())?;
    let text = body.get("Error").and_then(|error| error.as_str()).unwrap_or_default();
    Some(proton(status, code, &text))
}

pub(super) fn error_object(error: Json<'_>) -> Failure {
    let code = code(error);
    let message = message(error);
    let message = message.as_deref();
    match code.as_ref() {
        "timeout" | "rejected" | "error" | "" => {
            let failure = reported(if code.is_empty() { "error" } else { &code }, message);
            if is_request_fault(error) { request_fault(failure.message(), None) } else { failure }
        }
        "context_length_exceeded" => Failure::new(
            Kind::ContextLength,
            message.unwrap_or("the prompt is longer than the model's context"),
        ),
        "rate_limit_exceeded" | "429" => {
            Failure::new(Kind::RateLimit, message.unwrap_or("the upstream's rate limit is reached"))
        }
        "401" => Failure::new(Kind::Unauthorized, message.unwrap_or("the upstream refuses the session")),
        code if is_request_fault(error) => request_fault(message.unwrap_or("the request"), Some(code)),
        // Other codes are treated like `error` (docs/protocols/lumo.md#v2-stream), and quoted in the message.
        code => {
            let text = message.unwrap_or("the upstream reports an error");
            reported("error", Some(&format!("{text} ({code})")))
        }
    }
}

/// The failure for one of the three errors that the generation reports by name. An unknown name is treated
/// like `error`.
pub(super) fn reported(word: &str, message: Option<&str>) -> Failure {
    let (kind, code, default) = match word {
        "timeout" => (Kind::Timeout, "timeout", "the upstream gave up: it took too long"),
        "rejected" => (Kind::Overloaded, "rejected", "the upstream has no capacity for the request now"),
        _ => (Kind::Upstream, "error", "the upstream reports an error"),
    };
    let message = message.filter(|message| !message.is_empty()).unwrap_or(default);
    Failure::new(kind, message).with_code(code)
}

/// The failure for an error object in a body. If the object is less specific, the status decides.
fn openai(error: Json<'_>, status: u16) -> Failure {
    let code = code(error);
    match code.as_ref() {
        "timeout" | "rejected" | "error" | "context_length_exceeded" | "rate_limit_exceeded" => {
            error_object(error)
        }
        _ if status < 400 => error_object(error),
        code => {
            let message = message(error);
            let failure = bare(status, message.as_deref().unwrap_or(&status_message(status)));
            if code.is_empty() || matches!(status, 401 | 404 | 429) {
                failure
            } else {
                failure.with_code(code)
            }
        }
    }
}

/// The failure for an error in Proton's own format, whose code is more specific than the status.
fn proton(status: u16, code: u64, text: &str) -> Failure {
    let said = if text.is_empty() { status_message(status) } else { text.to_owned() };
    match code {
        2028 => Failure::new(Kind::RateLimit, said),
        5003 => {
            let message =
                format!("{said}: the upstream refuses the app version that the request names (code 5003)");
            Failure::new(Kind::Upstream, message).with_code("upstream_app_version")
        }
        9001 => {
            let message = format!(
                "{said}: the upstream asks for a human verification (code 9001); log in with a browser"
            );
            Failure::new(Kind::Forbidden, message).with_code("upstream_human_verification")
        }
        // Proton repeats HTTP statuses as codes, even in responses with status 200.
        404 => bare(404, &said),
        401 | 403 | 429 | 503 if status < 400 => bare(u16::try_from(code).unwrap_or(status), &said),
        _ if status < 400 => Failure::new(Kind::Upstream, format!("{said} (code {code})")),
        _ => bare(status, &said),
    }
}

/// The failure for a bare status. It differs from that of other upstreams as described in
/// docs/protocols/lumo.md#errors-before-the-stream.
fn bare(status: u16, message: &str) -> Failure {
    if status == 404 {
        let hint = "the upstream has no such path; its other `version` (v1 or v2) may help";
        return Failure::new(Kind::Upstream, format!("{hint}: {message}"))
            .with_code("upstream_not_found")
            .with_status(502);
    }
    match status::kind_of(status) {
        _ if (300..400).contains(&status) => Failure::new(Kind::Protocol, message),
        kind @ (Kind::Request | Kind::Forbidden) => Failure::new(kind, message).with_status(status),
        kind => status::failure_of_hop(status, message).unwrap_or_else(|| Failure::new(kind, message)),
    }
}

fn status_message(status: u16) -> String {
    format!("the upstream responded with status {status}")
}

/// Describes a body that contains no message.
fn body_kind(body: &[u8], is_json: bool) -> &'static str {
    match body.trim_ascii_start().first() {
        None => "",
        Some(b'<') => " and an HTML page",
        Some(_) if is_json => " and a JSON body of an unknown form",
        Some(_) => " and a body that is not JSON",
    }
}

/// The code of an error object, which some servers send as a number.
fn code(error: Json<'_>) -> Cow<'_, str> {
    let code = error.get("code").filter(|code| !code.is_null());
    code.map_or(Cow::Borrowed(""), |code| code.as_str().unwrap_or(Cow::Borrowed(code.raw())))
}

/// The message of an error object, or of an error that is just a string.
fn message(error: Json<'_>) -> Option<Cow<'_, str>> {
    let message = if error.kind() == JsonKind::String { Some(error) } else { error.get("message") };
    message.and_then(|message| message.as_str()).filter(|message| !message.is_empty())
}

fn is_request_fault(error: Json<'_>) -> bool {
    error.get("type").and_then(|kind| kind.as_str()).as_deref() == Some("invalid_request_error")
}

fn request_fault(message: &str, code: Option<&str>) -> Failure {
    let failure = Failure::new(Kind::Request, message);
    match code {
        Some(code) => failure.with_code(code),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, body: &str) -> (Kind, u16, Option<String>) {
        let failure = refusal(status, None, body.as_bytes());
        assert!(!failure.message().is_empty());
        (failure.kind(), failure.status(), failure.code().map(str::to_owned))
    }

    #[test]
    fn error_responses_map_to_failures() {
        for (status, body, expected) in [
            (
                401,
                r#"{"Code":401,"Error":"Invalid access token"}"#,
                (Kind::Unauthorized, 401, "invalid_api_key"),
            ),
            (404, r#"{"Code":404,"Error":"Path not found"}"#, (Kind::Upstream, 502, "upstream_not_found")),
            (404, "<html>", (Kind::Upstream, 502, "upstream_not_found")),
            (429, r#"{"Code":2028,"Error":"limit"}"#, (Kind::RateLimit, 429, "rate_limit_exceeded")),
            (422, r#"{"Code":2028,"Error":"limit"}"#, (Kind::RateLimit, 429, "rate_limit_exceeded")),
            (429, "", (Kind::RateLimit, 429, "rate_limit_exceeded")),
            (400, r#"{"Code":5003,"Error":"too old"}"#, (Kind::Upstream, 502, "upstream_app_version")),
            (
                422,
                r#"{"Code":9001,"Error":"CAPTCHA","Details":{}}"#,
                (Kind::Forbidden, 403, "upstream_human_verification"),
            ),
            (
                503,
                r#"{"error":{"code":"rejected","type":"server_error"}}"#,
                (Kind::Overloaded, 503, "rejected"),
            ),
            (500, r#"{"error":{"code":"timeout","type":"server_error"}}"#, (Kind::Timeout, 504, "timeout")),
            (500, r#"{"error":{"code":"error","type":"server_error"}}"#, (Kind::Upstream, 502, "error")),
            (
                422,
                r#"{"error":{"code":"context_length_exceeded"}}"#,
                (Kind::ContextLength, 400, "context_length_exceeded"),
            ),
            (400, r#"{"error":{"code":"bad_schema","message":"m"}}"#, (Kind::Request, 400, "bad_schema")),
            (502, "<html>Bad Gateway</html>", (Kind::Upstream, 502, "error")),
            (500, "boom", (Kind::Upstream, 502, "error")),
            (504, "", (Kind::Timeout, 504, "timeout")),
            (503, "{}", (Kind::Overloaded, 503, "overloaded")),
            (302, "", (Kind::Protocol, 502, "upstream_protocol")),
            (405, "", (Kind::Upstream, 502, "upstream_error")),
            (407, "", (Kind::Upstream, 502, "upstream_error")),
            (522, "", (Kind::Timeout, 504, "timeout")),
            (524, "<html>", (Kind::Timeout, 504, "timeout")),
            (529, "{}", (Kind::Overloaded, 503, "overloaded")),
        ] {
            let (kind, code, name) = expected;
            assert_eq!(told(status, body), (kind, code, Some(name.to_owned())), "{status} {body}");
        }
        assert_eq!(told(422, "{}"), (Kind::Request, 422, None));
        assert_eq!(told(409, ""), (Kind::Request, 409, None));
        assert_eq!(told(402, ""), (Kind::Forbidden, 402, None));
    }

    #[test]
    fn error_responses_have_readable_messages() {
        let failure = refusal(429, Some("9"), br#"{"Code":2028,"Error":"weekly limit"}"#);
        assert_eq!((failure.message(), failure.retry_after()), ("weekly limit", Some("9")));
        let failure = refusal(404, None, br#"{"Code":404,"Error":"Path not found"}"#);
        assert!(failure.message().contains("version") && failure.message().contains("Path not found"));
        let failure = refusal(502, None, b" <html>secret</html>");
        assert!(failure.message().contains("HTML") && !failure.message().contains("secret"));
        assert!(refusal(502, None, b"\xff").message().contains("not JSON"));
    }
}

//! [`Socket`]: Responses over a WebSocket (docs/protocols/responses.md#websocket).

use super::request::{PREVIOUS, clip};
use crate::{
    HttpError, SocketCreate, SocketFailure, SocketMessage, SocketSide,
    failure::{Failure, Kind},
    wire::json::{Encoder, Json, Kind as JsonKind},
};

/// How toolwire serves clients of Responses over a WebSocket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Socket;

const CREATE: &str = "response.create";
const CANCEL: &str = "response.cancel";
const STEER: &str = "response.steer";

/// The name of the lane.
const STREAM_ID: &str = "stream_id";

/// Maximum length in bytes of a lane's name.
const MAX_STREAM_ID: usize = 256;

/// The members of `response.create` that are not members of the HTTP body, and `stream`, which is always true.
const OWN_MEMBERS: [&str; 4] = ["type", STREAM_ID, "generate", "stream"];

impl SocketSide for Socket {
    fn read(&self, text: &str) -> Result<SocketMessage, SocketFailure> {
        let message = Json::parse(text).map_err(|error| not_json(&error.to_string()))?;
        if message.kind() != JsonKind::Object {
            return Err(not_json("it is not an object").into());
        }
        let lane = stream_id(message)?;
        let read = match message.get("type").and_then(|kind| kind.as_str()).as_deref() {
            Some(CREATE) => create(message, lane.clone()).map(SocketMessage::Create),
            Some(CANCEL) => Ok(SocketMessage::Cancel(lane.clone())),
            Some(STEER) => steer(message).map(SocketMessage::Reply),
            Some(other) => {
                let other = clip(other);
                Err(wrong(
                    "type",
                    format!("is `{other}`, but clients may send only `{CREATE}` and `{CANCEL}`"),
                ))
            }
            None => Err(wrong("type", format!("is missing; it must be `{CREATE}` or `{CANCEL}`"))),
        };
        read.map_err(|failure| SocketFailure { failure, lane })
    }

    fn event(&self, data: &str, lane: Option<&str>) -> Option<String> {
        let members = data.strip_suffix('}').filter(|data| data.starts_with('{'))?;
        let Some(lane) = lane else { return Some(data.to_owned()) };
        // The name has no characters that JSON escapes.
        Some([members, ",\"", STREAM_ID, "\":\"", lane, "\"}"].concat())
    }

    fn response<'d>(&self, kind: &str, data: &'d str) -> Option<&'d str> {
        if !matches!(kind, "response.completed" | "response.incomplete") {
            return None;
        }
        Some(Json::parse(data).ok()?.get("response")?.raw())
    }

    fn error(&self, error: &HttpError<'_>, lane: Option<&str>) -> String {
        let body = Json::parse_bytes(error.body).unwrap_or_default();
        let details = body.get("error").unwrap_or_default();
        let code = details.get("code").and_then(|code| code.as_str());
        let status = match code.as_deref() {
            // OpenAI's status of this error is 400, and clients look for it.
            Some("previous_response_not_found") => 400,
            _ => error.status,
        };
        let mut message = Encoder::with_capacity(error.body.len() + 256);
        message.object(|message| {
            message.key("type").string("error");
            message.key("status").value(&status);
            message.key("error").object(|members| {
                details.members().for_each(|(key, value)| members.key(&key).raw(value));
                // The openai SDK (3.57) reads the headers here, and Codex (0.171) beside `status`.
                headers(members, error);
            });
            headers(message, error);
            if let Some(lane) = lane {
                message.key(STREAM_ID).string(lane);
            }
        });
        message.finish_text()
    }
}

fn headers(message: &mut Encoder, error: &HttpError<'_>) {
    if error.headers.is_empty() {
        return;
    }
    message.key("headers").object(|headers| {
        error.headers.iter().for_each(|(name, value)| headers.key(name).string(value));
    });
}

fn create(message: Json<'_>, lane: Option<String>) -> Result<SocketCreate, Failure> {
    let generates = match message.get("generate").filter(|value| !value.is_null()) {
        None => true,
        Some(value) => {
            value.as_bool().ok_or_else(|| wrong("generate", "must be `true` or `false`".to_owned()))?
        }
    };
    let previous = message.get(PREVIOUS).and_then(|id| id.as_str()).map(Into::into);
    let mut body = Encoder::with_capacity(message.raw().len());
    body.object(|body| {
        for (key, value) in message.members().filter(|(key, _)| !OWN_MEMBERS.contains(&&**key)) {
            body.key(&key).raw(value);
        }
        body.key("stream").value(&true);
    });
    Ok(SocketCreate { lane, previous, generates, body: body.finish() })
}

/// The event that returns input which cannot be added to a running response.
fn steer(message: Json<'_>) -> Result<String, Failure> {
    let input = message.get("input").ok_or_else(|| wrong("input", "is missing".to_owned()))?;
    let previous = message.get(PREVIOUS).filter(|id| id.kind() == JsonKind::String);
    let previous = previous.ok_or_else(|| wrong(PREVIOUS, "must be the id of a response".to_owned()))?;
    let mut event = Encoder::with_capacity(input.raw().len() + 256);
    event.object(|event| {
        event.key("type").string("response.steer.failed");
        event.key("sequence_number").value(&0);
        event.key("error").object(|error| {
            error.key("type").string("invalid_request_error");
            error.key("code").string("steering_not_supported");
            error
                .key("message")
                .string("toolwire cannot change a running response; send the input with `response.create`");
        });
        event.key("steer").object(|steer| {
            steer.key("input").raw(input);
            steer.key(PREVIOUS).raw(previous);
        });
    });
    Ok(event.finish_text())
}

/// Reads the name of the lane.
fn stream_id(message: Json<'_>) -> Result<Option<String>, Failure> {
    let Some(value) = message.get(STREAM_ID).filter(|value| !value.is_null()) else { return Ok(None) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let name =
        value.as_str().filter(|name| (1..=MAX_STREAM_ID).contains(&name.len()) && name.bytes().all(is_plain));
    match name {
        Some(name) => Ok(Some(name.into_owned())),
        None => {
            let why = "must be 1 to 256 letters, digits, underscores, hyphens and periods";
            Err(wrong(STREAM_ID, why.to_owned()).with_code("invalid_stream_id"))
        }
    }
}

fn not_json(why: &str) -> Failure {
    Failure::new(Kind::Request, format!("the message is not a JSON object: {why}")).with_code("invalid_json")
}

fn wrong(member: &str, why: String) -> Failure {
    Failure::new(Kind::Request, format!("`{member}` {why}")).with_param(member)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn created(message: &str) -> SocketCreate {
        match Socket.read(message) {
            Ok(SocketMessage::Create(create)) => create,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn create_is_the_http_body_without_the_members_of_the_socket() {
        let create = created(
            r#" {"type":"response.create","model":"m","stream_id":"a.b-C_1","input":[ 1.50 ],"stream":false,"generate":true,"x":"\u00e9"} "#,
        );
        assert_eq!(create.body, r#"{"model":"m","input":[ 1.50 ],"x":"\u00e9","stream":true}"#);
        assert_eq!(
            (create.lane.as_deref(), create.generates, create.previous),
            (Some("a.b-C_1"), true, None)
        );
        let create = created(
            r#"{"previous_response_id":"resp_1","type":"response.create","stream_id":null,"generate":false,"generate":true}"#,
        );
        assert_eq!(create.body, r#"{"previous_response_id":"resp_1","stream":true}"#);
        assert_eq!((create.lane, create.generates), (None, false));
        assert_eq!(create.previous.as_deref(), Some("resp_1"));
        let longest = "x".repeat(MAX_STREAM_ID);
        let lane = created(&json!({"type": CREATE, STREAM_ID: longest}).to_string()).lane;
        assert_eq!(lane, Some(longest));
    }

    #[test]
    fn other_messages_are_refused_with_the_member_that_is_wrong() {
        for (message, param, lane) in [
            ("", None, None),
            ("[1]", None, None),
            (r#"{"type":"response.create""#, None, None),
            ("{}", Some("type"), None),
            (r#"{"type":1,"stream_id":"a"}"#, Some("type"), Some("a")),
            (r#"{"type":"session.update","stream_id":"a"}"#, Some("type"), Some("a")),
            (r#"{"type":"response.create","generate":"no"}"#, Some("generate"), None),
            (r#"{"type":"response.create","stream_id":""}"#, Some("stream_id"), None),
            (r#"{"type":"response.create","stream_id":"a b"}"#, Some("stream_id"), None),
            (r#"{"type":"response.create","stream_id":"a\""}"#, Some("stream_id"), None),
            (r#"{"type":"response.cancel","stream_id":7}"#, Some("stream_id"), None),
            (r#"{"type":"response.steer","input":"x"}"#, Some("previous_response_id"), None),
        ] {
            let refused = Socket.read(message).unwrap_err();
            assert_eq!((refused.failure.param(), refused.lane.as_deref()), (param, lane), "{message}");
            assert_eq!(refused.failure.status(), 400, "{message}");
        }
        let long = json!({"type": CREATE, STREAM_ID: "x".repeat(MAX_STREAM_ID + 1)}).to_string();
        assert_eq!(Socket.read(&long).unwrap_err().failure.code(), Some("invalid_stream_id"));
    }

    #[test]
    fn input_for_a_running_response_is_returned() {
        let message = r#"{"type":"response.steer","previous_response_id":"resp_1","input":"stop"}"#;
        let Ok(SocketMessage::Reply(event)) = Socket.read(message) else { panic!() };
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!(event["steer"], json!({"input": "stop", "previous_response_id": "resp_1"}));
        assert_eq!(
            (&event["type"], &event["error"]["code"]),
            (&json!("response.steer.failed"), &json!("steering_not_supported"))
        );
    }

    #[test]
    fn events_name_their_lane() {
        let data = r#"{"type":"response.created","sequence_number":0}"#;
        assert_eq!(Socket.event(data, None).unwrap(), data);
        let event = r#"{"type":"response.created","sequence_number":0,"stream_id":"a"}"#;
        assert_eq!(Socket.event(data, Some("a")).unwrap(), event);
        assert_eq!(Socket.event("[DONE]", Some("a")), None);
    }

    #[test]
    fn only_a_response_that_can_be_continued_is_found() {
        let data = r#"{"type":"…","response":{"id":"resp_1","output":[]},"sequence_number":4}"#;
        for kind in ["response.completed", "response.incomplete"] {
            assert_eq!(Socket.response(kind, data), Some(r#"{"id":"resp_1","output":[]}"#));
        }
        for kind in ["response.created", "response.failed", "error", ""] {
            assert_eq!(Socket.response(kind, data), None);
        }
    }

    #[test]
    fn error_has_the_status_and_the_headers_of_the_http_response() {
        let body = super::super::error_body(&Failure::new(Kind::RateLimit, "slower").with_code("slow"));
        let error = HttpError { status: 429, headers: &[("retry-after", "2")], body: &body };
        let event: Value = serde_json::from_str(&Socket.error(&error, Some("a"))).unwrap();
        let headers = json!({"retry-after": "2"});
        assert_eq!(
            event,
            json!({"type": "error", "status": 429, "headers": headers, "stream_id": "a",
                   "error": {"type": "rate_limit_error", "code": "slow", "message": "slower", "param": null, "headers": headers}})
        );
        let body = super::super::error_body(&super::super::request::unknown_response("resp_1"));
        let error = HttpError { status: 404, headers: &[], body: &body };
        let event: Value = serde_json::from_str(&Socket.error(&error, None)).unwrap();
        assert_eq!(
            (&event["status"], &event["error"]["param"]),
            (&json!(400), &json!("previous_response_id"))
        );
        assert_eq!(event["error"]["code"], "previous_response_not_found");
    }
}

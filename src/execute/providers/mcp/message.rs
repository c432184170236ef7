//! Messages of servers, and what takes the place of those that cannot be read.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::{Deserialize, de::IgnoredAny};

/// A response is larger than it may be.
pub(super) const TOO_LARGE: ErrorCode = ErrorCode(-32_098);

/// A response is not one.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(-32_099);

/// The error response with which a request ends that got none that can be read.
pub(super) fn failure(code: ErrorCode, id: RequestId) -> ServerJsonRpcMessage {
    let about = if code == TOO_LARGE { "a message is too large" } else { "a message cannot be read" };
    ServerJsonRpcMessage::error(ErrorData::new(code, about, None), Some(id))
}

/// The message that `text` is. A response that cannot be read is an error response, so that its request does not wait for ever.
/// `None`: it is nothing that anybody waits for.
pub(super) fn read(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    #[derive(Deserialize)]
    struct Head {
        id: Option<RequestId>,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    if let Ok(message) = serde_json::from_slice(text) {
        return Some(message);
    }
    let head: Head = serde_json::from_slice(text).ok()?;
    head.id.filter(|_| head.method.is_none()).map(|id| failure(UNREADABLE, id))
}

#[cfg(test)]
mod tests {
    use rmcp::model::{JsonRpcMessage, ServerNotification, ServerResult};

    use super::*;

    #[test]
    fn numbers_are_read_whatever_their_form() {
        let progress = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.10,"total":1e1}}"#;
        let Some(JsonRpcMessage::Notification(read)) = read(progress) else { panic!("no notification") };
        assert!(matches!(read.notification, ServerNotification::ProgressNotification(_)));
    }

    #[test]
    fn digits_of_structured_content_are_kept() {
        let result = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a","annotations":{"priority":0.70}}],"structuredContent":{"z":2.50,"a":12345678901234567890123}}}"#;
        let Some(JsonRpcMessage::Response(read)) = read(result) else { panic!("no response") };
        let ServerResult::CallToolResult(result) = read.result else { panic!("not the result of a call") };
        let structured = result.structured_content.map(|content| content.to_string());
        assert_eq!(structured.as_deref(), Some(r#"{"z":2.50,"a":12345678901234567890123}"#));
    }

    #[test]
    fn unreadable_response_is_a_failure_of_its_request() {
        for text in [r#"{"id":7,"result":5}"#, r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, r#"{"id":7}"#, r#"{"id":7,"error":"no"}"#] {
            let Some(JsonRpcMessage::Error(error)) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((error.id, error.error.code), (Some(RequestId::Number(7)), UNREADABLE), "{text}");
        }
    }

    #[test]
    fn what_nobody_waits_for_is_ignored() {
        for text in ["", "null", "[]", "hello", "{", "{}", r#"{"id":1,"method":5}"#, r#"{"method":"x"}"#, "\u{fffd}"] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_unreadable_response() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"structuredContent":{}{}}}}}"#, "[".repeat(9999), "]".repeat(9999));
        assert!(matches!(read(deep.as_bytes()), Some(JsonRpcMessage::Error(_))));
    }
}

//! Parses a server's messages, and replaces those that cannot be parsed.

use std::fmt;

use memchr::memmem;
use rmcp::model::{
    ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult, Tool,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, json};

/// The part types of results in the protocol.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Maximum length of a part's type when it is shown to the model, in characters.
const MAX_KIND: usize = 32;

/// The metadata of a tool that must be called as a task.
const NEEDS_TASK: &str = "toolwire/needs-task";

pub(super) const TOO_LARGE: ErrorCode = ErrorCode(-32_098);

/// The error code for an invalid response.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(-32_099);

/// The error response to a request that got no valid response.
pub(super) fn failure(code: ErrorCode, id: RequestId) -> ServerJsonRpcMessage {
    let about = if code == TOO_LARGE { "a message is too large" } else { "a message cannot be read" };
    ServerJsonRpcMessage::error(ErrorData::new(code, about, None), Some(id))
}

/// The id of the request that `message` answers.
pub(super) fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// Parses a message. An invalid response is replaced with an error response, so that its request does not wait forever.
/// Returns `None` for other invalid messages, since nothing waits for them.
pub(super) fn read(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    #[derive(Deserialize)]
    struct Head {
        id: Option<RequestId>,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    if let Ok(message) = serde_json::from_slice(text) {
        return Some(mended(text, &message).unwrap_or(message));
    }
    let head: Head = serde_json::from_slice(text).ok()?;
    head.id.filter(|_| head.method.is_none()).map(|id| failure(UNREADABLE, id))
}

/// Returns a replacement for a message that rmcp would ignore or misunderstand. `None` if `text` can be passed on.
pub(super) fn in_place(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    match serde_json::from_slice(text) {
        Ok(message @ JsonRpcMessage::Error(_)) => Some(message),
        Ok(message) => mended(text, &message),
        Err(_) => read(text).filter(|message| matches!(message, JsonRpcMessage::Error(_))),
    }
}

/// Replaces parts of unknown types in a call's result with a note. Without this, the whole result would be lost,
/// although the tool has run. Returns `None` if the message is valid, or invalid for another reason.
fn mended(text: &[u8], message: &ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
    let JsonRpcMessage::Response(response) = message else { return None };
    match response.result {
        ServerResult::CallToolResult(_) => return None,
        ServerResult::ListToolsResult(_) => return with_task_support(text),
        _ => {}
    }
    let mut whole: Value = serde_json::from_slice(text).ok()?;
    for part in whole.get_mut("result")?.get_mut("content")?.as_array_mut()? {
        let kind = part.get("type").and_then(Value::as_str);
        if kind.is_none_or(|kind| !KINDS.contains(&kind)) {
            let kind = kind.unwrap_or("part of an unknown kind");
            let kind: String = kind.chars().filter(|char| !char.is_control()).take(MAX_KIND).collect();
            *part = json!({"type": "text", "text": format!("[{kind}, not shown]")});
        }
    }
    let message: ServerJsonRpcMessage = serde_json::from_str(&whole.to_string()).ok()?;
    let is_result = matches!(
        &message,
        JsonRpcMessage::Response(response) if matches!(response.result, ServerResult::CallToolResult(_))
    );
    is_result.then_some(message)
}

/// Whether a tool must be called as a task.
pub(super) fn needs_task(tool: &Tool) -> bool {
    tool.meta.as_ref().is_some_and(|meta| meta.0.contains_key(NEEDS_TASK))
}

/// Marks the tools in a list that must be called as tasks, since rmcp's type for tools does not say it. Returns `None`
/// if no tool says how it is called.
fn with_task_support(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    memmem::find(text, b"\"taskSupport\"")?;
    let mut whole: Value = serde_json::from_slice(text).ok()?;
    for tool in whole.get_mut("result")?.get_mut("tools")?.as_array_mut()? {
        let is_required = tool.pointer("/execution/taskSupport").is_some_and(|support| support == "required");
        if let (true, Some(tool)) = (is_required, tool.as_object_mut()) {
            tool.insert("_meta".to_owned(), json!({NEEDS_TASK: true}));
        }
    }
    serde_json::from_str(&whole.to_string()).ok()
}

/// What the start of a message reveals about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The id, if it is complete.
    pub(super) id: Option<RequestId>,
    /// Whether the message is a request or a notification.
    pub(super) has_method: bool,
}

/// Parses the start of a message that is too large.
pub(super) fn head(beginning: &[u8]) -> Head {
    struct Members<'h>(&'h mut Head);
    impl<'de> Visitor<'de> for Members<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
            let mut id = None;
            while let Some(key) = members.next_key::<String>()? {
                // Only a following member proves that the id was complete.
                self.0.id = id.take().or(self.0.id.take());
                self.0.has_method |= key == "method";
                match key.as_str() {
                    "id" => id = members.next_value()?,
                    _ => _ = members.next_value::<IgnoredAny>()?,
                }
            }
            Ok(())
        }
    }
    let mut head = Head::default();
    // An error means that the text ends here.
    let _ = serde_json::Deserializer::from_slice(beginning).deserialize_map(Members(&mut head));
    head
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerNotification;

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
        for text in [
            r#"{"id":7,"result":5}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            r#"{"id":7}"#,
            r#"{"id":7,"error":"no"}"#,
        ] {
            let Some(JsonRpcMessage::Error(error)) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((error.id, error.error.code), (Some(RequestId::Number(7)), UNREADABLE), "{text}");
        }
    }

    #[test]
    fn what_nobody_waits_for_is_ignored() {
        for text in
            ["", "null", "[]", "hello", "{", "{}", r#"{"id":1,"method":5}"#, r#"{"method":"x"}"#, "\u{fffd}"]
        {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn parts_of_unknown_kinds_are_noted_and_the_others_kept() {
        for kind in ["", r#""resultType":"complete","#] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{{kind}"content":[{{"type":"text","text":"a"}},{{"type":"video","data":"x"}},5],"structuredContent":{{"n":2.50}}}}}}"#
            );
            for message in [read(text.as_bytes()), in_place(text.as_bytes())] {
                let Some(JsonRpcMessage::Response(read)) = message else { panic!("no response") };
                let ServerResult::CallToolResult(result) = read.result else {
                    panic!("not the result of a call")
                };
                let texts =
                    result.content.iter().filter_map(|block| block.as_text().map(|text| text.text.as_str()));
                let expected = ["a", "[video, not shown]", "[part of an unknown kind, not shown]"];
                assert_eq!(texts.collect::<Vec<_>>(), expected);
                assert_eq!(
                    result.structured_content.map(|content| content.to_string()).as_deref(),
                    Some(r#"{"n":2.50}"#)
                );
            }
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            "x",
        ] {
            assert!(in_place(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn head_has_the_id_only_if_it_is_the_messages_own_and_whole() {
        let id = |number| Some(RequestId::Number(number));
        for (text, expected, has_method) in [
            (r#"{"jsonrpc":"2.0","id":12,"result":{"content":[{"ty"#, id(12), false),
            (r#"{"result":{"id":3},"id":12,"x"#, None, false),
            (r#"{"result":{"id":3},"id":12,"x":"#, id(12), false),
            (r#"{"result":{"content":[{"id":3,"#, None, false),
            (r#"{"jsonrpc":"2.0","id":1"#, None, false),
            (r#"{"id":5,"method":"sampling/createMessage","params":{"#, id(5), true),
            (r#"{"method":"notifications/message","params":{"#, None, true),
            ("", None, false),
            ("xxxx", None, false),
        ] {
            assert_eq!(head(text.as_bytes()), Head { id: expected, has_method }, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_unreadable_response() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"structuredContent":{}{}}}}}"#,
            "[".repeat(9999),
            "]".repeat(9999)
        );
        assert!(matches!(read(deep.as_bytes()), Some(JsonRpcMessage::Error(_))));
    }
}

//! [`Client`]: how toolwire serves clients of Messages.

use bytes::Bytes;

use serde_json::{Value, json};

use super::{error_body, model_page::Page, request, threads};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, RateStyle, Record, References, StoredOperation,
    StoredPath, Writer,
    conversation::Conversation,
    failure::{Failure, Kind},
    records,
    wire::calendar::rfc3339,
};

const ENDPOINTS: &[Endpoint] = &[
    Endpoint { path: "/v1/messages", name: "messages", operation: Operation::Generate },
    Endpoint { path: "/v1/messages/count_tokens", name: "count_tokens", operation: Operation::CountTokens },
];

/// Messages in threads can only be deleted.
const STORED: &[StoredPath] =
    &[StoredPath { before: "/v1/messages/", id: "msg_", after: "", operation: StoredOperation::Delete }];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Messages
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn stored_paths(&self) -> &'static [StoredPath] {
        STORED
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        request::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Messages(super::Writer::new(answering))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn rate_style(&self) -> RateStyle {
        RateStyle::Anthropic
    }

    /// docs/protocols/messages.md#errors
    fn overloaded_status(&self) -> u16 {
        529
    }

    fn unknown_model(&self, name: &str) -> Failure {
        Failure::new(Kind::NotFound, format!("model: {name} (GET /v1/models lists the models)"))
            .with_param("model")
    }

    /// A page of the list (docs/protocols/messages.md#models).
    fn model_list(&self, list: Vec<Value>, query: Option<&str>) -> Result<Value, Failure> {
        let page = Page::of_query(query)?;
        let data: Vec<_> = list.into_iter().map(|model| self.model_entry(model)).collect();
        page.of(&data)
    }

    fn model_entry(&self, model: Value) -> Value {
        let text = |key: &str| model.get(key).and_then(Value::as_str);
        let name = ["display_name", "name", "id"].into_iter().find_map(text);
        let created = rfc3339(model.get("created").and_then(Value::as_u64).unwrap_or_default());
        json!({ "type": "model", "id": text("id"), "display_name": name, "created_at": created })
    }

    fn may_refer(&self, body: &[u8]) -> bool {
        threads::may_refer(body)
    }

    fn references(&self, body: &[u8]) -> References {
        threads::references(body)
    }

    fn with_history(
        &self,
        body: &[u8],
        references: &References,
        records: &[Option<Bytes>],
    ) -> Result<Bytes, Failure> {
        threads::with_history(body, references, records)
    }

    fn record_input(&self, body: &Bytes) -> Option<Bytes> {
        threads::input(body)
    }

    fn record(&self, input: &[u8], response: &str) -> Option<Record> {
        records::record(input, response)
    }

    fn deleted(&self, id: &str) -> Value {
        json!({"id": id, "type": "message_deleted"})
    }
}

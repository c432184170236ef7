//! [`Client`]: how toolwire serves clients of Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Socket, compact, error_body, history, request};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Record, References, SocketSide, StoredOperation,
    StoredPath, Writer, conversation::Conversation, failure::Failure, openai_error::unknown_model, records,
};

const ENDPOINTS: &[Endpoint] = &[
    Endpoint { path: "/v1/responses", name: "responses", operation: Operation::Generate },
    Endpoint { path: "/v1/responses/input_tokens", name: "count_tokens", operation: Operation::CountTokens },
    Endpoint { path: "/v1/responses/compact", name: "compact", operation: Operation::Compact },
];

const STORED: &[StoredPath] = &[
    StoredPath { before: "/v1/responses/", id: "", after: "", operation: StoredOperation::Response },
    StoredPath { before: "/v1/responses/", id: "", after: "/input_items", operation: StoredOperation::Input },
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Responses
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
        crate::Writer::Responses(super::Writer::new(answering))
    }

    fn socket(&self) -> Option<&'static dyn SocketSide> {
        Some(&Socket)
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn shows_generated_images(&self) -> bool {
        true
    }

    fn unknown_model(&self, name: &str) -> Failure {
        unknown_model(name)
    }

    fn token_count(&self, tokens: usize) -> Value {
        json!({"object": "response.input_tokens", "input_tokens": tokens})
    }

    fn counts_at_upstreams(&self) -> bool {
        true
    }

    fn compaction_request(&self, body: &Bytes) -> Bytes {
        compact::request(body)
    }

    fn below(&self, body: &Bytes) -> Bytes {
        compact::below(body)
    }

    fn may_refer(&self, _body: &[u8]) -> bool {
        true
    }

    fn references(&self, body: &[u8]) -> References {
        history::references(body)
    }

    fn with_history(
        &self,
        body: &[u8],
        references: &References,
        records: &[Option<Bytes>],
    ) -> Result<Bytes, Failure> {
        history::with_history(body, references, records)
    }

    fn record_input(&self, body: &Bytes) -> Option<Bytes> {
        history::input(body)
    }

    fn record(&self, input: &[u8], response: &str) -> Option<Record> {
        records::record(input, response)
    }

    fn stored_response(&self, record: &[u8], _query: Option<&str>) -> Option<Bytes> {
        history::response(record)
    }

    fn stored_input(&self, record: &[u8]) -> Option<Bytes> {
        history::input_items(record)
    }
}

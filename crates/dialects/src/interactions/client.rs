//! [`Client`]: how toolwire serves clients of Interactions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{decode, history};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Record, References, StoredOperation, StoredPath,
    Writer,
    conversation::Conversation,
    failure::{Failure, Kind},
    google_error::error_body,
    records,
};

const fn creating(path: &'static str) -> Endpoint {
    Endpoint { path, name: "interactions", operation: Operation::Generate }
}

const ENDPOINTS: &[Endpoint] = &[creating("/v1beta/interactions"), creating("/v1/interactions")];

const STORED: &[StoredPath] = &[
    stored("/v1beta/interactions/", "", StoredOperation::Response),
    stored("/v1beta/interactions/", "/cancel", StoredOperation::Cancel),
    stored("/v1/interactions/", "", StoredOperation::Response),
    stored("/v1/interactions/", "/cancel", StoredOperation::Cancel),
];

const fn stored(before: &'static str, after: &'static str, operation: StoredOperation) -> StoredPath {
    StoredPath { before, id: "", after, operation }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Interactions
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn stored_paths(&self) -> &'static [StoredPath] {
        STORED
    }

    fn own_prefix(&self) -> Option<&'static str> {
        Some("/v1beta/interactions")
    }

    fn key_parameter(&self) -> Option<&'static str> {
        Some("key")
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        decode::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Interactions(super::Writer::new(answering))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn unknown_model(&self, name: &str) -> Failure {
        Failure::new(Kind::NotFound, format!("there is no model `{name}`; GET /v1beta/models lists them"))
            .with_code("model_not_found")
            .with_param("model")
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

    fn stored_response(&self, record: &[u8], query: Option<&str>) -> Option<Bytes> {
        history::response(record, query)
    }

    fn deleted(&self, _id: &str) -> Value {
        json!({})
    }
}

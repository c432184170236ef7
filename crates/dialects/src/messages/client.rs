//! [`Client`]: how toolwire serves clients of Messages.

use bytes::Bytes;

use serde_json::{Value, json};

use super::{error_body, request, threads};
use crate::{
    Answering, ClientSide, Dialect, RateStyle, Record, References, Writer,
    conversation::Conversation,
    failure::{Failure, Kind},
    records,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Messages
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

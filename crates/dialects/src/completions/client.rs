//! [`Client`]: how toolwire serves clients of text completions.

use bytes::Bytes;

use super::decode;
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Writer,
    conversation::Conversation,
    failure::{Failure, Kind},
    openai_error::error_body,
};

const ENDPOINTS: &[Endpoint] =
    &[Endpoint { path: "/v1/completions", name: "completions", operation: Operation::Generate }];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Completions
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        decode::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Completions(super::Writer::new(answering))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn unknown_model(&self, name: &str) -> Failure {
        Failure::new(Kind::NotFound, format!("there is no model `{name}`; GET /v1/models lists them"))
            .with_code("model_not_found")
            .with_param("model")
    }
}

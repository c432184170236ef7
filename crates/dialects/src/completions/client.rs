//! [`Client`]: how toolwire serves clients of text completions.

use bytes::Bytes;

use super::decode;
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Writer,
    conversation::Conversation,
    failure::Failure,
    openai_error::{error_body, unknown_model},
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
        unknown_model(name)
    }
}

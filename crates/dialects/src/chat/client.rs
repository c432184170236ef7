//! [`Client`]: how toolwire serves clients of Chat Completions.

use bytes::Bytes;

use super::{error_body, request};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Writer, conversation::Conversation,
    failure::Failure, openai_error::unknown_model,
};

const ENDPOINTS: &[Endpoint] = &[
    Endpoint { path: "/v1/chat/completions", name: "chat_completions", operation: Operation::Generate },
    Endpoint { path: "/v1/models", name: "models", operation: Operation::Models },
    Endpoint { path: "/v1/models/", name: "models", operation: Operation::Models },
    Endpoint { path: "/v1/models/{model}", name: "model", operation: Operation::Model },
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        request::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Chat(super::Writer::new(answering))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn unknown_model(&self, name: &str) -> Failure {
        unknown_model(name)
    }
}

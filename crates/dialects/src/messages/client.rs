//! [`Client`]: how toolwire serves clients of Messages.

use bytes::Bytes;

use super::{error_body, request};
use crate::{
    Answering, ClientSide, Dialect, RateStyle, Writer,
    conversation::Conversation,
    failure::{Failure, Kind},
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
}

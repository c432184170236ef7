//! (to be written)

use crate::{event::Sink, failure::Failure};

/// (to be written)
#[derive(Debug)]
pub struct Reader;

impl Reader {
    /// (to be written)
    pub fn new(_answering: &super::Answering) -> Self {
        Self
    }
    /// (to be written)
    ///
    /// # Errors
    /// (to be written)
    pub fn push(&mut self, _bytes: &[u8], _out: &mut impl Sink) -> Result<(), Failure> {
        Ok(())
    }
    /// (to be written)
    ///
    /// # Errors
    /// (to be written)
    pub fn finish(&mut self, _out: &mut impl Sink) -> Result<(), Failure> {
        Ok(())
    }
    /// (to be written)
    pub fn is_done(&self) -> bool {
        true
    }
}
/// (to be written)
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// (to be written)
    pub fn new(_answering: &super::Answering) -> Self {
        Self
    }
    /// (to be written)
    pub fn event(&mut self, _event: &crate::event::Event<'_>, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn finish(&mut self, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn fail(&mut self, _failure: &Failure, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn keep_alive(&mut self, _out: &mut bytes::BytesMut) {}
}

/// (to be written)
pub fn error_body(failure: &Failure) -> Vec<u8> {
    serde_json::json!({"error": {"message": failure.message(), "type": "error", "param": failure.param(),
        "code": failure.code()}})
    .to_string()
    .into_bytes()
}

/// (to be written)
pub fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let message = std::str::from_utf8(body).unwrap_or_default();
    let kind = if status == 429 { crate::failure::Kind::RateLimit } else { crate::failure::Kind::Upstream };
    let failure = Failure::new(kind, message).with_status(status);
    match retry_after {
        Some(value) => failure.with_retry_after(value),
        None => failure,
    }
}

/// (to be written)
pub struct Options {
    /// (to be written)
    pub model: Option<String>,
    /// (to be written)
    pub include_usage: bool,
}

/// (to be written)
pub mod request {
    use crate::{
        conversation::Conversation,
        dialect::UpstreamRequest,
        failure::{Failure, Kind},
    };

    /// (to be written)
    ///
    /// # Errors
    /// (to be written)
    pub fn decode(body: &[u8]) -> Result<Conversation, Failure> {
        let value: serde_json::Value =
            serde_json::from_slice(body).map_err(|error| Failure::new(Kind::Request, error.to_string()))?;
        let model = value.get("model").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let stream = value.get("stream") == Some(&serde_json::Value::Bool(true));
        Ok(Conversation { model, stream, ..Conversation::default() })
    }

    /// (to be written)
    pub fn encode(_conversation: &Conversation, _options: &super::Options) -> UpstreamRequest {
        UpstreamRequest {
            path: "chat/completions",
            headers: Vec::new(),
            body: b"{}".to_vec(),
            dropped: Vec::new(),
        }
    }
}

//! Replaces the dialect in builds without the feature `bedrock`. Its settings are rejected.

use super::{ABSENT, Options};
use crate::{
    Asked, Dialect, ReaderRules, Skipped, UpstreamRequest, UpstreamSide,
    conversation::Conversation,
    event::Sink,
    failure::{Failure, Kind},
    refusal::refusal,
};

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Bedrock
    }

    fn path(&self) -> &'static str {
        "model"
    }

    fn encode(&self, conversation: &Conversation, _model: &str) -> UpstreamRequest {
        UpstreamRequest {
            body: bytes::Bytes::new(),
            path: None,
            dropped: Vec::new(),
            stream: conversation.stream,
            prefill: None,
            key: None,
        }
    }

    fn absence(&self) -> Option<&'static str> {
        Some(ABSENT)
    }

    fn reader(&self, _rules: &ReaderRules) -> crate::Reader {
        crate::Reader::Bedrock(Reader(()))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }
}

/// Reads nothing: every response fails.
#[derive(Debug)]
pub struct Reader(());

impl Reader {
    pub(crate) fn expect(&mut self, _asked: Asked) {}

    pub(crate) fn runs_tools(&self) -> bool {
        false
    }

    /// Reads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn push(&mut self, _bytes: &[u8], _out: &mut impl Sink) -> Result<(), Failure> {
        Err(Failure::new(Kind::Protocol, ABSENT))
    }

    /// Reads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn finish(&mut self, _out: &mut impl Sink) -> Result<(), Failure> {
        Err(Failure::new(Kind::Protocol, ABSENT))
    }

    /// Nothing is left out.
    pub fn skipped(&self) -> Skipped {
        Skipped::default()
    }

    pub(crate) fn awaits_end(&self) -> bool {
        false
    }

    pub(crate) fn lacks_only_mark(&self) -> bool {
        false
    }

    pub(crate) fn has_content(&self) -> bool {
        false
    }

    /// Nothing is ever read.
    pub fn is_done(&self) -> bool {
        true
    }
}

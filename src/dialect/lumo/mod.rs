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

pub use super::chat::refusal;

/// (to be written)
pub mod request {
    use crate::{config::LumoOptions, conversation::Conversation, dialect::UpstreamRequest};

    /// (to be written)
    pub fn encode(_conversation: &Conversation, _options: &LumoOptions) -> UpstreamRequest {
        UpstreamRequest {
            path: "ai/v1/chat/completions",
            headers: Vec::new(),
            body: Vec::new(),
            dropped: Vec::new(),
        }
    }
}

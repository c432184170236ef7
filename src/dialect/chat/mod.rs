//! (to be written)

use crate::{event::Sink, failure::Failure};

/// (to be written)
#[derive(Debug)]
pub struct Reader;

impl Reader {
    /// (to be written)
    pub fn malformed(&self) -> u64 {
        0
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
    pub fn event(&mut self, _event: &crate::event::Event<'_>, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn finish(&mut self, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn fail(&mut self, _failure: &Failure, _out: &mut bytes::BytesMut) {}
    /// (to be written)
    pub fn keep_alive(&mut self, _out: &mut bytes::BytesMut) {}
}

/// (to be written)
pub fn error_body(_failure: &Failure) -> Vec<u8> {
    Vec::new()
}

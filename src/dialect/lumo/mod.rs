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

//! OpenAI Chat Completions, as client dialect and as upstream, and what resembles it.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! The reader takes all that servers of this API were seen to send and makes the same events of it; the writer
//! writes the one form that every client understands. Errors: [`refusal`] reads an upstream's, [`error_body`]
//! writes ours.

mod error;
mod refusal;
pub mod request;
mod writer;

pub use error::error_body;
pub use refusal::refusal;
pub use request::Options;
pub use writer::Writer;

use crate::{event::Sink, failure::Failure};

/// (to be written)
#[derive(Debug)]
pub struct Reader;

impl Reader {
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

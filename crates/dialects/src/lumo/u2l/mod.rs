//! U2L, the encryption between a user and Lumo (docs/protocols/lumo.md#encryption).
//!
//! ```text
//! request ─[`Recipient::seal`]─▶ sealed request, and a [`RequestKey`]
//! a frame of the response ─[`Unsealer`]─▶ the same frame in plain text ─▶ the rest of this dialect
//! ```
//!
//! No other part of the dialect knows about the encryption. Callers provide the randomness.

mod certificate;
mod key;
mod recipient;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use key::RequestKey;
pub use recipient::Recipient;
pub(super) use response::Unsealer;

use crate::failure::{Failure, Kind};

/// Fills bytes with cryptographically secure randomness.
pub type Random<'r> = &'r mut dyn FnMut(&mut [u8]);

fn undecryptable(what: &str) -> Failure {
    let message = format!("the upstream sent an encrypted piece that cannot be decrypted: {what}");
    Failure::new(Kind::Upstream, message).with_code("upstream_decrypt_failed")
}

//! The door for U2L, Lumo's end-to-end encryption (Lumo 2): the one place through which every payload of an answer
//! goes that may be sealed.
//!
//! U2L itself is not built. When it is, a request's key and id come here, and what comes out is the plain text.

use crate::{
    failure::{Failure, Kind},
    wire::json::Json,
};

/// The readable form of `payload`, which `holder` carries: as it is, unless `holder` says `encrypted`.
///
/// An empty payload is readable either way.
///
/// # Errors
/// It is sealed, and there is no key. To pass ciphertext on as text would be a false success, to leave it out a silent
/// loss.
pub(super) fn open<'a>(holder: Json<'_>, payload: &'a str) -> Result<&'a str, Failure> {
    opened(!payload.is_empty() && is_sealed(holder), payload)
}

/// The same, where it is known whether the payload is sealed.
pub(super) fn opened(is_sealed: bool, payload: &str) -> Result<&str, Failure> {
    if payload.is_empty() || !is_sealed {
        return Ok(payload);
    }
    let message = "the upstream sent an encrypted piece, but the request carried no key to decrypt it with";
    Err(Failure::new(Kind::Upstream, message).with_code("upstream_decrypt_failed"))
}

/// Whether `holder` says that its payload is sealed.
fn is_sealed(holder: Json<'_>) -> bool {
    holder.get("encrypted").and_then(|flag| flag.as_bool()).unwrap_or(false)
}

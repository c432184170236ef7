//! Whether a client may ask: one of the configured keys, compared in constant time.

use http::{HeaderMap, header};
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

use crate::failure::{Failure, Kind};

/// Looks for one of `keys` in `Authorization: Bearer …` or `x-api-key`. Without keys everyone may ask.
///
/// Every key is compared, whichever fits, and no comparison ends early: the time tells at most a key's length.
///
/// # Errors
/// [`Kind::Unauthorized`]
pub(super) fn authorize(keys: &[SecretString], headers: &HeaderMap) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    let Some(shown) = shown_key(headers) else {
        let message = "an API key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`";
        return Err(Failure::new(Kind::Unauthorized, message));
    };
    let fits =
        keys.iter().fold(Choice::from(0), |fits, key| fits | key.expose_secret().as_bytes().ct_eq(shown));
    if bool::from(fits) {
        Ok(())
    } else {
        Err(Failure::new(Kind::Unauthorized, "this API key is not one that toolwire knows"))
    }
}

fn shown_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| bearer_token(value.as_bytes()));
    bearer.or_else(|| Some(headers.get("x-api-key")?.as_bytes().trim_ascii()))
}

/// What stands behind `Bearer `, in whatever case the client writes it.
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::HeaderName::from_static(name),
            header::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn each_key_opens_in_each_header() {
        let keys = [SecretString::from("alpha"), SecretString::from("beta")];
        let opens = |name, value| authorize(&keys, &headers(name, value)).is_ok();
        assert!(opens("authorization", "Bearer alpha"));
        assert!(opens("authorization", "bearer  beta "));
        assert!(opens("x-api-key", "beta"));
        assert!(!opens("authorization", "Bearer alphabet"));
        assert!(!opens("authorization", "Bearer alph"));
        assert!(!opens("authorization", "Bearer "));
        assert!(!opens("authorization", "Basic alpha"));
        assert!(!opens("x-api-key", ""));
        assert!(!opens("accept", "alpha"));
    }

    #[test]
    fn without_keys_everyone_may_ask() {
        assert!(authorize(&[], &HeaderMap::new()).is_ok());
    }
}

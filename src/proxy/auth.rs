//! Checks a client's API key against the configured ones, in constant time.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{HeaderMap, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::{
    dialect::UID_HEADER,
    failure::{Failure, Kind},
    store::Owner,
};

/// Which of the configured keys a client showed. It tells clients apart and reveals no key. Clients that need none are all
/// the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct ClientKey(Option<u64>);

impl ClientKey {
    /// The client with this configured key, or other credentials.
    pub(super) fn of(key: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(Some(hasher.finish()))
    }
}

/// Requires one of `keys` in `Authorization: Bearer …` or `x-api-key`, and returns which. Without keys, every request is
/// allowed.
///
/// Every key is compared, even after a match, and no comparison ends early: the time reveals at most a key's length.
///
/// # Errors
/// [`Kind::Unauthorized`]
pub(super) fn authorize(keys: &[SecretString], headers: &HeaderMap) -> Result<ClientKey, Failure> {
    authorize_key(keys, shown_key(headers))
}

/// The same for a request that carries the client's `session` for an upstream: `Authorization` is part of that, so the key is
/// required in `x-api-key`. The session tells clients apart.
///
/// # Errors
/// As [`authorize`].
pub(super) fn authorize_session(
    keys: &[SecretString],
    headers: &HeaderMap,
    session: &HeaderMap,
) -> Result<ClientKey, Failure> {
    authorize_key(keys, headers.get("x-api-key").map(|key| key.as_bytes().trim_ascii()))?;
    Ok(ClientKey::of(credentials(session)))
}

fn authorize_key(keys: &[SecretString], shown: Option<&[u8]>) -> Result<ClientKey, Failure> {
    if keys.is_empty() {
        return Ok(ClientKey::default());
    }
    let Some(shown) = shown else {
        let message = "an API key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`";
        return Err(Failure::new(Kind::Unauthorized, message));
    };
    let fits = |key: &&SecretString| bool::from(key.expose_secret().as_bytes().ct_eq(shown));
    let fitting = keys.iter().fold(None, |found, key| if fits(&key) { Some(key) } else { found });
    match fitting {
        Some(key) => Ok(ClientKey::of(key.expose_secret())),
        None => Err(Failure::new(Kind::Unauthorized, "this API key is not one that toolwire knows")),
    }
}

/// Whose stored responses a client may read: those of the key that it showed, which is one of the configured ones. Clients that
/// need no key all have the same.
pub(super) fn owner(keys: &[SecretString], headers: &HeaderMap) -> Owner {
    let shown = shown_key(headers).filter(|_| !keys.is_empty());
    shown.map(Owner::of_key).unwrap_or_default()
}

/// Whose stored responses a client may read that sent `session`: those of the session, token included, since nothing else proves
/// that the session is the client's.
pub(super) fn owner_of_session(session: &HeaderMap) -> Owner {
    Owner::of_key(&credentials(session))
}

/// The credentials of a session: its id and its token.
fn credentials(session: &HeaderMap) -> Vec<u8> {
    let values = [UID_HEADER, header::AUTHORIZATION.as_str()].map(|name| session.get(name));
    let values = values.map(|value| value.map(HeaderValue::as_bytes).unwrap_or_default());
    values.join(&0)
}

fn shown_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| bearer_token(value.as_bytes()));
    bearer.or_else(|| Some(headers.get("x-api-key")?.as_bytes().trim_ascii()))
}

/// The token after `Bearer `, which may be written in any case.
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
    fn every_key_is_accepted_in_both_headers() {
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
    fn clients_are_told_apart_by_their_keys() {
        let keys = [SecretString::from("alpha"), SecretString::from("beta")];
        let client = |value| authorize(&keys, &headers("x-api-key", value)).unwrap();
        assert_eq!(client("alpha"), client("alpha"));
        assert_ne!(client("alpha"), client("beta"));
        assert_ne!(client("alpha"), ClientKey::default());
    }

    #[test]
    fn without_keys_every_request_is_allowed() {
        assert!(authorize(&[], &HeaderMap::new()).is_ok());
    }
}

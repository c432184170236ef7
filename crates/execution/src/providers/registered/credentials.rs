//! [`Credentials`]: authenticates programs, and signs messages to them.
//!
//! A request contains one of the keys in `Authorization: Bearer`, or an HMAC-SHA256 signature of the time, method, path
//! and body, which proves that the sender knows a key. Requests to programs are signed in the same way. A signature is
//! valid for a few minutes and can be used only once.

use std::{
    collections::VecDeque,
};

use parking_lot::Mutex;
use http::{HeaderMap, HeaderName, Method, header};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::audit::unix_millis;
use toolwire_pipeline::{
    failure::{Failure, Kind},
    wire::hex,
};

/// When a message was signed, as Unix time in milliseconds.
pub(super) const TIMESTAMP: HeaderName = HeaderName::from_static("x-toolwire-timestamp");

/// `v1=` and the signature in lower-case hexadecimal.
pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("x-toolwire-signature");

/// Maximum difference between a program's clock and ours, in milliseconds. It also limits the validity of a signature.
const TOLERANCE: u64 = 300_000;

/// Maximum number of used signatures that are remembered. Beyond it, signed requests are rejected until the oldest
/// signatures have expired.
const MAX_SEEN: usize = 10_000;

/// The index of a configured key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyNumber(usize);

#[derive(Debug, Clone, Copy)]
pub struct ShownRequest<'r> {
    pub(super) method: &'r Method,
    /// The path as it was sent, including the query.
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: &'r [u8],
}

impl<'r> ShownRequest<'r> {
    pub fn new(method: &'r Method, path: &'r str, headers: &'r HeaderMap, body: &'r [u8]) -> Self {
        Self { method, path, headers, body }
    }
}

#[derive(Debug)]
pub(super) struct Credentials {
    keys: Vec<SecretString>,
    /// Used signatures with their times.
    seen: Mutex<VecDeque<(u64, String)>>,
}

impl Credentials {
    pub(super) fn new(keys: Vec<SecretString>) -> Self {
        Self { keys, seen: Mutex::default() }
    }

    /// Finds the key that authenticates a request.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`], or [`Kind::RateLimit`] if too many signatures are remembered.
    pub(super) fn check(&self, request: &ShownRequest<'_>) -> Result<KeyNumber, Failure> {
        self.check_at(request, unix_millis())
    }

    /// Like [`Credentials::check`], at the time `now`.
    fn check_at(&self, request: &ShownRequest<'_>, now: u64) -> Result<KeyNumber, Failure> {
        let shown = |name| {
            let mut values = request.headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
        };
        if let Some(shown) = shown(header::AUTHORIZATION) {
            return self.bearer(shown).ok_or_else(|| refused("this key may not register"));
        }
        let (Some(time), Some(signature)) = (shown(TIMESTAMP), shown(SIGNATURE)) else {
            return Err(refused("a registration key is needed: send it as `Authorization: Bearer KEY`, or sign the request"));
        };
        let is_fresh = time.parse::<u64>().is_ok_and(|time| time.abs_diff(now) <= TOLERANCE);
        if !is_fresh {
            return Err(refused("the signature's time is missing or too far from toolwire's own"));
        }
        let claimed: Option<[u8; 32]> = signature.strip_prefix("v1=").and_then(|digits| hex::decode(digits.as_bytes()));
        let message = message(time, request.method, request.path, request.body);
        let fits = |key: &SecretString| claimed.is_some_and(|claimed| hmac::verify(&key_of(key), &message, &claimed).is_ok());
        let fitting = self.keys.iter().enumerate().filter(|(_, key)| fits(key)).fold(None, |found, (number, _)| found.or(Some(number)));
        let number = fitting.ok_or_else(|| refused("the signature is not one of a key that may register"))?;
        self.use_once(signature, now)?;
        Ok(KeyNumber(number))
    }

    pub(super) fn secret(&self, number: KeyNumber) -> &SecretString {
        self.keys.get(number.0).unwrap_or_else(|| self.first())
    }

    pub(super) fn first(&self) -> &SecretString {
        static NONE: std::sync::OnceLock<SecretString> = std::sync::OnceLock::new();
        self.keys.first().unwrap_or_else(|| NONE.get_or_init(SecretString::default))
    }

    /// Compares all keys, even after a match, so that the time does not depend on which one matches.
    fn bearer(&self, shown: &str) -> Option<KeyNumber> {
        let (scheme, token) = shown.split_at_checked(7)?;
        let token = scheme.eq_ignore_ascii_case("bearer ").then(|| token.trim().as_bytes())?;
        let fits = |key: &SecretString| bool::from(key.expose_secret().as_bytes().ct_eq(token));
        let numbered = self.keys.iter().enumerate();
        numbered.fold(None, |found, (number, key)| if fits(key) { Some(KeyNumber(number)) } else { found })
    }

    fn use_once(&self, signature: &str, now: u64) -> Result<(), Failure> {
        let mut seen = self.seen.lock();
        // A signature's time may also be in the future.
        while seen.front().is_some_and(|(at, _)| now.saturating_sub(*at) > 2 * TOLERANCE) {
            seen.pop_front();
        }
        if seen.iter().any(|(_, used)| used.eq_ignore_ascii_case(signature)) {
            return Err(refused("this signature was used before"));
        }
        if seen.len() >= MAX_SEEN {
            return Err(Failure::new(Kind::RateLimit, "too many signed requests; try again in a few minutes"));
        }
        seen.push_back((now, signature.to_owned()));
        Ok(())
    }
}

/// The headers that sign a request to a program.
pub(super) fn signed(key: &SecretString, method: &Method, path: &str, body: &[u8]) -> [(HeaderName, String); 2] {
    let time = unix_millis().to_string();
    let tag = hmac::sign(&key_of(key), &message(&time, method, path, body));
    [(TIMESTAMP, time), (SIGNATURE, format!("v1={}", hex::encode(tag.as_ref())))]
}

/// The text to sign: time, method, path and body, separated by full stops. It is unambiguous, because the time contains
/// only digits, the method only letters, and the body comes last.
fn message(time: &str, method: &Method, path: &str, body: &[u8]) -> Vec<u8> {
    [format!("{time}.{method}.{path}.").as_bytes(), body].concat()
}

fn key_of(secret: &SecretString) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes())
}

fn refused(message: &str) -> Failure {
    Failure::new(Kind::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        Credentials::new(vec!["first-key".into(), "second-key".into()])
    }

    fn headers(fields: impl IntoIterator<Item = (HeaderName, String)>) -> HeaderMap {
        fields.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    fn check(credentials: &Credentials, headers: &HeaderMap, path: &str, body: &[u8]) -> Result<KeyNumber, Failure> {
        credentials.check(&ShownRequest::new(&Method::POST, path, headers, body))
    }

    #[test]
    fn bearer_keys_are_told_apart() {
        let credentials = credentials();
        let bearer = |key: &str| headers([(header::AUTHORIZATION, format!("Bearer {key}"))]);
        assert_eq!(check(&credentials, &bearer("second-key"), "/", b""), Ok(KeyNumber(1)));
        for wrong in ["", "second", "second-key2", "third"] {
            assert!(check(&credentials, &bearer(wrong), "/", b"").is_err(), "{wrong}");
        }
        assert!(check(&credentials, &HeaderMap::new(), "/", b"").is_err());
    }

    #[test]
    fn signature_counts_once_and_only_for_what_it_signs() {
        let credentials = credentials();
        let sign = || headers(signed(&"second-key".into(), &Method::POST, "/v1/providers", b"{}"));
        let good = sign();
        assert!(check(&credentials, &good, "/v1/providers", b"{ }").is_err());
        assert!(check(&credentials, &good, "/v1/providers/x", b"{}").is_err());
        let get = ShownRequest::new(&Method::GET, "/v1/providers", &good, b"{}");
        assert!(credentials.check(&get).is_err());
        assert_eq!(check(&credentials, &good, "/v1/providers", b"{}"), Ok(KeyNumber(1)));
        let replayed = check(&credentials, &good, "/v1/providers", b"{}").unwrap_err();
        assert!(replayed.message().contains("used before"), "{replayed:?}");
        let mut louder = good.clone();
        let upper = good[SIGNATURE].to_str().unwrap().to_uppercase().replace("V1", "v1");
        louder.insert(SIGNATURE, upper.parse().unwrap());
        assert!(check(&credentials, &louder, "/v1/providers", b"{}").is_err(), "the same signature in other letters");
    }

    #[test]
    fn old_and_future_signatures_are_refused() {
        let credentials = credentials();
        let good = headers(signed(&"first-key".into(), &Method::POST, "/", b""));
        let request = ShownRequest::new(&Method::POST, "/", &good, b"");
        let now = unix_millis();
        assert!(credentials.check_at(&request, now + TOLERANCE + 2_000).is_err());
        assert!(credentials.check_at(&request, now - TOLERANCE - 2_000).is_err());
        assert!(credentials.check_at(&request, now + TOLERANCE - 2_000).is_ok());
        assert!(credentials.check_at(&request, now + TOLERANCE - 1_000).is_err(), "a replay");
    }
}

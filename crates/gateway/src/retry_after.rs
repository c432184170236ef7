//! The upstream's `Retry-After`, and how much of it is passed on to clients.
//!
//! SDKs sleep for as long as `Retry-After` says, some of them even for weeks. Only short waits are therefore passed on.
//! For a long wait, the client is told not to retry.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use toolwire_http1::list_contains;
use toolwire_pipeline::failure::Failure;

/// The longest wait that is passed on.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

/// Headers in which Azure and OpenAI state the wait in milliseconds.
const MILLISECONDS: [HeaderName; 2] =
    [HeaderName::from_static("retry-after-ms"), HeaderName::from_static("x-ms-retry-after-ms")];

/// Read by OpenAI's and Anthropic's SDKs.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Returns the wait that an upstream's `headers` ask for, as a value of `Retry-After`. Ignores headers listed in
/// `Connection`, which are meant only for toolwire (RFC 9110, section 7.6.1).
pub(super) fn told(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let value = |name: &HeaderName| {
        let is_for_us = list_contains(headers, &header::CONNECTION, name.as_str().as_bytes());
        headers.get(name).filter(|_| !is_for_us)?.to_str().ok()
    };
    let in_seconds = |millis: &str| {
        let millis: u64 = millis.trim().parse().ok()?;
        Some(Cow::Owned(millis.div_ceil(1000).to_string()))
    };
    value(&header::RETRY_AFTER)
        .map(Cow::Borrowed)
        .or_else(|| MILLISECONDS.iter().find_map(|name| in_seconds(value(name)?)))
}

/// Returns how long to wait before the next request, from a number of seconds or a date (RFC 9110, section 10.2.3).
/// `None` for anything else, and for dates in the past.
pub fn wait_of(failure: &Failure) -> Option<Duration> {
    let text = failure.retry_after()?.trim();
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

/// Adds headers that say whether and when to retry after `failure`.
pub(super) fn put(headers: &mut HeaderMap, failure: &Failure) {
    let Some(text) = failure.retry_after() else { return };
    match wait_of(failure) {
        Some(wait) if wait > MAX_WAIT => end_retries(headers),
        Some(_) => _ = HeaderValue::from_str(text).map(|value| headers.insert(header::RETRY_AFTER, value)),
        None => {}
    }
}

/// Adds a header that says not to retry.
pub(super) fn end_retries(headers: &mut HeaderMap) {
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
}

/// Adds a header that says to retry, unless it is known that this is useless.
pub(super) fn allow_retries(headers: &mut HeaderMap) {
    headers.entry(SHOULD_RETRY).or_insert(HeaderValue::from_static("true"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::failure::Kind;

    fn after(wait: &str) -> Failure {
        Failure::new(Kind::RateLimit, "slow").with_retry_after(wait)
    }

    #[test]
    fn what_is_no_duration_is_no_wait() {
        for odd in ["", "-1", "NaN", "inf", "soon", "1e300", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(wait_of(&after(odd)), None, "{odd}");
        }
        assert_eq!(wait_of(&after(" 1.5 ")), Some(Duration::from_millis(1500)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(wait_of(&after(&date)).unwrap() > Duration::from_secs(90));
    }

    #[test]
    fn clients_are_told_of_short_waits_and_not_to_try_after_long_ones() {
        let tomorrow = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(86_400));
        for (wait, told, should_retry) in [
            ("7", Some("7"), None),
            ("60", Some("60"), None),
            ("61", None, Some("false")),
            ("1000000000000", None, Some("false")),
            (&tomorrow, None, Some("false")),
            ("-5", None, None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None, None),
        ] {
            let mut headers = HeaderMap::new();
            put(&mut headers, &after(wait));
            let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!((value("retry-after"), value("x-should-retry")), (told, should_retry), "{wait}");
        }
    }

    #[test]
    fn milliseconds_count_where_there_are_no_seconds() {
        let said = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            told(&headers).map(Cow::into_owned)
        };
        assert_eq!(said(&[("retry-after-ms", "1001")]).as_deref(), Some("2"));
        assert_eq!(said(&[("x-ms-retry-after-ms", "20")]).as_deref(), Some("1"));
        assert_eq!(said(&[("retry-after-ms", "1001"), ("retry-after", "9")]).as_deref(), Some("9"));
        assert_eq!(said(&[("retry-after-ms", "-1")]), None);
        assert_eq!(said(&[("retry-after", "9"), ("connection", "retry-after")]), None);
    }
}

//! [`SpanContext`]: what programs tell each other about a span.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::hex;

/// The header that identifies a span to other programs (W3C Trace Context, section 3.2).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The header for data of other tracing systems (section 3.3).
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of a `traceparent` of version 00, in bytes.
const LENGTH: usize = 55;

/// Maximum length of a `tracestate`, in bytes. A shorter `tracestate` must be passed on. A longer one is dropped, which
/// is permitted (section 3.3.1.5).
const MAX_STATE: usize = 512;

/// Maximum number of members in a `tracestate` (section 3.3.1.1).
const MAX_MEMBERS: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct SpanContext {
    /// Not zero.
    pub trace: [u8; 16],
    /// Not zero.
    pub span: [u8; 8],
    pub(crate) is_sampled: bool,
    /// Data of other tracing systems.
    pub state: Option<Arc<str>>,
}

impl SpanContext {
    /// Returns the span that sent a request with these headers. `None` if they do not contain a valid span.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut named = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (named.next(), named.next()) else { return None };
        let (trace, span, is_sampled) = parsed(parent.as_bytes())?;
        Some(Self { trace, span, is_sampled, state: state_of(headers) })
    }

    /// Sets the headers that identify this span. Replaces existing ones.
    pub fn put(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        match self.state.as_deref().map(HeaderValue::from_str) {
            Some(Ok(state)) => headers.insert(TRACESTATE, state),
            _ => headers.remove(TRACESTATE),
        };
    }
}

/// Writes the value of a `traceparent` header.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.is_sampled))
    }
}

impl fmt::Debug for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanContext({self})")
    }
}

/// Parses the ids in a `traceparent`, and whether the span is recorded. Later versions may append fields (section 4.3).
fn parsed(text: &[u8]) -> Option<([u8; 16], [u8; 8], bool)> {
    let (known, more) = text.split_at_checked(LENGTH)?;
    if known.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let (version, rest) = known.split_at_checked(2)?;
    let [version] = hex::decode(version)?;
    let is_whole = more.is_empty() || (version > 0 && more.first() == Some(&b'-'));
    if version == 0xff || !is_whole {
        return None;
    }
    let (trace, rest) = rest.strip_prefix(b"-")?.split_at_checked(32)?;
    let (span, flags) = rest.strip_prefix(b"-")?.split_at_checked(16)?;
    let (trace, span): ([u8; 16], [u8; 8]) = (hex::decode(trace)?, hex::decode(span)?);
    let [flags] = hex::decode(flags.strip_prefix(b"-")?)?;
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, flags & 1 == 1))
}

/// The `tracestate` in these headers. `None` if it is malformed or too large.
fn state_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut state = String::new();
    for line in headers.get_all(TRACESTATE) {
        let members = line.to_str().ok()?.split(',').map(str::trim).filter(|member| !member.is_empty());
        for member in members {
            if state.len() + member.len() >= MAX_STATE || !is_member(member) {
                return None;
            }
            if !state.is_empty() {
                state.push(',');
            }
            state.push_str(member);
        }
    }
    let is_usable = !state.is_empty() && state.split(',').count() <= MAX_MEMBERS;
    is_usable.then(|| state.into())
}

/// Whether `member` is a valid `key=value` (sections 3.3.1.3.1 and 3.3.1.3.2).
fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let is_key = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    !key.is_empty()
        && key.len() <= 256
        && key.bytes().all(is_key)
        && !value.is_empty()
        && value.len() <= 256
        && value.bytes().all(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn of(parent: &str) -> Option<SpanContext> {
        SpanContext::of(&headers(&[("traceparent", parent)]))
    }

    #[test]
    fn traceparent_is_read_and_written() {
        let context = of(PARENT).unwrap();
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), PARENT);
        let unsampled = PARENT.replace("-01", "-00");
        assert_eq!(of(&unsampled).unwrap().to_string(), unsampled);
        assert_eq!(of(&PARENT.replace("-01", "-03")).unwrap().to_string(), PARENT);
        let later = PARENT.replacen("00", "cc", 1) + "-more";
        assert_eq!(of(&later).unwrap().to_string(), PARENT);
    }

    #[test]
    fn malformed_traceparent_is_ignored() {
        let zero_trace = format!("00-{:032}-00f067aa0ba902b7-01", 0);
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016}-01", 0);
        for hostile in [
            "",
            "00",
            PARENT.strip_suffix('1').unwrap(),
            &format!("{PARENT}-more"),
            &format!("{PARENT}0"),
            &PARENT.replacen("00", "ff", 1),
            &(PARENT.replacen("00", "cc", 1) + "more"),
            &PARENT.to_uppercase(),
            &PARENT.replace('-', "_"),
            &PARENT.replace("4b", "g0"),
            &zero_trace,
            &zero_span,
            &"-".repeat(LENGTH),
            &"0".repeat(10_000),
        ] {
            assert_eq!(of(hostile), None, "{hostile:?}");
        }
        assert_eq!(SpanContext::of(&headers(&[("traceparent", PARENT), ("traceparent", PARENT)])), None);
    }

    #[test]
    fn tracestate_is_passed_on_within_its_limits() {
        let state = |lines: &[&str]| {
            let mut all = headers(&[("traceparent", PARENT)]);
            lines.iter().for_each(|line| _ = all.append(TRACESTATE, line.parse().unwrap()));
            SpanContext::of(&all).unwrap().state.as_deref().map(str::to_owned)
        };
        assert_eq!(state(&["a=1, b=2 ,", "c@d=3"]).as_deref(), Some("a=1,b=2,c@d=3"));
        for hostile in ["a", "=1", "a=", "A=1", "a=1=2", "a b=1", ","] {
            assert_eq!(state(&[hostile]), None, "{hostile}");
        }
        let members = |count: usize| vec!["a=1"; count].join(",");
        assert!(state(&[&members(MAX_MEMBERS)]).is_some());
        assert_eq!(state(&[&members(MAX_MEMBERS + 1)]), None);
        let long = |rest: usize| format!("a={},b={}", "x".repeat(252), "y".repeat(rest));
        assert!(state(&[&long(254)]).is_some());
        assert_eq!(state(&[&long(256)]), None);
        assert_eq!(state(&[&format!("a={}", "x".repeat(257))]), None);
    }

    #[test]
    fn headers_of_a_request_are_replaced() {
        let mut sent = headers(&[("traceparent", "old"), ("tracestate", "old=1"), ("accept", "*/*")]);
        of(PARENT).unwrap().put(&mut sent);
        assert_eq!(sent, headers(&[("traceparent", PARENT), ("accept", "*/*")]));
    }
}

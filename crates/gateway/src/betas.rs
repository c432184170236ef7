//! [`Betas`]: the beta features that a client requests in `anthropic-beta` or `openai-beta`.
//!
//! An upstream of the same dialect receives the request's fields unchanged, so it must also receive the features that
//! permit these fields.

use http::{HeaderMap, HeaderName, HeaderValue};
use toolwire_pipeline::dialect::{ClientDialect, Dialect};

const ANTHROPIC: HeaderName = HeaderName::from_static("anthropic-beta");
const OPENAI: HeaderName = HeaderName::from_static("openai-beta");

/// The start of the feature's name that permits `thread`.
const THREADS: &str = "message-threads-";

/// The start of the feature's name that permits WebSockets, over which no upstream is asked.
const WEBSOCKETS: &str = "responses_websockets";

/// Maximum number of features passed on for a client, and maximum length of a feature's name in bytes. Claude Code
/// requests about twenty.
const MAX_BETAS: usize = 64;
const MAX_BETA: usize = 128;

/// Beta features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Betas {
    /// The dialect whose upstreams know them.
    dialect: Dialect,
    /// Their names, separated by commas, without duplicates.
    names: Box<str>,
}

impl Betas {
    /// Returns the features that a client of `dialect` requests. Invalid names are dropped, and threads if toolwire holds
    /// the conversation (`is_held`). `None` if there are none.
    pub(super) fn of_request(headers: &HeaderMap, dialect: ClientDialect, is_held: bool) -> Option<Self> {
        let dialect = dialect.dialect();
        let given = headers.get_all(header(dialect));
        let is_ours = |name: &str| name.starts_with(WEBSOCKETS) || is_held && name.starts_with(THREADS);
        let names = given.iter().flat_map(names).filter(|name| is_name(name) && !is_ours(name));
        Some(Self { dialect, names: joined(names, MAX_BETAS)? })
    }

    /// The dialect whose upstreams know the features.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn put(&self, headers: &mut HeaderMap) {
        let header = header(self.dialect);
        let configured: Vec<String> =
            headers.get_all(&header).iter().flat_map(names).map(str::to_owned).collect();
        let all = joined(configured.iter().map(String::as_str).chain(self.names.split(',')), usize::MAX);
        if let Some(value) = all.and_then(|all| HeaderValue::try_from(&*all).ok()) {
            headers.insert(header, value);
        }
    }
}

fn header(dialect: Dialect) -> HeaderName {
    if dialect == Dialect::Messages { ANTHROPIC } else { OPENAI }
}

/// Splits the value of a list header.
fn names(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let list = value.to_str().unwrap_or_default();
    list.split(',').map(|name| name.trim_matches([' ', '\t'])).filter(|name| !name.is_empty())
}

/// Whether `name` is a token (RFC 9110, section 5.6.2), perhaps with a value as in `feature=v1`, that is not too long.
fn is_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~=".contains(&byte);
    name.len() <= MAX_BETA && name.bytes().all(is_token)
}

/// Joins up to `most` of the `names` into a list without duplicates.
fn joined<'n>(names: impl Iterator<Item = &'n str>, most: usize) -> Option<Box<str>> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if known.len() == most {
            break;
        }
        if !known.contains(&name) {
            known.push(name);
        }
    }
    (!known.is_empty()).then(|| known.join(",").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (ANTHROPIC, HeaderValue::try_from(*value).unwrap())).collect()
    }

    fn sent(client: &[&str], configured: &[&str]) -> Option<String> {
        let mut standing = headers(configured);
        if let Some(betas) = Betas::of_request(&headers(client), ClientDialect::Messages, false) {
            betas.put(&mut standing);
        }
        let values: Vec<_> =
            standing.get_all(ANTHROPIC).iter().map(|value| value.to_str().unwrap()).collect();
        (!values.is_empty()).then(|| values.join("; "))
    }

    #[test]
    fn betas_of_client_and_configuration_are_joined() {
        for (client, configured, expected) in [
            (&[][..], &[][..], None),
            (&[], &["a,b"], Some("a,b")),
            (&["context-management-2025-06-27"], &[], Some("context-management-2025-06-27")),
            (&["b, c", "c,d"], &["a, b"], Some("a,b,c,d")),
            (&[" , ,"], &["a"], Some("a")),
            (&["x y", "a:b", "é", "good=v1"], &[], Some("good=v1")),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(sent(client, configured), expected, "{client:?} {configured:?}");
        }
    }

    #[test]
    fn threads_that_toolwire_holds_are_not_requested() {
        let given = headers(&["message-threads-2026-08-12, a", "b"]);
        for (is_held, sent) in [(false, "message-threads-2026-08-12,a,b"), (true, "a,b")] {
            let betas = Betas::of_request(&given, ClientDialect::Messages, is_held);
            assert_eq!(betas, Some(Betas { dialect: Dialect::Messages, names: sent.into() }));
        }
        let only = headers(&["message-threads-2026-08-12"]);
        assert_eq!(Betas::of_request(&only, ClientDialect::Messages, true), None);
    }

    #[test]
    fn websockets_are_not_requested_of_upstreams() {
        let given = "responses_websockets=2026-02-06, responses_multi_agent=v1";
        let given = HeaderMap::from_iter([(OPENAI, HeaderValue::from_static(given))]);
        let betas = Betas::of_request(&given, ClientDialect::Responses, false);
        assert_eq!(betas.map(|betas| betas.names), Some("responses_multi_agent=v1".into()));
        assert_eq!(Betas::of_request(&given, ClientDialect::Messages, false), None);
    }

    #[test]
    fn betas_of_a_client_are_bounded() {
        let (longest, longer) = ("x".repeat(MAX_BETA), "x".repeat(MAX_BETA + 1));
        assert_eq!(sent(&[&longest], &[]), Some(longest.clone()));
        assert_eq!(sent(&[&longer], &[]), None);
        let many: Vec<String> = (0..=MAX_BETAS).map(|number| format!("b{number}")).collect();
        let sent = sent(&[&many.join(",")], &[]).unwrap();
        assert_eq!(sent.split(',').count(), MAX_BETAS);
    }
}

//! [`ClientOptions`]: what a client's declaration of a tool says about its calls, for tools that toolwire runs in place
//! of its API's servers.
//!
//! The APIs have the same options under similar names, so one reader serves all of them: those of `web_search_20250305`
//! and `web_fetch_20250910` (Messages), of `web_search` (Responses), of `web_search_options` (Chat Completions) and of
//! `googleSearch` (Gemini).

use serde_json::Value;
use url::Url;

use super::{
    address::{Domain, comparable},
    tool::{ErrorCode, ToolError},
};

/// Bytes of text that count as one token.
const TOKEN: usize = 4;

/// The field of a Chat Completions request that asks for a search.
pub(super) const SEARCH_OPTIONS: &str = "web_search_options";

/// The members of a declaration in which further options are.
const INNER: [&str; 4] = ["filters", "googleSearch", "urlContext", "approximate"];

/// What a client says about the calls of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ClientOptions {
    /// Maximum number of calls in one response.
    pub(crate) max_uses: Option<usize>,
    /// The only sites that may be found or read. If empty, all.
    allowed: Vec<Site>,
    blocked: Vec<Site>,
    /// Where the user is.
    pub(crate) location: Option<Location>,
    /// Whether the client wants few results.
    pub(crate) wants_few: bool,
    /// Maximum size of a page's text, in bytes.
    pub(crate) max_content: Option<usize>,
    /// Whether kept results may not be used.
    pub(crate) is_fresh: bool,
    /// An entry of the lists of sites that cannot be read. Then no call may run, since it could break the rule.
    unreadable: Option<String>,
}

/// Where a user is, as far as the client says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// Two letters, in lower case.
    pub(crate) country: Option<String>,
    /// The city, region and country.
    pub(crate) name: String,
}

impl ClientOptions {
    pub(crate) fn of(declared: &Value) -> Self {
        let member = |key: &str| member(declared, key);
        let count = |key| member(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let mut options = Self {
            max_uses: count("max_uses"),
            location: member("user_location").and_then(Location::of),
            wants_few: member("search_context_size").is_some_and(|size| size == "low"),
            max_content: count("max_content_tokens").map(|tokens| tokens.saturating_mul(TOKEN)),
            is_fresh: member("use_cache").is_some_and(|flag| flag == false),
            ..Self::default()
        };
        options.allowed = options.sites(member("allowed_domains"));
        options.blocked = options.sites(member("blocked_domains").or_else(|| member("excludeDomains")));
        options
    }

    fn sites(&mut self, list: Option<&Value>) -> Vec<Site> {
        let mut sites = Vec::new();
        for entry in list.and_then(Value::as_array).into_iter().flatten() {
            match entry.as_str().and_then(Site::parse) {
                Some(site) => sites.push(site),
                None => {
                    _ = self.unreadable.get_or_insert_with(|| entry.to_string().chars().take(80).collect())
                }
            }
        }
        sites
    }

    /// Checks that the lists can be followed.
    ///
    /// # Errors
    /// Which entry cannot be read.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        match &self.unreadable {
            Some(entry) => {
                let message =
                    format!("The client's list of domains has an entry that is not a domain: {entry}");
                Err(ToolError::new(ErrorCode::BlockedUrl, message))
            }
            None => Ok(()),
        }
    }

    /// Whether the client's lists admit this address.
    pub(crate) fn admits(&self, url: &Url) -> bool {
        !self.blocked.iter().any(|site| site.contains(url, true))
            && (self.allowed.is_empty() || self.allowed.iter().any(|site| site.contains(url, false)))
    }

    /// The domains that results may have, and those that they may not have, as the client wrote them.
    pub(crate) fn lists(&self) -> [Vec<&str>; 2] {
        [&self.allowed, &self.blocked].map(|list| list.iter().map(|site| site.written.as_str()).collect())
    }
}

/// The member `key` of a declaration, or of one of its inner objects.
fn member<'d>(declared: &'d Value, key: &str) -> Option<&'d Value> {
    let own = declared.get(key).filter(|value| !value.is_null());
    own.or_else(|| INNER.iter().find_map(|inner| declared.get(*inner)?.get(key)))
}

impl Location {
    fn of(written: &Value) -> Option<Self> {
        let text = |key: &str| {
            let text = member(written, key)?.as_str()?.trim();
            (!text.is_empty() && text.len() <= 100 && !text.contains(char::is_control)).then_some(text)
        };
        let parts: Vec<_> = ["city", "region", "country"].into_iter().filter_map(text).collect();
        let is_code =
            |country: &&str| country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_alphabetic());
        let country = text("country").filter(is_code).map(str::to_ascii_lowercase);
        (!parts.is_empty()).then(|| Self { country, name: parts.join(", ") })
    }
}

/// A domain with its subdomains, or the pages below a path on it.
#[derive(Debug, Clone, PartialEq)]
struct Site {
    domain: Domain,
    /// Without a slash at its end. Empty for the whole domain.
    path: String,
    written: String,
}

impl Site {
    /// Parses a site such as `example.com/blog`. A scheme before it and `*` at its end count for nothing.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bare =
            ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
        let (domain, path) = match bare.split_once('/') {
            Some((domain, path)) => (domain, path.trim_end_matches(['*', '/'])),
            None => (bare, ""),
        };
        let domain = Domain::parse(domain)?;
        let url = Url::parse(&format!("http://host.invalid/{path}")).ok()?;
        if path.contains('*') || url.query().is_some() || url.fragment().is_some() {
            return None;
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Some(Self { domain, path, written: bare.to_owned() })
    }

    fn contains(&self, url: &Url, is_rule_against: bool) -> bool {
        let host = url.host().map(|host| comparable(&host)).unwrap_or_default();
        let is_there = if is_rule_against { self.domain.covers(&host) } else { self.domain.contains(&host) };
        let below = url.path().strip_prefix(&*self.path);
        is_there
            && below.is_some_and(|below| below.is_empty() || self.path.is_empty() || below.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn options_are_read_from_the_forms_of_all_apis() {
        let location = Some(Location { country: Some("fr".to_owned()), name: "Lyon, FR".to_owned() });
        let place =
            json!({"type": "approximate", "city": "Lyon", "country": "FR", "timezone": "Europe/Paris"});
        for declared in [
            json!({"type": "web_search_20250305", "allowed_domains": ["a.example"], "user_location": place}),
            json!({"type": "web_search", "filters": {"allowed_domains": ["a.example"]}, "user_location": place}),
            json!({"user_location": {"type": "approximate", "approximate": place}, "allowed_domains": ["a.example"]}),
        ] {
            let options = ClientOptions::of(&declared);
            assert_eq!(options.location, location, "{declared}");
            assert!(
                options.admits(&url("https://www.a.example/x"))
                    && !options.admits(&url("https://b.example/"))
            );
        }
        let options = ClientOptions::of(&json!({"googleSearch": {"excludeDomains": ["b.example"]}}));
        assert!(options.admits(&url("https://a.example/")) && !options.admits(&url("https://b.example/")));
        let fetch = json!({"max_uses": 3, "max_content_tokens": 1000, "use_cache": false, "filters": null});
        let options = ClientOptions::of(&fetch);
        assert_eq!((options.max_uses, options.max_content, options.is_fresh), (Some(3), Some(4000), true));
        assert_eq!(
            ClientOptions::of(&json!({"allowed_domains": [], "max_uses": -1})),
            ClientOptions::default()
        );
    }

    #[test]
    fn sites_may_have_a_path_and_any_spelling() {
        let admits = |site: &str, address: &str| {
            ClientOptions::of(&json!({"allowed_domains": [site]})).admits(&url(address))
        };
        for (site, address, expected) in [
            ("example.com/blog", "https://example.com/blog", true),
            ("example.com/blog", "https://example.com/blog/x?y", true),
            ("example.com/blog", "https://example.com/blogs", false),
            ("example.com/blog/*", "https://example.com/blog/../secret", false),
            ("example.com/blog/*", "https://example.com/blog/%2e%2e/secret", false),
            ("https://EXAMPLE.com/", "https://www.example.com./x", true),
            ("example.com", "https://example.com.evil.example/", false),
            ("example.com", "https://example.com@evil.example/", false),
            ("127.0.0.1", "http://0x7f.1/", true),
        ] {
            assert_eq!(admits(site, address), expected, "{site} {address}");
        }
    }

    #[test]
    fn list_that_cannot_be_read_stops_every_call() {
        for entry in
            [json!("*"), json!("a b"), json!(""), json!(5), json!("a.example/*/b"), json!("a.example?x")]
        {
            for key in ["allowed_domains", "blocked_domains"] {
                let options = ClientOptions::of(&json!({key: [entry]}));
                assert_eq!(options.check().unwrap_err().code, ErrorCode::BlockedUrl, "{entry}");
            }
        }
    }
}

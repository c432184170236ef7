//! [`Site`]: where clients reach the server, for messages to people.

use http::{header, request, uri::Authority};

use super::routes::{BASE, MAX_SHOWN, MODELS};
use toolwire_pipeline::dialect::ClientDialect;

/// The address that a client uses, and what is there.
#[derive(Debug)]
pub struct Site {
    /// Scheme and authority.
    origin: String,
    pub(super) has_admin: bool,
}

impl Site {
    /// Reads the address from the request, if it has a usable one.
    pub(super) fn new(head: &request::Parts, scheme: &str, has_admin: bool) -> Self {
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse().ok());
        let authority = head.uri.authority().cloned().or(host);
        let is_shown = |authority: &Authority| {
            authority.as_str().len() <= MAX_SHOWN && !authority.as_str().contains('@')
        };
        let authority = authority.filter(is_shown).unwrap_or(Authority::from_static("127.0.0.1:8787"));
        Self { origin: format!("{scheme}://{authority}"), has_admin }
    }

    pub(super) fn base_url(&self) -> String {
        let origin = &self.origin;
        let client = format!(
            "a client's base URL ends in `{BASE}`, such as `{origin}{BASE}`, unless the client adds `{BASE}` itself, as \
             Anthropic's do"
        );
        match self.has_admin {
            true => format!("{client}; the console is at {origin}/console/"),
            false => client,
        }
    }

    /// Lists the APIs that toolwire serves, with their paths.
    pub(super) fn directions(&self) -> String {
        let spoken = ClientDialect::all().filter_map(|dialect| {
            let endpoint = dialect.side().endpoint(true)?;
            Some(format!("{}: POST {}", dialect.dialect().title(), endpoint.path))
        });
        let spoken = spoken.collect::<Vec<_>>().join("; ");
        format!("toolwire speaks {spoken}, GET {MODELS}; {}", self.base_url())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn site(host: &str) -> Site {
        let (head, ()) = Request::builder().header("host", host).body(()).unwrap().into_parts();
        Site::new(&head, "http", false)
    }

    #[test]
    fn address_is_that_of_the_request() {
        for (host, origin) in [
            ("toolwire.lan:80", "http://toolwire.lan:80"),
            ("[::1]:9", "http://[::1]:9"),
            ("user@evil.example", "http://127.0.0.1:8787"),
            ("a b", "http://127.0.0.1:8787"),
            ("<script>", "http://127.0.0.1:8787"),
            (&"x".repeat(200), "http://127.0.0.1:8787"),
        ] {
            assert_eq!(site(host).origin, origin, "{host}");
        }
    }
}

//! Discovery: from a server's URL to the endpoints of its authorization server (RFC 9728, section 3, and
//! RFC 8414, section 3).

use serde::Deserialize;
use url::Url;

use super::{
    challenge::{Challenge, are_scopes},
    error::{OAuthError, plain},
    fetcher::Fetcher,
};

/// Metadata of the server, the protected resource (RFC 9728, section 2).
#[derive(Debug, Default, Deserialize)]
struct ResourceMetadata {
    resource: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

/// Metadata of an authorization server (RFC 8414, section 2).
#[derive(Debug, Deserialize)]
struct ServerMetadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// What discovery has found. All URLs may be used.
#[derive(Debug, Clone)]
pub(super) struct Discovered {
    /// The value of the parameter `resource` (RFC 8707, section 2).
    pub(super) resource: String,
    /// The scopes that the server lists, separated by spaces.
    pub(super) scopes: Option<String>,
    pub(super) issuer: String,
    /// Whether responses contain the issuer (RFC 9207, section 2).
    pub(super) names_issuer: bool,
    pub(super) authorization: Option<Url>,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
    pub(super) has_pkce: bool,
    /// Whether the scope `offline_access` asks for a refresh token.
    pub(super) has_offline: bool,
    pub(super) auth_methods: Option<Vec<String>>,
}

/// Finds the authorization server of the server at `server`. `issuer` is the configured one.
///
/// # Errors
/// There is none, or it may not be used.
pub(super) async fn discover(
    fetcher: &Fetcher,
    server: &Url,
    issuer: Option<&Url>,
    challenge: &Challenge,
) -> Result<Discovered, OAuthError> {
    let metadata = resource_metadata(fetcher, server, challenge).await?;
    let named = metadata.authorization_servers.unwrap_or_default().into_iter().next();
    let origin = || server.origin().ascii_serialization();
    // Servers of protocol version 2025-03-26 have no metadata of their own, and are their own authorization servers.
    let issuer = issuer.map(|url| url.as_str().to_owned()).or(named).unwrap_or_else(origin);
    let found = server_metadata(fetcher, &issuer).await?;
    let lists = |list: &Option<Vec<String>>, wanted: &str| {
        list.as_ref().is_some_and(|list| list.iter().any(|own| own == wanted))
    };
    let optional = |url: &Option<String>| url.as_deref().map(|url| fetcher.checked(url)).transpose();
    let scopes = metadata.scopes_supported.map(|scopes| scopes.join(" "));
    Ok(Discovered {
        resource: metadata.resource.unwrap_or_else(|| canonical(server)),
        scopes: scopes.filter(|scopes| are_scopes(scopes)),
        names_issuer: found.authorization_response_iss_parameter_supported == Some(true),
        authorization: optional(&found.authorization_endpoint)?,
        token: fetcher.checked(&found.token_endpoint)?,
        registration: optional(&found.registration_endpoint)?,
        revocation: optional(&found.revocation_endpoint)?,
        has_pkce: lists(&found.code_challenge_methods_supported, "S256"),
        has_offline: lists(&found.scopes_supported, "offline_access"),
        auth_methods: found.token_endpoint_auth_methods_supported,
        issuer: found.issuer,
    })
}

async fn resource_metadata(
    fetcher: &Fetcher,
    server: &Url,
    challenge: &Challenge,
) -> Result<ResourceMetadata, OAuthError> {
    let places = match &challenge.resource_metadata {
        Some(url) => vec![fetcher.checked(url)?],
        None => well_known(server, "oauth-protected-resource", &[Place::Inserted, Place::Root]),
    };
    for place in places {
        let Some(metadata) = fetcher.document::<ResourceMetadata>(&place).await? else { continue };
        return match &metadata.resource {
            Some(resource) if !covers(resource, server) => Err(OAuthError::Resource(plain(resource))),
            _ => Ok(metadata),
        };
    }
    Ok(ResourceMetadata::default())
}

async fn server_metadata(fetcher: &Fetcher, issuer: &str) -> Result<ServerMetadata, OAuthError> {
    let url = fetcher.checked(issuer)?;
    let places = well_known(&url, "oauth-authorization-server", &[Place::Inserted])
        .into_iter()
        .chain(well_known(&url, "openid-configuration", &[Place::Inserted, Place::Appended]));
    for place in places {
        let Some(metadata) = fetcher.document::<ServerMetadata>(&place).await? else { continue };
        return match is_same_issuer(&metadata.issuer, issuer) {
            true => Ok(metadata),
            false => Err(OAuthError::Issuer { expected: plain(issuer), found: plain(&metadata.issuer) }),
        };
    }
    Err(OAuthError::NoMetadata)
}

/// Where a well-known document is, relative to the path of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between the host and the path (RFC 8414, section 3.1).
    Inserted,
    /// After the path, as in OpenID Connect Discovery.
    Appended,
    /// Without the path.
    Root,
}

/// The URLs of a well-known document, without duplicates.
fn well_known(url: &Url, name: &str, places: &[Place]) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut urls = Vec::new();
    for place in places {
        let mut own = url.clone();
        own.set_query(None);
        own.set_fragment(None);
        own.set_path(&match place {
            Place::Inserted => format!("/.well-known/{name}{path}"),
            Place::Appended => format!("{path}/.well-known/{name}"),
            Place::Root => format!("/.well-known/{name}"),
        });
        if !urls.contains(&own) {
            urls.push(own);
        }
    }
    urls
}

/// The URL of a server as an identifier (RFC 8707, section 2).
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.to_string();
    match url.path() == "/" && url.query().is_none() {
        true => text.trim_end_matches('/').to_owned(),
        false => text,
    }
}

/// Whether tokens for `resource` are for the server: the resource is the server's URL, or a folder that contains it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (folder, path) = (resource.path().trim_end_matches('/'), server.path());
    let is_below = path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin()
        && is_below
        && resource.query().is_none_or(|own| server.query() == Some(own))
}

/// Whether two issuers are the same, apart from a slash at the end, which libraries for URLs add.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_covers_the_url_of_the_server() {
        let server = Url::parse("https://mcp.example/a/mcp").unwrap();
        for (resource, expected) in [
            ("https://mcp.example/a/mcp", true),
            ("https://mcp.example/a/", true),
            ("https://MCP.example:443", true),
            ("https://mcp.example/", true),
            ("https://mcp.example/a/m", false),
            ("https://mcp.example/a/mcp/x", false),
            ("https://mcp.example/b", false),
            ("http://mcp.example/a/mcp", false),
            ("https://mcp.example:8443/a/mcp", false),
            ("https://other.example/a/mcp", false),
            ("https://mcp.example@other.example/a/mcp", false),
            ("https://mcp.example/a/mcp?x=1", false),
            ("mcp", false),
            ("", false),
        ] {
            assert_eq!(covers(resource, &server), expected, "{resource}");
        }
    }

    #[test]
    fn well_known_paths_are_inserted_and_appended() {
        let urls = |url: &str, places: &[Place]| -> Vec<String> {
            well_known(&Url::parse(url).unwrap(), "n", places).into_iter().map(Into::into).collect()
        };
        let all = [Place::Inserted, Place::Appended, Place::Root];
        assert_eq!(
            urls("https://a.example/t/1/?q#f", &all),
            [
                "https://a.example/.well-known/n/t/1",
                "https://a.example/t/1/.well-known/n",
                "https://a.example/.well-known/n"
            ]
        );
        assert_eq!(urls("https://a.example", &all), ["https://a.example/.well-known/n"]);
    }

    #[test]
    fn resource_without_metadata_is_the_url() {
        for (url, expected) in [
            ("https://MCP.example:443", "https://mcp.example"),
            ("https://mcp.example/mcp#x", "https://mcp.example/mcp"),
            ("https://mcp.example/?a=b", "https://mcp.example/?a=b"),
        ] {
            assert_eq!(canonical(&Url::parse(url).unwrap()), expected);
        }
    }
}

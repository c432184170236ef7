//! [`OAuthClient`]: toolwire as a client of an authorization server, configured or registered (RFC 7591, section 3).

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use url::{Url, form_urlencoded::byte_serialize};

use super::{
    discovery::Discovered,
    error::{OAuthError, plain, refusal},
    fetcher::{Fetcher, JSON},
    options::OAuthOptions,
};

/// How the client proves who it is at the token endpoint. The word is that of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum AuthMethod {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

#[derive(Debug, Clone)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) secret: Option<SecretString>,
    pub(super) method: AuthMethod,
}

/// The response to a registration.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl OAuthClient {
    /// The configured client, if there is one.
    pub(super) fn configured(options: &OAuthOptions, found: &Discovered) -> Option<Self> {
        let id = options.oauth_client_id.clone()?;
        let secret = options.oauth_client_secret.clone();
        let method = if secret.is_some() { secret_method(found) } else { AuthMethod::None };
        Some(Self { id, secret, method })
    }

    /// Registers a client whose responses go to `redirect`.
    ///
    /// # Errors
    /// The authorization server does not accept registrations, or refuses this one.
    pub(super) async fn register(
        fetcher: &Fetcher,
        found: &Discovered,
        redirect: &str,
        scope: Option<&str>,
    ) -> Result<Self, OAuthError> {
        let Some(endpoint) = &found.registration else { return Err(OAuthError::NoRegistration) };
        let supports_none =
            found.auth_methods.as_ref().is_some_and(|methods| methods.iter().any(|own| own == "none"));
        let method = if supports_none { AuthMethod::None } else { secret_method(found) };
        let application = if redirect.starts_with("https:") { "web" } else { "native" };
        let mut body = json!({
            "client_name": "toolwire",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": application,
        });
        if let (Some(scope), Some(body)) = (scope, body.as_object_mut()) {
            body.insert("scope".to_owned(), scope.into());
        }
        let response = fetcher.post(endpoint, JSON, HeaderMap::new(), body.to_string()).await?;
        if !response.status().is_success() {
            return Err(refusal("the registration of a client", endpoint, &response));
        }
        let wrong = || OAuthError::Invalid(endpoint.clone(), "an invalid registration".to_owned());
        let registered: Registered = serde_json::from_slice(response.body()).map_err(|_| wrong())?;
        let secret = registered.client_secret.filter(|secret| !secret.is_empty());
        let method = match registered.token_endpoint_auth_method.as_deref() {
            _ if secret.is_none() => AuthMethod::None,
            Some("client_secret_basic") => AuthMethod::Basic,
            Some("client_secret_post") => AuthMethod::Post,
            Some("none") => AuthMethod::None,
            None => secret_method(found),
            Some(other) => {
                let message = format!("an unknown way to authenticate: {}", plain(other));
                return Err(OAuthError::Invalid(endpoint.clone(), message));
            }
        };
        if registered.client_id.is_empty() {
            return Err(wrong());
        }
        Ok(Self { id: registered.client_id, secret: secret.map(SecretString::from), method })
    }

    /// Adds the client to a form, or to the headers that are sent with it (RFC 6749, section 2.3.1).
    pub(super) fn authenticate<'f>(&'f self, form: &mut Vec<(&'f str, &'f str)>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // Some servers also want the id beside `Authorization`.
        form.push(("client_id", &self.id));
        match (self.method, &self.secret) {
            (AuthMethod::Basic, Some(secret)) => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&self.id), encoded(secret.expose_secret()));
                let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
                if let Ok(mut value) = value {
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
            }
            (AuthMethod::Post, Some(secret)) => form.push(("client_secret", secret.expose_secret())),
            _ => {}
        }
        headers
    }
}

/// How a client with a secret authenticates: as the server lists first. Without a list, it supports `client_secret_basic`.
fn secret_method(found: &Discovered) -> AuthMethod {
    let known = |method: &String| match method.as_str() {
        "client_secret_basic" => Some(AuthMethod::Basic),
        "client_secret_post" => Some(AuthMethod::Post),
        _ => None,
    };
    found.auth_methods.iter().flatten().find_map(known).unwrap_or(AuthMethod::Basic)
}

/// Parses the configured authorization server.
pub(super) fn configured_issuer(options: &OAuthOptions) -> Option<Url> {
    options.oauth_issuer.as_ref().and_then(|issuer| Url::parse(&issuer.to_string()).ok())
}

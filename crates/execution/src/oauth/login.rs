//! The steps of a login by a person: [`Account::begin`] makes the URL to open, [`Account::finish`] takes the response.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, WWW_AUTHENTICATE},
};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::time::Instant;
use url::{Host, Url, form_urlencoded};

use super::{
    account::Account,
    challenge::{Challenge, are_scopes},
    client::OAuthClient,
    discovery::{Discovered, is_same_issuer},
    error::{OAuthError, plain},
    fetcher::JSON,
    tokens,
};

/// How long a person may take to log in.
const LIMIT: Duration = Duration::from_secs(600);

/// Maximum number of logins of one server that wait for a response. Beyond it, the oldest are dropped.
const MAX_PENDING: usize = 8;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 16 << 10;

/// A login that waits for a response.
#[derive(Debug)]
pub(super) struct Pending {
    state: SecretString,
    verifier: SecretString,
    redirect: String,
    client: OAuthClient,
    found: Discovered,
    scope: Option<String>,
    begun: Instant,
}

/// The parameters of a response (RFC 6749, section 4.1.2, and RFC 9207, section 2).
#[derive(Debug, Default)]
struct Response {
    state: Option<String>,
    code: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl Response {
    /// Reads the query of a URL. A parameter must not be repeated.
    fn parse(query: &str) -> Result<Self, OAuthError> {
        if query.len() > MAX_RESPONSE {
            return Err(OAuthError::Response("it is too long"));
        }
        let mut response = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*name {
                "state" => &mut response.state,
                "code" => &mut response.code,
                "iss" => &mut response.issuer,
                "error" => &mut response.error,
                "error_description" => &mut response.description,
                _ => continue,
            };
            if field.replace(value.into_owned()).is_some() {
                return Err(OAuthError::Response("a parameter is repeated"));
            }
        }
        Ok(response)
    }
}

impl Account {
    /// Begins a login whose response goes to `redirect`, with these scopes. Returns the URL to open in a browser.
    ///
    /// # Errors
    /// The server has no authorization server that can be used, or that one refuses.
    pub async fn begin(&self, redirect: &str, scope: Option<&str>) -> Result<String, OAuthError> {
        check_redirect(redirect)?;
        if self.vault.is_none() {
            return Err(OAuthError::NoVault);
        }
        if scope.is_some_and(|scope| !are_scopes(scope)) {
            return Err(OAuthError::Response("the scopes are not valid"));
        }
        if self.state.lock().challenge == Challenge::default() {
            let challenge = self.probe().await?.unwrap_or_default();
            self.state.lock().challenge = challenge;
        }
        let found = self.discovered().await?;
        let Some(authorization) = &found.authorization else { return Err(OAuthError::NoMetadata) };
        if !found.has_pkce {
            return Err(OAuthError::NoPkce);
        }
        let scope =
            self.scopes(scope, &found).map(|scope| match found.has_offline && !has(&scope, OFFLINE) {
                true => format!("{scope} {OFFLINE}"),
                false => scope,
            });
        let client = match OAuthClient::configured(&self.options, &found) {
            Some(client) => client,
            None => OAuthClient::register(&self.fetcher, &found, redirect, scope.as_deref()).await?,
        };
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.expose_secret().as_bytes()));
        let mut url = authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect)
            .append_pair("state", state.expose_secret())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &found.resource);
        if let Some(scope) = &scope {
            url.query_pairs_mut().append_pair("scope", scope);
            if has(scope, OFFLINE) {
                // OpenID Connect Core 1.0, section 11.
                url.query_pairs_mut().append_pair("prompt", "consent");
            }
        }
        let (redirect, begun) = (redirect.to_owned(), Instant::now());
        let pending = Pending { state, verifier, redirect, client, found, scope, begun };
        let waiting = &mut self.state.lock().pending;
        waiting.retain(|pending| pending.begun.elapsed() < LIMIT);
        if waiting.len() >= MAX_PENDING {
            waiting.remove(0);
        }
        waiting.push(pending);
        Ok(url.into())
    }

    /// Whether the response with this query is for a login of this account.
    pub fn awaits(&self, query: &str) -> bool {
        let state = Response::parse(query).ok().and_then(|response| response.state);
        state.is_some_and(|state| {
            let waiting = &self.state.lock().pending;
            waiting.iter().any(|pending| is_equal(&pending.state, &state))
        })
    }

    /// Ends a login with a response, given as the query of the URL to which the browser was sent.
    ///
    /// # Errors
    /// The response is not for a login that waits, or a refusal, or there are no tokens for it.
    pub async fn finish(&self, query: &str) -> Result<(), OAuthError> {
        let response = Response::parse(query)?;
        let state = response.state.ok_or(OAuthError::State)?;
        let pending = {
            let waiting = &mut self.state.lock().pending;
            waiting.retain(|pending| pending.begun.elapsed() < LIMIT);
            let place = waiting.iter().position(|pending| is_equal(&pending.state, &state));
            waiting.remove(place.ok_or(OAuthError::State)?)
        };
        let expected = &pending.found.issuer;
        match &response.issuer {
            Some(issuer) if !is_same_issuer(issuer, expected) => {
                return Err(OAuthError::MixedUp { expected: plain(expected), found: plain(issuer) });
            }
            None if pending.found.names_issuer => {
                return Err(OAuthError::Response("it does not name its authorization server"));
            }
            _ => {}
        }
        if let Some(error) = response.error {
            let description = response.description.map(|text| format!(": {}", plain(&text)));
            return Err(OAuthError::Denied(plain(&error) + &description.unwrap_or_default()));
        }
        let code =
            response.code.filter(|code| !code.is_empty()).ok_or(OAuthError::Response("it has no code"))?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &pending.redirect),
            ("code_verifier", pending.verifier.expose_secret()),
            ("resource", &pending.found.resource),
        ];
        let tokens = tokens::request(&self.fetcher, &pending.found.token, &pending.client, &grant).await?;
        let login = self.login(&pending.found, pending.client, pending.scope, tokens);
        let Some(vault) = &self.vault else { return Err(OAuthError::NoVault) };
        let _lock = vault.lock(self.login_name()).await?;
        self.keep(login, false).await?;
        tracing::info!(provider = %self.name, "logged in to an MCP server");
        Ok(())
    }

    /// Ends the login, also at the authorization server if that can be asked (RFC 7009, section 2).
    /// Returns whether there was one.
    ///
    /// # Errors
    /// The login cannot be removed.
    pub async fn log_out(&self) -> Result<bool, OAuthError> {
        let Some(vault) = &self.vault else { return Ok(false) };
        let _lock = vault.lock(self.login_name()).await?;
        let login = self.current();
        let had_one = self.forget()?;
        if let Some(login) = login
            && let Some(Ok(endpoint)) =
                login.revocation_endpoint.as_deref().map(|url| self.fetcher.checked(url))
        {
            let (token, hint) = match &login.refresh {
                Some(refresh) => (refresh, "refresh_token"),
                None => (&login.access, "access_token"),
            };
            let fields = [("token", token.expose_secret()), ("token_type_hint", hint)];
            let sent = tokens::posted(&self.fetcher, &endpoint, &login.client, &fields).await;
            if !sent.is_ok_and(|response| response.status().is_success()) {
                tracing::warn!(provider = %self.name, "the authorization server did not revoke the token");
            }
        }
        Ok(had_one)
    }

    /// Asks the server whether it needs a login. Returns the challenge if it does.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) async fn probe(&self) -> Result<Option<Challenge>, OAuthError> {
        let own = json!({"name": "toolwire", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": own});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        let headers = HeaderMap::from_iter([(ACCEPT, accept)]);
        let response = self.fetcher.post(&self.server, JSON, headers, message.to_string()).await?;
        Ok((response.status() == StatusCode::UNAUTHORIZED).then(|| Challenge::parse(&challenges(&response))))
    }

    /// Whether the server needs a login, or its authorization server refuses the client's secret. `None` if it cannot be
    /// asked.
    pub async fn is_needed(&self) -> Option<bool> {
        if self.is_by_itself() {
            return Some(self.with_credentials().await.is_err());
        }
        self.probe().await.ok().map(|challenge| challenge.is_some())
    }
}

/// Asks for a refresh token (OpenID Connect Core 1.0, section 11).
const OFFLINE: &str = "offline_access";

fn has(scopes: &str, scope: &str) -> bool {
    scopes.split(' ').any(|own| own == scope)
}

fn challenges(response: &http::Response<Bytes>) -> String {
    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
    values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(", ")
}

/// Checks that a response to `redirect` stays on this machine or is encrypted.
fn check_redirect(redirect: &str) -> Result<(), OAuthError> {
    let url = Url::parse(redirect).map_err(|_| OAuthError::Redirect)?;
    let is_own = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    match is_plain && (url.scheme() == "https" || (url.scheme() == "http" && is_own)) {
        true => Ok(()),
        false => Err(OAuthError::Redirect),
    }
}

fn is_equal(secret: &SecretString, shown: &str) -> bool {
    subtle::ConstantTimeEq::ct_eq(secret.expose_secret().as_bytes(), shown.as_bytes()).into()
}

/// 256 random bits (RFC 7636, section 4.1).
fn random() -> Result<SecretString, OAuthError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OAuthError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes).into())
}

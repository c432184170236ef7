//! [`Account`]: toolwire's login at one server.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep},
};
use url::Url;

use super::{
    challenge::Challenge,
    client::{OAuthClient, configured_issuer},
    discovery::{Discovered, discover},
    error::OAuthError,
    fetcher::Fetcher,
    login::Pending,
    options::{Grant, OAuthOptions},
    tokens::{self, Tokens},
    vault::{Login, LoginName, Stamp, Vault},
};
use crate::http::HttpClient;
use toolwire_net::redact::Redactor;

/// How often the file of a login is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long before its end a token is refreshed, in seconds; at most a quarter of its lifetime.
const MARGIN: u64 = 60;

const REFUSED: &str = "the server refuses the token that its authorization server has just issued";

/// Whether requests can be authorized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// There is no login. Whether one is needed is unknown, unless a reason says so.
    LoggedOut { reason: Option<String> },
    LoggedIn {
        /// When the access token expires, as a Unix time in seconds.
        expires_at: Option<u64>,
        is_refreshable: bool,
    },
}

/// The login at the server `name`, which may have none.
#[derive(Debug)]
pub struct Account {
    pub(super) name: Arc<str>,
    /// The name of the client key that the login belongs to. `None` if all clients share it.
    pub(super) key: Option<Arc<str>>,
    pub(super) server: Url,
    pub(super) options: OAuthOptions,
    pub(super) fetcher: Fetcher,
    pub(super) vault: Option<Arc<Vault>>,
    /// Masks the tokens in logs and messages.
    pub(super) redactor: Option<Arc<Redactor>>,
    pub(super) state: Mutex<AccountState>,
    /// Held while tokens are requested.
    pub(super) renewing: tokio::sync::Mutex<()>,
    pub(super) renewed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct AccountState {
    login: Option<Arc<Login>>,
    stamp: Option<Stamp>,
    looked: Option<Instant>,
    /// Why a login is needed.
    need: Option<String>,
    /// Whether the token has just been refreshed and no request has succeeded with it.
    is_unproven: bool,
    /// What the server has said last about the token that it wants.
    pub(super) challenge: Challenge,
    pub(super) pending: Vec<Pending>,
}

impl Account {
    /// An account at the server with this URL. `None` if the URL is invalid.
    pub fn new(
        name: Arc<str>,
        server: &http::Uri,
        options: OAuthOptions,
        http: &HttpClient,
        vault: Option<Arc<Vault>>,
        redactor: Option<Arc<Redactor>>,
    ) -> Option<Arc<Self>> {
        let server = Url::parse(&server.to_string()).ok()?;
        let fetcher = Fetcher::new(http, &server, configured_issuer(&options).as_ref());
        let (state, renewing, renewed) = (Mutex::default(), tokio::sync::Mutex::default(), Notify::new());
        Some(Arc::new(Self {
            name,
            key: None,
            server,
            options,
            fetcher,
            vault,
            redactor,
            state,
            renewing,
            renewed,
        }))
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the server.
    pub fn server(&self) -> &str {
        self.server.as_str()
    }

    pub fn state(&self) -> LoginState {
        self.look(true);
        let state = self.state.lock();
        let is_over =
            |login: &&Arc<Login>| login.refresh.is_none() && login.expires_at.is_some_and(|end| end <= now());
        match state.login.as_ref().filter(|login| !is_over(login)) {
            Some(login) => LoginState::LoggedIn {
                expires_at: login.expires_at,
                is_refreshable: login.refresh.is_some() || self.is_by_itself(),
            },
            None => LoginState::LoggedOut { reason: state.need.clone() },
        }
    }

    /// Why requests are refused, if they are for want of a login.
    pub(crate) fn need(&self) -> Option<String> {
        self.state.lock().need.clone()
    }

    /// Whether a person logs in.
    pub fn wants_person(&self) -> bool {
        !self.is_by_itself()
    }

    pub(super) fn is_by_itself(&self) -> bool {
        self.options.oauth_grant == Grant::ClientCredentials
    }

    /// Waits until there is another login, possibly from another process.
    pub(crate) async fn changed(&self) {
        let before = self.state.lock().login.clone();
        loop {
            tokio::select! {
                () = sleep(LOOK) => {}
                () = self.renewed.notified() => {}
            }
            self.look(true);
            match (&before, &self.state.lock().login) {
                (_, None) => {}
                (Some(before), Some(now)) if Arc::ptr_eq(before, now) => {}
                _ => return,
            }
        }
    }

    /// The token for the next request, refreshed if it is about to expire. `None` if there is no login.
    ///
    /// # Errors
    /// The token has expired, and there is no other one.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<SecretString>, OAuthError> {
        self.look(false);
        let Some(login) = self.state.lock().login.clone() else { return Ok(None) };
        if login.renew_at.is_none_or(|at| now() < at) {
            return Ok(Some(login.access.clone()));
        }
        let renewed = self.renewed_after(login.access.clone(), true).await;
        match renewed {
            Ok(true) => {}
            // Until its end, the token is as good as before.
            Err(_) | Ok(false) if login.expires_at.is_some_and(|end| now() < end) => {
                return Ok(Some(login.access.clone()));
            }
            Ok(false) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(self.state.lock().login.as_ref().map(|login| login.access.clone()))
    }

    /// Reacts to status 401 for a request with the token `rejected`. Returns whether there is another token.
    ///
    /// # Errors
    /// There may be one, but the authorization server did not issue it.
    pub(crate) async fn rejected(
        self: &Arc<Self>,
        rejected: Option<SecretString>,
        challenge: Challenge,
    ) -> Result<bool, OAuthError> {
        {
            let mut state = self.state.lock();
            let known = state.challenge.resource_metadata.take();
            state.challenge =
                Challenge { resource_metadata: challenge.resource_metadata.or(known), ..challenge };
        }
        self.look(true);
        match rejected {
            Some(rejected) => self.renewed_after(rejected, false).await,
            None if self.state.lock().login.is_some() => Ok(true),
            None if self.is_by_itself() => self.renewed_after(SecretString::default(), false).await,
            None => {
                self.needs_login();
                Ok(false)
            }
        }
    }

    /// Records that a request with the current token was not refused for its token.
    pub(crate) fn accepted(&self) {
        let mut state = self.state.lock();
        (state.is_unproven, state.need) = (false, None);
    }

    /// Records that the server has also rejected the token that it got in place of another one.
    pub(crate) fn refused_again(&self) {
        self.state.lock().need = Some(REFUSED.to_owned());
    }

    /// Records that the token does not allow a request.
    pub(crate) fn lacks_scope(&self, challenge: Challenge) {
        let mut state = self.state.lock();
        let had = state.login.as_ref().and_then(|login| login.scope.clone()).unwrap_or_default();
        let mut scopes: Vec<&str> = had.split_whitespace().collect();
        scopes.extend(challenge.scopes().unwrap_or_default().split_whitespace());
        scopes.sort_unstable();
        scopes.dedup();
        let scopes = scopes.join(" ");
        let (command, shown) = (self.command(), super::error::plain(&scopes));
        let need = match self.is_by_itself() {
            true => format!("the token does not allow it; `oauth_scopes` must have: {shown}"),
            false => {
                format!("needs a login with more scopes: run `{command} --scope \"{shown}\"`")
            }
        };
        state.need = Some(need);
        state.challenge = Challenge { scope: Some(scopes), ..challenge };
    }

    fn needs_login(&self) {
        let mut state = self.state.lock();
        let what = match state.challenge.resource_metadata {
            Some(_) => "needs a login",
            None => "requires a key (`api_key`) or a login",
        };
        state.need = Some(format!("{what}: run `{}`", self.command()));
    }

    /// Replaces the token `old`, unless that has happened already. The request goes on if the caller goes away, since a
    /// refresh token may be valid only once. If `is_due`, the token was not rejected, but is about to expire.
    async fn renewed_after(self: &Arc<Self>, old: SecretString, is_due: bool) -> Result<bool, OAuthError> {
        let own = Arc::clone(self);
        let work = async move {
            let _turn = own.renewing.lock().await;
            let login = own.state.lock().login.clone();
            match login {
                Some(login) if login.access.expose_secret() != old.expose_secret() => Ok(true),
                // A token that was refused although it is new: the next one would be refused too.
                Some(_) if !is_due && own.state.lock().is_unproven => {
                    own.refused_again();
                    Ok(false)
                }
                _ if own.is_by_itself() => own.with_credentials().await.map(|()| true),
                Some(login) => own.refreshed(&login).await,
                None => {
                    own.needs_login();
                    Ok(false)
                }
            }
        };
        match Handle::current().spawn(work).await {
            Ok(renewed) => renewed,
            Err(_) => Ok(false),
        }
    }

    /// Refreshes a login (RFC 6749, section 6). Returns whether there is a new token.
    async fn refreshed(&self, login: &Login) -> Result<bool, OAuthError> {
        let _lock = match &self.vault {
            Some(vault) => Some(vault.lock(self.login_name()).await?),
            None => None,
        };
        // Another process may have refreshed it.
        self.look(true);
        let now_kept = self.state.lock().login.clone();
        match &now_kept {
            Some(kept) if kept.access.expose_secret() != login.access.expose_secret() => return Ok(true),
            Some(_) => {}
            None => {
                self.needs_login();
                return Ok(false);
            }
        }
        let Some(refresh) = &login.refresh else {
            self.needs_login();
            return Ok(false);
        };
        let mut grant = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        grant.push(("resource", &login.resource));
        let endpoint = self.fetcher.checked(&login.token_endpoint)?;
        match tokens::request(&self.fetcher, &endpoint, &login.client, &grant).await {
            Ok(tokens) => {
                let refresh = tokens.refresh.clone().or_else(|| login.refresh.clone());
                let scope = tokens.scope.clone().or_else(|| login.scope.clone());
                let renewed = Login { refresh, scope, ..login.with(tokens) };
                tracing::debug!(provider = %self.name, "the token of an MCP server was refreshed");
                if let Err(error) = self.keep(renewed, true).await {
                    tracing::warn!(provider = %self.name, %error, "the refreshed login cannot be kept");
                }
                Ok(true)
            }
            Err(error) if error.ends_login() => {
                tracing::warn!(provider = %self.name, %error, "the login at an MCP server has ended");
                self.forget()?;
                self.needs_login();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Requests a token with the client's own secret (RFC 6749, section 4.4).
    pub(super) async fn with_credentials(&self) -> Result<(), OAuthError> {
        let requested = async {
            let found = self.discovered().await?;
            let client = OAuthClient::configured(&self.options, &found).ok_or(OAuthError::NoRegistration)?;
            let scope = self.scopes(None, &found);
            let mut grant = vec![("grant_type", "client_credentials"), ("resource", &found.resource)];
            grant.extend(scope.as_deref().map(|scope| ("scope", scope)));
            let tokens = tokens::request(&self.fetcher, &found.token, &client, &grant).await?;
            Ok(self.login(&found, client.clone(), scope.clone(), tokens))
        };
        match requested.await {
            Ok(login) => {
                self.adopt(Some(Arc::new(Login { refresh: None, ..login })), true);
                Ok(())
            }
            Err(error) => {
                let error: OAuthError = error;
                self.state.lock().need = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Finds the authorization server.
    pub(super) async fn discovered(&self) -> Result<Discovered, OAuthError> {
        let challenge = self.state.lock().challenge.clone();
        let issuer = configured_issuer(&self.options);
        discover(&self.fetcher, &self.server, issuer.as_ref(), &challenge).await
    }

    /// The scopes to ask for: `wanted`, or the configured ones, or those that the server has asked for, or those that it
    /// lists.
    pub(super) fn scopes(&self, wanted: Option<&str>, found: &Discovered) -> Option<String> {
        let configured = self.options.oauth_scopes.join(" ");
        let challenge = self.state.lock().challenge.scopes().map(str::to_owned);
        let wanted =
            wanted.map(str::to_owned).or_else(|| Some(configured).filter(|scopes| !scopes.is_empty()));
        wanted.or(challenge).or_else(|| found.scopes.clone())
    }

    /// A login with new tokens.
    pub(super) fn login(
        &self,
        found: &Discovered,
        client: OAuthClient,
        scope: Option<String>,
        tokens: Tokens,
    ) -> Login {
        let login = Login {
            server: self.server.to_string(),
            issuer: found.issuer.clone(),
            token_endpoint: found.token.to_string(),
            revocation_endpoint: found.revocation.as_ref().map(Url::to_string),
            resource: found.resource.clone(),
            scope: tokens.scope.clone().or(scope),
            client,
            access: SecretString::default(),
            refresh: tokens.refresh.clone(),
            expires_at: None,
            renew_at: None,
        };
        login.with(tokens)
    }

    /// Keeps a login in the vault, if there is one, and uses it. The lock must be held.
    pub(super) async fn keep(&self, login: Login, is_unproven: bool) -> Result<(), OAuthError> {
        let login = Arc::new(login);
        let (vault, kept) = (self.vault.clone(), Arc::clone(&login));
        let (server, key) = (Arc::clone(&self.name), self.key.clone());
        // The disk may be slow.
        let writing = Handle::current().spawn_blocking(move || {
            let name = LoginName { server: &server, key: key.as_deref() };
            vault.map_or(Ok(()), |vault| vault.write(name, &kept))
        });
        let written = writing.await.unwrap_or(Ok(()));
        self.adopt(Some(login), is_unproven);
        Ok(written?)
    }

    /// Forgets the login. Returns whether there was one.
    pub(super) fn forget(&self) -> Result<bool, OAuthError> {
        let removed = self.vault.as_ref().map_or(Ok(false), |vault| vault.remove(self.login_name()));
        self.adopt(None, false);
        Ok(removed?)
    }

    fn adopt(&self, login: Option<Arc<Login>>, is_unproven: bool) {
        self.learn(login.as_deref());
        let stamp = self.vault.as_ref().map(|vault| vault.stamp(self.login_name()));
        let mut state = self.state.lock();
        (state.login, state.stamp, state.is_unproven, state.need) = (login, stamp, is_unproven, None);
        drop(state);
        self.renewed.notify_one();
    }

    /// Reads the login again if its file has changed, at most each second unless `is_due`.
    fn look(&self, is_due: bool) {
        let Some(vault) = self.vault.as_ref().filter(|_| !self.is_by_itself()) else { return };
        let mut state = self.state.lock();
        if !is_due && state.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        state.looked = Some(Instant::now());
        let stamp = Some(vault.stamp(self.login_name()));
        if state.stamp == stamp {
            return;
        }
        state.stamp = stamp;
        let read = vault.read(self.login_name());
        if let Err(error) = &read {
            tracing::warn!(provider = %self.name, %error, "the login at an MCP server cannot be read");
        }
        // Tokens must not reach another server than the one that they are for.
        let login = read.ok().flatten().filter(|login| login.server == self.server.as_str());
        self.learn(login.as_ref());
        let is_same = |old: &Arc<Login>| {
            login.as_ref().is_some_and(|new| new.access.expose_secret() == old.access.expose_secret())
        };
        if !state.login.as_ref().is_some_and(is_same) {
            (state.login, state.is_unproven, state.need) = (login.map(Arc::new), false, None);
        }
    }

    fn learn(&self, login: Option<&Login>) {
        let (Some(redactor), Some(login)) = (&self.redactor, login) else { return };
        let secrets = [Some(&login.access), login.refresh.as_ref(), login.client.secret.as_ref()];
        secrets.into_iter().flatten().for_each(|secret| redactor.learn(secret.expose_secret()));
    }

    /// Reads what the server says about the token of a response.
    pub(crate) fn refusal(status: StatusCode, challenge: &str) -> Option<Challenge> {
        let challenge = Challenge::parse(challenge);
        match status {
            StatusCode::UNAUTHORIZED => Some(challenge),
            StatusCode::FORBIDDEN => Some(challenge).filter(Challenge::lacks_scope),
            _ => None,
        }
    }

    pub(super) fn current(&self) -> Option<Arc<Login>> {
        self.look(true);
        self.state.lock().login.clone()
    }
}

impl Login {
    /// The login with an access token that was issued now.
    fn with(&self, tokens: Tokens) -> Self {
        let expires_at = tokens.lifetime.map(|lifetime| now().saturating_add(lifetime));
        let margin = |lifetime: u64| MARGIN.min(lifetime / 4);
        let renew_at = tokens.lifetime.map(|lifetime| now().saturating_add(lifetime - margin(lifetime)));
        Self { access: tokens.access, expires_at, renew_at, ..self.clone() }
    }
}

/// Unix time in seconds.
pub(super) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

//! [`AccountSettings`]: the Proton account whose session is used for requests.

use std::path::PathBuf;

use http::Uri;
use secrecy::{ExposeSecret, SecretString};

use super::session::{Form, Session, is_usable};
use crate::settings::Settings;

/// The host of Proton's own API, for which token sessions are refreshed elsewhere
/// (docs/protocols/lumo.md#refresh).
const HOST: &str = "lumo.proton.me";
const ACCOUNT_URL: &str = "https://account.proton.me/api";

/// Whose credentials are sent with requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Credentials {
    /// Those in the configuration: an account, or the upstream's `api_key`.
    #[default]
    Own,
    /// Those that the client sends with its request.
    Client,
}

/// The account of a Lumo upstream.
#[derive(Debug, Clone, Settings)]
pub struct AccountSettings {
    /// `"own"`: the account below, or `api_key`. `"client"`: those that [clients send](#accounts-of-lumo)
    #[setting(default = Credentials::Own, word, file_only)]
    pub credentials: Credentials,
    /// the file with the session of a Proton account, replaced whenever the tokens change
    #[setting(or = "none")]
    pub session: Option<PathBuf>,
    /// the session's id, instead of a file or for a first one
    #[setting(or = "none", file_only)]
    pub uid: Option<String>,
    /// a secret: the session's access token
    #[setting(or = "none", file_only)]
    pub access_token: Option<SecretString>,
    /// a secret: the session's refresh token. It is valid once, so it needs `session`
    #[setting(or = "none", file_only)]
    pub refresh_token: Option<SecretString>,
    /// `"token"`: the session of a program. `"cookie"`: that of a browser
    #[setting(default = Form::Token, word, file_only)]
    pub form: Form,
    /// the `x-pm-appversion`. Proton refuses versions that are too old
    #[setting(default = "web-lumo@5.0.0".to_owned())]
    pub app_version: String,
    /// base URL of the API that refreshes tokens and ends sessions
    #[setting(or = "`base_url`, or Proton's")]
    pub account_url: Option<Uri>,
}

impl PartialEq for AccountSettings {
    fn eq(&self, other: &Self) -> bool {
        fn exposed(secret: &Option<SecretString>) -> Option<&str> {
            secret.as_ref().map(|secret| secret.expose_secret())
        }
        let secrets = |settings: &Self| {
            [&settings.access_token, &settings.refresh_token].map(|secret| exposed(secret).map(str::to_owned))
        };
        let rest = |settings: &Self| {
            let Self { credentials, session, uid, form, app_version, account_url, .. } = settings.clone();
            (credentials, session, uid, form, app_version, account_url)
        };
        rest(self) == rest(other) && secrets(self) == secrets(other)
    }
}

impl Eq for AccountSettings {}

impl AccountSettings {
    /// Applies the known facts about the server at `host`.
    pub(super) fn adapt_to_host(&mut self, host: &str) {
        if host == HOST {
            self.account_url = Some(Uri::from_static(ACCOUNT_URL));
        }
    }

    /// Whether requests are sent with the session of an account.
    pub fn has_session(&self) -> bool {
        self.session.is_some() || self.access_token.is_some()
    }

    /// The session whose tokens are in the configuration itself.
    pub fn configured(&self) -> Option<Session> {
        Some(Session {
            uid: self.uid.clone()?,
            access_token: self.access_token.clone()?,
            refresh_token: self.refresh_token.clone(),
            form: self.form,
            app_version: None,
            expires_at: None,
            refreshed_at: None,
        })
    }

    /// The secrets in these settings.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.access_token.iter().chain(&self.refresh_token)
    }

    /// What is wrong with the combination of settings, if anything. `has_key` is set if the upstream also has
    /// an `api_key`.
    pub fn problem(&self, has_key: bool) -> Option<&'static str> {
        let is_own = self.credentials == Credentials::Own;
        let has_tokens = self.uid.is_some() || self.refresh_token.is_some() || self.has_session();
        if !is_own && (has_tokens || has_key) {
            return Some(
                "with `credentials = \"client\"`, clients send their own; leave out `api_key` and the session",
            );
        }
        if has_key && has_tokens {
            return Some("`api_key` and the session of an account: give one of them");
        }
        if self.uid.is_some() != self.access_token.is_some()
            || (self.refresh_token.is_some() && self.uid.is_none())
        {
            return Some("`uid` and `access_token` belong together");
        }
        if self.uid.as_deref().is_some_and(|uid| !is_usable(uid)) {
            return Some("`uid` has characters that no id of a session has");
        }
        if self.secrets().any(|token| !is_usable(token.expose_secret())) {
            return Some("a token has characters that no token has; of a cookie, take the value alone");
        }
        if self.refresh_token.is_some() && self.session.is_none() {
            return Some(
                "a refresh token is valid once: set `session` to the file that keeps the ones that follow",
            );
        }
        None
    }
}

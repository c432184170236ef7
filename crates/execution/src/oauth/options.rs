//! [`OAuthOptions`]: the settings of a server's login.

use http::Uri;
use secrecy::SecretString;

use toolwire_pipeline::settings::Settings;

/// How an access token is obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Grant {
    /// A person logs in.
    AuthorizationCode,
    /// With the client's own secret.
    ClientCredentials,
}

/// Who shares a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LoginPer {
    /// All clients.
    Server,
    /// The client keys of one name.
    Key,
}

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct OAuthOptions {
    /// this client's id at the authorization server, or the URL of its metadata
    #[setting(or = "toolwire registers itself")]
    pub(super) oauth_client_id: Option<String>,
    /// the client's secret: `"env:NAME"` or `"file:PATH"`
    pub(super) oauth_client_secret: Option<SecretString>,
    /// the authorization server; only this one may then have a private address although `url` is public
    #[setting(or = "the one that the server names")]
    pub(super) oauth_issuer: Option<Uri>,
    /// the scopes to ask for
    #[setting(or = "those that the server names")]
    pub(super) oauth_scopes: Vec<String>,
    /// `authorization_code`: a [person logs in](tools.md); `client_credentials`: the client's secret is enough
    #[setting(default = Grant::AuthorizationCode, word)]
    pub(super) oauth_grant: Grant,
    /// `server`: all clients use the operator's login; `key`: each client key
    /// [needs its own](tools.md)
    #[setting(default = LoginPer::Server, word)]
    pub(crate) oauth_login_per: LoginPer,
}

impl OAuthOptions {
    /// The first mistake, with the key that it concerns.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let has_secret = self.oauth_client_id.is_some() && self.oauth_client_secret.is_some();
        let is_scope = |scope: &String| {
            !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
        };
        if self.oauth_grant == Grant::ClientCredentials && !has_secret {
            let message = "`client_credentials` needs `oauth_client_id` and `oauth_client_secret`";
            return Some(("oauth_grant", message));
        }
        if self.oauth_grant == Grant::ClientCredentials && self.oauth_login_per == LoginPer::Key {
            return Some(("oauth_login_per", "with `client_credentials`, nobody logs in"));
        }
        if self.oauth_client_secret.is_some() && self.oauth_client_id.is_none() {
            return Some(("oauth_client_secret", "a secret without `oauth_client_id`"));
        }
        let is_invalid = !self.oauth_scopes.iter().all(is_scope);
        is_invalid.then_some(("oauth_scopes", "a scope has no spaces, quotes or backslashes"))
    }
}

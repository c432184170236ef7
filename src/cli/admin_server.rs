//! [`AdminServer`]: the options that tell a command which server's admin API to call.

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::upstream_flags::resolved_secret;

/// The address of a server, and the key for it.
#[derive(Debug, clap::Args)]
pub(super) struct AdminServer {
    /// The server, which needs [admin] in its configuration
    #[arg(long, value_name = "URL", env = "TOOLWIRE_SERVER", default_value = "http://127.0.0.1:8787")]
    pub(super) server: String,
    /// An admin key: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_ADMIN_KEY", hide_env_values = true, value_parser = resolved_secret)]
    admin_key: Option<SecretString>,
}

impl AdminServer {
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    /// The value of the `Authorization` header, if a key was given.
    ///
    /// # Errors
    /// The key contains characters that a header value must not contain.
    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, &'static str> {
        let Some(key) = &self.admin_key else { return Ok(None) };
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| "the admin key has characters that no header may have")?;
        bearer.set_sensitive(true);
        Ok(Some(bearer))
    }
}

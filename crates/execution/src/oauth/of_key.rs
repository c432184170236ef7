//! Accounts of client keys, each of which has a login of its own at a server.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    account::{Account, LoginState},
    error::VaultError,
    options::LoginPer,
    vault::LoginName,
};

/// How a reason begins that names the command to run.
const NEEDS: &str = "needs a login";

impl Account {
    /// The account of the client key `key` at the same server.
    pub fn of_key(&self, key: &str) -> Arc<Self> {
        Arc::new(Self {
            name: Arc::clone(&self.name),
            key: Some(key.into()),
            server: self.server.clone(),
            options: self.options.clone(),
            fetcher: self.fetcher.clone(),
            vault: self.vault.clone(),
            redactor: self.redactor.clone(),
            state: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            renewed: Notify::new(),
        })
    }

    /// The name of the client key that the login belongs to.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether each client key has a login of its own.
    pub fn is_per_key(&self) -> bool {
        self.options.oauth_login_per == LoginPer::Key
    }

    /// The names of the client keys that have a login at the server.
    ///
    /// # Errors
    /// The logins cannot be read.
    pub fn keys(&self) -> Result<Vec<String>, VaultError> {
        self.vault.as_ref().map_or(Ok(Vec::new()), |vault| vault.keys(&self.name))
    }

    /// Whose login it is, in the vault.
    pub(super) fn login_name(&self) -> LoginName<'_> {
        LoginName { server: &self.name, key: self.key.as_deref() }
    }

    /// The command with which a person logs in.
    pub(crate) fn command(&self) -> String {
        let key = self.key.as_ref().map(|key| format!(" --key {key}")).unwrap_or_default();
        format!("toolwire mcp login {}{key}", self.name)
    }

    /// Why calls of the client key cannot succeed, for the model. `None` if they can, or if all clients share the login.
    pub(crate) fn refusal_of_key(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let need = match self.state() {
            LoginState::LoggedOut { reason } => reason,
            LoginState::LoggedIn { .. } => Some(self.need()?),
        };
        let need = need.filter(|need| need.starts_with(NEEDS));
        let need = need.unwrap_or_else(|| format!("{NEEDS}: run `{}`", self.command()));
        Some(format!("For the client key `{key}`, the server `{}` {need}.", self.name))
    }
}

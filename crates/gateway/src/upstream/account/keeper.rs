//! [`Keeper`]: reads, refreshes and ends the session of an upstream's account. It blocks, so it runs on threads of its
//! own.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use http::{Request, Response};
use tokio::runtime;

use super::{
    super::{connector::Connector, small::Small},
    error::{AnyError, SessionError},
    file::SessionFile,
};
use crate::stamp::unix_time;
use toolwire_config::Upstream;
use toolwire_pipeline::dialect::{AccountSettings, RefreshError, Session};

/// Timeout of a request to the account's server.
const LIMIT: Duration = Duration::from_secs(30);

/// Maximum size in bytes of the server's responses.
const MAX_ANSWER: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Keeper {
    upstream: Arc<Upstream>,
    settings: AccountSettings,
    file: Option<SessionFile>,
}

#[derive(Debug, Clone)]
pub(super) struct AccountSession {
    pub(super) session: Session,
    /// Whether the tokens are in the file, if there is one.
    pub(super) is_saved: bool,
}

/// Which session a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A session that is newer than the current one: from another process, from a new login, or else the current one
    /// with new tokens.
    Newer,
    /// A session from another process or a new login. The current tokens are too new to be refreshed.
    Others,
    /// The current session with new tokens, whatever its age.
    Refreshed,
}

#[derive(Debug)]
pub(super) struct Trouble {
    /// Whether the session has ended, so that a new login is required.
    pub(super) is_logged_out: bool,
    /// The reason for the operator. It may name files but contains no secrets.
    pub(super) reason: AnyError,
    /// How long the server wants to receive no further requests.
    pub(super) retry_after: Option<Duration>,
    /// The session whose refresh token the server has refused.
    pub(super) refused: Option<Box<Session>>,
}

impl Trouble {
    fn passing(reason: impl Into<AnyError>) -> Self {
        Self { is_logged_out: false, reason: reason.into(), retry_after: None, refused: None }
    }

    pub(super) fn logged_out(reason: impl Into<AnyError>) -> Self {
        Self { is_logged_out: true, ..Self::passing(reason) }
    }

    /// Converts the server's error response to a refresh of `session`.
    fn answered(error: &RefreshError, session: &Session) -> Self {
        let (RefreshError::LoggedOut(failure) | RefreshError::Failed(failure)) = error;
        // A server may repeat the token that it refuses.
        let reason =
            session.secrets().fold(failure.message().to_owned(), |text, secret| text.replace(secret, "…"));
        let seconds = failure.retry_after().and_then(|value| value.parse().ok());
        let is_logged_out = matches!(error, RefreshError::LoggedOut(_));
        Self {
            is_logged_out,
            reason: reason.into(),
            retry_after: seconds.map(Duration::from_secs),
            refused: is_logged_out.then(|| Box::new(session.clone())),
        }
    }
}

impl Keeper {
    pub(super) fn of(upstream: &Arc<Upstream>) -> Option<Self> {
        let settings = upstream.account().filter(|settings| settings.has_session())?.clone();
        let file = settings.session.as_deref().map(SessionFile::new);
        Some(Self { upstream: Arc::clone(upstream), settings, file })
    }

    pub(super) fn upstream(&self) -> &str {
        &self.upstream.name
    }

    pub(super) fn settings(&self) -> &AccountSettings {
        &self.settings
    }

    pub(super) fn file(&self) -> Option<&SessionFile> {
        self.file.as_ref()
    }

    /// Reads the session from the file. Returns the configured session if there is no file, or if the configured
    /// session is a different one, which must come from a newer login.
    ///
    /// # Errors
    /// If there is no session, or the file does not contain one. The message says what to do.
    pub(super) fn read(&self) -> Result<Session, SessionError> {
        let stored = self.file.as_ref().map_or(Ok(None), SessionFile::read)?;
        let is_configured = |uid: &str| self.settings.uid.as_deref().is_none_or(|own| own == uid);
        match (stored, self.settings.configured()) {
            (Some(stored), _) if is_configured(&stored.uid) => Ok(stored),
            (_, Some(configured)) => Ok(configured),
            (_, None) => {
                let path = self.file.as_ref().map_or_else(PathBuf::new, |file| file.path().to_owned());
                Err(SessionError::Missing(path))
            }
        }
    }

    /// Returns the requested session. `used` is the current session. The refresh token of `refused` is known to be
    /// spent.
    ///
    /// # Errors
    /// If there are no new tokens.
    pub(super) fn renew(
        &self,
        used: Option<&AccountSession>,
        refused: Option<&Session>,
        wanted: Wanted,
    ) -> Result<AccountSession, Trouble> {
        let _lock = self.file.as_ref().map(SessionFile::lock).transpose().map_err(Trouble::passing)?;
        let session = match used {
            Some(unsaved) if self.is_older_than(unsaved) => self.saved(unsaved.session.clone()).session,
            _ => self.read().map_err(Trouble::logged_out)?,
        };
        let is_other = used.is_none_or(|used| !used.session.has_tokens_of(&session));
        let is_expired = session.expires_at.is_some_and(|end| end <= unix_time());
        if is_other && !is_expired && matches!(wanted, Wanted::Newer | Wanted::Others) {
            return Ok(AccountSession { session, is_saved: true });
        }
        if !is_other && wanted == Wanted::Others {
            return Err(Trouble::logged_out("the upstream refuses tokens that it has just issued"));
        }
        if refused.is_some_and(|refused| refused.has_tokens_of(&session)) {
            return Err(Trouble::logged_out("its refresh token was refused before"));
        }
        let request = session.refresh(&self.settings, &self.upstream.base_url).map_err(Trouble::passing)?;
        let request = request.ok_or_else(|| Trouble::logged_out("it has no refresh token"))?;
        let answer = self.send(request).map_err(Trouble::passing)?;
        let renewed = session.refreshed(&answer, unix_time());
        Ok(self.saved(renewed.map_err(|error| Trouble::answered(&error, &session))?))
    }

    /// Tries again to write a session that could not be written, before the process or the account ends.
    pub(super) fn save_again(&self, unsaved: &AccountSession) {
        // Without the lock, the file must not be changed.
        let Ok(_lock) = self.file.as_ref().map(SessionFile::lock).transpose() else { return };
        if self.is_older_than(unsaved) {
            self.saved(unsaved.session.clone());
        }
    }

    /// Whether the session `kept` could not be written, and the file contains an older state of it or does not exist. A
    /// session from a new login has another id, so it is not older.
    fn is_older_than(&self, kept: &AccountSession) -> bool {
        let stored = || self.file.as_ref().and_then(|file| file.read().ok().flatten());
        !kept.is_saved && stored().is_none_or(|stored| stored.uid == kept.session.uid)
    }

    fn saved(&self, session: Session) -> AccountSession {
        let written = self.file.as_ref().map_or(Ok(()), |file| file.write(&session));
        if let Err(error) = &written {
            let (upstream, error) = (self.upstream(), error.to_string());
            tracing::error!(
                upstream,
                error,
                "the new tokens are only in memory; unless they can be written later, the session ends with this process"
            );
        }
        AccountSession { session, is_saved: written.is_ok() }
    }

    /// Ends the session at the account's server.
    ///
    /// # Errors
    /// Fails if the request fails or the server refuses.
    pub(super) fn revoke(&self, session: &Session) -> Result<(), AnyError> {
        let request = session.revoke(&self.settings, &self.upstream.base_url);
        let answer = self.send(request?)?;
        // A server that does not know the session reports 401: the session has ended.
        match answer.status() {
            status if status.is_success() || status == StatusCode::UNAUTHORIZED => Ok(()),
            status => Err(format!("the upstream responded with status {status}").into()),
        }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AnyError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let connector = Connector::to(request.uri(), &self.upstream);
        let small = Small::new(connector, LIMIT, MAX_ANSWER);
        let answer = runtime.block_on(small.send(request));
        // Unlike a drop, this does not wait for a pending DNS lookup.
        runtime.shutdown_background();
        Ok(answer?)
    }
}

//! [`Managed`]: what `toolwire lumo` does with an upstream's session.

use std::{path::Path, sync::Arc};

use super::{
    error::{AnyError, SessionError},
    keeper::{Keeper, Wanted},
};
use crate::stamp::unix_time;
use toolwire_config::Upstream;

#[derive(Debug)]
pub struct Managed(Keeper);

/// The state of a session, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub uid: String,
    /// Seconds until the access token expires. Not positive if it has expired.
    pub expires_in: Option<i64>,
    /// Seconds since the access token was issued.
    pub refreshed_ago: Option<i64>,
    pub is_refreshable: bool,
}

impl Managed {
    /// Returns the account of `upstream`, if it has a configured session.
    pub fn of(upstream: &Arc<Upstream>) -> Option<Self> {
        Keeper::of(upstream).map(Self)
    }

    pub fn upstream(&self) -> &str {
        self.0.upstream()
    }

    pub fn file(&self) -> Option<&Path> {
        self.0.file().map(|file| file.path())
    }

    /// Whether other users of the machine can read the file.
    pub fn is_exposed(&self) -> bool {
        self.0.file().is_some_and(|file| file.is_exposed())
    }

    /// Reads the session and describes it.
    ///
    /// # Errors
    /// If there is no session. The message says what to do.
    pub fn status(&self) -> Result<Status, SessionError> {
        let session = self.0.read()?;
        let since_now = |time: u64| {
            i64::try_from(time).unwrap_or(i64::MAX) - i64::try_from(unix_time()).unwrap_or(i64::MAX)
        };
        Ok(Status {
            uid: session.uid.clone(),
            expires_in: session.expires_at.map(since_now),
            refreshed_ago: session.refreshed_at.map(|time| -since_now(time)),
            is_refreshable: session.refresh_token.is_some(),
        })
    }

    /// Refreshes the session, whatever its age.
    ///
    /// # Errors
    /// If there are no new tokens.
    pub fn refresh(&self) -> Result<(), SessionError> {
        match self.0.renew(None, None, Wanted::Refreshed) {
            Ok(kept) if kept.is_saved => Ok(()),
            Ok(_) => Err(SessionError::Unsaved),
            Err(trouble) if trouble.is_logged_out => Err(SessionError::LoggedOut(trouble.reason)),
            Err(trouble) => Err(SessionError::NotRefreshed(trouble.reason)),
        }
    }

    /// Ends the session and removes its file. If the upstream fails to end the session, returns why.
    ///
    /// # Errors
    /// If there is no session, or if its file cannot be removed.
    pub fn log_out(&self) -> Result<Option<AnyError>, SessionError> {
        let _lock = self.0.file().map(|file| file.lock()).transpose()?;
        let session = self.0.read()?;
        let refusal = self.0.revoke(&session).err();
        self.0.file().map_or(Ok(()), |file| file.remove())?;
        Ok(refusal)
    }
}

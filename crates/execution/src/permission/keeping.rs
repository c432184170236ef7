//! Where remembered rules are kept: in a file, or at a place that instances share.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    task::spawn_blocking,
};

use super::{
    Permissions,
    remembered::{Remembered, Save},
};
use crate::{audit::unix_millis, rules::Asked};
use toolwire_net::store::{Revision, SharedText, StoreError};

/// Changes that are this close are written together: each use of a rule is one.
const PAUSE: Duration = Duration::from_secs(1);

/// The same where instances share rules. Every other instance reads them again.
const SHARED_PAUSE: Duration = Duration::from_secs(10);

/// How often a change is tried while other instances are faster.
const TRIES: usize = 20;

/// Where remembered rules are kept.
#[derive(Debug)]
pub(crate) enum Keeping {
    /// In this file. `None`: they are forgotten when this process ends.
    File(Option<PathBuf>),
    /// At a place that instances share.
    Shared(Arc<dyn SharedText>),
}

/// Why a change of remembered rules is not kept.
#[derive(Debug)]
pub enum NotKept {
    /// It is in effect, but the file cannot be written, so a restart undoes it.
    Unwritten,
    /// It is not in effect, as far as is known: the place that instances share cannot be reached.
    Away(StoreError),
}

/// As [`Keeping`], with what guards it.
pub(super) enum Kept {
    File {
        file: Option<PathBuf>,
        /// Held while the file is written, so that an older text never replaces a newer one. Why that failed last, if it did.
        saving: Mutex<Option<String>>,
    },
    Shared {
        text: Arc<dyn SharedText>,
        /// That of the rules in memory. Held while it is asked for and until the rules were used, so that an older text never replaces
        /// a newer one.
        revision: AsyncMutex<Revision>,
    },
}

impl Keeping {
    /// With the rules that were remembered before. Reads the file, if they are in one.
    pub(super) fn opened(self) -> (Remembered, Kept) {
        match self {
            Self::File(file) => {
                let remembered = file.as_deref().map(Remembered::read).unwrap_or_default();
                (remembered, Kept::File { file, saving: Mutex::default() })
            }
            Self::Shared(text) => {
                (Remembered::default(), Kept::Shared { text, revision: AsyncMutex::default() })
            }
        }
    }
}

impl Permissions {
    /// What remembered rules say about a call; `None`: nothing.
    pub(super) async fn remembered(&self, asked: &Asked<'_>) -> Result<Option<bool>, StoreError> {
        let _newest = self.newest().await?;
        let answer = self.lock().remembered.answer(asked, unix_millis());
        if answer.is_some() {
            self.changed.notify_one();
        }
        Ok(answer)
    }

    /// Takes over what other instances have changed. Until what this returns is dropped, that is not done again.
    async fn newest(&self) -> Result<Option<AsyncMutexGuard<'_, Revision>>, StoreError> {
        let Kept::Shared { text, revision } = &self.kept else { return Ok(None) };
        let mut known = revision.lock().await;
        if let Some(newest) = text.newest(&known).await? {
            let taken = self.lock().remembered.take_over(&newest.text);
            taken.map_err(|error| StoreError::new(format!("remembered permissions: {error}")))?;
            *known = newest.revision;
        }
        Ok(Some(known))
    }

    /// Takes over what other instances have changed, and settles the questions that this answers.
    ///
    /// # Errors
    /// The place that instances share cannot be reached.
    pub async fn follow(&self) -> Result<(), StoreError> {
        if self.newest().await?.is_some() {
            self.settle_by_rules();
        }
        Ok(())
    }

    /// Whether other instances may change remembered rules that questions wait for.
    pub(crate) fn has_to_follow(&self) -> bool {
        matches!(self.kept, Kept::Shared { .. }) && !self.lock().open.is_empty()
    }

    /// Changes remembered rules where they are kept, and settles the questions that they answer now. Returns what `change` returns,
    /// which is asked again if another instance was faster.
    pub(super) async fn change<T>(
        self: &Arc<Self>,
        change: impl Fn(&mut Remembered) -> T,
    ) -> Result<T, NotKept> {
        let changed = match &self.kept {
            Kept::File { .. } => {
                let changed = change(&mut self.lock().remembered);
                self.settle_by_rules();
                self.save().await?;
                changed
            }
            Kept::Shared { text, .. } => {
                let changed = self.change_shared(&**text, change).await.map_err(NotKept::Away)?;
                self.settle_by_rules();
                changed
            }
        };
        Ok(changed)
    }

    async fn change_shared<T>(
        &self,
        text: &dyn SharedText,
        change: impl Fn(&mut Remembered) -> T,
    ) -> Result<T, StoreError> {
        for _ in 0..TRIES {
            let Some(mut revision) = self.newest().await? else { break };
            let mut next = self.lock().remembered.clone();
            let changed = change(&mut next);
            let Some(written) = next.text_if_changed() else { return Ok(changed) };
            if let Some(now) = text.replace(&revision, written).await? {
                self.lock().remembered = next;
                *revision = now;
                return Ok(changed);
            }
        }
        Err(StoreError::new("other instances change permissions all the time"))
    }

    /// How long to wait after a change was kept, before the next one is.
    pub(crate) fn pause(&self) -> Duration {
        match self.kept {
            Kept::File { .. } => PAUSE,
            Kept::Shared { .. } => SHARED_PAUSE,
        }
    }

    /// Keeps what has changed, which includes how often rules were used.
    ///
    /// # Errors
    /// As [`NotKept`] says. A file is tried again after a pause, and the place that instances share with the next change.
    pub(crate) async fn save(self: &Arc<Self>) -> Result<(), NotKept> {
        match &self.kept {
            Kept::File { file: None, .. } => Ok(()),
            Kept::File { .. } => {
                let permissions = Arc::clone(self);
                let written = spawn_blocking(move || permissions.write()).await;
                written.ok().and_then(Result::ok).ok_or_else(|| {
                    self.changed.notify_one();
                    NotKept::Unwritten
                })
            }
            Kept::Shared { text, .. } => self.change_shared(&**text, |_| ()).await.map_err(NotKept::Away),
        }
    }

    /// Writes what has changed to the file, if there is one. Blocks on the disk.
    pub(super) fn write(&self) -> io::Result<()> {
        let Kept::File { file: Some(file), saving } = &self.kept else { return Ok(()) };
        let mut failed = saving.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = self.lock().remembered.text_if_changed() else { return Ok(()) };
        let save = Save { file: file.clone(), text };
        let path = file.display();
        match save.write() {
            Ok(()) if failed.take().is_some() => {
                tracing::info!(%path, "remembered permissions are written again")
            }
            Ok(()) => {}
            Err(error) => {
                let reason = error.to_string();
                if failed.as_ref() != Some(&reason) {
                    tracing::error!(%path, error = reason, "remembered permissions cannot be written; that is tried again");
                    *failed = Some(reason);
                }
                self.lock().remembered.is_not_written();
                return Err(error);
            }
        }
        Ok(())
    }
}

//! Stores remembered rules, in a file or in a string that instances share.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    task::spawn_blocking,
};

use super::{
    Permissions,
    remembered_rules::{RememberedRules, Save},
};
use crate::{audit::unix_millis, rules::Asked};
use toolwire_net::store::{Revision, SharedText, StoreError};

/// Minimum time between writes. Every use of a rule counts as a change.
const PAUSE: Duration = Duration::from_secs(1);

/// Minimum time between writes of shared rules. It is longer, because all other instances must reread the rules after
/// each write.
const SHARED_PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of attempts to store a change. An attempt fails if another instance changes the rules first.
const TRIES: usize = 20;

#[derive(Debug)]
pub(crate) enum Keeping {
    /// `None` stores the rules only in memory.
    File(Option<PathBuf>),
    Shared(Arc<dyn SharedText>),
}

/// Why a change to the remembered rules was not stored.
#[derive(Debug)]
pub enum NotKept {
    /// The file could not be written. The change is in effect until the next restart.
    Unwritten,
    /// The shared string cannot be reached. As far as is known, the change is not in effect.
    Away(StoreError),
}

/// The shared text does not contain remembered permissions.
#[derive(Debug, thiserror::Error)]
#[error("remembered permissions: {0}")]
struct InvalidText(#[source] serde_json::Error);

/// Like [`Keeping`], with the locks that guard it.
pub(super) enum OpenStorage {
    File {
        file: Option<PathBuf>,
        /// Locked during a write, so that an older text does not overwrite a newer one. Contains the error of the last
        /// write, if it failed.
        saving: Mutex<Option<String>>,
    },
    Shared {
        text: Arc<dyn SharedText>,
        /// The revision of the rules in memory. Locked from the check for a newer revision until the rules have been
        /// used, so that an older text does not replace a newer one.
        revision: AsyncMutex<Revision>,
    },
}

impl Keeping {
    /// Opens the storage, and returns the rules that it contains. Reads the file, if there is one.
    pub(super) fn opened(self) -> (RememberedRules, OpenStorage) {
        match self {
            Self::File(file) => {
                let remembered = file.as_deref().map(RememberedRules::read).unwrap_or_default();
                (remembered, OpenStorage::File { file, saving: Mutex::default() })
            }
            Self::Shared(text) => {
                (RememberedRules::default(), OpenStorage::Shared { text, revision: AsyncMutex::default() })
            }
        }
    }
}

impl Permissions {
    /// The answer that remembered rules give for a call.
    pub(super) async fn remembered(
        &self,
        asked: &Asked<'_>,
        definition: &str,
    ) -> Result<Option<bool>, StoreError> {
        let _newest = self.newest().await?;
        let answer = self.state.lock().remembered.answer(asked, definition, unix_millis());
        if answer.is_some() {
            self.changed.notify_one();
        }
        Ok(answer)
    }

    /// Applies changes by other instances. No further change is applied until the returned guard is dropped.
    async fn newest(&self) -> Result<Option<AsyncMutexGuard<'_, Revision>>, StoreError> {
        let OpenStorage::Shared { text, revision } = &self.storage else { return Ok(None) };
        let mut known = revision.lock().await;
        if let Some(newest) = text.newest(&known).await? {
            let taken = self.state.lock().remembered.take_over(&newest.text);
            taken.map_err(|error| StoreError::new(InvalidText(error)))?;
            *known = newest.revision;
        }
        Ok(Some(known))
    }

    /// Applies changes by other instances, and settles the questions that they answer.
    ///
    /// # Errors
    /// The shared string cannot be reached.
    pub async fn follow(&self) -> Result<(), StoreError> {
        if self.newest().await?.is_some() {
            self.settle_by_rules();
        }
        Ok(())
    }

    /// Whether changes by other instances could answer open questions.
    pub(crate) fn has_to_follow(&self) -> bool {
        matches!(self.storage, OpenStorage::Shared { .. }) && !self.state.lock().open.is_empty()
    }

    /// Changes the stored rules, and settles the questions that they now answer. Returns the result of `change`, which
    /// is called again if another instance has changed the rules first.
    pub(super) async fn change<T>(
        self: &Arc<Self>,
        change: impl Fn(&mut RememberedRules) -> T,
    ) -> Result<T, NotKept> {
        let changed = match &self.storage {
            OpenStorage::File { .. } => {
                let changed = change(&mut self.state.lock().remembered);
                self.settle_by_rules();
                self.save().await?;
                changed
            }
            OpenStorage::Shared { text, .. } => {
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
        change: impl Fn(&mut RememberedRules) -> T,
    ) -> Result<T, StoreError> {
        for _ in 0..TRIES {
            let Some(mut revision) = self.newest().await? else { break };
            let mut next = self.state.lock().remembered.clone();
            let changed = change(&mut next);
            let Some(written) = next.text_if_changed() else { return Ok(changed) };
            if let Some(now) = text.replace(&revision, written).await? {
                self.state.lock().remembered = next;
                *revision = now;
                return Ok(changed);
            }
        }
        Err(StoreError::new("other instances change permissions all the time"))
    }

    /// Minimum time between writes.
    pub(crate) fn pause(&self) -> Duration {
        match self.storage {
            OpenStorage::File { .. } => PAUSE,
            OpenStorage::Shared { .. } => SHARED_PAUSE,
        }
    }

    /// Stores changes, including how many times each rule was used.
    ///
    /// # Errors
    /// See [`NotKept`]. Writing a file is retried after a pause; a shared string is written together with the next
    /// change.
    pub(crate) async fn save(self: &Arc<Self>) -> Result<(), NotKept> {
        match &self.storage {
            OpenStorage::File { file: None, .. } => Ok(()),
            OpenStorage::File { .. } => {
                let permissions = Arc::clone(self);
                let written = spawn_blocking(move || permissions.write()).await;
                written.ok().and_then(Result::ok).ok_or_else(|| {
                    self.changed.notify_one();
                    NotKept::Unwritten
                })
            }
            OpenStorage::Shared { text, .. } => {
                self.change_shared(&**text, |_| ()).await.map_err(NotKept::Away)
            }
        }
    }

    /// Writes changes to the file, if there is one. Blocks on the disk.
    pub(super) fn write(&self) -> io::Result<()> {
        let OpenStorage::File { file: Some(file), saving } = &self.storage else { return Ok(()) };
        let mut failed = saving.lock();
        let Some(text) = self.state.lock().remembered.text_if_changed() else { return Ok(()) };
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
                self.state.lock().remembered.is_not_written();
                return Err(error);
            }
        }
        Ok(())
    }
}

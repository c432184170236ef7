//! The console's chats: the model requests that toolwire's own page sends, at `/console/api/chat`.
//!
//! ```text
//! POST ─▶ ChatRequest ─▶ an ordinary request in the chosen dialect ─▶ AnswerBody
//!                                                                       │ drive (a task)
//! readers, one for each connection ◀─ Chat: what was said so far ◀──────┘
//! ```
//!
//! Unlike the responses of other clients, a chat's response has its own task, since it outlives the page's connection:
//! a reloaded page attaches to its chat and gets everything from the start. When there has been no reader for
//! [`GRACE`], or the page stops the chat, the client counts as disconnected.

mod chat;
mod drive;
mod request;

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(super) use self::{chat::Chat, drive::Driven, request::ChatRequest};
use super::{AdminError, SessionMark};

/// Time for which a chat continues without a reader, and for which it is kept after its end.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// Maximum number of chats that run or are kept.
const MAX_CHATS: usize = 128;

/// The client name under which the console sends requests.
pub(super) const CLIENT: &str = "console";

/// All chats, by the ids of their exchanges. All threads share them.
#[derive(Debug, Default)]
pub(super) struct Chats {
    chats: Mutex<HashMap<Arc<str>, Arc<Chat>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Chats {
    /// Checks that another chat may start. Drops finished chats if necessary.
    ///
    /// # Errors
    /// 429
    pub(super) fn make_room(&self) -> Result<(), AdminError> {
        let mut chats = self.chats.lock();
        if chats.len() >= MAX_CHATS {
            chats.retain(|_, chat| !chat.is_over());
        }
        if chats.len() < MAX_CHATS {
            return Ok(());
        }
        let message =
            format!("there are {MAX_CHATS} chats in progress; wait for one of them to end, or stop it");
        Err(AdminError::too_many(&message, 5))
    }

    /// Keeps a chat, and runs its task on the runtime of this thread, which owns the connection to the upstream.
    pub(super) fn begin(self: &Arc<Self>, chat: &Arc<Chat>, driven: Driven) {
        self.chats.lock().insert(Arc::clone(chat.id()), Arc::clone(chat));
        let (all, chat) = (Arc::clone(self), Arc::clone(chat));
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            driven.run(&chat).await;
            all.chats.lock().remove(chat.id());
        });
    }

    /// The chat of the exchange `id`, for the visitor who started it.
    ///
    /// # Errors
    /// 404 if it does not exist or another visitor started it; 410 if its start is no longer kept.
    pub(super) fn find(&self, id: &str, mark: SessionMark) -> Result<Arc<Chat>, AdminError> {
        let chat = self.of(id, mark)?;
        if chat.is_whole() {
            return Ok(chat);
        }
        let message = "the beginning of this chat is not kept any more: it is too long";
        Err(AdminError::new(StatusCode::GONE, "reset", message))
    }

    /// Stops and removes the chat of the exchange `id`, for the visitor who started it.
    ///
    /// # Errors
    /// 404 if it does not exist or another visitor started it.
    pub(super) fn stop(&self, id: &str, mark: SessionMark) -> Result<(), AdminError> {
        self.of(id, mark).map(|chat| chat.stop())
    }

    fn of(&self, id: &str, mark: SessionMark) -> Result<Arc<Chat>, AdminError> {
        let chat = self.chats.lock().get(id).filter(|chat| chat.mark() == mark).map(Arc::clone);
        chat.ok_or_else(|| {
            let message =
                format!("there is no such chat: one can be read until {} s after its end", GRACE.as_secs());
            AdminError::new(StatusCode::NOT_FOUND, "not_kept", message)
        })
    }
}

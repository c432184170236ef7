//! The console's chats: model requests from toolwire's own page, at `/console/api/chat`.
//!
//! ```text
//! POST ─▶ ChatRequest ─▶ an ordinary request in the chosen dialect ─▶ AnswerBody
//!                                                                       │ drive (a task)
//! readers, one for each connection ◀─ Chat: what was said so far ◀──────┘
//! ```
//!
//! Unlike other responses, a chat outlives the connection that started it, so it has its own task. A page that is
//! reloaded attaches to its chat and gets everything from the start. When there have been no readers for [`GRACE`], or
//! when the page stops the chat, the task ends, and the request is cancelled as if a client had disconnected.

mod chat;
mod drive;
mod request;

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(super) use self::{chat::Chat, drive::Driven, request::ChatRequest};
use super::{AdminError, SessionMark};

/// How long a chat continues without readers, and how long it is stored after its end.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// Maximum number of chats, running or finished.
const MAX_CHATS: usize = 128;

pub(super) const CLIENT: &str = "console";

/// All chats, by exchange id, shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Chats {
    chats: Mutex<HashMap<Arc<str>, Arc<Chat>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Chats {
    /// Makes room for another chat, by dropping finished chats if necessary.
    ///
    /// # Errors
    /// 429 if too many chats are running.
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

    /// Stores a chat, and runs its task on this thread's runtime, which owns the connection to the upstream.
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

    /// Returns the chat of exchange `id` to the visitor who started it.
    ///
    /// # Errors
    /// 404 if it does not exist or belongs to another visitor; 410 if its start was dropped.
    pub(super) fn find(&self, id: &str, mark: SessionMark) -> Result<Arc<Chat>, AdminError> {
        let chat = self.of(id, mark)?;
        if chat.is_whole() {
            return Ok(chat);
        }
        let message = "the beginning of this chat is not kept any more: it is too long";
        Err(AdminError::new(StatusCode::GONE, "reset", message))
    }

    /// Stops the chat of exchange `id` for the visitor who started it.
    ///
    /// # Errors
    /// 404 if it does not exist or belongs to another visitor.
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

//! [`Text`]: a string stored on the server under the key `toolwire:{name}`. It does not expire.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use redis::Script;

use super::{
    super::{
        StoreError,
        shared_limits::Asked,
        shared_text::{Revised, Revision, SharedText},
    },
    RedisServer,
    command::Command,
    read,
    server::Line,
};

static NEWEST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("newest.lua")));
static REPLACE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("replace.lua")));

/// A string stored on the server, which instances share.
pub(super) struct Text {
    server: Arc<RedisServer>,
    key: String,
}

impl Text {
    pub(super) fn new(server: Arc<RedisServer>, name: &str) -> Self {
        Self { server, key: format!("toolwire:{name}") }
    }
}

impl SharedText for Text {
    fn newest(&self, Revision(known): &Revision) -> Asked<Result<Option<Revised>, StoreError>> {
        let mut script = NEWEST.key(&self.key);
        script.arg(known);
        let command = Command::script(&NEWEST, &self.key, &script);
        let inner = Arc::clone(&self.server.inner);
        self.server.asked(async move {
            let found: Option<(String, String)> = read(inner.servers.ask(Line::Values, command).await?)?;
            Ok(found.map(|(revision, text)| Revised { revision: Revision(revision), text }))
        })
    }

    fn replace(
        &self,
        Revision(before): &Revision,
        text: String,
    ) -> Asked<Result<Option<Revision>, StoreError>> {
        let next = Revision::random();
        let mut script = REPLACE.key(&self.key);
        script.arg(before).arg(&next.0).arg(text);
        let command = Command::script(&REPLACE, &self.key, &script);
        let inner = Arc::clone(&self.server.inner);
        self.server.asked(async move {
            let is_replaced: bool = read(inner.servers.ask(Line::Values, command).await?)?;
            Ok(is_replaced.then_some(next))
        })
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("server", &self.server).field("key", &self.key).finish()
    }
}

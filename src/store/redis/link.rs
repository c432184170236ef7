//! [`Link`]: one connection to the server, which is made again when it breaks.

use std::{fmt, io, sync::Arc, time::Duration};

use redis::{
    Client, Cmd, FromRedisValue, Pipeline, RedisResult, ScriptInvocation,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::time::timeout;

use super::{super::StoreError, ReachState};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What is written to see whether the server takes writes.
const PROBE: &str = "toolwire:probe";

/// Seconds that it stays there.
const PROBE_TTL: u64 = 10;

/// See the module. Many commands can be under way at once; their order is kept.
pub(super) struct Link {
    connection: ConnectionManager,
    limit: Duration,
    reach: Arc<ReachState>,
}

impl Link {
    /// A connection that is made with its first command, on the runtime that this is called on. `limit` is how long an answer may take.
    ///
    /// # Errors
    /// Never with these settings.
    pub(super) fn new(client: Client, limit: Duration, reach: Arc<ReachState>) -> io::Result<Self> {
        // A command that finds no connection fails. The probe decides when there is one again.
        let settings = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(limit))
            .set_number_of_retries(0);
        let connection =
            ConnectionManager::new_lazy_with_config(client, settings).map_err(io::Error::other)?;
        Ok(Self { connection, limit, reach })
    }

    /// The answer to these commands.
    ///
    /// # Errors
    /// The server is away, or does not do what it is asked to.
    pub(super) async fn pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        self.may_ask()?;
        let mut connection = self.connection.clone();
        self.within_limit(commands.query_async(&mut connection)).await
    }

    /// The answer of a script.
    ///
    /// # Errors
    /// As [`Link::pipeline`].
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        self.may_ask()?;
        let mut connection = self.connection.clone();
        self.within_limit(script.invoke_async(&mut connection)).await
    }

    /// Asks the server to take a write, whether or not it is away.
    ///
    /// # Errors
    /// It does not.
    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        let mut connection = self.connection.clone();
        let mut write = Cmd::new();
        write.arg("SET").arg(PROBE).arg(1).arg("EX").arg(PROBE_TTL);
        self.within_limit(write.query_async(&mut connection)).await
    }

    fn may_ask(&self) -> Result<(), StoreError> {
        match self.reach.is_away() {
            true => Err(StoreError("the server is away".into())),
            false => Ok(()),
        }
    }

    async fn within_limit<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> Result<T, StoreError> {
        let failed = |error: &dyn fmt::Display| {
            self.reach.failed(error);
            StoreError(error.to_string())
        };
        let answer = timeout(CONNECT_TIMEOUT + self.limit, answer).await;
        answer.map_err(|late| failed(&late))?.map_err(|error| failed(&error))
    }
}

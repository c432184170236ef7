//! [`Link`]: one connection to the server, which is made again when it breaks. Where sentinels say which server it is, they are asked
//! then.

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, RedisResult, ScriptInvocation, TlsMode,
    aio::{ConnectionManager, ConnectionManagerConfig},
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use super::{
    super::{Sentinels, StoreAddress, StoreError},
    ReachState,
};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long sentinels may take to say which server is the primary one.
const FINDING_TIMEOUT: Duration = Duration::from_secs(5);

/// What is written to see whether the server takes writes: `toolwire:probe:0` and so on. There are so many that one server of a cluster,
/// which has only some of all keys, does not take each of them.
const PROBES: usize = 16;

/// Seconds that they stay there.
const PROBE_TTL: u64 = 10;

/// See the module. Many commands can be under way at once; their order is kept.
pub(super) struct Link {
    /// `None`: the sentinels have not said yet where the server is.
    connection: Mutex<Option<ConnectionManager>>,
    sentinels: Option<AsyncMutex<SentinelClient>>,
    limit: Duration,
    reach: Arc<ReachState>,
}

impl Link {
    /// A connection that is made with its first command, on the runtime that this is called on. `limit` is how long an answer may take.
    ///
    /// # Errors
    /// The address is not that of a server.
    pub(super) fn new(address: &StoreAddress, limit: Duration, reach: Arc<ReachState>) -> io::Result<Self> {
        // An error must not repeat the URL.
        let refused = |error: RedisError| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("the store's URL: {}", error.category()))
        };
        let sentinels = address.sentinels().map(|sentinels| watchers(sentinels, address));
        let sentinels = sentinels.transpose().map_err(refused)?;
        let connection = match &sentinels {
            Some(_) => None,
            None => Some(connection(Client::open(address.url()).map_err(refused)?, limit).map_err(refused)?),
        };
        Ok(Self {
            connection: Mutex::new(connection),
            sentinels: sentinels.map(AsyncMutex::new),
            limit,
            reach,
        })
    }

    /// The answer to these commands.
    ///
    /// # Errors
    /// The server is away, or does not do what it is asked to.
    pub(super) async fn pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let mut connection = self.connection()?;
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
        let mut connection = self.connection()?;
        self.within_limit(script.invoke_async(&mut connection)).await
    }

    /// Asks the server to take a write, whether or not it is away.
    ///
    /// # Errors
    /// It does not.
    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        if let Some(sentinels) = &self.sentinels {
            let mut sentinels = sentinels.lock().await;
            // They are asked in turn, and then the server, whether it is the primary one.
            let find = async { connection(sentinels.async_get_client().await?, self.limit) };
            let found = self.within(FINDING_TIMEOUT, find).await?;
            *self.place() = Some(found);
        }
        let Some(mut connection) = self.place().clone() else { return Err(self.unknown()) };
        let mut writes = Pipeline::new();
        for number in 0..PROBES {
            let key = format!("toolwire:probe:{number}");
            writes.cmd("SET").arg(key).arg(1).arg("EX").arg(PROBE_TTL).ignore();
        }
        self.within_limit(writes.query_async(&mut connection)).await
    }

    /// The connection, unless the server is away.
    fn connection(&self) -> Result<ConnectionManager, StoreError> {
        match self.reach.is_away() {
            true => Err(StoreError("the server is away".into())),
            false => self.place().clone().ok_or_else(|| self.unknown()),
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<ConnectionManager>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody has been asked yet where the server is.
    fn unknown(&self) -> StoreError {
        let unknown = "the sentinels have not been asked yet";
        self.reach.failed(&unknown);
        StoreError(unknown.into())
    }

    /// The answer to a command, for which a connection may have to be made.
    async fn within_limit<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> Result<T, StoreError> {
        self.within(CONNECT_TIMEOUT + self.limit, answer).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, StoreError> {
        let failed = |error: &dyn fmt::Display| {
            self.reach.failed(error);
            StoreError(error.to_string())
        };
        timeout(limit, answer).await.map_err(|late| failed(&late))?.map_err(|error| failed(&said(error)))
    }
}

/// What an error says.
fn said(error: RedisError) -> String {
    let (is_of_cluster, text) = (error.is_cluster_error(), error.to_string());
    // The first of several commands says enough.
    let errors = error.into_server_errors();
    let text = errors.and_then(|errors| Some(errors.first()?.1.to_string())).unwrap_or(text);
    if is_of_cluster {
        return format!(
            "it is one server of a cluster, which has only some of the keys ({text}); clusters are not supported"
        );
    }
    text
}

/// A connection that is made with its first command. A command that finds none fails: the probe decides when there is one again.
fn connection(server: Client, limit: Duration) -> RedisResult<ConnectionManager> {
    let settings = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(limit))
        .set_number_of_retries(0);
    ConnectionManager::new_lazy_with_config(server, settings)
}

/// Asks these sentinels for a server with the user, the password and the database of `address`. The sentinels need no password.
fn watchers(sentinels: &Sentinels, address: &StoreAddress) -> RedisResult<SentinelClient> {
    let server = address.url().into_connection_info()?.redis_settings().clone();
    let mut node = SentinelNodeConnectionInfo::default().set_redis_connection_info(server);
    if address.uses_tls() {
        node = node.set_tls_mode(TlsMode::Secure);
    }
    let (urls, kind) = (sentinels.urls.clone(), SentinelServerType::Master);
    SentinelClient::build(urls, &sentinels.name, Some(node), kind)
}

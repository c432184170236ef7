//! [`Link`]: one connection to a server, which is made again when it breaks. Where sentinels say which server it is, they are asked
//! then.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisResult,
    TlsMode, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use super::super::{Node, Sentinels, StoreAddress};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long sentinels may take to say which server is the primary one.
const FINDING_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module. Many commands can be under way at once; their order is kept.
pub(super) struct Link {
    /// `None`: the sentinels have not said yet where the server is.
    connection: Mutex<Option<ConnectionManager>>,
    sentinels: Option<AsyncMutex<SentinelClient>>,
    limit: Duration,
}

impl Link {
    /// A connection to the server of this address that is made with its first command, on the runtime that this is called on. `limit` is
    /// how long an answer may take.
    ///
    /// # Errors
    /// The address is not that of a server.
    pub(super) fn new(address: &StoreAddress, limit: Duration) -> io::Result<Self> {
        let sentinels = address.sentinels().map(|sentinels| watchers(sentinels, address));
        let sentinels = sentinels.transpose().map_err(refused)?;
        let connection = match &sentinels {
            Some(_) => None,
            None => Some(connection(Client::open(address.url()).map_err(refused)?, limit).map_err(refused)?),
        };
        Ok(Self { connection: Mutex::new(connection), sentinels: sentinels.map(AsyncMutex::new), limit })
    }

    /// The same to a server of the cluster of this address.
    ///
    /// # Errors
    /// As [`Link::new`].
    pub(super) fn to_node(node: &Node, address: &StoreAddress, limit: Duration) -> io::Result<Self> {
        let (host, port) = (node.host.clone(), node.port);
        let place = match address.uses_tls() {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let open = |info: ConnectionInfo| connection(Client::open(info.set_addr(place))?, limit);
        let connection = address.url().into_connection_info().and_then(open).map_err(refused)?;
        Ok(Self { connection: Mutex::new(Some(connection)), sentinels: None, limit })
    }

    /// The answers to these commands, for which a connection may have to be made. One of them can be an error.
    ///
    /// # Errors
    /// The server is away.
    pub(super) async fn send(&self, commands: &Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        let Some(mut connection) = self.place().clone() else {
            return Err((ErrorKind::Client, "the sentinels have not been asked yet").into());
        };
        within(CONNECT_TIMEOUT + self.limit, commands.query_async(&mut connection)).await
    }

    /// Asks the sentinels, if there are any, which server it is now.
    ///
    /// # Errors
    /// They do not know.
    pub(super) async fn find(&self) -> RedisResult<()> {
        if let Some(sentinels) = &self.sentinels {
            let mut sentinels = sentinels.lock().await;
            // They are asked in turn, and then the server, whether it is the primary one.
            let find = async { connection(sentinels.async_get_client().await?, self.limit) };
            let found = within(FINDING_TIMEOUT, find).await?;
            *self.place() = Some(found);
        }
        Ok(())
    }

    fn place(&self) -> MutexGuard<'_, Option<ConnectionManager>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address that is not that of a server. The error must not repeat the URL.
fn refused(error: RedisError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the store's URL: {}", error.category()))
}

async fn within<T>(limit: Duration, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, answer).await.map_err(|late| io::Error::new(io::ErrorKind::TimedOut, late))?
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

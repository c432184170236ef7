//! [`Link`]: a connection to a server, which is reopened when it breaks. If there are sentinels, the link first asks
//! them which server to connect to.

use std::{io, time::Duration};

use parking_lot::Mutex;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisResult,
    TlsMode, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use super::super::{Node, Sentinels, StoreAddress};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for finding the primary server through the sentinels.
const FINDING_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a server. Many commands can be in flight at the same time, in order.
pub(super) struct Link {
    /// `None` until the sentinels have named the server.
    connection: Mutex<Option<ConnectionManager>>,
    sentinels: Option<AsyncMutex<SentinelClient>>,
    limit: Duration,
}

impl Link {
    /// Creates a connection that is opened with its first command, on the current runtime. `limit` is the time limit
    /// for an answer.
    ///
    /// # Errors
    /// The address is not valid.
    pub(super) fn new(address: &StoreAddress, limit: Duration) -> io::Result<Self> {
        let sentinels = address.sentinels().map(|sentinels| watchers(sentinels, address));
        let sentinels = sentinels.transpose().map_err(refused)?;
        let connection = match &sentinels {
            Some(_) => None,
            None => Some(connection(Client::open(address.url()).map_err(refused)?, limit).map_err(refused)?),
        };
        Ok(Self { connection: Mutex::new(connection), sentinels: sentinels.map(AsyncMutex::new), limit })
    }

    /// Creates a connection to one server of the cluster at this address.
    ///
    /// # Errors
    /// See [`Link::new`].
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

    /// Returns the answers to these commands, some of which may be errors. Opens a connection if necessary.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) async fn send(&self, commands: &Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        let Some(mut connection) = self.connection.lock().clone() else {
            return Err((ErrorKind::Client, "the sentinels have not been asked yet").into());
        };
        within(CONNECT_TIMEOUT + self.limit, commands.query_async(&mut connection)).await
    }

    /// Asks the sentinels, if there are any, which server is the primary.
    ///
    /// # Errors
    /// The sentinels do not know.
    pub(super) async fn find(&self) -> RedisResult<()> {
        if let Some(sentinels) = &self.sentinels {
            let mut sentinels = sentinels.lock().await;
            // Asks each sentinel in turn, then asks the server whether it is the primary.
            let find = async { connection(sentinels.async_get_client().await?, self.limit) };
            let found = within(FINDING_TIMEOUT, find).await?;
            *self.connection.lock() = Some(found);
        }
        Ok(())
    }
}

/// The error for an invalid address. It must not contain the URL.
fn refused(error: RedisError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the store's URL: {}", error.category()))
}

async fn within<T>(limit: Duration, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, answer).await.map_err(|late| io::Error::new(io::ErrorKind::TimedOut, late))?
}

/// Creates a connection that is opened with its first command. Commands without a connection fail at once: the probe
/// decides when the server is used again.
fn connection(server: Client, limit: Duration) -> RedisResult<ConnectionManager> {
    let settings = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(limit))
        .set_number_of_retries(0);
    ConnectionManager::new_lazy_with_config(server, settings)
}

/// Creates a client that asks these sentinels for a server. The user, password and database in `address` are for the
/// server; sentinels need no password.
fn watchers(sentinels: &Sentinels, address: &StoreAddress) -> RedisResult<SentinelClient> {
    let server = address.url().into_connection_info()?.redis_settings().clone();
    let mut node = SentinelNodeConnectionInfo::default().set_redis_connection_info(server);
    if address.uses_tls() {
        node = node.set_tls_mode(TlsMode::Secure);
    }
    let (urls, kind) = (sentinels.urls.clone(), SentinelServerType::Master);
    SentinelClient::build(urls, &sentinels.name, Some(node), kind)
}

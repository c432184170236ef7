//! [`Server`]: a server and its connections. If it becomes unreachable, nothing waits for it until a test write
//! succeeds. Test writes are sent every half second.

use std::{io, ops::RangeInclusive, sync::Arc, time::Duration};

use parking_lot::Mutex;
use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::{runtime::Handle, task::AbortHandle, time::sleep};

use super::{
    super::{Node, StoreAddress},
    command::{Failure, ServerError},
    link::Link,
    reach::{Outage, ReachState},
    slots,
};

/// Time limit for answers about limits, which delay requests.
pub(super) const LIMITS_TIMEOUT: Duration = Duration::from_millis(500);

const VALUES_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of test writes to an unreachable server.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Prefix of the keys of test writes.
const PROBE: &str = "toolwire:probe:";

/// Number of keys in a test write to a server that should have all keys. With this many, a server that belongs to a
/// cluster rejects at least one, because it has only some of the keys.
const PROBES: usize = 16;

/// Lifetime of the test keys, in seconds.
const PROBE_TTL: u64 = 10;

/// A server's two connections, which are separate so that large values do not delay limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Values,
    Limits,
}

/// A server, its connections, and the task that probes it.
pub(super) struct Server {
    connections: Arc<Connections>,
    probing: AbortHandle,
}

struct Connections {
    /// `None` if the server has all keys.
    node: Option<ClusterNode>,
    values: Link,
    limits: Link,
    reach: ReachState,
}

struct ClusterNode {
    node: Node,
    slots: Mutex<Vec<RangeInclusive<u16>>>,
}

impl ClusterNode {}

impl Server {
    /// Creates a server that has all keys. The runtime of `handle` runs its connections and probes.
    ///
    /// # Errors
    /// The address is not valid.
    pub(super) fn new(address: &StoreAddress, outage: &Arc<Outage>, handle: &Handle) -> io::Result<Self> {
        let link = |limit| Link::new(address, limit);
        Self::with(None, address.to_string(), link, outage, handle)
    }

    /// Creates a server of a cluster. It has no slots yet.
    ///
    /// # Errors
    /// See [`Server::new`].
    pub(super) fn of_cluster(
        node: &Node,
        address: &StoreAddress,
        outage: &Arc<Outage>,
        handle: &Handle,
    ) -> io::Result<Self> {
        let link = |limit| Link::to_node(node, address, limit);
        let place = ClusterNode { node: node.clone(), slots: Mutex::default() };
        Self::with(Some(place), node.to_string(), link, outage, handle)
    }

    fn with(
        node: Option<ClusterNode>,
        name: String,
        link: impl Fn(Duration) -> io::Result<Link>,
        outage: &Arc<Outage>,
        handle: &Handle,
    ) -> io::Result<Self> {
        let _here = handle.enter();
        let (values, limits) = (link(VALUES_TIMEOUT)?, link(LIMITS_TIMEOUT)?);
        let reach = ReachState::new(name, Arc::clone(outage));
        let connections = Arc::new(Connections { node, values, limits, reach });
        // If the server is unreachable at the start, this is reported immediately instead of with the first request.
        connections.reach.lost.notify_one();
        let probing = handle.spawn(probe(Arc::clone(&connections))).abort_handle();
        Ok(Self { connections, probing })
    }

    /// The server's address, if it is part of a cluster.
    pub(super) fn node(&self) -> Option<&Node> {
        self.connections.node.as_ref().map(|place| &place.node)
    }

    pub(super) fn set_slots(&self, slots: &[RangeInclusive<u16>]) {
        if let Some(place) = &self.connections.node {
            *place.slots.lock() = slots.to_vec();
        }
    }

    pub(super) fn has(&self, slot: slots::Slot) -> bool {
        self.connections.node.as_ref().is_none_or(|place| slot.is_in(&place.slots.lock()))
    }

    pub(super) fn is_away(&self) -> bool {
        self.connections.reach.is_away()
    }

    /// Marks the server as failed.
    pub(super) fn failed(&self, error: &RedisError) {
        self.connections.reach.failed(&self.connections.said(error.clone()));
    }

    /// Returns the answers to these commands.
    ///
    /// # Errors
    /// The server is currently unreachable, or the connection fails.
    pub(super) async fn send(
        &self,
        line: Line,
        commands: &Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, Failure> {
        if self.is_away() {
            return Err(Failure::Refused(ServerError::Away));
        }
        let sent = self.connections.link(line).send(commands).await;
        sent.map_err(|error| {
            self.failed(&error);
            // If the connection was refused, nothing was sent.
            let failure = if error.is_connection_refusal() { Failure::Refused } else { Failure::Unknown };
            failure(self.connections.said(error))
        })
    }

    /// Sends a test write even if the server is marked as unreachable.
    ///
    /// # Errors
    /// The server does not accept the write.
    #[cfg(test)]
    pub(super) async fn probe(&self) -> Result<(), ServerError> {
        self.connections.probe().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.probing.abort();
    }
}

impl Connections {
    fn link(&self, line: Line) -> &Link {
        match line {
            Line::Values => &self.values,
            Line::Limits => &self.limits,
        }
    }

    async fn probe(&self) -> Result<(), ServerError> {
        for link in [&self.values, &self.limits] {
            let write = async {
                link.find().await?;
                link.send(&self.writes()).await?.into_iter().try_for_each(|answer| answer.map(drop))
            };
            let written = write.await.map_err(|error| self.said(error));
            written.inspect_err(|error| self.reach.failed(error))?;
        }
        Ok(())
    }

    /// Returns test writes to keys that the server has.
    fn writes(&self) -> Pipeline {
        let keys = match &self.node {
            None => (0..PROBES).map(|number| format!("{PROBE}{number}")).collect(),
            Some(place) => slots::key_in(PROBE, &place.slots.lock()).into_iter().collect::<Vec<_>>(),
        };
        let mut writes = Pipeline::new();
        writes.ignore_errors().cmd("PING");
        for key in keys {
            writes.cmd("SET").arg(key).arg(1).arg("EX").arg(PROBE_TTL);
        }
        writes
    }

    /// What `error` means for the server.
    fn said(&self, error: RedisError) -> ServerError {
        match (&self.node, error.is_cluster_error()) {
            (None, true) => ServerError::OneOfCluster(error),
            _ => error.into(),
        }
    }
}

/// Probes an unreachable server until it accepts writes. Reads are not enough: a server that is still loading its data
/// answers them.
async fn probe(server: Arc<Connections>) {
    loop {
        server.reach.lost.notified().await;
        while server.probe().await.is_err() {
            sleep(PROBE_INTERVAL).await;
        }
        server.reach.answered();
    }
}

//! [`Server`]: one server with its connections. While the server is away, nothing waits for it until a test write
//! succeeds, which is tried every half second.

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

/// Time limit for an answer about limits, since a request waits for it.
pub(super) const LIMITS_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for an answer with values.
const VALUES_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which a server that is away is tried again.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Prefix of the keys that are written to test whether a server accepts writes.
const PROBE: &str = "toolwire:probe:";

/// Number of keys that are written to a server that should have all keys. There are so many that a single server of a
/// cluster, which has only some of the keys, cannot accept all of them.
const PROBES: usize = 16;

/// Number of seconds for which the test keys exist.
const PROBE_TTL: u64 = 10;

/// One of the two connections, which are separate so that large values do not delay limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Values,
    Limits,
}

/// A server with its connections and the task that probes it.
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
    /// Creates the server that has all keys. The runtime of `handle` connects to it, and probes it while it is away.
    ///
    /// # Errors
    /// If the address is not the address of a server.
    pub(super) fn new(address: &StoreAddress, outage: &Arc<Outage>, handle: &Handle) -> io::Result<Self> {
        let link = |limit| Link::new(address, limit);
        Self::with(None, address.to_string(), link, outage, handle)
    }

    /// Creates a server of a cluster, which has no slots yet.
    ///
    /// # Errors
    /// As for [`Server::new`].
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
        // If a server is away at the start, this is reported immediately, not with the first request.
        connections.reach.lost.notify_one();
        let probing = handle.spawn(probe(Arc::clone(&connections))).abort_handle();
        Ok(Self { connections, probing })
    }

    /// The server's address in a cluster.
    pub(super) fn node(&self) -> Option<&Node> {
        self.connections.node.as_ref().map(|place| &place.node)
    }

    pub(super) fn set_slots(&self, slots: &[RangeInclusive<u16>]) {
        if let Some(place) = &self.connections.node {
            *place.slots.lock() = slots.to_vec();
        }
    }

    /// Whether the server has this slot.
    pub(super) fn has(&self, slot: slots::Slot) -> bool {
        self.connections.node.as_ref().is_none_or(|place| slot.is_in(&place.slots.lock()))
    }

    pub(super) fn is_away(&self) -> bool {
        self.connections.reach.is_away()
    }

    /// Records that the server does not accept a command.
    pub(super) fn failed(&self, error: &RedisError) {
        self.connections.reach.failed(&self.connections.said(error.clone()));
    }

    /// Returns the answers to these commands, unless the server is away.
    ///
    /// # Errors
    /// If the server is away now.
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

    /// Sends a test write, whether or not the server is away.
    ///
    /// # Errors
    /// If the server does not accept the write.
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

    /// What `error` says about the server.
    fn said(&self, error: RedisError) -> ServerError {
        match (&self.node, error.is_cluster_error()) {
            (None, true) => ServerError::OneOfCluster(error),
            _ => error.into(),
        }
    }
}

/// Probes a server that is away until it accepts writes. A server that is still loading its file answers, but
/// accepts no writes.
async fn probe(server: Arc<Connections>) {
    loop {
        server.reach.lost.notified().await;
        while server.probe().await.is_err() {
            sleep(PROBE_INTERVAL).await;
        }
        server.reach.answered();
    }
}

//! [`Server`]: one server, with its connections. While it is away, nothing waits for it until a write, which is tried every half second,
//! succeeds.

use std::{
    io,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::{runtime::Handle, task::AbortHandle, time::sleep};

use super::{
    super::{Node, StoreAddress},
    command::Failure,
    link::Link,
    reach::{Outage, ReachState},
    slots,
};

/// How long an answer about limits may take. A request waits for it.
pub(super) const LIMITS_TIMEOUT: Duration = Duration::from_millis(500);

/// How long an answer with values may take.
const VALUES_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a server that is away is tried again.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How the keys begin that are written to see whether a server takes writes.
const PROBE: &str = "toolwire:probe:";

/// What is written to a server that has all keys. There are so many that one server of a cluster, which has only some of them, does not
/// take each of these.
const PROBES: usize = 16;

/// Seconds that they stay there.
const PROBE_TTL: u64 = 10;

/// Which of the two connections, so that large values do not delay limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Values,
    Limits,
}

/// See the module.
pub(super) struct Server {
    connections: Arc<Connections>,
    probing: AbortHandle,
}

struct Connections {
    /// `None`: it has all keys.
    node: Option<ClusterNode>,
    values: Link,
    limits: Link,
    reach: ReachState,
}

struct ClusterNode {
    node: Node,
    slots: Mutex<Vec<RangeInclusive<u16>>>,
}

impl ClusterNode {
    fn slots(&self) -> MutexGuard<'_, Vec<RangeInclusive<u16>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The server that has all keys. It is connected to, and tried while it is away, on the runtime of `handle`.
    ///
    /// # Errors
    /// The address is not that of a server.
    pub(super) fn new(address: &StoreAddress, outage: &Arc<Outage>, handle: &Handle) -> io::Result<Self> {
        let link = |limit| Link::new(address, limit);
        Self::with(None, address.to_string(), link, outage, handle)
    }

    /// The same of a cluster, which has no slots yet.
    ///
    /// # Errors
    /// As [`Server::new`].
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
        // A server that is away at the start is reported then, not with the first request.
        connections.reach.lost.notify_one();
        let probing = handle.spawn(probe(Arc::clone(&connections))).abort_handle();
        Ok(Self { connections, probing })
    }

    /// Its address in a cluster.
    pub(super) fn node(&self) -> Option<&Node> {
        self.connections.node.as_ref().map(|place| &place.node)
    }

    pub(super) fn set_slots(&self, slots: &[RangeInclusive<u16>]) {
        if let Some(place) = &self.connections.node {
            *place.slots() = slots.to_vec();
        }
    }

    /// Whether it has this slot.
    pub(super) fn has(&self, slot: slots::Slot) -> bool {
        self.connections.node.as_ref().is_none_or(|place| slot.is_in(&place.slots()))
    }

    pub(super) fn is_away(&self) -> bool {
        self.connections.reach.is_away()
    }

    /// It does not take what it is sent.
    pub(super) fn failed(&self, error: &RedisError) {
        self.connections.reach.failed(&self.connections.said(error));
    }

    /// The answers to these commands, unless it is away.
    ///
    /// # Errors
    /// It is away now.
    pub(super) async fn send(
        &self,
        line: Line,
        commands: &Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, Failure> {
        if self.is_away() {
            return Err(Failure::Refused("the server is away".into()));
        }
        let sent = self.connections.link(line).send(commands).await;
        sent.map_err(|error| {
            self.failed(&error);
            let said = self.connections.said(&error);
            // Nothing was sent to a server that refuses the connection.
            if error.is_connection_refusal() { Failure::Refused(said) } else { Failure::Unknown(said) }
        })
    }

    /// Asks it to take a write, whether or not it is away.
    ///
    /// # Errors
    /// It does not.
    #[cfg(test)]
    pub(super) async fn probe(&self) -> Result<(), String> {
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

    async fn probe(&self) -> Result<(), String> {
        for link in [&self.values, &self.limits] {
            let write = async {
                link.find().await?;
                link.send(&self.writes()).await?.into_iter().try_for_each(|answer| answer.map(drop))
            };
            let written = write.await.map_err(|error| self.said(&error));
            written.inspect_err(|error| self.reach.failed(error))?;
        }
        Ok(())
    }

    /// Writes to keys that it has.
    fn writes(&self) -> Pipeline {
        let keys = match &self.node {
            None => (0..PROBES).map(|number| format!("{PROBE}{number}")).collect(),
            Some(place) => slots::key_in(PROBE, &place.slots()).into_iter().collect::<Vec<_>>(),
        };
        let mut writes = Pipeline::new();
        writes.ignore_errors().cmd("PING");
        for key in keys {
            writes.cmd("SET").arg(key).arg(1).arg("EX").arg(PROBE_TTL);
        }
        writes
    }

    /// What an error says.
    fn said(&self, error: &RedisError) -> String {
        match (&self.node, error.is_cluster_error()) {
            (None, true) => format!(
                "it is one server of a cluster, which has only some of the keys ({error}); \"redis+cluster://…\" names a cluster"
            ),
            _ => error.to_string(),
        }
    }
}

/// Tries a server that is away until it takes writes. One that is loading its file answers, but takes none.
async fn probe(server: Arc<Connections>) {
    loop {
        server.reach.lost.notified().await;
        while server.probe().await.is_err() {
            sleep(PROBE_INTERVAL).await;
        }
        server.reach.answered();
    }
}

//! [`Servers`]: selects the server for each command, from one server or a cluster.
//!
//! If a server of a cluster is unreachable, only its keys are affected. The assignment of slots to servers is fetched
//! when a server reports that a slot has moved, and repeatedly while a server is unreachable, since another server may
//! replace it. If a server rejects a command because another server has its keys, the command is sent to that server. A
//! command that may have run is not repeated.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use redis::{Pipeline, RedisResult, Value};
use tokio::{runtime::Handle, sync::Mutex as AsyncMutex, task::JoinSet, time::sleep};

use super::{
    super::{Node, StoreAddress},
    command::{Command, Complaint, Failure, ServerError},
    link::Link,
    reach::{Outage, ReachState},
    server::{LIMITS_TIMEOUT, Line, PROBE_INTERVAL, Server},
    slots::{Slot, SlotRanges},
};

/// Maximum number of times that a command is sent. It is sent again if another server turns out to have its keys, or if
/// the server does not know its script.
const ROUNDS: usize = 4;

/// A single server, or the servers of a cluster.
pub(super) struct Servers {
    known: Mutex<Vec<Arc<Server>>>,
    cluster: Option<Cluster>,
    outage: Arc<Outage>,
}

struct Cluster {
    address: StoreAddress,
    /// The configured servers, which know the other servers.
    seeds: Vec<(Node, Link)>,
    /// Whether every slot is assigned to a server.
    reach: ReachState,
    handle: Handle,
    /// Held while the slots are fetched. `found` counts the fetches.
    finding: AsyncMutex<()>,
    found: AtomicU64,
}

pub(super) type Answer = Result<Value, Failure>;

/// A command without an answer.
struct Open {
    place: usize,
    command: Command,
    /// The server to which the slot is being moved, if it already has the keys.
    asks: Option<Arc<Server>>,
    /// Whether the server needs the script first.
    loads: bool,
}

/// Commands that are sent to a server together.
struct Part {
    server: Arc<Server>,
    open: Vec<Open>,
}

impl Servers {
    /// Creates the servers at this address. The runtime of `handle` runs their connections.
    ///
    /// # Errors
    /// The address is not valid.
    pub(super) fn new(address: &StoreAddress, outage: Arc<Outage>, handle: &Handle) -> io::Result<Self> {
        let Some(nodes) = address.cluster() else {
            let server = Arc::new(Server::new(address, &outage, handle)?);
            return Ok(Self { known: Mutex::new(vec![server]), cluster: None, outage });
        };
        let _here = handle.enter();
        let seed = |node: &Node| Ok((node.clone(), Link::to_node(node, address, LIMITS_TIMEOUT)?));
        let cluster = Cluster {
            address: address.clone(),
            seeds: nodes.iter().map(seed).collect::<io::Result<_>>()?,
            reach: ReachState::new(address.to_string(), Arc::clone(&outage)),
            handle: handle.clone(),
            finding: AsyncMutex::default(),
            found: Default::default(),
        };
        Ok(Self { known: Mutex::default(), cluster: Some(cluster), outage })
    }

    fn of(&self, slot: Slot) -> Option<Arc<Server>> {
        self.known.lock().iter().find(|server| server.has(slot)).cloned()
    }

    /// Whether commands for this slot would fail at once.
    pub(super) fn is_away(&self, slot: Slot) -> bool {
        match (self.of(slot), &self.cluster) {
            (Some(server), _) => server.is_away(),
            (None, Some(cluster)) => cluster.reach.is_away(),
            (None, None) => true,
        }
    }

    /// Returns the answer to a command.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) async fn ask(&self, line: Line, command: Command) -> Answer {
        let mut answers = self.ask_all(line, vec![command]).await;
        answers.pop().unwrap_or_else(|| Err(Failure::Refused(ServerError::NoAnswer)))
    }

    /// Returns the answers to these commands, in order.
    pub(super) async fn ask_all(&self, line: Line, commands: Vec<Command>) -> Vec<Answer> {
        let between = || Err(Failure::Refused(ServerError::KeysMoving));
        let mut answers: Vec<Answer> = commands.iter().map(|_| between()).collect();
        let opened = |(place, command)| Open { place, command, asks: None, loads: false };
        let mut open: Vec<_> = commands.into_iter().enumerate().map(opened).collect();
        for _ in 0..ROUNDS {
            if open.is_empty() {
                break;
            }
            let known = self.found();
            let parts = self.divided(open, &mut answers).await;
            let mut left = Vec::new();
            for part in sent(line, parts).await {
                let moved = self.sort(part, &mut answers, &mut left);
                if let Some(server) = moved {
                    self.find(known, Some(&server)).await;
                }
            }
            open = left;
        }
        answers
    }

    /// Groups the commands by server. A command without a server is answered with an error.
    async fn divided(&self, open: Vec<Open>, answers: &mut [Answer]) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for open in open {
            let mut server = open.asks.clone().or_else(|| self.of(open.command.slot));
            if server.is_none() && !self.is_away(open.command.slot) {
                self.find(self.found(), None).await;
                server = self.of(open.command.slot);
            }
            match server.filter(|server| !server.is_away()) {
                None => answer(answers, open.place, Err(Failure::Refused(ServerError::Away))),
                Some(server) => match parts.iter_mut().find(|part| Arc::ptr_eq(&part.server, &server)) {
                    Some(part) => part.open.push(open),
                    None => parts.push(Part { server, open: vec![open] }),
                },
            }
        }
        parts
    }

    /// Stores the answers, and adds commands that must be sent again to `left`. Returns the server if it reported that
    /// a slot has moved.
    fn sort(&self, done: Done, answers: &mut [Answer], left: &mut Vec<Open>) -> Option<Arc<Server>> {
        let Done { server, open, given } = done;
        let mut moved = None;
        for (mut open, given) in open.into_iter().zip(given) {
            let error = match given {
                Ok(Ok(value)) => {
                    answer(answers, open.place, Ok(value));
                    continue;
                }
                Err(failure) => {
                    answer(answers, open.place, Err(failure));
                    continue;
                }
                Ok(Err(error)) => error,
            };
            match (Complaint::of(&error), &self.cluster) {
                (Complaint::NoScript, _) => open.loads = true,
                (Complaint::Moved, Some(_)) => (open.asks, moved) = (None, Some(Arc::clone(&server))),
                (Complaint::Ask(node), Some(cluster)) => open.asks = self.at(&node, &server, cluster),
                // Treated as rejected, so that the command is retried later: moving the keys may take a long time.
                (Complaint::TryAgain, Some(_)) => continue,
                (Complaint::Unfit, _) => {
                    answer(answers, open.place, Err(Failure::Unfit(error.into())));
                    continue;
                }
                _ => {
                    server.failed(&error);
                    answer(answers, open.place, Err(Failure::Refused(error.into())));
                    continue;
                }
            }
            left.push(open);
        }
        moved
    }

    /// The server at the address `written`, as named by the server `by`.
    fn at(&self, written: &str, by: &Server, cluster: &Cluster) -> Option<Arc<Server>> {
        let node = Node::read(written, &by.node()?.host)?;
        self.server(&mut self.known.lock(), &node, cluster)
    }

    /// The server at this address. Creates it if it is not known yet.
    fn server(&self, known: &mut Vec<Arc<Server>>, node: &Node, cluster: &Cluster) -> Option<Arc<Server>> {
        if let Some(server) = known.iter().find(|server| server.node() == Some(node)) {
            return Some(Arc::clone(server));
        }
        let made = Server::of_cluster(node, &cluster.address, &self.outage, &cluster.handle);
        let server = made.inspect_err(|error| cluster.reach.failed(error)).map(Arc::new).ok()?;
        known.push(Arc::clone(&server));
        Some(server)
    }

    /// How many times the slots have been fetched.
    fn found(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.found.load(Ordering::Acquire))
    }

    /// Fetches the assignment of slots, unless it was fetched since `found` returned `known`. Asks `first` before the
    /// other servers.
    async fn find(&self, known: u64, first: Option<&Arc<Server>>) {
        let Some(cluster) = &self.cluster else { return };
        let _one_at_a_time = cluster.finding.lock().await;
        if self.found() != known {
            return;
        }
        let there: Vec<_> = self.known.lock().iter().filter(|server| !server.is_away()).cloned().collect();
        let mut why = "no server of the cluster answers".to_owned();
        for server in first.into_iter().chain(&there) {
            let Some(node) = server.node() else { continue };
            let asked = server.send(Line::Limits, &slots_command()).await;
            match asked.map_err(ServerError::from).and_then(|given| self.learn(given, node, cluster)) {
                Ok(()) => return,
                Err(error) => why = format!("{node}: {error}"),
            }
        }
        for (node, link) in &cluster.seeds {
            let asked = link.send(&slots_command()).await;
            match asked.map_err(ServerError::from).and_then(|given| self.learn(given, node, cluster)) {
                Ok(()) => return,
                Err(error) => why = format!("{node}: {error}"),
            }
        }
        cluster.reach.failed(&why);
    }

    /// Applies the assignment of slots in a server's answer.
    ///
    /// # Errors
    /// The answer contains no slots.
    fn learn(
        &self,
        answers: Vec<RedisResult<Value>>,
        by: &Node,
        cluster: &Cluster,
    ) -> Result<(), ServerError> {
        let answer = answers.into_iter().next().ok_or(ServerError::NoAnswer)??;
        let ranges = SlotRanges::read(&answer, &by.host);
        if ranges.0.is_empty() {
            return Err(ServerError::NoSlots);
        }
        let mut known = self.known.lock();
        let mut servers = Vec::new();
        for (node, slots) in &ranges.0 {
            if let Some(server) = self.server(&mut known, node, cluster) {
                server.set_slots(slots);
                servers.push(server);
            }
        }
        // Servers that are missing from the answer no longer have any slots.
        *known = servers;
        drop(known);
        cluster.found.fetch_add(1, Ordering::AcqRel);
        match ranges.are_all() {
            true => cluster.reach.answered(),
            false => cluster.reach.failed(&"some slots of the cluster are at no server"),
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) async fn probe_first(&self) -> Result<(), ServerError> {
        let first = self.known.lock().first().cloned().expect("a known server");
        first.probe().await
    }

    /// Fetches the assignment of slots repeatedly while a server is unreachable or a slot is unassigned. Runs until it
    /// is dropped.
    pub(super) async fn watch(&self) {
        if self.cluster.is_none() {
            return;
        }
        loop {
            self.find(self.found(), None).await;
            if self.outage.lasts() {
                sleep(PROBE_INTERVAL).await;
            } else {
                self.outage.begun.notified().await;
            }
        }
    }
}

fn answer(answers: &mut [Answer], place: usize, given: Answer) {
    if let Some(place) = answers.get_mut(place) {
        *place = given;
    }
}

struct Done {
    server: Arc<Server>,
    open: Vec<Open>,
    given: Vec<Result<RedisResult<Value>, Failure>>,
}

/// Sends all parts concurrently.
async fn sent(line: Line, parts: Vec<Part>) -> Vec<Done> {
    let mut parts = parts.into_iter();
    match (parts.next(), parts.len()) {
        (None, _) => Vec::new(),
        (Some(only), 0) => vec![send(line, only).await],
        (Some(first), _) => {
            let mut tasks = JoinSet::new();
            std::iter::once(first).chain(parts).for_each(|part| _ = tasks.spawn(send(line, part)));
            tasks.join_all().await
        }
    }
}

async fn send(line: Line, part: Part) -> Done {
    let Part { server, mut open } = part;
    let mut commands = Pipeline::new();
    commands.ignore_errors();
    let mut ends = Vec::with_capacity(open.len());
    for open in &mut open {
        if let Some(script) = open.command.script.filter(|_| open.loads) {
            commands.load_script(script);
        }
        if open.asks.is_some() {
            commands.cmd("ASKING");
        }
        ends.push(commands.len());
        // Moved instead of copied, since values may be large.
        commands.add_command(std::mem::take(&mut open.command.command));
    }
    let mut given = match server.send(line, &commands).await {
        Ok(answers) => answers.into_iter().map(|answer| Some(Ok(answer))).collect::<Vec<_>>(),
        Err(failure) => commands.cmd_iter().map(|_| Some(Err(failure.clone()))).collect(),
    };
    let missing = || Err(Failure::Unknown(ServerError::AnswerMissing));
    let of = |end: usize| given.get_mut(end).and_then(Option::take).unwrap_or_else(missing);
    let given: Vec<_> = ends.iter().copied().map(of).collect();
    for ((open, given), end) in open.iter_mut().zip(&given).zip(ends) {
        // The command may have to be sent again, so it is restored.
        if matches!(given, Ok(Err(_))) {
            open.command.command = commands.cmd_iter().nth(end).cloned().unwrap_or_default();
        }
    }
    Done { server, open, given }
}

fn slots_command() -> Pipeline {
    let mut commands = Pipeline::new();
    commands.ignore_errors().cmd("CLUSTER").arg("SLOTS");
    commands
}

//! Limits of clients, counted by scripts on the server with the server's clock.
//!
//! | key | holds |
//! |---|---|
//! | `toolwire:limits:{client}:state` | when each per-minute bucket is full again, and the tokens reserved by open responses |
//! | `toolwire:limits:{client}:leases` | a lease for each response in progress, ordered by expiry time |
//! | `toolwire:limits:{client}:2026-11` | requests and tokens of a month |
//!
//! A lease is renewed while its response is in progress, so the leases of an instance that was killed expire.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use redis::{Script, ScriptInvocation};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    super::{
        Owner, StoreError,
        shared_limits::{Admission, Asked, Demand, Lease, Refusal, SharedLimits, Spent, Verdict},
    },
    Inner, RedisServer,
    command::{Command, Failure},
    read,
    server::{Line, PROBE_INTERVAL},
    slots::Slot,
};
use crate::wire::hex;

static ADMIT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("admit.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("settle.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("renew.lua")));

/// Lifetime of a lease that is not renewed, in seconds.
const LEASE: u64 = 60;

const RENEWAL: Duration = Duration::from_secs(20);

/// Maximum number of leases that one call of the script renews.
const RENEWED_AT_ONCE: usize = 500;

/// Minimum lifetime of buckets and reservations, in seconds.
const STATE_TTL: u64 = 60 * 60;

/// Lifetime of a month's counts, in seconds.
const MONTH_TTL: u64 = 400 * 24 * 60 * 60;

/// Maximum number of settlements that wait to be sent. Further ones are lost.
const MAX_WAITING: usize = 1 << 18;

/// Maximum number of settlements that are sent together.
const BATCH: usize = 64;

/// Open leases, and settlements that wait to be sent.
pub(super) struct Settlements {
    /// The prefix of lease names of this instance, which is different after each start.
    instance: String,
    next: AtomicU64,
    open: Mutex<HashMap<Owner, HashSet<Arc<str>>>>,
    waiting: Mutex<BTreeMap<u64, Settlement>>,
    added: Notify,
}

impl Default for Settlements {
    fn default() -> Self {
        Self {
            instance: format!("{:016x}", fastrand::u64(..)),
            next: AtomicU64::new(0),
            open: Mutex::default(),
            waiting: Mutex::default(),
            added: Notify::new(),
        }
    }
}

#[derive(Debug)]
struct OpenLease {
    owner: Owner,
    /// The name of the lease. `None` if the server does not know the lease.
    member: Option<Arc<str>>,
    /// For tokens per minute: the limit, the amount taken, and when the bucket will be full again, in microseconds of
    /// the server's clock.
    tokens: Option<(u64, u64, u64)>,
}

#[derive(Debug)]
struct Settlement {
    lease: OpenLease,
    spent: Spent,
    /// Whether to take the lease back. The server may have granted it, but its answer did not arrive, and the request is
    /// counted without a lease.
    is_doubtful: bool,
    /// Whether the server may already have applied the settlement.
    is_repeated: bool,
    /// The value of `is_repeated` before the last attempt.
    was_repeated: bool,
}

impl Settlements {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Settlement>> {
        self.waiting.lock()
    }

    /// Creates the name of a lease that reserves `tokens`.
    fn name(&self, tokens: u64) -> Arc<str> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number:x}:{tokens}", self.instance).into()
    }

    fn add(&self, lease: OpenLease, spent: Spent) {
        self.add_settlement(lease, spent, false);
    }

    fn add_settlement(&self, lease: OpenLease, spent: Spent, is_doubtful: bool) {
        if let Some(member) = &lease.member {
            let mut open = self.open.lock();
            if let Some(leases) = open.get_mut(&lease.owner) {
                leases.remove(member);
                if leases.is_empty() {
                    open.remove(&lease.owner);
                }
            }
        }
        let mut waiting = self.waiting();
        if waiting.len() >= MAX_WAITING {
            tracing::error!("what a request has used is lost: too much waits for the store");
            return;
        }
        let number = waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        let settlement = Settlement { lease, spent, is_doubtful, is_repeated: false, was_repeated: false };
        waiting.insert(number, settlement);
        drop(waiting);
        self.added.notify_one();
    }
}

impl SharedLimits for RedisServer {
    fn admit(&self, demand: Demand) -> Asked<Result<Verdict, StoreError>> {
        if self.inner.servers.is_away(slot(demand.owner)) {
            return Box::pin(async { Err(StoreError::new("the server is away")) });
        }
        let inner = Arc::clone(&self.inner);
        // If the request has been dropped by the time the answer arrives, its lease ends immediately.
        self.asked(async move { admit(&inner, demand).await })
    }

    fn unchecked(&self, owner: Owner, month: String) -> Lease {
        lease(&self.inner, OpenLease { owner, member: None, tokens: None }, month)
    }

    fn owe(&self, owner: Owner, spent: Spent, tokens_per_minute: Option<u64>) {
        let tokens = tokens_per_minute.map(|limit| (limit.max(1), 0, 0));
        // No lease has this name, so no request is counted.
        let member = Some("-".into());
        self.inner.settlements.add(OpenLease { owner, member, tokens }, spent);
    }
}

async fn admit(inner: &Arc<Inner>, demand: Demand) -> Result<Verdict, StoreError> {
    let Demand { owner, requests_per_minute, tokens_per_minute, tokens_per_month, streams, .. } = demand;
    let reserved = tokens_per_month.map_or(0, |budget| demand.tokens.min(budget));
    let member = demand.takes_place.then(|| inner.settlements.name(reserved));
    let limit = |limit: Option<u64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    let mut script = of_client(&ADMIT, owner);
    script.key(key(owner, &demand.month)).arg(member.as_deref().unwrap_or_default());
    script.arg(limit(streams)).arg(limit(requests_per_minute.map(|limit| limit.max(1))));
    script
        .arg(limit(tokens_per_minute.map(|limit| limit.max(1))))
        .arg(limit(tokens_per_month))
        .arg(demand.tokens);
    script.arg(LEASE).arg(STATE_TTL).arg(MONTH_TTL);
    let answer = inner.servers.ask(Line::Limits, of_owner(&ADMIT, owner, &script)).await;
    if matches!(answer, Err(Failure::Unknown(_))) && member.is_some() {
        let lease = OpenLease { owner, member: member.clone(), tokens: None };
        inner.settlements.add_settlement(
            lease,
            Spent { month: demand.month.clone(), input: 0, output: 0 },
            true,
        );
    }
    let answer: (u64, u64, u64, u64, u64, u64, u64, u64) = read(answer?)?;
    let (code, wait, requests_full_in, tokens_full_in, tokens_full, requests, input, output) = answer;
    let wait = Duration::from_micros(wait);
    let admission = match code {
        0 => Admission::Granted(member.map(|member| {
            inner.settlements.open.lock().entry(owner).or_default().insert(Arc::clone(&member));
            let limit = tokens_per_minute.map(|limit| limit.max(1));
            let tokens = limit.map(|limit| (limit, demand.tokens.min(limit), tokens_full));
            lease(inner, OpenLease { owner, member: Some(member), tokens }, demand.month)
        })),
        1 => Admission::Refused(Refusal::Streams),
        2 => Admission::Refused(Refusal::Month),
        3 => Admission::Refused(Refusal::MonthReserved),
        4 => Admission::Refused(Refusal::Tokens(wait)),
        _ => Admission::Refused(Refusal::Requests(wait)),
    };
    Ok(Verdict {
        admission,
        requests_full_in: Duration::from_micros(requests_full_in),
        tokens_full_in: Duration::from_micros(tokens_full_in),
        month: (requests, input, output),
    })
}

/// Creates a lease that settles `lease` when its request ends.
fn lease(inner: &Arc<Inner>, lease: OpenLease, month: String) -> Lease {
    let (inner, nothing) = (Arc::clone(inner), Spent { month, input: 0, output: 0 });
    Lease::new(move |spent| inner.settlements.add(lease, spent.unwrap_or(nothing)))
}

/// Sends settlements and renews leases until it is dropped. It does one after the other, so that no lease is renewed
/// after it was settled.
pub(super) async fn settle(inner: &Inner) {
    let (mut renewal, mut there) = (interval(RENEWAL), inner.outage.ends());
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = Left::Nothing;
    loop {
        tokio::select! {
            () = inner.settlements.added.notified() => left = settle_rest(inner).await,
            () = sleep(PROBE_INTERVAL), if left == Left::Some => left = settle_rest(inner).await,
            _ = renewal.tick() => renew(inner).await,
            // Never an error, since `inner` owns the sender. Leases are renewed because the server may have lost them.
            _ = there.changed() => renewal.reset_immediately(),
        }
    }
}

/// Whether some settlements could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Some,
}

/// Tries to send all waiting settlements.
pub(super) async fn settle_rest(inner: &Inner) -> Left {
    let (mut from, mut left) = (0, Left::Nothing);
    loop {
        let (next, batch) = batch(inner, from);
        if next == from {
            return left;
        }
        from = next;
        let (numbers, commands): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let answers = inner.servers.ask_all(Line::Limits, commands).await;
        for (number, answer) in numbers.into_iter().zip(answers) {
            settled(&mut inner.settlements.waiting(), number, answer.err());
        }
        if inner.settlements.waiting().range(..from).next().is_some() {
            left = Left::Some;
        }
    }
}

/// Returns the next settlements for reachable servers, starting with the number `from`, and the number with which the
/// next batch starts.
fn batch(inner: &Inner, from: u64) -> (u64, Vec<(u64, Command)>) {
    let (mut next, mut batch) = (from, Vec::new());
    for (number, settlement) in inner.settlements.waiting().range_mut(from..).take(BATCH) {
        next = number + 1;
        if !inner.servers.is_away(slot(settlement.lease.owner)) {
            batch.push((*number, script_of(settlement)));
        }
    }
    (next, batch)
}

/// Removes a settlement that was sent, unless it must be sent again. Only one task may call this.
fn settled(waiting: &mut BTreeMap<u64, Settlement>, number: u64, failure: Option<Failure>) {
    match failure {
        None => _ = waiting.remove(&number),
        // The settlement was not applied, so this attempt does not make the next one a repetition.
        Some(Failure::Refused(_)) => {
            waiting.entry(number).and_modify(|settlement| settlement.is_repeated = settlement.was_repeated);
        }
        Some(Failure::Unknown(_)) => {}
        Some(Failure::Unfit(error)) => {
            waiting.remove(&number);
            tracing::error!(
                error = error.to_string(),
                "what a request has used is lost: its client's counts cannot be read"
            );
        }
    }
}

/// Returns the script for a settlement, and marks the settlement as possibly applied.
fn script_of(settlement: &mut Settlement) -> Command {
    let Settlement { lease, spent, is_doubtful, is_repeated, was_repeated } = settlement;
    let mut script = of_client(&SETTLE, lease.owner);
    script.key(key(lease.owner, &spent.month)).arg(lease.member.as_deref().unwrap_or_default());
    script.arg(if *is_doubtful { 2 } else { u8::from(*is_repeated) });
    match lease.tokens {
        Some((limit, taken, full)) => script.arg(limit).arg(taken).arg(full),
        None => script.arg("").arg(0).arg(0),
    };
    script.arg(spent.input).arg(spent.output).arg(STATE_TTL).arg(MONTH_TTL);
    (*was_repeated, *is_repeated) = (*is_repeated, true);
    of_owner(&SETTLE, lease.owner, &script)
}

/// Renews all leases on reachable servers.
async fn renew(inner: &Inner) {
    let settlements = &inner.settlements;
    let owners: Vec<Owner> = settlements.open.lock().keys().copied().collect();
    for owner in owners.into_iter().filter(|owner| !inner.servers.is_away(slot(*owner))) {
        let leases: Vec<_> = settlements.open.lock().get(&owner).into_iter().flatten().cloned().collect();
        for leases in leases.chunks(RENEWED_AT_ONCE) {
            let script = renewal_of(settlements, owner, leases);
            // `ask` already marks the server as unreachable on an error.
            let _ = inner.servers.ask(Line::Limits, of_owner(&RENEW, owner, &script)).await;
        }
        settle_rest(inner).await;
    }
}

/// Returns the script that renews those of `leases` that are still open.
fn renewal_of(settlements: &Settlements, owner: Owner, leases: &[Arc<str>]) -> ScriptInvocation<'static> {
    let mut script = of_client(&RENEW, owner);
    script.arg(LEASE).arg(STATE_TTL);
    let open = settlements.open.lock();
    let is_open = |lease: &&Arc<str>| open.get(&owner).is_some_and(|open| open.contains(*lease));
    leases.iter().filter(is_open).for_each(|lease| _ = script.arg(&**lease));
    script
}

/// Prepares a script with the client's keys.
fn of_client(script: &'static Script, owner: Owner) -> ScriptInvocation<'static> {
    let mut script = script.prepare_invoke();
    script.key(key(owner, "state")).key(key(owner, "leases"));
    script
}

fn of_owner(script: &'static Script, owner: Owner, invocation: &ScriptInvocation<'_>) -> Command {
    Command::script(script, &key(owner, ""), invocation)
}

/// The slot that contains a client's keys.
fn slot(owner: Owner) -> Slot {
    Slot::of(key(owner, "").as_bytes())
}

/// A key of a client. A cluster hashes only the part in braces, so all keys of a client are in the same slot.
fn key(owner: Owner, what: &str) -> String {
    format!("toolwire:limits:{{{}}}:{what}", hex::encode(&owner.0))
}

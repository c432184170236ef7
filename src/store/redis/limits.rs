//! Limits of clients, counted by scripts on the server's clock.
//!
//! | key | holds |
//! |---|---|
//! | `toolwire:limits:{client}:state` | when the buckets of a minute are full again, and the tokens that responses in progress reserve |
//! | `toolwire:limits:{client}:leases` | a lease for each response in progress, by its time of expiry |
//! | `toolwire:limits:{client}:2026-11` | requests and tokens of a month |
//!
//! A lease is renewed while its response is in progress, so that those of an instance that was killed end by themselves.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Pipeline, Script, ScriptInvocation};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::{
    super::{
        Owner, StoreError,
        shared_limits::{Admission, Asked, Demand, Lease, Refusal, SharedLimits, Spent, Verdict},
    },
    Inner, RedisServer, hex,
};

static ADMIT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("admit.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("settle.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("renew.lua")));

/// Seconds after which a lease ends that is not renewed.
const LEASE: u64 = 60;

/// How often leases are renewed.
const RENEWAL: Duration = Duration::from_secs(20);

/// Leases that one script renews.
const RENEWED_AT_ONCE: usize = 500;

/// Seconds that buckets and reservations are kept at least.
const STATE_TTL: u64 = 60 * 60;

/// Seconds that the counts of a month are kept.
const MONTH_TTL: u64 = 400 * 24 * 60 * 60;

/// Settlements that wait for the server. Further ones are lost.
const MAX_WAITING: usize = 1 << 18;

/// Settlements that are sent at once.
const BATCH: usize = 64;

/// What is to be settled, and the leases that are not.
pub(super) struct Settlements {
    /// How leases of this instance begin. It is another one after each start.
    instance: String,
    next: AtomicU64,
    open: Mutex<HashMap<Owner, HashSet<Arc<str>>>>,
    waiting: Mutex<VecDeque<Settlement>>,
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

/// A response in progress.
#[derive(Debug)]
struct OpenLease {
    owner: Owner,
    /// Its name among those of the client. `None`: the server does not know of it.
    member: Option<Arc<str>>,
    /// The limit of tokens in a minute, with what was taken of them and when these are all there again, in microseconds of the server's
    /// clock.
    tokens: Option<(u64, u64, u64)>,
}

#[derive(Debug)]
struct Settlement {
    lease: OpenLease,
    spent: Spent,
    /// The server may have done it.
    is_repeated: bool,
}

impl Settlements {
    fn open(&self) -> MutexGuard<'_, HashMap<Owner, HashSet<Arc<str>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Settlement>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a lease that reserves `tokens`.
    fn name(&self, tokens: u64) -> Arc<str> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number:x}:{tokens}", self.instance).into()
    }

    fn add(&self, lease: OpenLease, spent: Spent) {
        if let Some(member) = &lease.member {
            let mut open = self.open();
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
        waiting.push_back(Settlement { lease, spent, is_repeated: false });
        drop(waiting);
        self.added.notify_one();
    }
}

impl SharedLimits for RedisServer {
    fn admit(&self, demand: Demand) -> Asked<Result<Verdict, StoreError>> {
        if self.inner.reach.is_away() {
            return Box::pin(async { Err(StoreError("the server is away".into())) });
        }
        let inner = Arc::clone(&self.inner);
        // If the request is gone, its lease ends with the answer.
        self.asked(async move { admit(&inner, demand).await })
    }

    fn unchecked(&self, owner: Owner, month: String) -> Lease {
        lease(&self.inner, OpenLease { owner, member: None, tokens: None }, month)
    }

    fn owe(&self, owner: Owner, spent: Spent, tokens_per_minute: Option<u64>) {
        let tokens = tokens_per_minute.map(|limit| (limit.max(1), 0, 0));
        // It is no lease's name, and no request.
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
    let answer: (u64, u64, u64, u64, u64, u64, u64, u64) = inner.limits.script(&script).await?;
    let (code, wait, requests_full_in, tokens_full_in, tokens_full, requests, input, output) = answer;
    let wait = Duration::from_micros(wait);
    let admission = match code {
        0 => Admission::Granted(member.map(|member| {
            inner.settlements.open().entry(owner).or_default().insert(Arc::clone(&member));
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

/// What settles `lease` when its request ends.
fn lease(inner: &Arc<Inner>, lease: OpenLease, month: String) -> Lease {
    let (inner, nothing) = (Arc::clone(inner), Spent { month, input: 0, output: 0 });
    Lease::new(move |spent| inner.settlements.add(lease, spent.unwrap_or(nothing)))
}

/// Sends settlements and renews leases, until it is dropped. One after the other, so that no lease is renewed after it was settled.
pub(super) async fn settle(inner: &Inner) {
    let mut renewal = interval(RENEWAL);
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.settlements.added.notified() => settle_rest(inner).await,
            _ = renewal.tick() => renew(inner).await,
        }
        if inner.reach.is_away() {
            inner.reach.there().await;
            // What was settled meanwhile is still there, and the server may have lost what was not.
            inner.settlements.added.notify_one();
            renewal.reset_immediately();
        }
    }
}

/// Sends all settlements, as long as the server takes them.
pub(super) async fn settle_rest(inner: &Inner) {
    let settlements = &inner.settlements;
    // What is not sent is not repeated later.
    while !inner.reach.is_away() {
        let mut commands = Pipeline::new();
        // A server that was started again does not know the script.
        commands.load_script(&SETTLE).ignore();
        let batch = settlements.waiting().iter_mut().take(BATCH).map(script_of).collect::<Vec<_>>();
        if batch.is_empty() {
            return;
        }
        batch.iter().for_each(|script| _ = commands.invoke_script(script).ignore());
        if inner.limits.pipeline::<()>(&commands).await.is_err() {
            return;
        }
        // Only this task takes any away.
        settlements.waiting().drain(..batch.len());
    }
}

/// The script for a settlement. From now on it is a repetition.
fn script_of(settlement: &mut Settlement) -> ScriptInvocation<'static> {
    let Settlement { lease, spent, is_repeated } = settlement;
    let mut script = of_client(&SETTLE, lease.owner);
    script.key(key(lease.owner, &spent.month)).arg(lease.member.as_deref().unwrap_or_default());
    script.arg(u8::from(*is_repeated));
    match lease.tokens {
        Some((limit, taken, full)) => script.arg(limit).arg(taken).arg(full),
        None => script.arg("").arg(0).arg(0),
    };
    script.arg(spent.input).arg(spent.output).arg(STATE_TTL).arg(MONTH_TTL);
    *is_repeated = true;
    script
}

/// Renews all leases.
async fn renew(inner: &Inner) {
    let settlements = &inner.settlements;
    let owners: Vec<Owner> = settlements.open().keys().copied().collect();
    for owner in owners {
        let leases: Vec<_> = settlements.open().get(&owner).into_iter().flatten().cloned().collect();
        for leases in leases.chunks(RENEWED_AT_ONCE) {
            let script = renewal_of(settlements, owner, leases);
            if inner.limits.script::<u64>(&script).await.is_err() {
                return;
            }
        }
        settle_rest(inner).await;
    }
}

/// The script that renews those of `leases` that are still open.
fn renewal_of(settlements: &Settlements, owner: Owner, leases: &[Arc<str>]) -> ScriptInvocation<'static> {
    let mut script = of_client(&RENEW, owner);
    script.arg(LEASE).arg(STATE_TTL);
    let open = settlements.open();
    let is_open = |lease: &&Arc<str>| open.get(&owner).is_some_and(|open| open.contains(*lease));
    leases.iter().filter(is_open).for_each(|lease| _ = script.arg(&**lease));
    script
}

/// A script for a client, with the keys of its state and its leases.
fn of_client(script: &'static Script, owner: Owner) -> ScriptInvocation<'static> {
    let mut script = script.prepare_invoke();
    script.key(key(owner, "state")).key(key(owner, "leases"));
    script
}

/// A key of a client. Its braces contain what a cluster chooses a place by, which is the same for all of a client.
fn key(owner: Owner, what: &str) -> String {
    format!("toolwire:limits:{{{}}}:{what}", hex(&owner.0))
}

//! [`KeptHops`]: the hops of responses that failed after hosted tools had run, until their clients repeat the request.
//!
//! ```text
//! request ─▶ tools run ─▶ the next hop fails ─▶ kept ─the same request─▶ the next hop, with the results
//! ```
//!
//! A repeated request thus runs no tool again. The hops belong to one client and one request body, are handed out once,
//! and are kept in memory for a few minutes. A client that fills its part displaces its own oldest ones.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::EarlierHops;
use toolwire_net::store::Owner;
use toolwire_pipeline::{dialect::ClientDialect, wire::digest::Digest};

/// How long hops are kept.
const TTL: Duration = Duration::from_secs(5 * 60);

/// Maximum number of responses whose hops are kept, for one client and for all. The oldest are dropped first.
const MAX_OF_CLIENT: usize = 64;
const MAX: usize = 1024;

/// Maximum size of all kept hops in bytes, for one client and for all.
const MAX_BYTES_OF_CLIENT: usize = 16 << 20;
const MAX_BYTES: usize = 64 << 20;

/// Estimated overhead of kept hops in bytes.
const OVERHEAD: usize = 1024;

/// The hops of all clients.
#[derive(Debug, Default)]
pub(crate) struct KeptHops {
    /// Whether there may be hops. If not, requests skip the lookup.
    are_there: AtomicBool,
    /// The oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

/// Identifies a request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestKey {
    owner: Owner,
    dialect: ClientDialect,
    body: Digest,
}

struct Kept {
    request: RequestKey,
    hops: Box<EarlierHops>,
    bytes: usize,
    since: Instant,
}

/// Keeps the hops of the response to one request.
#[derive(Debug)]
pub(crate) struct HopKeeper {
    hops: Arc<KeptHops>,
    request: RequestKey,
}

impl KeptHops {
    /// Returns the keeper for the response to the request with this body.
    pub(crate) fn keeper(self: &Arc<Self>, owner: Owner, dialect: ClientDialect, body: &[u8]) -> HopKeeper {
        let request = RequestKey { owner, dialect, body: Digest::of_bytes(body) };
        HopKeeper { hops: Arc::clone(self), request }
    }

    /// Removes and returns the hops after which the request with this body goes on, if there are any.
    pub(crate) fn take(&self, owner: Owner, dialect: ClientDialect, body: &[u8]) -> Option<Box<EarlierHops>> {
        if !self.are_there.load(Ordering::Relaxed) {
            return None;
        }
        let request = RequestKey { owner, dialect, body: Digest::of_bytes(body) };
        let mut all = self.kept.lock();
        all.retain(|kept| kept.since.elapsed() < TTL);
        let place = all.iter().position(|kept| kept.request == request);
        let found = place.and_then(|place| all.remove(place)).map(|kept| kept.hops);
        self.are_there.store(!all.is_empty(), Ordering::Relaxed);
        found
    }

    /// The size of all hops in bytes, at most [`MAX_BYTES`].
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().iter().map(|kept| kept.bytes).sum()
    }

    fn put(&self, kept: Kept) {
        let owner = kept.request.owner;
        let mut all = self.kept.lock();
        all.retain(|old| old.since.elapsed() < TTL && old.request != kept.request);
        all.push_back(kept);
        let (mut of_client, mut of_all) = (Size::default(), Size::default());
        for index in (0..all.len()).rev() {
            let Some(kept) = all.get(index) else { break };
            let is_own = kept.request.owner == owner;
            let own = if is_own { of_client.with(kept.bytes) } else { of_client };
            let total = of_all.with(kept.bytes);
            if own.fits(MAX_OF_CLIENT, MAX_BYTES_OF_CLIENT) && total.fits(MAX, MAX_BYTES) {
                (of_client, of_all) = (own, total);
            } else {
                all.remove(index);
            }
        }
        self.are_there.store(!all.is_empty(), Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    count: usize,
    bytes: usize,
}

impl Size {
    fn with(self, bytes: usize) -> Self {
        Self { count: self.count + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    fn fits(self, count: usize, bytes: usize) -> bool {
        self.count <= count && self.bytes <= bytes
    }
}

impl HopKeeper {
    /// Keeps `hops` for the client's next request. Returns `false` if they are too large.
    pub(crate) fn keep(&self, hops: EarlierHops) -> bool {
        let bytes = hops.size().saturating_add(OVERHEAD);
        if bytes > MAX_BYTES_OF_CLIENT {
            return false;
        }
        let hops = Box::new(hops.of_another_response());
        self.hops.put(Kept { request: self.request, hops, bytes, since: Instant::now() });
        true
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: ClientDialect = ClientDialect::Chat;

    fn owner(number: usize) -> Owner {
        Owner::of_key(&number.to_be_bytes())
    }

    fn hops(bytes: usize) -> EarlierHops {
        EarlierHops::with_result("x".repeat(bytes))
    }

    #[tokio::test(start_paused = true)]
    async fn hops_are_handed_out_once_to_the_client_that_repeats_its_request_in_time() {
        let all = Arc::new(KeptHops::default());
        let keep = |body: &[u8]| assert!(all.keeper(owner(1), DIALECT, body).keep(hops(9)));
        keep(b"a");
        assert!(all.take(owner(2), DIALECT, b"a").is_none());
        assert!(all.take(owner(1), ClientDialect::Messages, b"a").is_none());
        assert!(all.take(owner(1), DIALECT, b"b").is_none());
        assert!(all.take(owner(1), DIALECT, b"a").is_some());
        assert!(all.take(owner(1), DIALECT, b"a").is_none());
        keep(b"a");
        tokio::time::advance(TTL).await;
        assert!(all.take(owner(1), DIALECT, b"a").is_none());
        assert!(!all.are_there.load(Ordering::Relaxed));
    }

    #[test]
    fn client_displaces_its_own_hops_and_all_together_are_bounded() {
        let all = Arc::new(KeptHops::default());
        let keep = |client: usize, body: usize, bytes: usize| {
            all.keeper(owner(client), DIALECT, &body.to_be_bytes()).keep(hops(bytes))
        };
        let has = |client: usize, body: usize| {
            let (owner, body) = (owner(client), Digest::of_bytes(&body.to_be_bytes()));
            all.kept.lock().iter().any(|kept| kept.request == RequestKey { owner, dialect: DIALECT, body })
        };
        assert!(!keep(1, 0, MAX_BYTES_OF_CLIENT), "more than a client may keep");
        assert!(keep(0, 0, 9));
        (0..=MAX_OF_CLIENT).for_each(|body| assert!(keep(1, body, 9)));
        assert!(has(0, 0) && !has(1, 0) && has(1, 1) && has(1, MAX_OF_CLIENT));
        let half = MAX_BYTES_OF_CLIENT / 2 - OVERHEAD;
        (0..3).for_each(|body| assert!(keep(2, body, half)));
        assert!(has(0, 0) && !has(2, 0) && has(2, 1) && has(2, 2));
        (3..20).for_each(|client| assert!(keep(client, 0, half * 2)));
        let kept = all.kept.lock();
        assert!(kept.iter().map(|kept| kept.bytes).sum::<usize>() <= MAX_BYTES && kept.len() <= MAX);
    }
}

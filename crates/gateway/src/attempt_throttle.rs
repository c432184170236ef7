//! [`AttemptThrottle`]: counts the sign-in attempts or the wrong keys that come from an address.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an attempt counts.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of addresses. Beyond it, the address whose last attempt is oldest is dropped.
const MAX_ADDRESSES: usize = 4096;

/// Maximum number of different wrong keys per address and [`WINDOW`]. High enough for a user who mistypes a key or has
/// several old ones.
const MAX_KEYS: usize = 10;

/// Delay of the response to each wrong key after too many of them. Valid keys are not delayed, so other clients at the
/// same address are not affected.
pub(super) const PENALTY: Duration = Duration::from_secs(1);

/// Recent attempts by address.
#[derive(Debug)]
pub struct AttemptThrottle {
    max: usize,
    by_address: HashMap<IpAddr, VecDeque<Attempt>>,
}

#[derive(Debug)]
struct Attempt {
    at: Instant,
    /// Identifies what was attempted. Attempts with the same mark count once.
    mark: Option<u64>,
}

impl AttemptThrottle {
    pub fn new(max: usize) -> Self {
        Self { max, by_address: HashMap::new() }
    }

    /// Counts an attempt from `address`.
    ///
    /// # Errors
    /// If there were too many attempts, returns how long to wait.
    pub fn count(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.count_marked(address, None, now).map(|_| ())
    }

    /// Counts an attempt, unless one with the same mark has been counted. Returns the number of attempts if this one is
    /// new.
    fn count_marked(
        &mut self,
        address: IpAddr,
        mark: Option<u64>,
        now: Instant,
    ) -> Result<Option<usize>, Duration> {
        let address = network(address);
        let is_recent = |at: Instant| now.duration_since(at) < WINDOW;
        if !self.by_address.contains_key(&address) && self.by_address.len() >= MAX_ADDRESSES {
            let last = |attempts: &VecDeque<Attempt>| attempts.back().map(|last| last.at);
            self.by_address.retain(|_, attempts| last(attempts).is_some_and(is_recent));
            let oldest = self
                .by_address
                .iter()
                .min_by_key(|(_, attempts)| last(attempts))
                .map(|(address, _)| *address);
            if let (true, Some(oldest)) = (self.by_address.len() >= MAX_ADDRESSES, oldest) {
                self.by_address.remove(&oldest);
            }
        }
        let attempts = self.by_address.entry(address).or_default();
        while attempts.front().is_some_and(|first| !is_recent(first.at)) {
            attempts.pop_front();
        }
        if mark.is_some() && attempts.iter().any(|known| known.mark == mark) {
            return Ok(None);
        }
        match attempts.front() {
            Some(first) if attempts.len() >= self.max => Err(WINDOW - now.duration_since(first.at)),
            _ => {
                attempts.push_back(Attempt { at: now, mark });
                Ok(Some(attempts.len()))
            }
        }
    }

    pub fn forget(&mut self, address: IpAddr) {
        self.by_address.remove(&network(address));
    }
}

/// The wrong keys sent by each address. A key that is sent repeatedly is not a guess and counts once.
#[derive(Debug)]
pub struct WrongKeys {
    /// What the keys are for, as log messages say it.
    place: &'static str,
    hasher: RandomState,
    /// Whether any wrong keys have been counted. If not, requests with valid keys skip the lookup.
    are_there: AtomicBool,
    throttle: Mutex<AttemptThrottle>,
}

impl WrongKeys {
    /// `place` says what the keys are for. It is used in log messages.
    pub fn new(place: &'static str) -> Self {
        let throttle = Mutex::new(AttemptThrottle::new(MAX_KEYS));
        Self { place, hasher: RandomState::new(), are_there: AtomicBool::new(false), throttle }
    }

    /// Counts a wrong key. Logs the address when it sends its first wrong key, and when it has sent too many.
    ///
    /// # Errors
    /// If there were too many wrong keys, returns how many seconds to wait.
    pub fn count(&self, key: &[u8], peer: IpAddr) -> Result<(), u64> {
        let counted =
            self.throttle.lock().count_marked(peer, Some(self.hasher.hash_one(key)), Instant::now());
        self.are_there.store(true, Ordering::Relaxed);
        let peer = peer.to_canonical();
        match counted {
            Ok(Some(1)) => tracing::warn!(%peer, "a wrong key for {} was refused", self.place),
            Ok(Some(MAX_KEYS)) => {
                tracing::warn!(%peer, "{MAX_KEYS} wrong keys for {} were refused in a minute; further ones are slowed down", self.place);
            }
            Ok(_) => {}
            Err(wait) => return Err(seconds(wait)),
        }
        Ok(())
    }

    /// Resets the count of an address that has sent a valid key.
    pub fn forget(&self, peer: IpAddr) {
        if self.are_there.load(Ordering::Relaxed) {
            let mut throttle = self.throttle.lock();
            throttle.forget(peer);
            self.are_there.store(!throttle.by_address.is_empty(), Ordering::Relaxed);
        }
    }
}

/// Returns the duration in seconds, rounded up.
pub fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Returns the network that presumably belongs to one party: an IPv4 address, or an IPv6 /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sixth_attempt_within_a_minute_is_refused() {
        let (mut throttle, address) = (AttemptThrottle::new(5), "192.0.2.1".parse().unwrap());
        let start = Instant::now();
        for second in 0..5 {
            assert_eq!(throttle.count(address, start + Duration::from_secs(second)), Ok(()));
        }
        let late = start + Duration::from_secs(5);
        assert_eq!(throttle.count(address, late), Err(Duration::from_secs(55)));
        assert_eq!(throttle.count("::ffff:192.0.2.1".parse().unwrap(), late), Err(Duration::from_secs(55)));
        assert_eq!(throttle.count("192.0.2.2".parse().unwrap(), late), Ok(()));
        assert_eq!(throttle.count(address, start + WINDOW), Ok(()));
        assert!(throttle.count(address, start + WINDOW).is_err());
        throttle.forget(address);
        assert_eq!(throttle.count(address, start + WINDOW), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_share_their_attempts_and_memory_is_bounded() {
        let (mut throttle, now) = (AttemptThrottle::new(5), Instant::now());
        for host in 1..=5 {
            assert_eq!(throttle.count(format!("2001:db8::{host}").parse().unwrap(), now), Ok(()));
        }
        assert!(throttle.count("2001:db8::ffff".parse().unwrap(), now).is_err());
        for network in 0..10_000_u32 {
            _ = throttle.count(IpAddr::V4(network.into()), now);
        }
        assert!(throttle.by_address.len() <= MAX_ADDRESSES);
    }

    #[tokio::test(start_paused = true)]
    async fn only_different_wrong_keys_count() {
        let (wrong, peer) = (WrongKeys::new("tests"), "192.0.2.1".parse().unwrap());
        for _ in 0..100 {
            assert_eq!(wrong.count(b"mistyped", peer), Ok(()));
        }
        for number in 1..MAX_KEYS {
            assert_eq!(wrong.count(number.to_string().as_bytes(), peer), Ok(()), "{number}");
        }
        assert_eq!(wrong.count(b"one more", peer), Err(60));
        assert_eq!(wrong.count(b"mistyped", peer), Ok(()), "it was answered before");
        assert_eq!(wrong.count(b"one more", "192.0.2.2".parse().unwrap()), Ok(()));
        wrong.forget(peer);
        assert_eq!(wrong.count(b"one more", peer), Ok(()));
        tokio::time::advance(WINDOW).await;
        for number in 0..MAX_KEYS {
            assert_eq!(wrong.count(number.to_string().as_bytes(), peer), Ok(()), "{number}");
        }
    }
}

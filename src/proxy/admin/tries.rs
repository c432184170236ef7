//! [`Tries`]: how often an address has tried to sign in.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use tokio::time::Instant;

/// Tries of an address within [`WINDOW`].
const MAX_TRIES: usize = 5;

/// For how long a try counts.
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are remembered. Beyond, the one that tried longest ago is forgotten.
const MAX_ADDRESSES: usize = 4096;

/// The tries of the last minute, by address.
#[derive(Debug, Default)]
pub(super) struct Tries(HashMap<IpAddr, VecDeque<Instant>>);

impl Tries {
    /// Counts a try.
    ///
    /// # Errors
    /// There were too many. How long to wait.
    pub(super) fn count(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = network(address);
        let is_recent = |at: &Instant| now.duration_since(*at) < WINDOW;
        if !self.0.contains_key(&address) && self.0.len() >= MAX_ADDRESSES {
            self.0.retain(|_, tries| tries.back().is_some_and(is_recent));
            let oldest =
                self.0.iter().min_by_key(|(_, tries)| tries.back().copied()).map(|(address, _)| *address);
            if let (true, Some(oldest)) = (self.0.len() >= MAX_ADDRESSES, oldest) {
                self.0.remove(&oldest);
            }
        }
        let tries = self.0.entry(address).or_default();
        while tries.front().is_some_and(|at| !is_recent(at)) {
            tries.pop_front();
        }
        match tries.front() {
            Some(first) if tries.len() >= MAX_TRIES => Err(WINDOW - now.duration_since(*first)),
            _ => {
                tries.push_back(now);
                Ok(())
            }
        }
    }

    /// The address has shown a key: its tries before do not count.
    pub(super) fn forget(&mut self, address: IpAddr) {
        self.0.remove(&network(address));
    }
}

/// What one party has: an IPv4 address, or a /64 of IPv6.
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
    async fn sixth_try_within_a_minute_is_refused() {
        let (mut tries, address) = (Tries::default(), "192.0.2.1".parse().unwrap());
        let start = Instant::now();
        for second in 0..5 {
            assert_eq!(tries.count(address, start + Duration::from_secs(second)), Ok(()));
        }
        let late = start + Duration::from_secs(5);
        assert_eq!(tries.count(address, late), Err(Duration::from_secs(55)));
        assert_eq!(tries.count("::ffff:192.0.2.1".parse().unwrap(), late), Err(Duration::from_secs(55)));
        assert_eq!(tries.count("192.0.2.2".parse().unwrap(), late), Ok(()));
        assert_eq!(tries.count(address, start + WINDOW), Ok(()));
        assert!(tries.count(address, start + WINDOW).is_err());
        tries.forget(address);
        assert_eq!(tries.count(address, start + WINDOW), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_share_their_tries_and_memory_is_bounded() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        for host in 1..=5 {
            assert_eq!(tries.count(format!("2001:db8::{host}").parse().unwrap(), now), Ok(()));
        }
        assert!(tries.count("2001:db8::ffff".parse().unwrap(), now).is_err());
        for network in 0..10_000_u32 {
            _ = tries.count(IpAddr::V4(network.into()), now);
        }
        assert!(tries.0.len() <= MAX_ADDRESSES);
    }
}

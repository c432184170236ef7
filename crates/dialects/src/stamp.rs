//! [`Stamp`] and [`Ids`]: the creation time and the ids of a response.

use std::{fmt, time::Duration};

/// The values that differ between otherwise equal responses. Callers provide them, because the core has
/// neither a clock nor randomness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The seed for ids. Equal seeds produce equal ids.
    pub seed: u64,
    /// The creation time, as Unix time in seconds.
    pub created: u64,
}

/// Reads the time that has passed. The shell provides it; without one, no durations are reported.
#[derive(Clone, Copy, Default)]
pub struct Clock(Option<fn() -> Duration>);

impl Clock {
    /// Creates a clock from a function that returns the time since a fixed moment.
    pub fn new(read: fn() -> Duration) -> Self {
        Self(Some(read))
    }

    /// Whether there is a clock.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// The time since a fixed moment. Zero without a clock.
    pub fn now(self) -> Duration {
        self.0.map_or(Duration::ZERO, |read| read())
    }
}

/// All clocks count as equal: they differ only in what they read.
impl PartialEq for Clock {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Clock {}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// Generates ids from a seed. They consist only of letters and digits, which are safe in every client.
#[derive(Debug, Clone)]
pub struct Ids {
    state: u64,
}

impl Ids {
    /// Creates a sequence of ids. Sequences with the same seed but different salts differ.
    pub fn new(seed: u64, salt: u64) -> Self {
        Self { state: seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// The next id, which is `prefix` and 24 letters or digits.
    pub fn next(&mut self, prefix: &str) -> String {
        const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut id = String::with_capacity(prefix.len() + 24);
        id.push_str(prefix);
        for _ in 0..24 {
            let place = usize::try_from(self.word() % 62).unwrap_or(0);
            id.push(char::from(ALPHABET.get(place).copied().unwrap_or(b'0')));
        }
        id
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): well mixed for any seed, with eight bytes of state.
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

//! [`Stamp`] and [`Ids`]: the time and the ids of a response.

/// The values that differ between otherwise equal responses. They are passed in, because the core has neither
/// a clock nor randomness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The seed of ids: equal seeds give equal ids.
    pub seed: u64,
    /// Seconds of Unix time.
    pub created: u64,
}

/// Generates ids of a fixed form from a seed: letters and digits only, safe in every client.
#[derive(Debug, Clone)]
pub struct Ids {
    state: u64,
}

impl Ids {
    /// A sequence of ids. `salt` distinguishes between sequences with the same seed.
    pub fn new(seed: u64, salt: u64) -> Self {
        Self { state: seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// The next id: `prefix` and 24 letters or digits.
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

    /// SplitMix64 (Steele, Lea, Flood 2014): well mixed from any seed, eight bytes of state.
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

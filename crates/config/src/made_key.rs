//! [`MadeKey`]: a key made by `toolwire keys add`, `tw_<id>_<secret><checksum>`.
//!
//! The id has 8 characters and is public, the secret encodes 32 random bytes, and the checksum is the CRC-32 of the
//! text before it. All three use base 62: digits, upper-case and lower-case letters. The format lets scanners recognize
//! leaked keys, and lets toolwire distinguish a mistyped or truncated key from an unknown one.

use ring::{
    error::Unspecified,
    rand::{SecureRandom, SystemRandom},
};
use secrecy::SecretString;

const PREFIX: &str = "tw_";
const ID: usize = 8;
/// Number of base-62 digits for 32 bytes.
const SECRET: usize = 43;
/// Number of base-62 digits for a CRC-32.
const CHECKSUM: usize = 6;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub struct MadeKey {
    pub id: String,
    pub key: SecretString,
}

impl MadeKey {
    /// Creates a key.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn new() -> Result<Self, Unspecified> {
        let random = SystemRandom::new();
        let (mut id, mut secret) = ([0; ID], [0; 32]);
        random.fill(&mut id)?;
        random.fill(&mut secret)?;
        let id = digits(id, ID);
        let key = format!("{PREFIX}{id}_{}", digits(secret, SECRET));
        let checksum = checksum(&key);
        Ok(Self { id, key: (key + &checksum).into() })
    }
}

/// Whether `key` has the prefix of keys made by `toolwire keys add`, but is not a valid key.
pub fn is_mistyped(key: &[u8]) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX.as_bytes()) else { return false };
    let is_whole = rest.len() == ID + 1 + SECRET + CHECKSUM && rest.get(ID) == Some(&b'_');
    let split =
        str::from_utf8(key).ok().and_then(|key| key.split_at_checked(key.len().saturating_sub(CHECKSUM)));
    !is_whole || split.is_none_or(|(before, own)| checksum(before) != own)
}

fn checksum(text: &str) -> String {
    digits(crc32(text.as_bytes()).to_be_bytes(), CHECKSUM)
}

/// Converts a big-endian number to base 62, and returns its last `count` digits.
fn digits<const N: usize>(mut number: [u8; N], count: usize) -> String {
    let mut digits = Vec::with_capacity(count);
    for _ in 0..count {
        let mut rest = 0;
        for byte in &mut number {
            let value = rest << 8 | u16::from(*byte);
            (*byte, rest) = (u8::try_from(value / 62).unwrap_or(u8::MAX), value % 62);
        }
        digits.extend(DIGITS.get(usize::from(rest)).map(|digit| char::from(*digit)));
    }
    digits.into_iter().rev().collect()
}

/// CRC-32 as in ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn checksum_is_the_common_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(digits([1, 0], 3), "048");
        assert_eq!(digits(u32::MAX.to_be_bytes(), CHECKSUM), "4gfFC3");
    }

    #[test]
    fn every_mistake_in_a_made_key_is_found() {
        let made = MadeKey::new().unwrap();
        let key = made.key.expose_secret();
        assert_eq!(key.len(), 3 + ID + 1 + SECRET + CHECKSUM);
        assert!(key.starts_with(&format!("tw_{}_", made.id)));
        assert!(!is_mistyped(key.as_bytes()));
        for at in 3..key.len() {
            let mut other = key.as_bytes().to_vec();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            assert!(is_mistyped(&other), "{at}");
            assert!(is_mistyped(&key.as_bytes()[..at]), "{at}");
        }
        for other in [&b"sk-other"[..], b"", b"tw", "tw_\u{e9}".as_bytes(), b"tw_"] {
            assert_eq!(is_mistyped(other), other.starts_with(b"tw_"));
        }
        assert_ne!(MadeKey::new().unwrap().key.expose_secret(), key);
    }
}

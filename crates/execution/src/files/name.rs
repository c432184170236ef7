//! Names of images: `20261123_081500_` and 128 random bits.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use ring::rand::{SecureRandom, SystemRandom};

use super::format::ImageFormat;
use toolwire_template::strftime;

/// Creates a name. Names sort by time.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn new(now: SystemTime, format: ImageFormat) -> io::Result<String> {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("there are no random numbers"))?;
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = strftime("%Y%m%d_%H%M%S", seconds).map_err(io::Error::other)?;
    Ok(format!("{date}_{:032x}.{}", u128::from_be_bytes(random), format.ending()))
}

/// Whether `name` has the form of an image's name. No such name is a path, a command-line option or a hidden file.
pub fn is_name(name: &str) -> bool {
    let Some((stem, _)) = name.rsplit_once('.').filter(|_| ImageFormat::of_name(name).is_some()) else {
        return false;
    };
    let is_of = |part: Option<&str>, len: usize, legal: fn(&u8) -> bool| {
        part.is_some_and(|part| part.len() == len && part.as_bytes().iter().all(legal))
    };
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let mut parts = stem.split('_');
    is_of(parts.next(), 8, u8::is_ascii_digit)
        && is_of(parts.next(), 6, u8::is_ascii_digit)
        && is_of(parts.next(), 32, is_hex)
        && parts.next().is_none()
}

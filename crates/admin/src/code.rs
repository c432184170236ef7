//! [`OneTimeCode`]: a code that lets a browser sign in once, without the key. There is at most one valid code, of which
//! only the digest is stored.

use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::sessions::{Digest, digest_of, random};

const LIFETIME: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct OneTimeCode(Option<(Digest, Instant)>);

impl OneTimeCode {
    /// Issues a new code, which replaces the previous one. `None` if the system cannot provide random numbers.
    pub(super) fn issue(&mut self, now: Instant) -> Option<String> {
        let code = random()?;
        self.0 = Some((digest_of(code.as_bytes()), now + LIFETIME));
        Some(code)
    }

    /// Returns whether `shown` is the valid code. If it is, the code cannot be used again.
    pub(super) fn redeem(&mut self, shown: &str, now: Instant) -> bool {
        let Some((digest, expires)) = &self.0 else { return false };
        let is_it = bool::from(digest.ct_eq(&digest_of(shown.as_bytes()))) && now < *expires;
        if is_it || now >= *expires {
            self.0 = None;
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn code_is_valid_once_and_for_two_minutes() {
        let (mut code, start) = (OneTimeCode::default(), Instant::now());
        assert!(!code.redeem("", start), "there is no code yet");
        let first = code.issue(start).unwrap();
        assert!(!code.redeem("", start));
        assert!(!code.redeem(&first.to_uppercase().replace('A', "B"), start) || first.is_empty());
        assert!(code.redeem(&first, start + LIFETIME - Duration::from_millis(1)));
        assert!(!code.redeem(&first, start), "it was used");

        let late = code.issue(start).unwrap();
        assert!(!code.redeem(&late, start + LIFETIME));
        assert!(!code.redeem(&late, start), "it has expired");

        let (old, new) = (code.issue(start).unwrap(), code.issue(start).unwrap());
        assert!(!code.redeem(&old, start));
        assert!(code.redeem(&new, start), "wrong guesses do not use it up");
    }
}

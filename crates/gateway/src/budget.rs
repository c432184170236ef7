//! [`Budget`]: limits the total memory of request bodies that wait for an upstream, across all threads.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use toolwire_pipeline::failure::{Failure, Kind};

/// Seconds after which a refused client may retry.
const RETRY_AFTER: &str = "1";

/// A limit in bytes, and how much of it is reserved.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    taken: Arc<AtomicUsize>,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, taken: Arc::default() }
    }

    /// The number of bytes that are reserved.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the same budget with another limit. Both count the same reservations.
    pub(super) fn with_limit(&self, limit: usize) -> Self {
        Self { limit, taken: Arc::clone(&self.taken) }
    }
}

/// A part of a [`Budget`], returned on drop.
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Grows the reservation to `bytes`, unless it is already larger.
    ///
    /// # Errors
    /// [`Kind::Overloaded`] if the budget does not have that much left. The reservation then stays as it was.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let more = bytes.saturating_sub(self.bytes);
        let Budget { limit, taken } = &*self.budget;
        let add = |taken: usize| taken.checked_add(more).filter(|sum| sum <= limit);
        if taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            let message =
                "waiting requests take all the memory that is allowed for them (limits.max_pending_bodies)";
            return Err(Failure::new(Kind::Overloaded, message).with_retry_after(RETRY_AFTER));
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({})", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_share_the_budget_and_give_it_back() {
        let budget = Arc::new(Budget::new(100));
        let (mut one, mut other) = (Reservation::new(&budget), Reservation::new(&budget));
        one.grow(60).unwrap();
        one.grow(10).unwrap();
        assert_eq!(other.grow(41).unwrap_err().status(), 503);
        other.grow(40).unwrap();
        assert!(other.grow(usize::MAX).is_err());
        assert!(one.grow(61).is_err());
        drop(one);
        other.grow(100).unwrap();
        drop(other);
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_taken_counts_under_another_limit() {
        let before = Arc::new(Budget::new(100));
        let mut one = Reservation::new(&before);
        one.grow(60).unwrap();
        let budget = Arc::new(before.with_limit(80));
        let mut other = Reservation::new(&budget);
        other.grow(21).unwrap_err();
        drop(one);
        other.grow(80).unwrap();
    }
}

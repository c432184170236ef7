//! [`PreciseTimer`]: fires at a time of [`clock::now`], accurate to some tens of microseconds.
//!
//! Tokio's timers have a resolution of a millisecond, and many proxies add less latency than that, so requests and tokens
//! need a more accurate timer. On Linux, it is a timer file descriptor, which wakes its task like a socket.

use std::io;

use crate::clock;

/// Fires at a given time of the machine's clock. Only one task at a time may wait for it.
#[derive(Debug)]
pub(crate) struct PreciseTimer(kind::Timer);

impl PreciseTimer {
    /// Creates a timer on the current runtime.
    ///
    /// # Errors
    /// The system has no timer available.
    pub(crate) fn new() -> io::Result<Self> {
        kind::Timer::new().map(Self)
    }

    /// Sets the timer to fire at this time, replacing the previous time. A time in the past fires at once.
    pub(crate) fn set(&self, moment: u64) {
        self.0.set(moment);
    }

    /// Waits until the timer fires.
    ///
    /// # Errors
    /// The timer fails.
    pub(crate) async fn fired(&self) -> io::Result<()> {
        self.0.fired().await
    }

    /// Sets the timer, and waits until `moment` has passed.
    ///
    /// # Errors
    /// The timer fails.
    pub(crate) async fn until(&self, moment: u64) -> io::Result<()> {
        // The timer may have fired for a time that was set earlier.
        while clock::now() < moment {
            self.set(moment);
            self.fired().await?;
        }
        Ok(())
    }
}

/// The timer as a file descriptor.
#[cfg(target_os = "linux")]
mod kind {
    use std::{io, os::fd::OwnedFd};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    #[derive(Debug)]
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        #[allow(
            deprecated,
            reason = "its successor is an unsafe function, for files that change under it: this one is owned and stays"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            Ok(Self(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
        }

        /// Sets the timer to fire at `due`. A time in the past fires at once.
        pub(super) fn set(&self, due: u64) {
            let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            // Zero would disarm the timer.
            let due = due.max(1);
            let it_value = Timespec { tv_sec: part(due / 1_000_000_000), tv_nsec: part(due % 1_000_000_000) };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            // Infallible here: the descriptor is a timer and the time is valid.
            let _ =
                timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value });
        }

        /// Waits until the timer fires. The descriptor need not be read, since setting the timer resets it and readiness is
        /// edge-triggered.
        pub(super) async fn fired(&self) -> io::Result<()> {
            self.0.readable().await?.clear_ready();
            Ok(())
        }
    }
}

/// Tokio's timer, for systems without timer file descriptors.
#[cfg(not(target_os = "linux"))]
mod kind {
    use std::{io, time::Duration};

    use tokio::{sync::watch, time::sleep};

    use crate::clock;

    #[derive(Debug)]
    pub(super) struct Timer(watch::Sender<Option<u64>>);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(watch::Sender::new(None)))
        }

        pub(super) fn set(&self, due: u64) {
            self.0.send_replace(Some(due));
        }

        pub(super) async fn fired(&self) -> io::Result<()> {
            let mut set = self.0.subscribe();
            loop {
                let due = *set.borrow_and_update();
                let left = due.map(|due| Duration::from_nanos(due.saturating_sub(clock::now())));
                tokio::select! {
                    () = sleep(left.unwrap_or(Duration::MAX)), if left.is_some() => {
                        self.0.send_replace(None);
                        return Ok(());
                    }
                    _ = set.changed() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn timer_never_fires_early() {
        let alarm = PreciseTimer::new().unwrap();
        for wait in [0, 1, 300_000, 3_000_000] {
            let moment = clock::now() + wait;
            alarm.until(moment).await.unwrap();
            assert!(clock::now() >= moment);
        }
        alarm.until(0).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_may_be_given_up() {
        let alarm = PreciseTimer::new().unwrap();
        let far = clock::now() + 3_600_000_000_000;
        assert!(tokio::time::timeout(Duration::from_millis(2), alarm.until(far)).await.is_err());
        let near = clock::now() + 1_000_000;
        alarm.until(near).await.unwrap();
        assert!(clock::now() >= near);
    }
}

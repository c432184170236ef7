//! [`Alarm`]: waits for a moment of [`clock::now`], to some microseconds.
//!
//! The runtime's own timers tick in milliseconds. A stream that leaves a millisecond late has that millisecond in its
//! time to first token, which is more than many a proxy adds; so on Linux the kernel's timer wakes us.

use std::io;

use super::clock;

#[cfg(target_os = "linux")]
mod kernel {
    use std::{io, os::fd::OwnedFd};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// A timer of the kernel's.
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

        pub(super) async fn until(&self, moment: u64) -> io::Result<()> {
            let part = |nanoseconds: u64| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
            let it_value = Timespec {
                tv_sec: part(moment.div_euclid(1_000_000_000)),
                tv_nsec: part(moment.rem_euclid(1_000_000_000)),
            };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
            let mut times = [0; 8];
            self.0
                .async_io(Interest::READABLE, |timer| Ok(rustix::io::read(timer, &mut times)?))
                .await
                .map(|_| ())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::{io, time::Duration};

    use crate::bench::clock;

    /// The runtime's timers.
    #[derive(Debug)]
    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn until(&self, moment: u64) -> io::Result<()> {
            tokio::time::sleep(Duration::from_nanos(moment.saturating_sub(clock::now()))).await;
            Ok(())
        }
    }
}

/// Wakes whoever waits at a moment of the machine's clock.
#[derive(Debug)]
pub struct Alarm(kernel::Timer);

impl Alarm {
    /// One of the runtime that this is called in.
    ///
    /// # Errors
    /// The system gives no timer.
    pub fn new() -> io::Result<Self> {
        kernel::Timer::new().map(Self)
    }

    /// Waits for `moment`; returns at once if it has passed. One waits at a time.
    ///
    /// # Errors
    /// The timer's own.
    pub async fn until(&self, moment: u64) -> io::Result<()> {
        if clock::now() < moment { self.0.until(moment).await } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_never_rings_early() {
        let alarm = Alarm::new().unwrap();
        for wait in [0, 1, 300_000, 3_000_000] {
            let moment = clock::now() + wait;
            alarm.until(moment).await.unwrap();
            assert!(clock::now() >= moment);
        }
        alarm.until(0).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_may_be_given_up() {
        let alarm = Alarm::new().unwrap();
        let far = clock::now() + 3_600_000_000_000;
        assert!(tokio::time::timeout(Duration::from_millis(2), alarm.until(far)).await.is_err());
        let near = clock::now() + 1_000_000;
        alarm.until(near).await.unwrap();
        assert!(clock::now() >= near);
    }
}

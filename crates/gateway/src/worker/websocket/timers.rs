//! [`Timers`]: the time limits of a connection.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep, sleep_until};

/// How long a connection may last, as with OpenAI's servers.
const AGE: Duration = Duration::from_secs(60 * 60);

/// Interval between pings.
const PING: Duration = Duration::from_secs(30);

/// How long a client may send nothing, not even a pong, while no response is running.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Ping,
    /// The client has sent nothing for [`SILENCE`].
    Silence,
    /// The connection has lasted for [`AGE`]. Due once.
    Age,
    /// The rest of a message has not arrived in time.
    Message,
}

#[derive(Debug)]
pub(super) struct Timers {
    age: Option<Pin<Box<Sleep>>>,
    ping: Interval,
    /// When the client last sent something.
    heard: Instant,
    /// Runs while a message is incomplete.
    message: Option<Pin<Box<Sleep>>>,
}

impl Timers {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let mut ping = interval_at(now + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { age: Some(Box::pin(sleep(AGE))), ping, heard: now, message: None }
    }

    /// The client has sent something.
    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// A message has begun. Its rest must arrive within `limit`.
    pub(super) fn message_begun(&mut self, limit: Duration) {
        if self.message.is_none() {
            let deadline = Instant::now().checked_add(limit);
            self.message = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        }
    }

    /// The message is complete.
    pub(super) fn message_ended(&mut self) {
        self.message = None;
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        if self.age.as_mut().is_some_and(|age| age.as_mut().poll(cx).is_ready()) {
            self.age = None;
            return Poll::Ready(Due::Age);
        }
        if self.message.as_mut().is_some_and(|message| message.as_mut().poll(cx).is_ready()) {
            self.message = None;
            return Poll::Ready(Due::Message);
        }
        self.ping.poll_tick(cx).map(|now| match now.duration_since(self.heard) >= SILENCE {
            true => Due::Silence,
            false => Due::Ping,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silent_client_is_pinged_until_it_is_given_up() {
        let (begun, mut timers) = (Instant::now(), Timers::new());
        for tick in 1..10 {
            assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Ping);
            assert_eq!(begun.elapsed().as_secs(), (PING * tick).as_secs());
        }
        assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Silence);
        timers.heard();
        assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Ping);
    }

    #[tokio::test(start_paused = true)]
    async fn age_is_due_once() {
        let (begun, mut timers) = (Instant::now(), Timers::new());
        loop {
            timers.heard();
            if poll_fn(|cx| timers.poll(cx)).await == Due::Age {
                break;
            }
        }
        assert_eq!(begun.elapsed().as_secs(), AGE.as_secs());
        assert_ne!(poll_fn(|cx| timers.poll(cx)).await, Due::Age);
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_of_a_message_does_not_move() {
        let (begun, mut timers) = (Instant::now(), Timers::new());
        timers.message_begun(Duration::from_secs(40));
        assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Ping);
        timers.message_begun(Duration::from_secs(40));
        assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Message);
        assert_eq!(begun.elapsed().as_secs(), 40);
        timers.message_begun(Duration::from_secs(1));
        timers.message_ended();
        assert_eq!(poll_fn(|cx| timers.poll(cx)).await, Due::Ping);
    }
}

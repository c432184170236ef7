//! [`Limited`]: the response to a request over a limit, and the headers that show what is left.
//!
//! Clients that retry automatically obey `retry-after`, some of them even if it says days. It is therefore sent only
//! for a short wait; otherwise `x-should-retry: false` tells clients not to retry.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::retry_after::MAX_WAIT;
use toolwire_config::calendar::rfc3339;
use toolwire_net::bucket::Level;
use toolwire_pipeline::{
    dialect::{ClientDialect, RateStyle},
    failure::{Failure, Kind},
};

/// Suggested wait if a limit depends on the client's other responses.
const TURN: Duration = Duration::from_secs(5);

/// Status for a used-up budget, in APIs that have such a status.
const PAYMENT_REQUIRED: u16 = 402;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// The limit on requests per minute, and how long to wait.
    Requests(u64, Duration),
    /// The limit on tokens per minute, and how long to wait.
    Tokens(u64, Duration),
    /// The limit on responses in progress.
    Streams(u64),
    /// The limit on tokens per month, and the start of the next month as Unix time in seconds.
    Month(u64, u64),
    /// The limit on tokens per month. What is left of it is reserved for responses in progress.
    MonthReserved(u64),
    /// The limit on tokens per month. How much of it is left is unknown.
    MonthUnknown(u64),
}

#[derive(Debug)]
pub(crate) struct Limited {
    failure: Failure,
    headers: HeaderMap,
}

impl Limited {
    /// Creates the response in `dialect` to the client `name`. `now` is a Unix time in seconds, and `levels` is what is
    /// left of the limits.
    pub(super) fn new(
        exceeded: Exceeded,
        name: &str,
        dialect: ClientDialect,
        levels: &Levels,
        now: u64,
    ) -> Self {
        let style = dialect.side().rate_style();
        let (what, wait) = match exceeded {
            Exceeded::Requests(limit, wait) => (format!("{limit} requests in a minute"), Some(wait)),
            Exceeded::Tokens(limit, wait) => (format!("{limit} tokens in a minute"), Some(wait)),
            Exceeded::Streams(limit) => (format!("{limit} responses at a time"), Some(TURN)),
            Exceeded::MonthReserved(limit) => (
                format!("{limit} tokens in a month, and its responses in progress may need the rest"),
                Some(TURN),
            ),
            Exceeded::MonthUnknown(limit) => {
                (format!("{limit} tokens in a month, and how many are left cannot be looked up"), Some(TURN))
            }
            Exceeded::Month(limit, _) => (format!("{limit} tokens in a month, which are used up"), None),
        };
        let mut message = format!("the key of `{name}` is limited to {what}");
        let mut headers = HeaderMap::new();
        levels.put(style, &mut headers, now);
        let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
        let mut failure = match (wait, exceeded) {
            (_, Exceeded::Month(limit, end)) => {
                let reset = Duration::from_secs(end.saturating_sub(now));
                put_level(style, "tokens", Level { limit, remaining: 0, reset }, &mut headers, now);
                message += &format!("; it has new ones from {} on", rfc3339(end));
                let failure = Failure::new(Kind::Budget, message);
                if style == RateStyle::Anthropic { failure.with_status(PAYMENT_REQUIRED) } else { failure }
            }
            (wait, _) => {
                let seconds = wait.map_or(0, |wait| rounded_up(wait, 1_000_000_000));
                let kind = match exceeded {
                    Exceeded::MonthUnknown(_) => Kind::StoreAway,
                    _ => Kind::RateLimit,
                };
                Failure::new(kind, message + &format!("; try again in {seconds} s"))
            }
        };
        match wait.filter(|wait| *wait <= MAX_WAIT) {
            Some(wait) => {
                failure = failure.with_retry_after(rounded_up(wait, 1_000_000_000).to_string());
                put(&mut headers, "retry-after-ms", &rounded_up(wait, 1_000_000).to_string());
            }
            None => put(&mut headers, "x-should-retry", "false"),
        }
        Self { failure, headers }
    }

    pub(crate) fn into_parts(self) -> (Failure, HeaderMap) {
        (self.failure, self.headers)
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (&Failure, &HeaderMap) {
        (&self.failure, &self.headers)
    }
}

/// What is left of the limits per minute. `None` for a limit that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    pub(super) requests: Option<Level>,
    pub(super) tokens: Option<Level>,
}

impl Levels {
    pub(super) fn put(&self, style: RateStyle, headers: &mut HeaderMap, now: u64) {
        for (what, level) in [("requests", self.requests), ("tokens", self.tokens)] {
            if let Some(level) = level {
                put_level(style, what, level, headers, now);
            }
        }
    }
}

fn put_level(style: RateStyle, what: &str, level: Level, headers: &mut HeaderMap, now: u64) {
    let Level { limit, remaining, reset } = level;
    let values = [("limit", limit.to_string()), ("remaining", remaining.to_string())];
    let (reset, name): (_, &dyn Fn(&str) -> String) = match style {
        RateStyle::OpenAi => (duration(reset), &|value| format!("x-ratelimit-{value}-{what}")),
        RateStyle::Anthropic => {
            let at = now.saturating_add(rounded_up(reset, 1_000_000_000));
            (rfc3339(at), &|value| format!("anthropic-ratelimit-{what}-{value}"))
        }
    };
    for (value, text) in values.into_iter().chain([("reset", reset)]) {
        put(headers, &name(value), &text);
    }
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// Formats a duration as OpenAI does: `12ms`, `1.5s`, `6m0s`.
fn duration(duration: Duration) -> String {
    let millis = rounded_up(duration, 1_000_000);
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let fraction = if millis == 0 { String::new() } else { format!(".{millis:03}") };
    match (minutes, seconds) {
        (0, 0) => format!("{millis}ms"),
        (0, seconds) => format!("{seconds}{fraction}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}{fraction}s"),
    }
}

/// Converts a duration to units of `nanoseconds`, rounded up.
fn rounded_up(duration: Duration, nanoseconds: u128) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(nanoseconds)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_openai_does() {
        for (millis, written) in [
            (0, "0ms"),
            (12, "12ms"),
            (1000, "1s"),
            (1500, "1.500s"),
            (360_000, "6m0s"),
            (61_001, "1m1.001s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), written);
        }
        assert_eq!(duration(Duration::from_nanos(1)), "1ms");
    }
}

//! `/admin/metrics` and `/admin/streams`: statistics of past requests, and the list of responses in progress.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, header, request};
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{AdminError, AdminResponse};
use toolwire_execution::audit::unix_millis;
use toolwire_gateway::{
    feed_body::FeedSource,
    observe::{By, MAX_WINDOW, Metrics},
    stamp::unix_time,
};
use toolwire_net::untrusted_text::printable_json;

/// Interval at which readers get the list of responses in progress.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// Returns the statistics for a time window, and the current figures.
///
/// # Errors
/// 400 for an unknown group or a window that is too short or too long.
pub(super) fn window(metrics: &Metrics, head: &request::Parts) -> Result<AdminResponse, AdminError> {
    let (mut by, mut minutes) = (By::Model, MAX_WINDOW);
    for (name, value) in url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()) {
        match &*name {
            "by" => {
                let known = By::ALL.into_iter().find(|(name, _)| *name == value);
                let wrong = || AdminError::invalid("`by` is `model`, `key` or `upstream`", Some("by"));
                by = known.ok_or_else(wrong)?.1;
            }
            "window" => {
                let length =
                    humantime::parse_duration(&value).ok().map(|length| length.as_secs().div_ceil(60));
                let wrong = || {
                    AdminError::invalid(
                        "`window` is a length from `1m` to `1h`, such as `15m`",
                        Some("window"),
                    )
                };
                minutes = length.filter(|minutes| (1..=MAX_WINDOW).contains(minutes)).ok_or_else(wrong)?;
            }
            _ => {}
        }
    }
    let now = unix_time();
    let mut json = metrics.figures().window(by, minutes, now);
    if let Value::Object(json) = &mut json {
        json.insert("t".to_owned(), unix_millis().into());
        json.insert("now".to_owned(), metrics.figures_of_now(now));
    }
    Ok(AdminResponse::json(json))
}

/// Lists the responses in progress, with the current figures.
pub(super) fn streams(metrics: &Metrics) -> Value {
    let (count, streams) = metrics.live().list();
    json!({
        "t": unix_millis(),
        "version": env!("CARGO_PKG_VERSION"),
        "now": metrics.figures_of_now(unix_time()),
        "count": count,
        "streams": streams,
    })
}

/// Whether the client accepts an event stream in place of one JSON object.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let (kind, _) = kind.split_once(';').unwrap_or((kind, ""));
        kind.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Sends the responses in progress once per [`PERIOD`].
pub(super) struct StreamsFeed {
    metrics: Arc<Metrics>,
    tick: Interval,
}

impl StreamsFeed {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Self {
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { metrics: Arc::clone(metrics), tick }
    }
}

impl FeedSource for StreamsFeed {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        ready!(self.tick.poll_tick(cx));
        let event = format!("event: streams\ndata: {}\n\n", printable_json(&streams(&self.metrics)));
        Poll::Ready(Some(event.into()))
    }
}

impl fmt::Debug for StreamsFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamsFeed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sent_to_whoever_accepts_them() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.9", true),
            ("application/json", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wants_events(&headers), expected, "{accept}");
        }
    }
}

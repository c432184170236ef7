//! [`Reports`]: how far a running call is, as its provider reports it.
//!
//! ```text
//! provider ─▶ Reports ─▶ within: renews the time limit ─at most one per INTERVAL─▶ events, Lines ─▶ the client's stream
//! ```
//!
//! A call that reports nothing is shown too, with the time that it has taken.
//!
//! A provider may report as often as it likes: only the latest report is kept. Reports renew a call's time limit, but
//! not beyond [`MOST`] times the limit, so that a provider cannot keep a call forever.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    pin,
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::progress;

/// Minimum time between two reports that are shown.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time without a report after which a call is shown again: at first, and at most. It doubles each time.
const SILENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// How many times its time limit a call that reports its progress may take.
pub(crate) const MOST: u32 = 10;

/// Maximum number of lines that wait for a client's stream.
const MAX_LINES: usize = 64;

/// How far a call is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) done: f64,
    /// The value of `done` at the end, if it is known.
    pub(crate) total: Option<f64>,
    /// In the provider's words. May be empty.
    pub(crate) message: String,
}

impl Report {
    /// The line for display. `covered` redacts secrets in the message before it is cut.
    pub(crate) fn line(&self, label: &str, covered: impl Fn(&str) -> String) -> String {
        let message = covered(&self.message);
        let far = self.far();
        let text = match (message.trim(), far.as_str()) {
            ("", "") => label.to_owned(),
            ("", far) => format!("{label}: {far}"),
            (message, "") => format!("{label}: {message}"),
            (message, far) => format!("{label}: {far}, {message}"),
        };
        progress::plain(&text)
    }

    /// The percentage, or the number if there is no total.
    fn far(&self) -> String {
        match self.total {
            Some(total) if total > 0.0 && (self.done / total).is_finite() => {
                format!("{:.0}%", (self.done / total * 100.0).clamp(0.0, 100.0))
            }
            _ if self.done.is_finite() && self.done.fract() == 0.0 && self.done.abs() < 1e15 => {
                format!("{:.0}", self.done)
            }
            _ => String::new(),
        }
    }
}

/// A running call, as it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress<'r> {
    /// `None` if the call has reported nothing new.
    pub(crate) report: Option<&'r Report>,
    /// How long the call has taken.
    pub(crate) elapsed: Duration,
}

/// Receives the reports of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<watch::Sender<Option<Report>>>);

impl Reports {
    #[cfg(any(test, feature = "mcp"))]
    pub(crate) fn report(&self, report: Report) {
        self.0.send_replace(Some(report));
    }

    /// Whether the call still runs, apart from this receiver.
    #[cfg(feature = "mcp")]
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// Why a call was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// It was silent for the time limit, or took [`MOST`] times as long.
    Limit(Duration),
    Deadline,
}

/// Waits for a call: at most for `limit` after its beginning or its latest report, and until `deadline`. Calls `show`
/// with reports, but not with all of them, and when there were none for a while.
pub(crate) async fn within<T>(
    running: impl Future<Output = T>,
    reports: &Reports,
    (limit, deadline): (Duration, Instant),
    mut show: impl FnMut(Progress<'_>),
) -> Result<T, Late> {
    let after = |begin: Instant, limit| begin.checked_add(limit).unwrap_or(deadline);
    let begin = Instant::now();
    let last = after(begin, limit.saturating_mul(MOST));
    let (mut expiry, mut next) = (after(begin, limit), begin);
    let (mut silence, mut again) = (SILENCE.0, begin + SILENCE.0);
    let mut reported = reports.0.subscribe();
    let mut is_new = false;
    pin!(running);
    loop {
        tokio::select! {
            biased;
            result = &mut running => return Ok(result),
            () = sleep_until(expiry.min(deadline)) => {
                return Err(match (deadline <= expiry, expiry == last) {
                    (true, _) => Late::Deadline,
                    (false, true) => Late::Limit(limit.saturating_mul(MOST)),
                    (false, false) => Late::Limit(limit),
                });
            }
            () = sleep_until(next), if is_new => {
                is_new = false;
                let now = Instant::now();
                (next, again) = (now + INTERVAL, now + silence);
                let report = reported.borrow_and_update();
                show(Progress { report: report.as_ref(), elapsed: begin.elapsed() });
            }
            () = sleep_until(again) => {
                show(Progress { report: None, elapsed: begin.elapsed() });
                silence = silence.saturating_mul(2).min(SILENCE.1);
                again = Instant::now() + silence;
            }
            Ok(()) = reported.changed() => {
                expiry = after(Instant::now(), limit).min(last);
                is_new = true;
            }
        }
    }
}

/// Lines that the client's stream has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Untaken>);

#[derive(Debug, Default)]
struct Untaken {
    lines: Vec<String>,
    reader: Option<Waker>,
}

impl Lines {
    /// Drops the line if the client is too slow.
    pub(crate) fn push(&self, line: String) {
        let mut untaken = self.0.lock();
        if untaken.lines.len() < MAX_LINES {
            untaken.lines.push(line);
        }
        if let Some(reader) = untaken.reader.take() {
            reader.wake();
        }
    }

    /// Takes all lines as soon as there are some.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Vec<String>> {
        let mut untaken = self.0.lock();
        if untaken.lines.is_empty() {
            untaken.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut untaken.lines))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn report(done: f64, total: Option<f64>, message: &str) -> Report {
        Report { done, total, message: message.to_owned() }
    }

    #[test]
    fn line_says_how_far_the_call_is() {
        for (report, expected) in [
            (report(3.0, Some(10.0), ""), "Job: 30%"),
            (report(3.0, Some(10.0), " Indexing\n"), "Job: 30%, Indexing"),
            (report(7.0, None, "Indexing"), "Job: 7, Indexing"),
            (report(20.0, Some(10.0), ""), "Job: 100%"),
            (report(-1.0, Some(10.0), ""), "Job: 0%"),
            (report(3.0, Some(0.0), ""), "Job: 3"),
            (report(f64::NAN, Some(f64::INFINITY), "x"), "Job: x"),
            (report(f64::INFINITY, None, ""), "Job"),
            (report(1e300, None, "a\u{1b}[2J secret-word"), r"Job: a\u{1b}[2J ***"),
        ] {
            assert_eq!(report.line("Job", |text| text.replace("secret-word", "***")), expected);
        }
        let long = report(1.0, None, &"x".repeat(4096)).line("Job", str::to_owned);
        assert!(long.len() < 450, "{long}");
    }

    #[tokio::test(start_paused = true)]
    async fn reports_renew_the_time_limit_up_to_a_bound() {
        let deadline = Instant::now() + 1000 * SECOND;
        let silent = within(pending::<()>(), &Reports::default(), (3 * SECOND, deadline), |_| {}).await;
        assert_eq!(silent, Err(Late::Limit(3 * SECOND)));
        for (until, expected) in [(20, Ok(())), (31, Err(Late::Limit(30 * SECOND)))] {
            let (begin, reports) = (Instant::now(), Reports::default());
            let running = async {
                while begin.elapsed() < until * SECOND {
                    reports.report(Report::default());
                    sleep(2 * SECOND).await;
                }
            };
            assert_eq!(within(running, &reports, (3 * SECOND, deadline), |_| {}).await, expected);
            assert!(begin.elapsed() <= 30 * SECOND);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_is_not_renewed() {
        let (begin, reports) = (Instant::now(), Reports::default());
        let running = async {
            loop {
                reports.report(Report::default());
                sleep(SECOND).await;
            }
        };
        let ended: Result<(), _> = within(running, &reports, (3 * SECOND, begin + 5 * SECOND), |_| {}).await;
        assert_eq!((ended, begin.elapsed()), (Err(Late::Deadline), 5 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_reports_are_shown_once_a_second() {
        let reports = Reports::default();
        let running = async {
            for number in 0..1_000_000_u32 {
                reports.report(report(number.into(), None, ""));
                if number % 250_000 == 0 {
                    sleep(SECOND / 2).await;
                }
            }
            sleep(SECOND * 2).await;
        };
        let mut shown = Vec::new();
        let deadline = Instant::now() + 1000 * SECOND;
        let show = |Progress { report, .. }: Progress<'_>| shown.extend(report.map(|report| report.done));
        within(running, &reports, (30 * SECOND, deadline), show).await.expect("an end");
        assert_eq!(shown, [0.0, 500_000.0, 999_999.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_call_is_shown_again_after_longer_and_longer_times() {
        let reports = Reports::default();
        let running = async {
            sleep(95 * SECOND).await;
            reports.report(report(1.0, None, ""));
            sleep(200 * SECOND).await;
        };
        let mut shown = Vec::new();
        let show =
            |Progress { report, elapsed }: Progress<'_>| shown.push((report.is_some(), elapsed.as_secs()));
        let deadline = Instant::now() + 1000 * SECOND;
        within(running, &reports, (500 * SECOND, deadline), show).await.expect("an end");
        let expected =
            [(10, false), (30, false), (70, false), (95, true), (155, false), (215, false), (275, false)];
        assert_eq!(shown, expected.map(|(second, is_report)| (is_report, second)));
    }

    #[test]
    fn lines_wait_for_the_stream_but_not_all_of_them() {
        let (lines, context) = (Lines::default(), &Context::from_waker(Waker::noop()));
        assert!(lines.poll_take(context).is_pending());
        (0..1000).for_each(|number| lines.push(number.to_string()));
        let Poll::Ready(taken) = lines.poll_take(context) else { panic!("there are lines") };
        assert_eq!((taken.len(), taken.first().map(String::as_str)), (MAX_LINES, Some("0")));
        assert!(lines.poll_take(context).is_pending());
    }
}

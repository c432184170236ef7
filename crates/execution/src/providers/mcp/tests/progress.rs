//! Progress that servers report.

use super::*;
use crate::reports::{Late, within};

/// Makes a call with this time limit, and returns its result with the lines of its progress.
async fn called(
    server: &Started,
    arguments: Value,
    limit: Duration,
) -> (Result<Result<Output, ToolError>, Late>, Vec<String>) {
    let call = invocation("steps", arguments);
    let mut lines = Vec::new();
    let limits = (limit, Instant::now() + LONG);
    let show = |shown: crate::reports::Progress<'_>| lines.extend(shown.report.map(|report| report.line("Steps", str::to_owned)));
    let ended = within(server.0.run(&call), &call.reports, limits, show).await;
    (ended, lines)
}

#[tokio::test]
async fn progress_of_a_call_is_reported_and_renews_its_time_limit() {
    let server = Started::ready(&options("plain")).await;
    let slow = json!({"count": 3, "pause": 1.2});
    let (ended, lines) = called(&server, slow, Duration::from_secs(3)).await;
    assert_eq!(ended.expect("in time").expect("an output").content, "all steps");
    assert_eq!(lines, ["Steps: 0%, step 0", "Steps: 33%, step 1", "Steps: 67%, step 2"]);
}

#[tokio::test]
async fn flood_of_progress_harms_neither_the_call_nor_the_next() {
    let server = Started::ready(&options("plain")).await;
    for arguments in [json!({"count": 2_000}), json!({"count": 10, "long": true})] {
        let (ended, lines) = called(&server, arguments, LONG).await;
        assert_eq!(ended.expect("in time").expect("an output").content, "all steps");
        assert!(lines.len() < 60 && lines.iter().all(|line| line.len() < 500), "{lines:?}");
    }
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn call_that_reports_for_ever_ends() {
    let server = Started::ready(&options("plain")).await;
    let endless = json!({"count": 1_000_000, "pause": 0.05});
    let (ended, _) = called(&server, endless, Duration::from_millis(300)).await;
    assert_eq!(ended.expect_err("too late"), Late::Limit(Duration::from_secs(3)));
}

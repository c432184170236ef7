//! Calls that servers run as tasks.

use super::{
    elicitation::{Attended, interactive},
    *,
};
use crate::{
    Given,
    reports::{Late, within},
};

/// The server of each version of the protocol.
fn versions() -> [Options; 2] {
    let modern = Options { protocol: Protocol::Discover, ..interactive("modern") };
    [interactive("plain"), modern]
}

async fn cancelled(server: &Started) -> String {
    server.call("cancelled", json!({})).await.expect("an output").content
}

#[tokio::test]
async fn result_of_a_task_is_fetched() {
    for options in versions() {
        let server = Started::ready(&options).await;
        let output = server.call("job", json!({"looks": 2})).await.expect("an output");
        assert_eq!((output.content.as_str(), output.is_error), (r#"["done", null]"#, false));
        if server.names().contains(&"s__marked_job".to_owned()) {
            assert!(server.call("marked_job", json!({})).await.is_ok());
        }
        let output = server.call("job", json!({"status": "failed"})).await.expect("an output");
        let said = output.content.as_str();
        assert!(output.is_error && [r#"["done", null]"#, "it went wrong"].contains(&said), "{said}");
        let error = server.call("job", json!({"status": "cancelled"})).await.expect_err("an error");
        assert_eq!((error.message.as_str(), error.is_retryable), ("The server cancelled the task.", false));
        assert_eq!(cancelled(&server).await, "[]");
    }
}

#[tokio::test]
async fn task_that_is_given_up_is_cancelled() {
    for options in versions() {
        let server = Started::ready(&options).await;
        let call = invocation("job", json!({"id": "one", "looks": 1_000_000}));
        let limits = (Duration::from_millis(500), Instant::now() + LONG);
        let late = within(server.0.run(&call), &call.reports, limits, |_| {}).await;
        assert_eq!(late.expect_err("too late"), Late::Limit(limits.0));
        let is_cancelled = async {
            while cancelled(&server).await != r#"["one"]"# {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, is_cancelled).await.expect("the server gets the cancellation");
    }
}

#[tokio::test]
async fn task_that_says_how_far_it_is_renews_the_time_limit() {
    for options in versions() {
        let server = Started::ready(&options).await;
        let call = invocation("job", json!({"looks": 15, "says": true}));
        let limits = (Duration::from_millis(800), Instant::now() + LONG);
        let mut lines = Vec::new();
        let show = |shown: crate::reports::Progress<'_>| lines.extend(shown.report.map(|report| report.line("Job", str::to_owned)));
        let ended = within(server.0.run(&call), &call.reports, limits, show).await;
        assert!(ended.expect("in time").is_ok());
        assert_eq!(lines.first().map(String::as_str), Some("Job: step 0"));
        // It is not renewed for ever.
        let call = invocation("job", json!({"looks": 1_000_000, "says": true}));
        let limits = (Duration::from_millis(300), Instant::now() + LONG);
        let late = within(server.0.run(&call), &call.reports, limits, |_| {}).await;
        assert_eq!(late.expect_err("too late"), Late::Limit(Duration::from_secs(3)));
    }
}

#[tokio::test]
async fn states_of_other_tasks_and_unusable_ids_are_refused() {
    for options in versions() {
        let server = Started::ready(&options).await;
        for arguments in [
            json!({"looks": 3, "other": "task-of-another-call"}),
            json!({"id": ""}),
            json!({"id": "x".repeat(2 << 10)}),
            json!({"status": "unheard-of"}),
        ] {
            let error = server.call("job", arguments).await.expect_err("an error");
            assert!(error.message.contains("an invalid result") && !error.is_retryable, "{error}");
        }
        // Two calls with one task each get its result.
        let twice = json!({"id": "same", "looks": 2});
        let (one, two) = tokio::join!(server.call("job", twice.clone()), server.call("job", twice));
        assert!(one.is_ok() && two.is_ok());
    }
}

#[tokio::test]
async fn person_answers_the_questions_of_a_task() {
    for options in versions() {
        let attended = Attended::new(&options).await;
        let call = attended.call("job", json!({"status": "input_required"}));
        let (result, ()) = tokio::join!(call, attended.give(Given::Declined));
        assert!(result.to_string().contains("decline"), "{result}");
    }
}

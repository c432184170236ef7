//! Tests with complete servers, most of which misbehave; see `scripted.py`.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::{sleep, timeout},
};

use super::*;
use crate::Verdict;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/providers/mcp/scripted.py");

const LONG: Duration = Duration::from_secs(60);

fn options(mode: &str) -> Options {
    let mut options = Options { protocol: Protocol::Initialize, ..Options::default() };
    options.program.command = ["python3", SCRIPT, mode].map(str::to_owned).into();
    options
}

struct Started(Arc<dyn Provider>);

impl Started {
    fn new(options: &Options) -> Self {
        let host = Host::detached("s");
        let provider = options.build(&host).expect("a provider");
        Arc::clone(&provider).start(&host);
        Self(provider)
    }

    /// Starts a server and waits until it is ready.
    async fn ready(options: &Options) -> Self {
        let started = Self::new(options);
        started.until(|provider| provider.status().state == ProviderState::Ready).await;
        started
    }

    async fn until(&self, holds: impl Fn(&dyn Provider) -> bool) {
        let waiting = async {
            while !holds(&*self.0) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = timeout(LONG, waiting).await;
        assert!(waited.is_ok(), "{:?}", self.0.status());
    }

    fn names(&self) -> Vec<String> {
        self.0.tools().iter().map(|spec| spec.name.clone()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Output, ToolError> {
        let call = invocation(tool, arguments);
        timeout(LONG, self.0.run(&call)).await.expect("the call ends")
    }
}

fn invocation(tool: &str, arguments: Value) -> Invocation {
    Invocation::in_test(&format!("s__{tool}"), arguments)
}

/// Starts a server with a URL, and returns its options.
async fn http_server(mode: &str) -> (tokio::process::Child, Options) {
    http_server_counting(mode, Path::new("")).await
}

/// Like [`http_server`], but the server writes its counts to `file`.
async fn http_server_counting(mode: &str, file: &Path) -> (tokio::process::Child, Options) {
    let mut child = tokio::process::Command::new("python3")
        .args([SCRIPT, mode])
        .arg(file)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("python3");
    let stdout = child.stdout.take().expect("its output");
    let port = BufReader::new(stdout).lines().next_line().await.expect("a line").expect("a port");
    let url = format!("http://127.0.0.1:{port}/mcp").parse().expect("a URL");
    (child, Options { url: Some(url), ..Options::default() })
}

mod elicitation;
mod login;
mod older;
mod progress;
mod prompts;
mod resources;
mod tasks;

#[tokio::test]
async fn tools_are_listed_and_called() {
    let server = Started::ready(&options("plain")).await;
    assert!(server.names().contains(&"s__echo".to_owned()));
    let output = server.call("echo", json!({"a": "ä\n", "n": 1})).await.expect("an output");
    assert_eq!(output.content, r#"{"a": "\u00e4\n", "n": 1}"#);
}

#[tokio::test]
async fn every_protocol_version_is_understood() {
    for mode in ["modern", "plain", "old"] {
        let server = Started::ready(&Options { protocol: Protocol::Auto, ..options(mode) }).await;
        assert_eq!(server.call("echo", json!({})).await.expect("an output").content, "{}", "{mode}");
    }
}

#[tokio::test]
async fn all_pages_are_listed() {
    let server = Started::ready(&options("pages")).await;
    assert_eq!(server.names(), ["s__t0", "s__t1", "s__t2"]);
}

#[tokio::test]
async fn endless_lists_are_cut() {
    assert_eq!(Started::ready(&options("endless-pages")).await.names().len(), 1000);
    assert_eq!(Started::ready(&options("same-cursor")).await.names().len(), 1);
}

#[tokio::test]
async fn only_named_variables_reach_the_program() {
    let mut options = options("plain");
    options.program.env.insert("OWN".to_owned(), TableText::plain("value"));
    let server = Started::ready(&options).await;
    let names = server.call("environment", json!({})).await.expect("an output").content;
    // Cargo's variables are in this test's environment, but must not reach the program. A shell may add others.
    assert!(names.contains("OWN") && !names.contains("CARGO"), "{names}");
}

#[tokio::test]
async fn errors_of_the_server_are_results() {
    let server = Started::ready(&options("plain")).await;
    let output = server.call("refuse", json!({})).await.expect("an output");
    assert_eq!((output.content.as_str(), output.is_error), ("no such tool", true));
}

#[tokio::test]
async fn large_result_fails_its_call_only() {
    let server = Started::ready(&options("plain")).await;
    let error = server.call("huge", json!({})).await.expect_err("an error");
    assert_eq!(error.code, ErrorCode::TooLarge);
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn unreadable_result_fails_its_call() {
    for mode in ["unreadable", "null"] {
        let server = Started::ready(&options(mode)).await;
        let error = server.call("echo", json!({})).await.expect_err("an error");
        // The tool has run, so the call must not be retried.
        assert_eq!((error.code, error.is_retryable), (ErrorCode::ProviderError, false), "{mode}");
        assert!(error.message.contains("an invalid result"), "{mode}: {error}");
    }
}

#[tokio::test]
async fn part_of_an_unknown_kind_is_noted() {
    let server = Started::ready(&options("plain")).await;
    let output = server.call("video", json!({})).await.expect("an output");
    assert_eq!(output.content, "a\n[video, not shown]");
}

/// The large result arrives while another call is pending.
#[tokio::test]
async fn large_result_fails_no_other_call() {
    let server = Started::ready(&options("slow-echo")).await;
    let huge = server.call("huge", json!({}));
    let (slow, huge) = tokio::join!(server.call("echo", json!({"n": 1})), huge);
    assert_eq!(huge.expect_err("an error").code, ErrorCode::TooLarge);
    assert_eq!(slow.expect("an output").content, "{\"n\": 1}");
}

#[tokio::test]
async fn hostile_lists_are_filtered() {
    let server = Started::ready(&options("hostile")).await;
    let tools = server.0.tools();
    assert_eq!(tools.len(), 1000);
    let names: Vec<_> = tools.iter().map(|spec| spec.name.as_str()).collect();
    let expected = [
        "s__ok-first",
        "s__ok ünïcode/../name",
        "s__s__ok",
        "s__ok__",
        "s__{ok}",
        "s__deep",
        "s__ok-told",
        "s__many0",
    ];
    assert_eq!(names[..expected.len()], expected);
    let told = tools.iter().find(|spec| spec.name == "s__ok-told").expect("the tool");
    assert_eq!(told.description, "one [2Jtwo  \nthree\u{202e}");
    assert_eq!(told.label, "label   ]0;x ");
    for (name, own) in [("s__ok", "s__ok"), ("ok__", "ok__"), ("ok ünïcode/../name", "ok ünïcode/../name")]
    {
        let output = server.call(name, json!({"name": own})).await.expect("an output");
        assert!(output.content.contains(own.split(' ').next().unwrap_or_default()), "{}", output.content);
    }
}

#[tokio::test]
async fn answers_to_other_requests_and_second_answers_are_ignored() {
    for mode in ["other-ids", "twice"] {
        let server = Started::ready(&options(mode)).await;
        for number in 0..20 {
            let output = server.call("echo", json!({"n": number})).await.expect("an output");
            assert_eq!(output.content, format!("{{\"n\": {number}}}"), "{mode}");
        }
    }
}

#[tokio::test]
async fn cancelled_call_is_cancelled_at_the_server() {
    let server = Started::ready(&options("plain")).await;
    let call = invocation("wait", json!({}));
    assert!(timeout(Duration::from_millis(100), server.0.run(&call)).await.is_err());
    let is_cancelled = async {
        while server.call("cancelled", json!({})).await.map(|output| output.content) != Ok("True".to_owned())
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, is_cancelled).await.expect("the server gets the cancellation");
}

#[tokio::test]
async fn server_without_handshake_reports_changes_to_subscribers() {
    let server = Started::ready(&Options { protocol: Protocol::Discover, ..options("subscribed") }).await;
    server.until(|provider| provider.tools().iter().any(|spec| spec.name == "s__after")).await;
}

#[tokio::test]
async fn lost_session_is_replaced_and_the_call_made_again() {
    for mode in ["http-session-404", "http-session-400", "http-session-new"] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sessions");
        let (_child, options) = http_server_counting(mode, &file).await;
        let server = Started::ready(&Options { protocol: Protocol::Initialize, ..options }).await;
        for number in 0..5 {
            let output = server.call("echo", json!({"n": number})).await.expect("an output");
            assert_eq!(output.content, format!("{{\"n\": {number}}}"), "{mode}");
        }
        assert!(fs::read(&file).expect("the file").len() >= 5, "each call ends its session");
    }
}

#[tokio::test]
async fn noise_between_messages_is_ignored() {
    for mode in ["garbage", "flood", "asks", "stderr", "changing"] {
        let mut options = options(mode);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lists");
        options.program.command.push(file.display().to_string());
        let server = Started::ready(&options).await;
        assert_eq!(
            server.call("echo", json!({})).await.map(|output| output.content),
            Ok("{}".to_owned()),
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_list_that_changes_for_ever_is_asked_for_rarely() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lists");
    let mut options = options("changing");
    options.program.command.push(file.display().to_string());
    let server = Started::ready(&options).await;
    server.until(|provider| provider.tools().iter().any(|spec| spec.name == "s__t2")).await;
    assert!(fs::read(&file).expect("the file").len() <= 3);
}

#[tokio::test]
async fn questions_to_users_are_declined() {
    let server = Started::ready(&options("elicits")).await;
    let output = server.call("echo", json!({})).await.expect("an output");
    assert!(output.content.contains("decline"), "{}", output.content);
}

#[tokio::test]
async fn server_that_dies_in_a_call_is_started_again() {
    let server = Started::ready(&options("plain")).await;
    let error = server.call("die", json!({})).await.expect_err("an error");
    assert_eq!(error.code, ErrorCode::ProviderError);
    server.until(|provider| provider.status().state == ProviderState::Restarting).await;
    assert!(!server.names().is_empty(), "the tools stay while it starts again");
    server.until(|provider| provider.status().state == ProviderState::Ready).await;
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn server_is_restarted_and_tested_on_request() {
    let server = Started::ready(&options("plain")).await;
    assert_eq!(server.0.test(None).await, Some(Verdict::Valid));
    assert!(server.0.restart());
    server.until(|provider| provider.status().state == ProviderState::Restarting).await;
    assert_eq!(server.0.test(None).await, Some(Verdict::Unreachable));
    server.until(|provider| provider.status().state == ProviderState::Ready).await;
}

#[tokio::test]
async fn end_is_seen_although_a_child_keeps_the_output_open() {
    let server = Started::ready(&options("stray")).await;
    assert!(server.call("echo", json!({})).await.is_err());
}

#[tokio::test]
async fn server_that_cannot_start_is_tried_again_later_and_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("starts");
    let mut options = options("dies-at-start");
    options.program.command.push(file.display().to_string());
    let server = Started::new(&options);
    let starts = || fs::read(&file).map_or(0, |starts| starts.len());
    let begin = Instant::now();
    server.until(|_| starts() == 3).await;
    assert!(begin.elapsed() >= Duration::from_secs(3), "after 1 s and 2 s");
    assert_eq!((server.0.status().state, server.names().len()), (ProviderState::Failed, 0));
    assert!(server.0.status().reason.is_some());
}

#[tokio::test]
async fn silent_server_fails() {
    let server = Started::new(&Options { start_timeout: Duration::from_millis(500), ..options("silent") });
    server.until(|provider| provider.status().state == ProviderState::Failed).await;
    let error = server.call("echo", json!({})).await.expect_err("an error");
    assert_eq!(error.message, "The server of the tool is not ready.");
}

#[tokio::test]
async fn unknown_program_is_reported() {
    let mut options = options("plain");
    options.program.command = vec!["/no/such/program".to_owned()];
    let server = Started::new(&options);
    server.until(|provider| provider.status().state == ProviderState::Failed).await;
    let reason = server.0.status().reason.unwrap_or_default();
    assert!(reason.starts_with("the program `/no/such/program` cannot be started: "), "{reason}");
}

#[tokio::test]
async fn server_that_answers_no_more_after_a_cancelled_call_is_started_again() {
    let server = Started::ready(&Options { start_timeout: Duration::from_secs(2), ..options("plain") }).await;
    let call = invocation("sleep", json!({}));
    assert!(timeout(Duration::from_millis(200), server.0.run(&call)).await.is_err());
    server.until(|provider| provider.status().state == ProviderState::Restarting).await;
    server.until(|provider| provider.status().state == ProviderState::Ready).await;
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[test]
fn ending_the_runtime_kills_the_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("id");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut options = options("stays");
        let text = format!("echo $$ > {}; exec python3 {SCRIPT} stays", file.display());
        options.program.command = ["sh".to_owned(), "-c".to_owned(), text].into();
        let _ = Started::ready(&options).await;
    });
    runtime.shutdown_background();
    let id = fs::read_to_string(&file).expect("the file");
    let stat = Path::new("/proc").join(id.trim()).join("stat");
    let begin = std::time::Instant::now();
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begin.elapsed() < LONG, "the program lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn servers_on_http_are_called() {
    for mode in ["http-json", "http-events", "http-old", "http-moved"] {
        let (_child, options) = http_server(mode).await;
        let server = Started::ready(&options).await;
        let output = server.call("echo", json!({"a": 1.50})).await.expect("an output");
        assert_eq!(output.content, r#"{"a": 1.5}"#, "{mode}");
    }
}

#[tokio::test]
async fn large_result_over_http_fails_its_call_only() {
    for mode in ["http-json", "http-events"] {
        let (_child, options) = http_server(mode).await;
        let server = Started::ready(&options).await;
        let error = server.call("huge", json!({})).await.expect_err("an error");
        assert_eq!(error.code, ErrorCode::TooLarge, "{mode}");
        assert!(server.call("echo", json!({})).await.is_ok());
    }
}

#[tokio::test]
async fn key_is_sent_and_a_refused_one_is_reported() {
    let (_child, options) = http_server("http-key").await;
    let with_key = Options { api_key: Some("hunter2-hunter2".to_owned().into()), ..options.clone() };
    assert!(Started::ready(&with_key).await.call("echo", json!({})).await.is_ok());
    let server = Started::new(&options);
    server.until(|provider| provider.status().state == ProviderState::NeedsLogin).await;
    let reason = server.0.status().reason.unwrap_or_default();
    assert_eq!(reason, "requires a key (`api_key`) or a login: run `toolwire mcp login s`");
    let key = "hunter2-hunter2".to_owned().into();
    assert_eq!(server.0.test(None).await, Some(Verdict::Invalid));
    assert_eq!(server.0.test(Some(&key)).await, Some(Verdict::Valid));
}

#[tokio::test]
async fn redirects_to_other_servers_are_not_followed() {
    let (_child, options) = http_server("http-elsewhere").await;
    let server = Started::new(&options);
    server.until(|provider| provider.status().state == ProviderState::Failed).await;
    let reason = server.0.status().reason.unwrap_or_default();
    assert!(reason.contains("307"), "{reason}");
}

#[tokio::test]
async fn http_server_that_goes_and_comes_back_is_found_again() {
    let (child, options) = http_server("http-json").await;
    let server = Started::ready(&options).await;
    drop(child);
    assert!(server.call("echo", json!({})).await.is_err());
    server.until(|provider| provider.status().state == ProviderState::Failed).await;
    assert!(server.names().is_empty());
}

#[tokio::test]
async fn refusals_say_what_is_missing() {
    let key = |key: &str| Some(key.to_owned().into());
    for (mode, api_key, expected) in [
        ("http-oauth", None, "needs a login: run `toolwire mcp login s`"),
        ("http-oauth", key("wrong"), "the server refused the key: Bearer error=\"invalid_token\""),
        ("http-key", key("wrong"), "the server refused the key"),
        ("http-missing", None, "no MCP server answers at this URL (HTTP status 404 Not Found)"),
    ] {
        let (_child, options) = http_server(mode).await;
        let server = Started::new(&Options { api_key, ..options });
        server.until(|provider| provider.status().reason.is_some()).await;
        assert_eq!(server.0.status().reason.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn instructions_are_cut_and_can_be_left_out() {
    let server = Started::ready(&options("instructs")).await;
    let words = server.0.instructions().expect("instructions");
    assert!(words.starts_with("Say  please.\nxxx") && words.len() < 5 << 10, "{words}");
    let without = Options { instructions: false, ..options("instructs") };
    assert_eq!(Started::ready(&without).await.0.instructions(), None);
    assert_eq!(Started::ready(&options("plain")).await.0.instructions(), None);
}

#[test]
fn settings_are_checked() {
    let both = Options { url: Some(Uri::from_static("http://h/mcp")), ..options("plain") };
    let header = BTreeMap::from([("a b".to_owned(), TableText::plain("x"))]);
    let headers = Options { url: both.url.clone(), headers: header, ..Options::default() };
    for (options, reason) in
        [(Options::default(), "is missing"), (both, "not both"), (headers, "name of a header")]
    {
        let found = options.check().expect_err(reason).message;
        assert!(found.contains(reason), "{found}");
    }
}

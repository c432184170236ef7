//! Tests with misbehaving programs.

use std::{fs, path::Path};

use tokio::time::sleep;

use super::*;
use toolwire_pipeline::settings::TableText;

/// A provider whose program is a shell script.
fn script(text: &str) -> Options {
    let mut options = Options::default();
    options.program.command = ["sh", "-c", text].map(str::to_owned).into();
    options
}

async fn run(options: &Options, arguments: Value) -> Result<Output, ToolError> {
    let host = Host::detached("p");
    let provider = options.build(&host).expect("a provider");
    let call = Invocation::in_test("p", arguments);
    timeout(Duration::from_secs(30), provider.run(&call)).await.expect("the call ends")
}

/// Waits until the process whose id is in `file` has ended.
async fn has_ended(file: &Path) {
    let id = loop {
        match fs::read_to_string(file) {
            Ok(id) if id.ends_with('\n') => break id,
            _ => sleep(Duration::from_millis(10)).await,
        }
    };
    let stat = Path::new("/proc").join(id.trim()).join("stat");
    let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let waiting = async {
        while is_running() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect("the process ends");
}

fn message(result: Result<Output, ToolError>) -> String {
    result.expect_err("an error").message
}

#[tokio::test]
async fn arguments_arrive_on_stdin_and_stdout_is_the_result() {
    let output = run(&script("cat"), json!({"a": "ä\n"})).await.expect("an output");
    assert_eq!(output.content, r#"{"a":"ä\n"}"#);
}

#[tokio::test]
async fn placeholders_become_whole_arguments() {
    let mut options = script("exec");
    options.program.command = ["printf", "%s|", "--", "{a}", "{b}"].map(str::to_owned).into();
    options.parameters = Some(json!({"properties": {"a": {}, "b": {}}}));
    let output = run(&options, json!({"a": "x y; $(id)", "b": "-z"})).await.expect("an output");
    assert!(output.content.contains("x y; $(id)|-z|"), "{}", output.content);
}

#[tokio::test]
async fn only_named_variables_are_inherited() {
    let output = run(&script("env"), json!({})).await.expect("an output");
    let names = output.content.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let known = ["PATH", "HOME", "LANG", "PWD", "SHLVL", "_", "OLDPWD"];
    assert_eq!(names.filter(|name| !known.contains(name)).count(), 0, "{}", output.content);
}

#[tokio::test]
async fn silent_program_has_an_empty_result() {
    assert_eq!(run(&script("true"), json!({})).await.expect("an output").content, "");
}

#[tokio::test]
async fn exit_status_is_reported() {
    assert_eq!(message(run(&script("exit 3"), json!({})).await), "The program failed with exit status 3.");
    assert_eq!(message(run(&script("kill -9 $$"), json!({})).await), "The program was killed by a signal.");
    let output = run(&script("echo no such page; exit 3"), json!({})).await.expect("an output");
    assert_eq!((output.content.as_str(), output.is_error), ("no such page", true));
}

#[tokio::test]
async fn unknown_program_is_reported() {
    let mut options = script("true");
    options.program.command = vec!["/no/such/program".to_owned()];
    assert_eq!(message(run(&options, json!({})).await), "The program could not be started.");
}

#[tokio::test]
async fn output_may_have_exactly_the_limit() {
    for (length, is_accepted) in [(1000, true), (1001, false)] {
        let mut options = script(&format!("head -c {length} /dev/zero | tr '\\0' x"));
        options.max_output = 1000;
        assert_eq!(run(&options, json!({})).await.is_ok(), is_accepted, "{length}");
    }
}

#[tokio::test]
async fn endless_output_is_stopped() {
    let error = run(&script("yes"), json!({})).await.expect_err("an error");
    assert_eq!(error.code, ErrorCode::TooLarge);
}

#[tokio::test]
async fn invalid_text_is_refused() {
    assert!(message(run(&script("printf '\\377'"), json!({})).await).contains("UTF-8"));
}

#[tokio::test]
async fn input_need_not_be_read() {
    let large = json!({"a": "x".repeat(1 << 20)});
    assert_eq!(run(&script("echo done"), large).await.expect("an output").content, "done");
}

#[tokio::test]
async fn many_messages_do_not_block_the_program() {
    let output = run(&script("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo done"), json!({})).await;
    assert_eq!(output.expect("an output").content, "done");
}

#[tokio::test]
async fn process_that_keeps_the_output_open_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("id");
    let text = format!("sleep 1000 & echo $! > {}; echo done", file.display());
    assert_eq!(run(&script(&text), json!({})).await.expect("an output").content, "done");
    has_ended(&file).await;
}

#[tokio::test]
async fn dropping_the_call_kills_the_whole_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, other) = (folder.path().join("leader"), folder.path().join("other"));
    let text = format!("sleep 1000 & echo $! > {}; echo $$ > {}; wait", other.display(), leader.display());
    let options = script(&text);
    let running = run(&options, json!({}));
    tokio::select! {
        _ = running => panic!("it ended"),
        () = async {
            while !leader.exists() || !other.exists() {
                sleep(Duration::from_millis(10)).await;
            }
        } => {}
    }
    has_ended(&leader).await;
    has_ended(&other).await;
}

#[tokio::test]
async fn output_too_large_kills_the_whole_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("id");
    let error = run(&script(&format!("sleep 1000 & echo $! > {}; yes", file.display())), json!({})).await;
    assert_eq!(error.expect_err("an error").code, ErrorCode::TooLarge);
    has_ended(&file).await;
}

#[tokio::test]
async fn last_messages_are_kept_without_secrets() {
    let host = Host::detached("p");
    let mut options = script("echo key=$KEY >&2");
    options.program.env.insert("KEY".to_owned(), TableText::secret("hunter2-hunter2"));
    let provider = options.build(&host).expect("a provider");
    let call = Invocation::in_test("p", json!({}));
    assert!(provider.run(&call).await.is_ok());
    assert_eq!(provider.status().stderr, ["key=xxxxxxxxxxxxxxx"]);
}

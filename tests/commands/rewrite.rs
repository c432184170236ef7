//! Tests `toolwire rewrite`, which reads an upstream's stream from stdin and writes the client's stream to stdout.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::json;
use tempfile::TempDir;

use crate::support::{fixture_path, read_stream, run, toolwire, upstream_bytes};

#[test]
fn rewrite_reads_a_file_and_writes_stdout() {
    let (request, upstream) =
        (fixture_path("lumo/v2-pre-call/request.json"), fixture_path("lumo/v2-pre-call/upstream.sse"));
    let (status, stdout, stderr) =
        run(&mut toolwire(&["rewrite", "--from", "lumo", "--request", &request, &upstream]));
    assert_eq!((status, stderr.as_str()), (0, ""));
    let whole = read_stream(&stdout);
    assert_eq!(whole.calls[0].arguments, r#"{"city": "Paris"}"#);
    assert_eq!(whole.finish.as_deref(), Some("tool_calls"));
    for size in ["1", "7"] {
        let (status, stdout, _) = run(&mut toolwire(&[
            "rewrite",
            "--from",
            "lumo",
            "--request",
            &request,
            "--split",
            size,
            &upstream,
        ]));
        assert_eq!((status, read_stream(&stdout)), (0, whole.clone()), "in pieces of {size}");
    }
}

#[test]
fn rewrite_streams_stdin_without_delay() {
    let mut child = toolwire(&["rewrite", "--from", "chat", "--declare", "now"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    stdin.write_all(chunk(r#"{"role":"assistant","content":"Hello"}"#, "null").as_bytes()).unwrap();
    stdin.flush().unwrap();
    // The input is still open, but everything that can no longer change must have been written.
    let mut seen = String::new();
    while !seen.contains("Hello") {
        assert!(stdout.read_line(&mut seen).unwrap() > 0, "the output ended");
    }
    stdin.write_all((chunk("{}", "\"stop\"") + "data: [DONE]\n\n").as_bytes()).unwrap();
    drop(stdin);
    stdout.read_to_string(&mut seen).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(read_stream(&seen).text, "Hello");
}

#[test]
fn rewrite_checks_every_split() {
    let upstream = fixture_path("lumo/v1-fenced-call/upstream.sse");
    let arguments = ["rewrite", "--from", "lumo", "--tools", "fenced", "--declare", "get_weather"];
    let (status, stdout, stderr) =
        run(&mut toolwire(&[&arguments[..], &["--split", "every", &upstream]].concat()));
    assert_eq!((status, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("always the same"), "{stderr}");
    let (status, stdout, _) = run(&mut toolwire(&[&arguments[..], &[upstream.as_str()]].concat()));
    assert_eq!(status, 0);
    assert_eq!(
        read_stream(&stdout).calls[0].name,
        "get_weather",
        "the prefix that Lumo is taught is taken off"
    );
}

#[test]
fn rewrite_detects_the_format_of_the_tools_flag() {
    // Pythonic calls have no marker, so they are only detected if the model is known to use them.
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let stream = chunk(r#"{"role":"assistant","content":"[get_weather(city=\"Paris\")]"}"#, "null")
        + &chunk("{}", "\"stop\"")
        + "data: [DONE]\n\n";
    let desk = TempDir::new().unwrap();
    let (input, request) = (desk.path().join("upstream.sse"), desk.path().join("request.json"));
    fs::write(&input, stream).unwrap();
    let asked = json!({"model": "Llama-4-Scout", "stream": true, "messages": [{"role": "user", "content": "?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}]});
    fs::write(&request, asked.to_string()).unwrap();
    let (input, request) = (input.display().to_string(), request.display().to_string());
    let calls = |flags: &[&str]| {
        let (status, stdout, stderr) =
            run(&mut toolwire(&[&["rewrite", "--from", "chat"], flags, &[&input]].concat()));
        assert_eq!(status, 0, "{stderr}");
        read_stream(&stdout).calls.len()
    };
    assert_eq!(calls(&["--declare", "get_weather"]), 0);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic"]), 1);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic", "--detect", "auto"]), 1);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic", "--detect", "off"]), 0);
    assert_eq!(calls(&["--request", &request]), 1, "the model's name tells");
}

#[test]
fn splits_are_checked_for_clients_of_every_dialect() {
    for (from, fixture) in [("messages", "messages/messages-length"), ("lumo", "broken/lumo-cut-in-call")] {
        for to in ["chat", "messages", "responses"] {
            let input = fixture_path(&format!("{fixture}/upstream.sse"));
            let args = [
                "rewrite",
                "--from",
                from,
                "--to",
                to,
                "--declare",
                "get_weather",
                "--split",
                "every",
                &input,
            ];
            let (status, _, stderr) = run(&mut toolwire(&args));
            assert_eq!(status, 0, "{from} to {to}: {stderr}");
            assert!(stderr.contains("always the same result"), "{stderr}");
        }
    }
}

#[test]
fn rewrite_reports_the_number_of_splits() {
    let desk = TempDir::new().unwrap();
    let said = |bytes: usize| {
        let input = desk.path().join("upstream.sse");
        let comment = format!(":{}\n", "x".repeat(998)).repeat(bytes / 1000);
        fs::write(&input, comment + &String::from_utf8(upstream_bytes("lumo/v2-text")).unwrap()).unwrap();
        let input = input.display().to_string();
        let (status, stdout, stderr) =
            run(&mut toolwire(&["rewrite", "--from", "lumo", "--split", "every", &input]));
        assert_eq!((status, stdout.as_str()), (0, ""), "{stderr}");
        stderr
    };
    let small = said(1000);
    let length: usize = small.split(' ').next().unwrap().parse().unwrap();
    assert!(small.contains(&format!("at each of its {} places", length - 1)), "{small}");
    let large = said(40_000);
    let length: usize = large.split(' ').next().unwrap().parse().unwrap();
    assert!(large.contains(&format!("of its {} places (too large for all of them)", length - 1)), "{large}");
}

#[test]
fn rewrite_reports_a_failure_in_the_stream_and_by_its_exit_status() {
    let (status, stdout, stderr) =
        run(&mut toolwire(&["rewrite", "--from", "chat", &fixture_path("broken/cut-in-event/upstream.sse")]));
    assert_eq!(status, 1);
    assert!(stderr.contains("upstream_truncated"), "{stderr}");
    let answer = read_stream(&stdout);
    assert_eq!(answer.text, "It is 18");
    assert_eq!(answer.error.unwrap().code.as_deref(), Some("upstream_truncated"));
}

#[test]
fn rewrite_rejects_invalid_arguments() {
    let upstream = fixture_path("lumo/v1-text/upstream.sse");
    for wrong in [
        &["rewrite", &upstream][..],
        &["rewrite", "--from", "latin", &upstream],
        &["rewrite", "--from", "lumo", "--to", "lumo", &upstream],
        &["rewrite", "--from", "lumo", "--detect", "runes", &upstream],
        &["rewrite", "--from", "lumo", "--tools", "runes", &upstream],
        &["rewrite", "--from", "lumo", "--arguments", "late", &upstream],
        &["rewrite", "--from", "lumo", "--split", "0", &upstream],
        &["rewrite", "--from", "lumo", "--request", &upstream, &upstream],
        &["rewrite", "--from", "lumo", "no/such/file"],
    ] {
        let (status, stdout, stderr) = run(&mut toolwire(wrong));
        assert_eq!((status, stdout.as_str()), (2, ""), "{wrong:?}: {stderr}");
        assert!(!stderr.is_empty(), "{wrong:?}");
    }
}

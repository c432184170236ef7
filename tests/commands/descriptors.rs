//! Tests what happens when idle connections use up the file descriptors.

use std::{io::Write, net::TcpStream, process::Command, time::Instant};

use crate::{
    instances::upstream,
    support::{Server, ask, toolwire},
};

/// What a client sends before it goes idle: nothing, or part of a request.
const BEGINNINGS: [&str; 3] = [
    "",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: loc",
    "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET",
];

#[test]
fn idle_connections_keep_nobody_out_when_descriptors_are_used_up() {
    for beginning in BEGINNINGS {
        keep_nobody_out(beginning);
    }
}

fn keep_nobody_out(beginning: &str) {
    let base = format!("http://{}/v1", upstream());
    let mut limited = Command::new("sh");
    // The server raises its soft limit to the hard limit, so this sets both.
    limited.args(["-c", "ulimit -n 96 && exec \"$0\" \"$@\""]);
    let serve = toolwire(&["serve", "--upstream", &base, "--dialect", "chat", "--listen", "127.0.0.1:0"]);
    limited.arg(serve.get_program()).args(serve.get_args()).env("TOOLWIRE_THREADS", "1");
    let begun = Instant::now();
    let server = Server::start(&mut limited);
    let connect = |_| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let _ = stream.write_all(beginning.as_bytes());
        stream
    };
    let idle: Vec<_> = (0..400).map(connect).collect();
    for _ in 0..5 {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
        let (head, body) = ask(&server, "/v1/chat/completions", "", body);
        let body = String::from_utf8(body).unwrap();
        assert!(head.contains(" 200 ") && body.contains("Hello."), "{beginning:?}: {head}: {body}");
    }
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{beginning:?}: {log}");
    let lines = log.lines().filter(|line| line.contains("that wait for a request")).count();
    // Each thread logs the warning at most once every ten seconds.
    let most = usize::try_from(begun.elapsed().as_secs()).unwrap() / 10 + 1;
    assert!((1..=most * 2).contains(&lines), "{lines}: {log}");
    drop(idle);
}

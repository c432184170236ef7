//! `rewrite`, `replay`, `mock`, `record` and `demo` as users run them: the built program, its output, its exit
//! statuses.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwire::fixture::{Answer, assemble};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn path(name: &str) -> String {
    fixture(name).display().to_string()
}

/// The program, with no settings from the tests' own environment.
fn toolwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    for variable in
        ["CONFIG", "LISTEN", "UPSTREAM", "DIALECT", "TOOLS", "DETECT", "UPSTREAM_KEY", "CLIENT_KEY"]
    {
        command.env_remove(format!("TOOLWIRE_{variable}"));
    }
    command.args(arguments);
    command
}

/// Exit status, stdout, stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = toolwire(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn answer(stream: &str) -> Answer {
    let assembled = assemble(stream.as_bytes(), true, 200);
    assert_eq!(assembled.faults, Vec::<String>::new());
    assembled.answer
}

// rewrite

#[test]
fn rewrite_is_a_filter() {
    let (request, upstream) = (path("lumo/v2-pre-call/request.json"), path("lumo/v2-pre-call/upstream.sse"));
    let (status, stdout, stderr) = run(&["rewrite", "--from", "lumo", "--request", &request, &upstream]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let whole = answer(&stdout);
    assert_eq!(whole.calls[0].arguments, r#"{"city": "Paris"}"#);
    assert_eq!(whole.finish.as_deref(), Some("tool_calls"));
    for size in ["1", "7"] {
        let (status, stdout, _) =
            run(&["rewrite", "--from", "lumo", "--request", &request, "--split", size, &upstream]);
        assert_eq!((status, answer(&stdout)), (0, whole.clone()), "in pieces of {size}");
    }
}

#[test]
fn rewrite_reads_stdin_and_passes_on_at_once() {
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
    // The input is still open: what is certain must come out nevertheless.
    let mut seen = String::new();
    while !seen.contains("Hello") {
        assert!(stdout.read_line(&mut seen).unwrap() > 0, "the output ended");
    }
    stdin.write_all((chunk("{}", "\"stop\"") + "data: [DONE]\n\n").as_bytes()).unwrap();
    drop(stdin);
    stdout.read_to_string(&mut seen).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(answer(&seen).text, "Hello");
}

#[test]
fn rewrite_checks_every_split() {
    let upstream = path("lumo/v1-fenced-call/upstream.sse");
    let arguments = ["rewrite", "--from", "lumo", "--tools", "fenced", "--declare", "get_weather"];
    let (status, stdout, stderr) = run(&[&arguments[..], &["--split", "every", &upstream]].concat());
    assert_eq!((status, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("always the same"), "{stderr}");
    let (status, stdout, _) = run(&[&arguments[..], &[upstream.as_str()]].concat());
    assert_eq!(status, 0);
    assert_eq!(answer(&stdout).calls[0].name, "get_weather", "the prefix that Lumo is taught is taken off");
}

#[test]
fn rewrite_looks_for_the_format_that_is_taught() {
    // Pythonic calls have no marker, so they are looked for only where the model is known to write them.
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
        let (status, stdout, stderr) = run(&[&["rewrite", "--from", "chat"], flags, &[&input]].concat());
        assert_eq!(status, 0, "{stderr}");
        answer(&stdout).calls.len()
    };
    assert_eq!(calls(&["--declare", "get_weather"]), 0);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic"]), 1);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic", "--detect", "auto"]), 1);
    assert_eq!(calls(&["--declare", "get_weather", "--tools", "pythonic", "--detect", "off"]), 0);
    assert_eq!(calls(&["--request", &request]), 1, "the model's name tells");
}

#[test]
fn rewrite_says_how_many_splits_it_made() {
    let desk = TempDir::new().unwrap();
    let said = |bytes: usize| {
        let input = desk.path().join("upstream.sse");
        let comment = format!(":{}\n", "x".repeat(998)).repeat(bytes / 1000);
        fs::write(&input, comment + &String::from_utf8(upstream("lumo/v2-text")).unwrap()).unwrap();
        let input = input.display().to_string();
        let (status, stdout, stderr) = run(&["rewrite", "--from", "lumo", "--split", "every", &input]);
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
fn rewrite_tells_a_failure_in_the_stream_and_by_its_status() {
    let (status, stdout, stderr) =
        run(&["rewrite", "--from", "chat", &path("broken/cut-in-event/upstream.sse")]);
    assert_eq!(status, 1);
    assert!(stderr.contains("upstream_truncated"), "{stderr}");
    let answer = answer(&stdout);
    assert_eq!(answer.text, "It is 18");
    assert_eq!(answer.error.unwrap().code.as_deref(), Some("upstream_truncated"));
}

#[test]
fn rewrite_refuses_what_it_cannot_do() {
    let upstream = path("lumo/v1-text/upstream.sse");
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
        let (status, stdout, stderr) = run(wrong);
        assert_eq!((status, stdout.as_str()), (2, ""), "{wrong:?}: {stderr}");
        assert!(!stderr.is_empty(), "{wrong:?}");
    }
}

// replay

/// A copy of a fixture that a test may change.
fn copy(name: &str) -> (TempDir, PathBuf) {
    let desk = TempDir::new().unwrap();
    let dir = desk.path().join("copy");
    fs::create_dir(&dir).unwrap();
    for file in fs::read_dir(fixture(name)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    (desk, dir)
}

#[test]
fn replay_shows_the_first_difference_and_updates_when_asked() {
    let (desk, dir) = copy("lumo/v1-search-forward");
    let root = desk.path().display().to_string();
    let (status, stdout, _) = run(&["replay", &root, "--splits", "every"]);
    assert_eq!(status, 0, "{stdout}");

    let expect = dir.join("expect.json");
    let wrong = fs::read_to_string(&expect).unwrap().replace("18 °C", "19 °C");
    fs::write(&expect, &wrong).unwrap();
    let (status, stdout, _) = run(&["replay", &root]);
    assert_eq!(status, 1);
    assert!(stdout.contains("text at byte 26"), "{stdout}");
    assert!(stdout.contains("19 °C") && stdout.contains("18 °C"), "{stdout}");
    assert_eq!(fs::read_to_string(&expect).unwrap(), wrong, "nothing is rewritten unasked");

    let (status, stdout, _) = run(&["replay", &root, "--update", "--json"]);
    let line: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!((status, &line["ok"]), (1, &json!(false)), "{line}");
    assert_eq!(run(&["replay", &root]).0, 0);
}

#[test]
fn replay_names_file_and_line_of_what_cannot_be_read() {
    let (_desk, dir) = copy("lumo/v1-text");
    fs::write(dir.join("upstream.times"), "10 5\nsoon 7\n").unwrap();
    let (status, _, stderr) = run(&["replay", &dir.display().to_string()]);
    assert_eq!(status, 2);
    assert!(stderr.contains("upstream.times:2: "), "{stderr}");
    let empty = TempDir::new().unwrap();
    assert_eq!(run(&["replay", &empty.path().display().to_string()]).0, 2);
    assert_eq!(run(&["replay", "no/such/place"]).0, 2);
    assert_eq!(run(&["replay"]).0, 2);
}

// mock, record, demo

/// A server of ours, ended with the test.
struct Running {
    child: Child,
    address: String,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    /// Starts the program and reads from stderr where it listens.
    fn start(arguments: &[&str]) -> Self {
        let mut child = toolwire(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, address: String::new(), stderr };
        while running.address.is_empty() {
            let mut line = String::new();
            assert!(running.stderr.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some((_, behind)) = line.split_once("http://127.0.0.1:") {
                let port: String = behind.chars().take_while(char::is_ascii_digit).collect();
                running.address = format!("127.0.0.1:{port}");
            }
        }
        running
    }

    /// Status line and headers, body.
    fn ask(&self, path: &str, headers: &str, body: &str) -> (String, Vec<u8>) {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        write!(
            socket,
            "{method} {path} HTTP/1.0\r\nhost: mock\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        (String::from_utf8(reply[..end].to_vec()).unwrap().to_lowercase(), reply[end + 4..].to_vec())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn upstream(name: &str) -> Vec<u8> {
    fs::read(fixture(name).join("upstream.sse")).unwrap()
}

#[test]
fn mock_serves_what_is_asked_for() {
    let lumo = path("lumo");
    let refusal = path("broken/lumo-limit");
    let mock = Running::start(&["mock", &lumo, &refusal, "--listen", "127.0.0.1:0", "--pace", "none"]);
    let (head, body) = mock.ask("/ai/v1/chat/completions", "", r#"{"model":"v2-text"}"#);
    assert!(head.contains("200 ok") && head.contains("content-type: text/event-stream"), "{head}");
    assert_eq!(body, upstream("lumo/v2-text"));
    let (_, body) = mock.ask("/v1/chat/completions", "x-fixture: v1-text\r\n", r#"{"model":"v2-text"}"#);
    assert_eq!(body, upstream("lumo/v1-text"), "the header comes before the model");
    let (head, _) = mock.ask("/ai/v1/chat", "x-fixture: lumo-limit\r\n", "{}");
    assert!(head.contains(" 429 ") && head.contains("retry-after: 9"), "{head}");
    let (head, _) = mock.ask("/v1/chat/completions", "x-fixture: none-such\r\n", "{}");
    assert!(head.contains(" 404 "), "{head}");
    let (head, _) = mock.ask("/nowhere", "", "{}");
    assert!(head.contains(" 404 "), "{head}");
    let (_, models) = mock.ask("/v1/models", "", "");
    let models: Value = serde_json::from_slice(&models).unwrap();
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["id"] == "v1-text"));
}

#[test]
fn mock_takes_turns_where_nothing_is_named() {
    let (one, two) = (path("lumo/v1-text"), path("lumo/v2-text"));
    let mock = Running::start(&["mock", &one, &two, "--listen", "127.0.0.1:0", "--pace", "1ms"]);
    for name in ["lumo/v1-text", "lumo/v2-text", "lumo/v1-text"] {
        assert_eq!(mock.ask("/v1/chat/completions", "", r#"{"model":"any"}"#).1, upstream(name));
    }
}

#[test]
fn what_is_recorded_can_be_replayed() {
    let mock = Running::start(&["mock", &path("lumo/v2-announce-dispatch"), "--listen", "127.0.0.1:0"]);
    let desk = TempDir::new().unwrap();
    let out = desk.path().join("recorded");
    let (out_text, url) = (out.display().to_string(), format!("http://{}", mock.address));
    let recorder = Running::start(&[
        "record",
        "--out",
        &out_text,
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &url,
        "--dialect",
        "lumo",
    ]);
    let request = json!({
        "model": "lumo", "stream": true,
        "messages": [{ "role": "user", "content": "my key is sk-proj-abcdefghijklmnop" }],
    });
    let headers = "content-type: application/json\r\n";
    let (head, body) = recorder.ask("/v1/chat/completions", headers, &request.to_string());
    assert!(head.contains("200 ok"), "{head}");
    assert_eq!(answer(&String::from_utf8(body).unwrap()).text, "Let me look. 18 °C.");
    drop(recorder);

    let dir = out.join("0001-lumo");
    assert_eq!(fs::read(dir.join("upstream.sse")).unwrap(), upstream("lumo/v2-announce-dispatch"));
    let kept = fs::read_to_string(dir.join("request.json")).unwrap();
    assert!(kept.contains("my key is xxxxxxxx") && !kept.contains("sk-proj"), "{kept}");
    let times = fs::read_to_string(dir.join("upstream.times")).unwrap();
    assert!(times.lines().count() > 1, "the pieces are kept apart: {times}");
    let (status, stdout, _) = run(&["replay", &out_text, "--splits", "every", "--update"]);
    assert_eq!(status, 0, "{stdout}");
    let expect: Answer = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
    assert_eq!(expect.calls[0].id.as_deref(), Some("n1"));
    assert_eq!(run(&["replay", &out_text, "--splits", "every"]).0, 0);
}

/// A fixture whose upstream repeats secrets, in pieces of five bytes, and stops for a minute before its end.
fn echo(desk: &Path) -> String {
    let dir = desk.join("echo");
    fs::create_dir(&dir).unwrap();
    fs::copy(fixture("lumo/v2-text").join("request.json"), dir.join("request.json")).unwrap();
    fs::write(dir.join("fixture.toml"), "title = \"echo\"\nfrom = \"chat\"\n").unwrap();
    let chunk = |text: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    // Whole, cut into pieces by the network, and told token by token.
    let body = chunk("the key is up/stream\\u002dsecret,", "null")
        + &chunk("\\nsk-live-abcdef123456 or ", "null")
        + &chunk("sk-l", "null")
        + &chunk("ive-abcdef12", "null")
        + &chunk("3456 or up\\/stream-secret", "null");
    let rest = chunk("up/stream-secret", "null") + &chunk("", "\"stop\"") + "data: [DONE]\n\n";
    let mut times: String = body.as_bytes().chunks(5).map(|piece| format!("1 {}\n", piece.len())).collect();
    times += &format!("60000 {}\n", rest.len());
    fs::write(dir.join("upstream.sse"), body + &rest).unwrap();
    fs::write(dir.join("upstream.times"), times).unwrap();
    dir.display().to_string()
}

#[test]
fn a_recording_holds_no_secret_even_if_the_recorder_is_killed() {
    let desk = TempDir::new().unwrap();
    let mock = Running::start(&["mock", &echo(desk.path()), "--listen", "127.0.0.1:0", "--pace", "recorded"]);
    let out = desk.path().join("recorded");
    let (out_text, url) = (out.display().to_string(), format!("http://{}/v1", mock.address));
    let mut arguments = vec!["record", "--out", &out_text, "--listen", "127.0.0.1:0"];
    arguments.extend(["--upstream", &url, "--dialect", "chat", "--api-key", "up/stream-secret"]);
    let recorder = Running::start(&arguments);
    let request = json!({
        "model": "m-sk-live-abcdef123456", "stream": true,
        "messages": [{ "role": "user", "content": "up/stream-secret" }],
    });
    let body = request.to_string();
    let mut socket = TcpStream::connect(&recorder.address).unwrap();
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    // What the client has seen, the recorder has written or holds back; then it is killed.
    let mut seen = Vec::new();
    while !seen.ends_with(b"up\\/stream-secret\"},\"finish_reason\":null}]}\n\n\r\n") {
        let mut piece = [0; 1024];
        let len = socket.read(&mut piece).unwrap();
        assert!(len > 0, "{}", seen.escape_ascii());
        seen.extend_from_slice(&piece[..len]);
    }
    drop(recorder);

    let dirs: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [dir] = dirs.as_slice() else { panic!("{dirs:?}") };
    let mut all = dir.display().to_string();
    for file in ["request.json", "fixture.toml", "upstream.sse", "upstream.times"] {
        all += &fs::read_to_string(dir.join(file)).unwrap();
    }
    for secret in ["secret", "sk-l", "ive-", "abcdef", "3456"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    let upstream = fs::read_to_string(dir.join("upstream.sse")).unwrap();
    assert!(upstream.contains(&format!("the key is {},", "x".repeat(21))), "{upstream}");
    assert!(upstream.contains(&format!("\\n{} or \"", "x".repeat(20))), "{upstream}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&out), mode(dir)), (0o700, 0o700));
        for file in fs::read_dir(dir).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
    assert_eq!(run(&["replay", &out_text, "--splits", "recorded"]).0, 0, "times and bytes agree");
}

#[test]
fn what_is_recorded_with_a_format_of_ones_own_carries_it() {
    let mock = Running::start(&["mock", &path("chat/own-format"), "--listen", "127.0.0.1:0"]);
    let desk = TempDir::new().unwrap();
    let (out, file) = (desk.path().join("recorded"), desk.path().join("toolwire.toml"));
    let manifest = fs::read_to_string(path("chat/own-format/fixture.toml")).unwrap();
    let formats = manifest.split_once("[[formats]]").unwrap().1;
    let upstream = format!("name = \"u\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"", mock.address);
    let config = format!(
        "[[formats]]{formats}[[upstreams]]\n{upstream}\n[[models]]\nname = \"*\"\ndetect = \"theirs\"\n"
    );
    fs::write(&file, config).unwrap();
    let (out_text, file) = (out.display().to_string(), file.display().to_string());
    let recorder =
        Running::start(&["record", "--out", &out_text, "--listen", "127.0.0.1:0", "--config", &file]);
    let request = fs::read_to_string(path("chat/own-format/request.json")).unwrap();
    let (_, body) = recorder.ask("/v1/chat/completions", "content-type: application/json\r\n", &request);
    let calls = answer(&String::from_utf8(body).unwrap()).calls;
    drop(recorder);

    let recorded = fs::read_to_string(out.join("0001-m-1/fixture.toml")).unwrap();
    let formats_of = |manifest: &str| manifest.parse::<toml::Table>().unwrap()["formats"].clone();
    assert_eq!(formats_of(&recorded), formats_of(&manifest));
    assert_eq!(run(&["replay", &out_text, "--splits", "every", "--update"]).0, 0);
    let expect: Answer =
        serde_json::from_slice(&fs::read(out.join("0001-m-1/expect.json")).unwrap()).unwrap();
    assert_eq!((expect.calls.len(), calls.len()), (2, 2));
}

#[test]
fn demo_shows_both_sides_and_ends() {
    let (status, stdout, stderr) = run(&["demo", "--once", "--pace", "1ms", "--listen", "127.0.0.1:0"]);
    assert_eq!(status, 0, "{stderr}");
    for seen in ["the upstream sends", "the client gets", ":queued", "write_file(", "finish    tool_calls"] {
        assert!(stdout.contains(seen), "no {seen:?} in\n{stdout}");
    }
    assert!(!stdout.contains('\x1b'), "colours are for terminals");
    assert_eq!(stderr, "", "log lines would stand between the columns");
    let asked = ["demo", "--once", "--pace", "none", "--listen", "127.0.0.1:0", "--log-level", "info"];
    assert!(run(&asked).2.contains("toolwire::access"), "unless they are asked for");
}

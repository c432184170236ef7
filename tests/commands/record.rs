//! Tests that recordings made by `toolwire record` can be replayed and contain no secrets.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

use serde_json::json;
use tempfile::TempDir;
use toolwire::fixture::Answer;

use crate::support::{Server, ask, fixture, fixture_path, read_stream, run, toolwire, upstream_bytes};

#[test]
fn recording_can_be_replayed() {
    let mock = Server::start(&mut toolwire(&[
        "mock",
        &fixture_path("lumo/v2-announce-dispatch"),
        "--listen",
        "127.0.0.1:0",
    ]));
    let desk = TempDir::new().unwrap();
    let out = desk.path().join("recorded");
    let (out_text, url) = (out.display().to_string(), format!("http://{}", mock.address));
    let recorder = Server::start(&mut toolwire(&[
        "record",
        "--out",
        &out_text,
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &url,
        "--dialect",
        "lumo",
    ]));
    let request = json!({
        "model": "lumo", "stream": true,
        "messages": [{ "role": "user", "content": "my key is sk-proj-abcdefghijklmnop" }],
    });
    let headers = "content-type: application/json\r\n";
    let (head, body) = ask(&recorder, "/v1/chat/completions", headers, &request.to_string());
    assert!(head.contains("200 ok"), "{head}");
    assert_eq!(read_stream(&String::from_utf8(body).unwrap()).text, "Let me look. 18 °C.");
    drop(recorder);

    let dir = out.join("0001-lumo");
    assert_eq!(fs::read(dir.join("upstream.sse")).unwrap(), upstream_bytes("lumo/v2-announce-dispatch"));
    let kept = fs::read_to_string(dir.join("request.json")).unwrap();
    assert!(kept.contains("my key is xxxxxxxx") && !kept.contains("sk-proj"), "{kept}");
    let times = fs::read_to_string(dir.join("upstream.times")).unwrap();
    assert!(times.lines().count() > 1, "the pieces are kept apart: {times}");
    let (status, stdout, _) = run(&mut toolwire(&["replay", &out_text, "--split", "every", "--update"]));
    assert_eq!(status, 0, "{stdout}");
    let expect: Answer = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
    assert_eq!(expect.calls[0].id.as_deref(), Some("n1"));
    assert_eq!(run(&mut toolwire(&["replay", &out_text, "--split", "every"])).0, 0);
}

/// Writes a fixture whose upstream repeats secrets. The stream is sent in pieces of five bytes, with a pause of one
/// minute before its end.
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
    // One secret is complete, one is split across network reads, and one is split into tokens.
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
fn recording_holds_no_secret_even_if_the_recorder_is_killed() {
    let desk = TempDir::new().unwrap();
    let mock = Server::start(&mut toolwire(&[
        "mock",
        &echo(desk.path()),
        "--listen",
        "127.0.0.1:0",
        "--pace",
        "recorded",
    ]));
    let out = desk.path().join("recorded");
    let (out_text, url) = (out.display().to_string(), format!("http://{}/v1", mock.address));
    let mut arguments = vec!["record", "--out", &out_text, "--listen", "127.0.0.1:0"];
    arguments.extend(["--upstream", &url, "--dialect", "chat", "--api-key", "up/stream-secret"]);
    let recorder = Server::start(&mut toolwire(&arguments));
    let request = json!({
        "model": "m-sk-live-abcdef123456", "stream": true,
        "messages": [{ "role": "user", "content": "up/stream-secret" }],
    });
    let body = request.to_string();
    let mut socket = TcpStream::connect(&recorder.address).unwrap();
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    // The client has seen everything up to here, so the recorder has either written it or is holding it back. Now
    // the recorder is killed.
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
    assert_eq!(
        run(&mut toolwire(&["replay", &out_text, "--split", "recorded"])).0,
        0,
        "times and bytes agree"
    );
}

#[test]
fn recording_includes_the_custom_format_that_it_used() {
    let mock =
        Server::start(&mut toolwire(&["mock", &fixture_path("chat/own-format"), "--listen", "127.0.0.1:0"]));
    let desk = TempDir::new().unwrap();
    let (out, file) = (desk.path().join("recorded"), desk.path().join("toolwire.toml"));
    let manifest = fs::read_to_string(fixture_path("chat/own-format/fixture.toml")).unwrap();
    let formats = manifest.split_once("[[formats]]").unwrap().1;
    let upstream = format!("name = \"u\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"", mock.address);
    let config = format!(
        "[[formats]]{formats}[[upstreams]]\n{upstream}\n[[models]]\nname = \"*\"\ndetect = \"theirs\"\n"
    );
    fs::write(&file, config).unwrap();
    let (out_text, file) = (out.display().to_string(), file.display().to_string());
    let recorder = Server::start(&mut toolwire(&[
        "record",
        "--out",
        &out_text,
        "--listen",
        "127.0.0.1:0",
        "--config",
        &file,
    ]));
    let request = fs::read_to_string(fixture_path("chat/own-format/request.json")).unwrap();
    let (_, body) = ask(&recorder, "/v1/chat/completions", "content-type: application/json\r\n", &request);
    let calls = read_stream(&String::from_utf8(body).unwrap()).calls;
    drop(recorder);

    let recorded = fs::read_to_string(out.join("0001-m-1/fixture.toml")).unwrap();
    let formats_of = |manifest: &str| manifest.parse::<toml::Table>().unwrap()["formats"].clone();
    assert_eq!(formats_of(&recorded), formats_of(&manifest));
    assert_eq!(run(&mut toolwire(&["replay", &out_text, "--split", "every", "--update"])).0, 0);
    let expect: Answer =
        serde_json::from_slice(&fs::read(out.join("0001-m-1/expect.json")).unwrap()).unwrap();
    assert_eq!((expect.calls.len(), calls.len()), (2, 2));
}

#[test]
fn hops_are_recorded_served_and_replayed() {
    let desk = TempDir::new().unwrap();
    let config = |mock: &str| {
        let path = desk.path().join("toolwire.toml");
        let text = format!(
            "[[upstreams]]\nname = \"up\"\ndialect = \"lumo\"\nbase_url = \"http://{mock}\"\n\n\
             [[models]]\nname = \"lumo\"\nupstream = \"up\"\nmisroute = \"bounce\"\n"
        );
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let mut served = fixture_path("lumo/v2-bounce");
    let request = fs::read_to_string(fixture("lumo/v2-bounce").join("request.json")).unwrap();
    // The second round serves what the first one recorded.
    for round in ["first", "second"] {
        let mock = Server::start(&mut toolwire(&["mock", &served, "--listen", "127.0.0.1:0"]));
        let out = desk.path().join(round).display().to_string();
        let config = config(&mock.address);
        let recorder = Server::start(&mut toolwire(&[
            "record",
            "--out",
            &out,
            "--config",
            &config,
            "--listen",
            "127.0.0.1:0",
        ]));
        let (head, body) =
            ask(&recorder, "/v1/chat/completions", "content-type: application/json\r\n", &request);
        assert!(head.contains("200 ok"), "{head}");
        assert_eq!(read_stream(&String::from_utf8(body).unwrap()).calls.len(), 1);
        drop((recorder, mock));
        let dir = Path::new(&out).join("0001-lumo");
        for file in ["upstream.sse", "upstream-2.sse"] {
            let original = fs::read(fixture("lumo/v2-bounce").join(file)).unwrap();
            assert_eq!(fs::read(dir.join(file)).unwrap(), original, "{file}");
        }
        let manifest = fs::read_to_string(dir.join("fixture.toml")).unwrap();
        assert!(manifest.contains("[[hops]]") && manifest.contains("`city` are missing"), "{manifest}");
        assert!(dir.join("upstream-2.times").exists());
        let (status, stdout, _) = run(&mut toolwire(&["replay", &out, "--split", "every", "--update"]));
        assert_eq!(status, 0, "{stdout}");
        served = dir.display().to_string();
    }
    // Replay checks both the content and the number of requests.
    let manifest = Path::new(&served).join("fixture.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("`city` are missing", "`town` are missing")).unwrap();
    let (status, stdout, _) = run(&mut toolwire(&["replay", &served]));
    assert_eq!((status, stdout.contains("the request of hop 2 does not say")), (1, true), "{stdout}");
    fs::write(&manifest, text.replace("bounce", "rescue")).unwrap();
    let (status, stdout, _) = run(&mut toolwire(&["replay", &served]));
    assert_eq!((status, stdout.contains("asks the upstream 1 times, not 2")), (1, true), "{stdout}");
    let (before, hops) = text.split_once("[[hops]]").unwrap();
    let (_, settings) = hops.split_once("[settings]").unwrap();
    fs::write(&manifest, format!("{before}[settings]{settings}")).unwrap();
    let (status, _, stderr) = run(&mut toolwire(&["replay", &served]));
    assert_eq!((status, stderr.contains("there is no `[[hops]]` for it")), (2, true), "{stderr}");
}

/// The recording contains the results of hosted tools, so replay does not run them.
#[test]
fn hosted_calls_are_recorded_served_and_replayed() {
    let desk = TempDir::new().unwrap();
    let mut served = fixture_path("chat/hosted-search");
    let request = fs::read_to_string(fixture("chat/hosted-search").join("request.json")).unwrap();
    for round in ["first", "second"] {
        let mock = Server::start(&mut toolwire(&["mock", &served, "--listen", "127.0.0.1:0"]));
        let config = desk.path().join("toolwire.toml");
        let text = format!(
            "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"\n\n\
             [[models]]\nname = \"small\"\n\n[execution]\nvisibility = \"reasoning\"\n\n\
             [[providers]]\nname = \"web_search\"\nkind = \"command\"\n\
             command = [\"sh\", \"-c\", \"echo 'Rain until noon.'\"]\n\
             parameters = {{ type = \"object\" }}\n",
            mock.address
        );
        fs::write(&config, text).unwrap();
        let (out, config) = (desk.path().join(round).display().to_string(), config.display().to_string());
        let recorder = Server::start(&mut toolwire(&[
            "record",
            "--out",
            &out,
            "--config",
            &config,
            "--listen",
            "127.0.0.1:0",
        ]));
        let headers = "content-type: application/json\r\n";
        let (head, body) = ask(&recorder, "/v1/chat/completions", headers, &request);
        assert!(head.contains("200 ok"), "{head}");
        let got = read_stream(&String::from_utf8(body).unwrap());
        assert_eq!((got.text.as_str(), got.calls.len()), ("Let me look.\n\nIt rains. Now exactly:", 1));
        drop((recorder, mock));
        let dir = Path::new(&out).join("0001-small");
        let manifest = fs::read_to_string(dir.join("fixture.toml")).unwrap();
        assert!(manifest.contains("content = \"Rain until noon.\""), "{manifest}");
        let (status, stdout, _) = run(&mut toolwire(&["replay", &out, "--split", "every", "--update"]));
        assert_eq!(status, 0, "{stdout}");
        let expect: Answer = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
        assert_eq!(expect.text, got.text);
        assert!(expect.reasoning.starts_with("Running: web_search\n"), "{}", expect.reasoning);
        served = dir.display().to_string();
    }
}

/// Whether a response starts inside reasoning depends on the prompt, which a recording does not contain.
#[test]
fn recording_knows_whether_the_prompt_opened_the_reasoning() {
    let desk = TempDir::new().unwrap();
    let thinking = desk.path().join("thinking");
    fs::create_dir(&thinking).unwrap();
    fs::copy(fixture("lumo/v2-text").join("request.json"), thinking.join("request.json")).unwrap();
    let manifest = "title = \"thinking\"\nfrom = \"completions\"\n\
                    [upstream]\nheaders = { content-type = \"application/json\" }\n";
    fs::write(thinking.join("fixture.toml"), manifest).unwrap();
    let body = json!({"choices": [{"text": "Hm.</think>Yes.", "finish_reason": "stop"}]});
    fs::write(thinking.join("upstream.sse"), body.to_string()).unwrap();
    let template = desk.path().join("model.jinja");
    fs::write(&template, "{% for m in messages %}{{ m.content }}\n{% endfor %}<think>\n").unwrap();
    let mock =
        Server::start(&mut toolwire(&["mock", &thinking.display().to_string(), "--listen", "127.0.0.1:0"]));
    let out = desk.path().join("recorded").display().to_string();
    let (url, template) = (format!("http://{}/v1", mock.address), template.display().to_string());
    let mut arguments = vec!["record", "--out", &out, "--listen", "127.0.0.1:0", "--upstream", &url];
    arguments.extend(["--dialect", "completions", "--chat-template", &template]);
    let recorder = Server::start(&mut toolwire(&arguments));
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "?"}]});
    let headers = "content-type: application/json\r\n";
    let (head, answer) = ask(&recorder, "/v1/chat/completions", headers, &request.to_string());
    let answer = String::from_utf8(answer).unwrap();
    assert!(head.contains("200 ok") && answer.contains("\"reasoning_content\":\"Hm.\""), "{head}{answer}");
    drop(recorder);
    let dir = Path::new(&out).join("0001-m");
    let manifest = fs::read_to_string(dir.join("fixture.toml")).unwrap();
    assert!(manifest.contains("starts_in_reasoning = true"), "{manifest}");
    assert_eq!(run(&mut toolwire(&["replay", &out, "--split", "every", "--update"])).0, 0);
    let expect: Answer = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
    assert_eq!((expect.reasoning.as_str(), expect.text.as_str()), ("Hm.", "Yes."));
}

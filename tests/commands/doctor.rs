//! Tests the report of `check --doctor` for working upstreams and for each kind of fault.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    sync::Arc,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, Stream, crypto::ring::default_provider, pki_types::PrivateKeyDer,
};

use crate::support::{run, toolwire};

const SECRET: &str = "sk-5f1c-very-secret";

const LIST: &str = r#"{"object":"list","data":[{"id":"small-model"},{"id":"large-model"}]}"#;

/// Starts a server that answers each of the given paths with a status line and a body, and every other path with
/// 404. Returns its address.
pub(crate) fn server(answers: &'static [(&'static str, &'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            // The byte 22 starts a TLS handshake, which this server does not speak.
            while !head.ends_with(b"\r\n\r\n")
                && head != [22]
                && socket.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap_or_default();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let found = answers.iter().find(|(known, ..)| *known == path);
            let (status, body) = found.map_or(("404 Not Found", "no"), |(_, status, body)| (status, body));
            let length = body.len();
            let _ =
                write!(socket, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nlocation: /x\r\n\r\n{body}");
        }
    });
    address
}

/// Starts a TLS server that closes every connection without answering. Its self-signed certificate for `name` is
/// written to the file `certificate`. Returns the port.
fn silent_tls_server(name: &str, certificate: &Path) -> u16 {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    fs::write(certificate, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let _ = Stream::new(&mut connection, &mut socket).read(&mut [0; 4096]);
        }
    });
    port
}

/// Runs the doctor for one upstream with `more` appended to its entry. Returns the exit status and the output.
fn doctor(base_url: &str, more: &str, flags: &[&str]) -> (i32, String) {
    doctor_of("chat", base_url, more, flags)
}

/// Like [`doctor`], but for an upstream with the given dialect.
fn doctor_of(dialect: &str, base_url: &str, more: &str, flags: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    let entry =
        format!("[[upstreams]]\nname = \"up\"\ndialect = \"{dialect}\"\nbase_url = \"{base_url}\"\n{more}");
    let entry = if more.contains("[[models]]") {
        entry
    } else {
        format!("{entry}\n[[models]]\nname = \"*\"\nupstream = \"up\"\n")
    };
    fs::write(&file, entry).unwrap();
    let arguments = [&["check", "--doctor", "--config", file.to_str().unwrap()], flags].concat();
    let (status, out, _) = run(toolwire(&arguments).env("KEY", SECRET));
    assert!(!out.contains(SECRET), "{out}");
    if flags.contains(&"--json") || status == 2 {
        return (status, out);
    }
    let (of_upstream, of_machine): (Vec<_>, Vec<_>) =
        out.split_inclusive('\n').partition(|line| line.starts_with("up: "));
    assert!(of_machine.iter().any(|line| line.starts_with("state_dir: ok: ")), "{out}");
    (status, of_upstream.concat())
}

#[test]
fn an_upstream_that_lists_its_models_is_well() {
    let address = server(&[("/v1/models", "200 OK", LIST)]);
    let (status, out) = doctor(&format!("http://{address}/v1"), "", &[]);
    assert_eq!(status, 0);
    assert!(out.starts_with("up: ok: lists 2 models, in "), "{out}");
}

#[test]
fn a_model_that_is_not_listed_is_named_with_its_nearest() {
    let address = server(&[("/v1/models", "200 OK", LIST)]);
    let models = "[[models]]\nname = \"big\"\nupstream = \"up\"\nupstream_name = \"large-modell\"\n\
                  [[models]]\nname = \"small-model\"\nupstream = \"up\"\n";
    let (status, out) = doctor(&format!("http://{address}/v1"), models, &[]);
    assert_eq!(status, 0, "{out}");
    let warning =
        "up: warning: it does not list the model `large-modell`; the nearest name is `large-model`\n";
    assert!(out.ends_with(warning), "{out}");
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn each_fault_is_one_line_that_says_what_is_wrong() {
    let address = server(&[
        ("/none/models", "401 Unauthorized", "{}"),
        ("/moved/models", "308 Permanent Redirect", ""),
        ("/broken/models", "502 Bad Gateway", "<html>"),
        ("/page/models", "200 OK", "<html>\r\n\x1b[31m"),
        ("/api/v1/models", "200 OK", LIST),
    ]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = [
        (
            format!("http://{address}/none"),
            "",
            "key: the upstream wants a key (401 Unauthorized): set `api_key`",
        ),
        (format!("http://{address}/none"), "api_key = \"env:KEY\"", "key: the upstream refuses the key"),
        (format!("http://{address}/moved"), "", "path: the server redirects (308"),
        (format!("http://{address}/broken"), "", "server: the server answers 502 Bad Gateway"),
        (format!("http://{address}/page"), "", "dialect: the response is not a model list (no JSON"),
        (format!("http://{address}/v1"), "", "but at another path: set `base_url = \""),
        (format!("http://{address}/elsewhere/x"), "", "path: no list of models there (404 Not Found)"),
        (format!("http://{closed}/v1"), "", "tcp: no connection to 127.0.0.1:"),
        (format!("https://{address}/v1"), "", "does this port speak TLS"),
        ("http://no-such-host.invalid/v1".to_owned(), "", "dns: `no-such-host.invalid` has no address"),
    ];
    for (base_url, more, expected) in cases {
        let (status, out) = doctor(&base_url, more, &[]);
        assert_eq!(status, 1, "{base_url}: {out}");
        assert!(out.starts_with("up: error: ") && out.contains(expected), "{base_url}: {out}");
        assert_eq!(out.lines().count(), 1, "{out}");
    }
}

#[test]
fn faults_of_tls_differ_from_those_of_the_server_behind_it() {
    let folder = TempDir::new().unwrap();
    let certificate = folder.path().join("cert.pem");
    let port = silent_tls_server("127.0.0.1", &certificate);
    let trusting = format!("tls = {{ ca = {certificate:?} }}");
    let (_, out) = doctor(&format!("https://127.0.0.1:{port}/v1"), &trusting, &[]);
    assert!(out.starts_with("up: error: server: "), "{out}");
    let (_, out) = doctor(&format!("https://127.0.0.1:{port}/v1"), "", &[]);
    assert!(out.starts_with("up: error: tls: ") && out.contains("certificate"), "{out}");
    let (_, out) = doctor(&format!("http://127.0.0.1:{port}/v1"), "", &[]);
    assert!(out.starts_with("up: error: tls: ") && out.contains("an `https` URL"), "{out}");

    let port = silent_tls_server("other.example", &certificate);
    let (_, out) = doctor(&format!("https://127.0.0.1:{port}/v1"), &trusting, &[]);
    assert!(out.starts_with("up: error: tls: ") && out.contains("not valid for name"), "{out}");
}

#[test]
fn a_server_of_another_dialect_is_recognised() {
    let address = server(&[
        ("/v1beta/models", "200 OK", r#"{"models":[{"name":"models/gemini-x"}]}"#),
        ("/v1/models", "200 OK", LIST),
        ("/v1/models?pageSize=1000", "200 OK", LIST),
        ("/ollama/api/tags", "200 OK", r#"{"models":[{"name":"small:latest"}]}"#),
    ]);
    let small = "[[models]]\nname = \"small\"\nupstream = \"up\"\n";
    let cases = [
        ("chat", "/v1beta", "", "error: dialect: the response is not a model list"),
        ("gemini", "/v1", "", "error: dialect: the response is not a model list"),
        ("ollama", "", "", "error: path: no list of models there (404"),
        ("ollama", "/ollama", small, "ok: lists 1 model, in "),
    ];
    for (dialect, path, more, expected) in cases {
        let (_, out) = doctor_of(dialect, &format!("http://{address}{path}"), more, &[]);
        assert!(out.starts_with(&format!("up: {expected}")), "{dialect} {path}: {out}");
        assert_eq!(out.lines().count(), 1, "{out}");
    }
}

#[test]
fn a_better_base_url_is_named_in_full() {
    let address = server(&[("/api/v1/models", "200 OK", LIST)]);
    let (_, out) = doctor(&format!("http://{address}"), "", &[]);
    assert!(out.contains(&format!("set `base_url = \"http://{address}/api/v1/\"`")), "{out}");
}

#[test]
fn programs_get_json() {
    let address = server(&[("/v1/models", "200 OK", LIST)]);
    let (status, out) = doctor(&format!("http://{address}/v1"), "", &["--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["ok"], &found["upstreams"][0]["models"]), (0, &true.into(), &2.into()));
    let (status, out) = doctor(&format!("http://{address}/v2"), "", &["--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["ok"]), (1, &false.into()));
    assert_eq!(
        (&found["upstreams"][0]["name"], &found["upstreams"][0]["part"]),
        (&"up".into(), &"path".into())
    );
}

#[test]
fn gemini_and_lumo_are_asked_with_the_key() {
    let address = server(&[
        ("/v1beta/models?pageSize=1000", "200 OK", r#"{"models":[{"name":"models/gemini-x"}]}"#),
        ("/bad/v1beta/models?pageSize=1000", "400 Bad Request", "{}"),
        ("/api/ai/v1/models", "200 OK", LIST),
        ("/bad/ai/v1/models", "401 Unauthorized", "{}"),
    ]);
    let model = "api_key = \"env:KEY\"\n[[models]]\nname = \"gemini-x\"\nupstream = \"up\"\n";
    let key = "api_key = \"env:KEY\"";
    let cases = [
        ("gemini", "/v1beta", model, "ok: lists 1 model, in "),
        ("gemini", "/bad/v1beta", key, "error: key: the upstream refuses the request (400 Bad Request)"),
        ("lumo", "/api", key, "ok: lists 2 models, in "),
        ("lumo", "/bad", key, "error: key: the upstream refuses the key (401"),
        // Not every Lumo server lists its models, and a session is not a key.
        ("lumo", "/older", key, "ok: answers (404 Not Found); it has no list of models"),
        ("lumo", "/api", "", "ok: answers (404 Not Found); it has no list of models"),
    ];
    for (dialect, path, more, expected) in cases {
        let (_, out) = doctor_of(dialect, &format!("http://{address}{path}"), more, &[]);
        assert!(out.starts_with(&format!("up: {expected}")), "{dialect} {path}: {out}");
        assert_eq!(out.lines().count(), 1, "{out}");
    }
}

#[test]
fn a_proxy_that_is_away_is_named_instead_of_the_upstream() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = format!("proxy = \"http://user:{SECRET}@{closed}\"");
    let (status, out) = doctor("https://no-such-host.invalid/v1", &proxy, &[]);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.starts_with("up: error: proxy: ") && out.contains(&format!("proxy http://{closed}")),
        "{out}"
    );
    let refusing =
        server(&[("http://no-such-host.invalid/v1/models", "407 Proxy Authentication Required", "")]);
    let (_, out) = doctor("http://no-such-host.invalid/v1", &format!("proxy = \"http://{refusing}\""), &[]);
    assert!(out.starts_with("up: error: proxy: the proxy wants a user and a password (407"), "{out}");
}

#[test]
fn a_clock_that_differs_from_the_upstreams_is_a_warning() {
    let address = server(&[("/v1/models", "200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT", LIST)]);
    let (status, out) = doctor(&format!("http://{address}/v1"), "", &[]);
    assert_eq!(status, 0, "{out}");
    assert!(
        out.contains("up: warning: this machine's clock is ") && out.contains("ahead of the upstream's"),
        "{out}"
    );
}

#[test]
fn damaged_state_and_few_open_files_are_found_before_the_start() {
    let address = server(&[("/v1/models", "200 OK", LIST)]);
    let folder = TempDir::new().unwrap();
    let (file, state) = (folder.path().join("toolwire.toml"), folder.path().join("state"));
    let entry = format!(
        "state_dir = {state:?}\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{address}/v1\"\n\
         [[models]]\nname = \"*\"\nupstream = \"up\"\n"
    );
    fs::write(&file, entry).unwrap();
    let check = toolwire(&["check", "--doctor", "--config", file.to_str().unwrap()]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 200 && exec \"$0\" \"$@\""]);
    limited.arg(check.get_program()).args(check.get_args());
    let (status, out, _) = run(&mut limited);
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("state_dir: ok: ") && !state.exists(), "{out}");
    assert!(out.contains("open files: warning: 200 files may be open, but 64 responses"), "{out}");

    fs::create_dir(&state).unwrap();
    fs::write(state.join("store.redb"), vec![b'?'; 10_000]).unwrap();
    let (status, out, _) = run(&mut limited);
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("store: error: ") && out.contains("store.redb is damaged ("), "{out}");
    assert_eq!(fs::read(state.join("store.redb")).unwrap(), vec![b'?'; 10_000]);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
}

#[test]
fn an_invalid_configuration_is_not_tried() {
    let (status, out) = doctor("ftp://127.0.0.1", "", &[]);
    assert_eq!((status, out.as_str()), (2, ""));
}

//! `check --doctor`: what it says of upstreams that work, and of each thing that may be wrong.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{run, toolwire};

const SECRET: &str = "sk-5f1c-very-secret";

const LIST: &str = r#"{"object":"list","data":[{"id":"small-model"},{"id":"large-model"}]}"#;

/// A server that answers each path with a status line and a body, and everything else with 404. Its address.
fn server(answers: &'static [(&'static str, &'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Ends with the tests.
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            // A TLS handshake begins with 22; this server does not speak it.
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

/// The doctor's exit status and output for one upstream, whose entry ends with `more`.
fn doctor(base_url: &str, more: &str, flags: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    let entry =
        format!("[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"{base_url}\"\n{more}");
    let entry = if more.contains("[[models]]") {
        entry
    } else {
        format!("{entry}\n[[models]]\nname = \"*\"\nupstream = \"up\"\n")
    };
    fs::write(&file, entry).unwrap();
    let arguments = [&["check", "--doctor", "--config", file.to_str().unwrap()], flags].concat();
    let (status, out, _) = run(toolwire(&arguments).env("KEY", SECRET));
    assert!(!out.contains(SECRET), "{out}");
    (status, out)
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
        (format!("http://{address}/page"), "", "dialect: the answer is no list of models (no JSON"),
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
fn an_invalid_configuration_is_not_tried() {
    let (status, out) = doctor("ftp://127.0.0.1", "", &[]);
    assert_eq!((status, out.as_str()), (2, ""));
}

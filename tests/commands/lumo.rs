//! Tests `toolwire lumo`, which manages the sessions of accounts.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::support::{run, toolwire};

/// Starts a server that gives one of the `answers` on each connection. The thread returns the requests it received:
/// heads in lower case, and bodies.
fn upstream(answers: Vec<(&'static str, String)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/api", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let answered = answers.into_iter().map(|(status, body)| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&stream);
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
            request
        });
        answered.collect()
    });
    (address, answering)
}

fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        reader.read_line(&mut request).unwrap();
    }
    let request = request.to_lowercase();
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    request + str::from_utf8(&body).unwrap()
}

/// Creates a folder with a session file and a configuration whose upstream has the base URL `url`.
fn folder(url: &str, session: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[upstreams]]\nname = \"lumo\"\ndialect = \"lumo\"\nbase_url = \"{url}\"\n[upstreams.lumo]\nsession = \"session.json\"\n\
         [[models]]\nname = \"*\"\nupstream = \"lumo\"\n"
    );
    fs::write(folder.path().join("toolwire.toml"), config).unwrap();
    fs::write(folder.path().join("session.json"), session.to_string()).unwrap();
    folder
}

fn lumo(folder: &Path, action: &str, further: &[&str]) -> (i32, String, String) {
    let config = folder.join("toolwire.toml").display().to_string();
    let arguments = ["lumo", action, "--config", &config];
    run(&mut toolwire(&[&arguments, further].concat()))
}

fn session() -> Value {
    json!({"uid": "u-1", "access_token": "secret-access", "refresh_token": "secret-refresh", "expires_at": 1})
}

#[test]
fn status_shows_the_session_without_its_secrets() {
    let folder = folder("http://127.0.0.1:9/api", &session());
    let (status, out, err) = lumo(folder.path(), "status", &[]);
    assert_eq!(status, 0, "{err}");
    for part in [
        "lumo\n",
        "session u-1\n",
        "access token: expired\n",
        "refresh token: not used yet\n",
        "session.json",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (status, json, _) = lumo(folder.path(), "status", &["--json"]);
    let told: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &told[0]["upstream"], &told[0]["session"]["uid"]),
        (0, &json!("lumo"), &json!("u-1"))
    );
    assert_eq!(told[0]["session"]["refreshable"], true);
    assert!(!(out + &json + &err).contains("secret"));
}

#[test]
fn status_without_a_session_says_what_to_do() {
    let folder = folder("http://127.0.0.1:9/api", &json!({"uid": "u-1"}));
    let (status, out, _) = lumo(folder.path(), "status", &[]);
    assert!(status == 1 && out.contains("`access_token` is missing"), "{out}");
    fs::remove_file(folder.path().join("session.json")).unwrap();
    let (status, out, _) = lumo(folder.path(), "status", &[]);
    assert!(status == 1 && out.contains("log in and write it to"), "{out}");
    let (status, _, err) = lumo(folder.path(), "status", &["--account", "other"]);
    assert!(status == 2 && err.contains("no upstream `other` with an account"), "{err}");
}

#[test]
fn refresh_replaces_the_tokens() {
    let tokens =
        json!({"AccessToken": "secret-a2", "RefreshToken": "secret-r2", "UID": "u-1", "ExpiresIn": 3600});
    let (url, upstream) = upstream(vec![("200 OK", tokens.to_string())]);
    let folder = folder(&url, &session());
    let (status, out, err) = lumo(folder.path(), "refresh", &[]);
    assert_eq!(status, 0, "{err}");
    assert!(
        out.contains("access token: expires in 59m") || out.contains("access token: expires in 1h"),
        "{out}"
    );
    assert!(!(out + &err).contains("secret"));
    let kept: Value = serde_json::from_slice(&fs::read(folder.path().join("session.json")).unwrap()).unwrap();
    assert_eq!((&kept["access_token"], &kept["refresh_token"]), (&json!("secret-a2"), &json!("secret-r2")));
    let requests = upstream.join().unwrap();
    assert!(requests[0].starts_with("post /api/auth/refresh ") && requests[0].contains("secret-refresh"));
}

#[test]
fn refused_refresh_keeps_the_file_and_says_what_to_do() {
    let refusal = r#"{"Code":10013,"Error":"Invalid token secret-refresh"}"#;
    let (url, upstream) = upstream(vec![("422 Unprocessable Entity", refusal.to_owned())]);
    let folder = folder(&url, &session());
    let (status, out, err) = lumo(folder.path(), "refresh", &[]);
    assert_eq!(status, 1);
    assert!(
        err.contains("logged out") && err.contains("log in") && !(out + &err).contains("secret"),
        "{err}"
    );
    assert!(folder.path().join("session.json").exists());
    upstream.join().unwrap();
}

#[test]
fn logout_ends_the_session_and_removes_its_file() {
    for (answer, is_ended) in
        [("200 OK", true), ("401 Unauthorized", true), ("500 Internal Server Error", false)]
    {
        let (url, upstream) = upstream(vec![(answer, "{}".to_owned())]);
        let folder = folder(&url, &session());
        let (status, out, err) = lumo(folder.path(), "logout", &[]);
        assert_eq!(status == 0, is_ended, "{answer}: {out} {err}");
        assert!(!folder.path().join("session.json").exists());
        let requests = upstream.join().unwrap();
        assert!(
            requests[0].starts_with("delete /api/core/v4/auth ") && requests[0].contains("x-pm-uid: u-1")
        );
    }
}

#[test]
fn contradicting_settings_are_reported() {
    let folder = folder("http://127.0.0.1:9/api", &session());
    let path = folder.path().join("toolwire.toml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, config.replace("[upstreams.lumo]", "api_key = \"env:PATH\"\n[upstreams.lumo]")).unwrap();
    let (status, _, err) = lumo(folder.path(), "status", &[]);
    assert!(status == 2 && err.contains("give one of them") && err.contains("toolwire.toml:"), "{err}");
}

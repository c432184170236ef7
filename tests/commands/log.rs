//! Tests log lines that contain text from clients and upstreams.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use crate::support::{Server, toolwire};

/// The JSON-escaped code of an upstream's error.
const HOSTILE: &str = r"x\r\nFAKE line\u001b[31m\u009b2J\u2028\u202e\u0000";

/// Starts an upstream that answers one request per connection with status 400 and an error with this `code`.
fn upstream(code: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let body = format!(r#"{{"error":{{"message":"no","code":"{code}"}}}}"#);
    let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                // The request is small enough to arrive in one read.
                let _ = socket.read(&mut [0; 64 << 10]);
                let _ = socket.write_all(answer.as_bytes());
                // Waits until the peer closes the connection.
                let _ = socket.read(&mut [0]);
            });
        }
    });
    address
}

/// Sends one request to a server that uses `upstream`. Returns everything that the server wrote to stderr.
fn logged(upstream: &str, model: &str, log_format: &str) -> String {
    let base = format!("http://{upstream}/v1");
    let serve = ["serve", "--upstream", &base, "--dialect", "chat", "--listen", "127.0.0.1:0"];
    let server = Server::start(toolwire(&serve).args(["--log-format", log_format]));

    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    let mut client = TcpStream::connect(&server.address).unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all((head + &body).as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    server.stop().1
}

/// Sends a request with this head. Returns everything that the server wrote to stderr.
fn logged_head(head: &[u8], log_format: &str) -> String {
    let serve =
        ["serve", "--upstream", "http://127.0.0.1:1/v1", "--dialect", "chat", "--listen", "127.0.0.1:0"];
    let server = Server::start(toolwire(&serve).args(["--log-format", log_format]));
    let mut client = TcpStream::connect(&server.address).unwrap();
    client.write_all(head).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    server.stop().1
}

fn access_line(log: &str) -> &str {
    let lines: Vec<_> = log.lines().filter(|line| line.contains("toolwire::access")).collect();
    assert_eq!(lines.len(), 1, "{log:?}");
    lines.first().unwrap()
}

#[test]
fn hostile_upstream_error_code_is_escaped_and_clipped() {
    for log_format in ["text", "json"] {
        let code = format!("{HOSTILE}{}", "A".repeat(60_000));
        let log = logged(&upstream(code), "m", log_format);
        let unprintable = |char: char| char.is_control() && char != '\n' || "\u{2028}\u{202e}".contains(char);
        assert!(!log.contains(unprintable), "{log:?}");
        assert!(!log.lines().any(|line| line.starts_with("FAKE")), "{log:?}");
        let line = access_line(&log);
        assert!(line.contains("FAKE line") && line.len() < 1_500, "{line:?}");
        if log_format == "json" {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["end"].as_str().unwrap().starts_with("failed:x\r\nFAKE"), "{line}");
        }
    }
}

#[test]
fn hostile_model_name_is_escaped_and_clipped() {
    for log_format in ["text", "json"] {
        let model = format!("{HOSTILE}{}", "A".repeat(60_000));
        let log = logged(&upstream("c".to_owned()), &model, log_format);
        let line = access_line(&log);
        assert!(line.contains("FAKE line") && line.len() < 1_500, "{line:?}");
        assert!(!log.lines().any(|line| line.starts_with("FAKE")), "{log:?}");
    }
}

#[test]
fn hostile_path_and_request_id_stay_in_their_places() {
    let path = "/%0d%0aFAKE%1b[31m\u{202e}\u{85}";
    let id = b"x\tFAKE\x1b[31m\xe2\x80\xae";
    for log_format in ["text", "json"] {
        let mut head =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: ")
                .into_bytes();
        head.extend(id.iter().filter(|byte| **byte != 0x1b));
        head.extend(b"\r\n\r\n");
        let log = logged_head(&head, log_format);
        let unprintable = |char: char| char.is_control() && char != '\n' || "\u{2028}\u{202e}".contains(char);
        assert!(!log.contains(unprintable), "{log:?}");
        let line = access_line(&log);
        assert!(line.contains("%0d%0aFAKE") && line.contains("req_"), "{line:?}");
        assert!(!log.contains("xFAKE") && !log.contains("x\\tFAKE"), "{log:?}");
    }
}

/// A service manager that hangs, or a terminal on hold, reads no more of stderr.
#[test]
fn server_goes_on_although_nothing_reads_its_log() {
    let upstream = upstream("no".to_owned());
    let base = format!("http://{upstream}/v1");
    let serve = ["serve", "--upstream", &base, "--dialect", "chat", "--listen", "127.0.0.1:0"];
    let mut server = toolwire(&serve).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("://127.0.0.1:") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the server has ended");
    }
    let port = line.rsplit_once("://127.0.0.1:").unwrap().1;
    let port: u16 = port.split(|char: char| !char.is_ascii_digit()).next().unwrap().parse().unwrap();
    let model = "m".repeat(100);
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The lines fill the pipe, which holds 64 KiB, more than once.
    for _ in 0..600 {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    }
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    let lines: Vec<_> = log.lines().map(Result::unwrap).filter(|line| line.contains(&model)).collect();
    assert_eq!(lines.len(), 600);
    assert!(server.wait().unwrap().success());
}

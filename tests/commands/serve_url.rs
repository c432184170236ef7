//! Tests `toolwire serve URL`, which finds out the rest by asking the upstream.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::{
    doctor::server,
    support::{Server, run, toolwire},
};

const LIST: (&str, &str) =
    ("200 OK", r#"{"object":"list","data":[{"id":"small-model"},{"id":"large-model"}]}"#);
const TAGS: (&str, &str) = ("200 OK", r#"{"models":[{"name":"small:latest","model":"small:latest"}]}"#);
const VERSION: (&str, &str) = ("200 OK", r#"{"version":"0.12.6"}"#);

/// Starts the server. Returns it with the lines after its first, up to what it says of the upstream.
fn serve(arguments: &[&str]) -> (Server, String) {
    let mut started = Server::start(toolwire(&["serve"]).args(arguments));
    let mut said = String::new();
    while !said.contains("\nupstream: ") {
        said += &format!("{}\n", started.line());
    }
    (started, said)
}

/// The first line of the response to a browser on this machine.
fn status(server: &Server, path: &str) -> String {
    let mut socket = TcpStream::connect(&server.address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn dialect_and_path_are_found_by_asking() {
    let below_v1 = server(&[("/v1/models", LIST.0, LIST.1)]);
    let at_root = server(&[("/models", LIST.0, LIST.1)]);
    let other = server(&[("/openai/v1/models", LIST.0, LIST.1)]);
    let ollama = server(&[
        ("/api/version", VERSION.0, VERSION.1),
        ("/api/tags", TAGS.0, TAGS.1),
        ("/v1/models", LIST.0, LIST.1),
    ]);
    let open_webui = server(&[("/api/version", VERSION.0, VERSION.1), ("/api/v1/models", LIST.0, LIST.1)]);
    for (given, dialect, base) in [
        (below_v1.clone(), "chat", format!("{below_v1}/v1")),
        (format!("{below_v1}/v1/"), "chat", format!("{below_v1}/v1")),
        (at_root.clone(), "chat", at_root.clone()),
        (other.clone(), "chat", format!("{other}/openai/v1")),
        (ollama.clone(), "ollama", ollama.clone()),
        (format!("{ollama}/v1"), "chat", format!("{ollama}/v1")),
        (open_webui.clone(), "chat", format!("{open_webui}/api/v1")),
    ] {
        let (started, said) = serve(&[&format!("http://{given}"), "--port", "0"]);
        let upstream = started.start.clone() + &said;
        assert!(upstream.contains(&format!("({dialect}, http://{base}")), "{given}: {upstream}");
        assert!(said.contains("upstream: ok: lists"), "{given}: {said}");
    }
}

#[test]
fn upstream_that_is_not_there_is_said_and_served() {
    let (started, said) = serve(&["http://127.0.0.1:1", "-p", "0"]);
    assert!(said.contains("upstream: error: tcp: no connection to 127.0.0.1:1"), "{said}");
    assert!(started.start.contains("listens on"));
}

#[test]
fn given_dialect_is_not_asked_for() {
    let chat = server(&[("/models", LIST.0, LIST.1)]);
    let (_started, said) =
        serve(&["--upstream", &format!("http://{chat}"), "--dialect", "messages", "-p", "0"]);
    assert!(said.contains("(messages, "), "{said}");
}

#[test]
fn console_is_there_while_only_this_machine_is_listened_on() {
    let chat = server(&[("/v1/models", LIST.0, LIST.1)]);
    let url = format!("http://{chat}");
    let (local, said) = serve(&[&url, "-p", "0"]);
    assert!(said.contains("Console: http://127.0.0.1:"), "{said}");
    assert_eq!(status(&local, "/console/"), "HTTP/1.1 200 OK");
    let (open, said) = serve(&[&url, "-l", "0.0.0.0:0", "--client-key", "env:PATH"]);
    assert!(!said.contains("Console"), "{said}");
    assert_eq!(status(&open, "/console/"), "HTTP/1.1 404 Not Found");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (arguments, message) in [
        (&["serve", "http://a.example", "--upstream", "http://b.example"][..], "given twice"),
        (&["serve", "--dialect", "chat"], "needs the URL of an upstream"),
        (&["serve", "http://a.example", "-p", "1", "-l", "127.0.0.1:2"], "cannot be used with"),
        (&["serve", "a b"], "--upstream"),
    ] {
        let (status, _, stderr) = run(&mut toolwire(arguments));
        assert!(status == 2 && stderr.contains(message), "{arguments:?}: {stderr}");
    }
    // The URL on the command line replaces that of the environment.
    let chat = server(&[("/v1/models", LIST.0, LIST.1)]);
    let url = format!("http://{chat}");
    let mut command = toolwire(&["check", &url]);
    let (status, said, stderr) = run(command.env("TOOLWIRE_UPSTREAM", "http://b.example"));
    assert!(status == 0 && said.contains(&chat), "{said} {stderr}");
}

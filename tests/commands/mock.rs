//! Tests `toolwire mock` and `toolwire demo`.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::Value;

use crate::support::{Server, ask, fixture_path, run, toolwire, upstream_bytes};

#[test]
fn mock_serves_the_requested_fixture() {
    let lumo = fixture_path("lumo");
    let refusal = fixture_path("broken/lumo-limit");
    let mock =
        Server::start(&mut toolwire(&["mock", &lumo, &refusal, "--listen", "127.0.0.1:0", "--pace", "none"]));
    let (head, body) = ask(&mock, "/ai/v1/chat/completions", "", r#"{"model":"v2-text"}"#);
    assert!(head.contains("200 ok") && head.contains("content-type: text/event-stream"), "{head}");
    assert_eq!(body, upstream_bytes("lumo/v2-text"));
    let (_, body) = ask(&mock, "/v1/chat/completions", "x-fixture: v1-text\r\n", r#"{"model":"v2-text"}"#);
    assert_eq!(body, upstream_bytes("lumo/v1-text"), "the header comes before the model");
    let (head, _) = ask(&mock, "/ai/v1/chat", "x-fixture: lumo-limit\r\n", "{}");
    assert!(head.contains(" 429 ") && head.contains("retry-after: 9"), "{head}");
    let (head, _) = ask(&mock, "/v1/chat/completions", "x-fixture: none-such\r\n", "{}");
    assert!(head.contains(" 404 "), "{head}");
    let (head, _) = ask(&mock, "/nowhere", "", "{}");
    assert!(head.contains(" 404 "), "{head}");
    let (_, models) = ask(&mock, "/v1/models", "", "");
    let models: Value = serde_json::from_slice(&models).unwrap();
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["id"] == "v1-text"));
}

#[test]
fn mock_serves_no_pages_of_other_sites() {
    let mock =
        Server::start(&mut toolwire(&["mock", "--generate", "--listen", "127.0.0.1:0", "--pace", "none"]));
    for headers in [
        "origin: https://evil.example\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "origin: null\r\n",
    ] {
        for (path, body) in [("/v1/chat/completions", r#"{"model":"mock"}"#), ("/v1/models", "")] {
            assert!(ask(&mock, path, headers, body).0.contains(" 403 "), "{headers} {path}");
        }
    }
    let mut rebound = TcpStream::connect(&mock.address).unwrap();
    rebound.write_all(b"GET /v1/models HTTP/1.0\r\nhost: evil.example\r\n\r\n").unwrap();
    let mut reply = String::new();
    rebound.read_to_string(&mut reply).unwrap();
    assert!(reply.contains(" 403 "), "{reply}");
    assert!(ask(&mock, "/v1/models", "", "").0.contains(" 200 "));
}

#[test]
fn mock_cycles_through_fixtures_if_none_is_named() {
    let (one, two) = (fixture_path("lumo/v1-text"), fixture_path("lumo/v2-text"));
    let mock =
        Server::start(&mut toolwire(&["mock", &one, &two, "--listen", "127.0.0.1:0", "--pace", "1ms"]));
    for name in ["lumo/v1-text", "lumo/v2-text", "lumo/v1-text"] {
        assert_eq!(ask(&mock, "/v1/chat/completions", "", r#"{"model":"any"}"#).1, upstream_bytes(name));
    }
}

#[test]
fn mock_is_a_search_engine() {
    let mock = Server::start(&mut toolwire(&["mock", "--generate", "--listen", "127.0.0.1:0"]));
    let key = "x-api-key: any\r\n";
    let (head, body) = ask(&mock, "/search", key, r#"{"q":"rain","num":3}"#);
    let found: Value = serde_json::from_slice(&body).unwrap();
    assert!(head.contains(" 200 ") && head.contains("content-type: application/json"), "{head}");
    assert_eq!(found["organic"].as_array().unwrap().len(), 3);
    assert!(ask(&mock, "/search", "", r#"{"q":"rain"}"#).0.contains(" 403 "), "a key is needed");
    let (head, _) = ask(&mock, "/scrape", key, r#"{"url":"https://example.com/mock:429"}"#);
    assert!(head.contains(" 429 ") && head.contains("retry-after: 1"), "{head}");
}

#[test]
fn demo_runs_a_search_for_the_model() {
    let (status, stdout, stderr) =
        run(&mut toolwire(&["demo", "--hosted-tools", "--once", "--pace", "1ms", "--listen", "127.0.0.1:0"]));
    assert_eq!((status, stderr.as_str()), (0, ""));
    let (_, answer) = stdout.split_once("toolwire searches: Lisbon weather this weekend").unwrap();
    let (_, received) = answer.split_once("What the client has received").unwrap();
    assert!(received.contains("I will look that up.") && received.contains("Saturday is sunny"), "{stdout}");
    assert!(!received.contains("tool_call") && received.contains("finish    stop"), "{stdout}");
}

#[test]
fn demo_shows_both_sides_and_exits() {
    let (status, stdout, stderr) =
        run(&mut toolwire(&["demo", "--once", "--pace", "1ms", "--listen", "127.0.0.1:0"]));
    assert_eq!(status, 0, "{stderr}");
    let (streams, received) = stdout.split_once("What the client has received").unwrap();
    // The model writes its call as text, and the client gets it as such, piece by piece.
    assert!(streams.contains("content \"tool\"") && !received.contains("tool_call>"), "{stdout}");
    assert!(streams.contains("tool_calls[0] name \"write_file\""), "{stdout}");
    assert!(streams.matches("tool_calls[0] arguments ").count() > 40, "{stdout}");
    assert!(received.contains("I will write that down for you.\n"), "{stdout}");
    for seen in ["the upstream sends", "the client gets", ":queued", "write_file(", "finish    tool_calls"] {
        assert!(stdout.contains(seen), "no {seen:?} in\n{stdout}");
    }
    assert!(!stdout.contains('\x1b'), "colours are for terminals");
    assert_eq!(stderr, "", "log lines would stand between the columns");
    let asked = ["demo", "--once", "--pace", "none", "--listen", "127.0.0.1:0", "--log-level", "info"];
    assert!(run(&mut toolwire(&asked)).2.contains("toolwire::access"), "unless they are asked for");
}

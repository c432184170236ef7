//! Tests the `/admin/bench` API of a running `toolwire serve`.

use std::{fs, net::TcpStream, path::PathBuf, thread::sleep, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwire::bench::report::Report;

use crate::support::{Server, ask, request, toolwire};

const KEY: &str = "authorization: Bearer an-admin-key\r\ncontent-type: application/json\r\n";

/// Maximum number of polls for the end of a run. A run needs far fewer.
const TRIES: usize = 1200;

fn mock(pace: &str) -> Server {
    Server::start(&mut toolwire(&["mock", "--generate", "--listen", "127.0.0.1:0", "--pace", pace]))
}

/// Starts a server with three upstreams: the mock, one that cannot be measured, and one without named models.
fn server(folder: &TempDir, mock: &Server) -> Server {
    let (file, models) = configured(folder, mock);
    fs::write(&file, models + ADMIN).unwrap();
    Server::start(toolwire(&["serve", "--config"]).arg(&file))
}

const ADMIN: &str = "[admin]\napi_keys = [\"an-admin-key\"]\n";

/// Returns the configuration file and the part of its text that precedes the admin settings.
fn configured(folder: &TempDir, mock: &Server) -> (PathBuf, String) {
    let models = format!(
        "listen = \"127.0.0.1:0\"\nstate_dir = {:?}\n\
         [[upstreams]]\nname = \"local\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"\napi_key = \"sk-of-the-upstream\"\n\
         [[upstreams]]\nname = \"lumo\"\ndialect = \"lumo\"\nbase_url = \"http://127.0.0.1:1\"\napi_key = \"none\"\n\
         [[upstreams]]\nname = \"any\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         [[models]]\nname = \"m\"\nupstream = \"local\"\n[[models]]\nname = \"o\"\nupstream = \"lumo\"\n\
         [[models]]\nname = \"*\"\nupstream = \"any\"\n",
        folder.path(),
        mock.address
    );
    (folder.path().join("toolwire.toml"), models)
}

fn said((head, body): (String, Vec<u8>)) -> (u16, Value) {
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn post(server: &Server, body: &Value) -> (u16, Value) {
    said(ask(server, "/admin/bench", KEY, &body.to_string()))
}

fn state(server: &Server) -> (u16, Value) {
    said(ask(server, "/admin/bench", KEY, ""))
}

/// Polls until the run whose state was `seen` has ended, then returns the new state.
fn ended(server: &Server, mut seen: Value) -> Value {
    for _ in 0..TRIES {
        if seen["state"] != "running" {
            break;
        }
        let progress = seen["progress"].as_f64().unwrap_or(f64::NAN);
        assert!((0.0..=1.0).contains(&progress), "{seen}");
        sleep(Duration::from_millis(50));
        seen = state(server).1;
    }
    seen
}

fn stop(server: &Server) -> (u16, Value) {
    said(request(server, "DELETE", "/admin/bench", KEY, ""))
}

#[test]
fn upstream_is_measured_once_at_a_time() {
    let folder = TempDir::new().unwrap();
    let mock = mock("none");
    let server = server(&folder, &mock);
    assert_eq!(state(&server), (200, json!({"state": "idle"})));
    let (status, begun) = post(&server, &json!({"upstream": "local", "streams": 3, "tokens": 50}));
    assert_eq!(status, 200, "{begun}");
    let seen = ended(&server, begun);
    assert_eq!((&seen["state"], &seen["progress"]), (&json!("done"), &json!(1)), "{seen}");
    assert!(!seen.to_string().contains("sk-of-the-upstream"));
    let report: Report = serde_json::from_value(seen["report"].clone()).unwrap();
    let target = &report.targets[0];
    assert_eq!((target.name.as_str(), target.all.streams, target.all.good), ("local", 3, 3), "{seen}");
    assert!(target.all.tokens > 0);
    // The report is kept until the next run starts or until it is deleted.
    assert_eq!(state(&server).1["state"], "done");
    assert_eq!(stop(&server), (200, json!({"state": "idle"})));
    assert_eq!(state(&server), (200, json!({"state": "idle"})));
}

#[test]
fn run_is_stopped_before_its_end() {
    let folder = TempDir::new().unwrap();
    let mock = mock("20s");
    let server = server(&folder, &mock);
    let wanted = json!({"upstream": "local", "streams": 1, "tokens": 2000, "model": "m"});
    assert_eq!(post(&server, &wanted).1["state"], "running");
    let (status, refused) = post(&server, &wanted);
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("running")), "{refused}");
    assert_eq!(stop(&server), (200, json!({"state": "idle"})));
    assert_eq!(state(&server), (200, json!({"state": "idle"})));
    assert_eq!(post(&server, &wanted).1["state"], "running");
    let address = server.address.clone();
    assert_eq!(server.stop().0, Some(0), "a run does not keep the server from stopping");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn wrong_wish_is_refused_with_its_field() {
    let folder = TempDir::new().unwrap();
    let mock = mock("none");
    let server = server(&folder, &mock);
    let wish = |upstream: &str, streams: Value, tokens: Value| json!({"upstream": upstream, "streams": streams, "tokens": tokens});
    for (wish, status, path, word) in [
        (wish("local", json!(0), json!(1)), 422, "streams", "from 1 to 200"),
        (wish("local", json!(201), json!(1)), 422, "streams", "from 1 to 200"),
        (wish("local", json!(1), json!(2001)), 422, "tokens", "from 1 to 2000"),
        (wish("local", json!(-1), json!(1)), 400, "streams", "whole number"),
        (wish("local", json!(1), json!("5")), 400, "tokens", "whole number"),
        (wish("gone\r\n", json!(1), json!(1)), 422, "upstream", "local, lumo, any"),
        (wish("lumo", json!(1), json!(1)), 422, "upstream", "`lumo` cannot be measured"),
        (wish("any", json!(1), json!(1)), 422, "model", "say which"),
        (json!({"streams": 1, "tokens": 1}), 400, "upstream", "missing"),
        (json!({"upstream": 5, "streams": 1, "tokens": 1}), 400, "upstream", "a string"),
        (json!({"upstream": "x".repeat(257), "streams": 1, "tokens": 1}), 400, "upstream", "256"),
    ] {
        let (found, error) = post(&server, &wish);
        let error = &error["error"];
        assert_eq!((found, error["path"].as_str()), (status, Some(path)), "{wish}: {error}");
        assert!(error["message"].as_str().unwrap().contains(word), "{wish}: {error}");
    }
    assert_eq!(state(&server), (200, json!({"state": "idle"})));
    assert_eq!(said(ask(&server, "/admin/bench", "", "")).0, 401);
}

#[test]
fn upstream_that_is_not_there_is_in_the_report() {
    let folder = TempDir::new().unwrap();
    let mock = mock("none");
    let server = server(&folder, &mock);
    let wish = json!({"upstream": "any", "streams": 2, "tokens": 1, "model": "x"});
    let seen = ended(&server, post(&server, &wish).1);
    assert_eq!(seen["state"], "done", "{seen}");
    let all = &seen["report"]["targets"][0]["all"];
    assert_eq!((&all["streams"], &all["good"], &all["broken"]), (&json!(2), &json!(0), &json!(2)), "{seen}");
}

#[test]
fn api_that_a_reload_brings_has_the_bench() {
    let folder = TempDir::new().unwrap();
    let mock = mock("none");
    let (file, models) = configured(&folder, &mock);
    fs::write(&file, &models).unwrap();
    let server = Server::start(toolwire(&["serve", "--config"]).arg(&file));
    assert_eq!(state(&server).0, 404);
    fs::write(&file, models + ADMIN).unwrap();
    let (mut status, mut seen) = state(&server);
    for _ in 0..TRIES {
        if seen["error"]["type"].is_null() {
            break;
        }
        sleep(Duration::from_millis(50));
        (status, seen) = state(&server);
    }
    assert_eq!((status, &seen), (200, &json!({"state": "idle"})));
}

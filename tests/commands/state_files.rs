//! Tests `serve` with unusable state files, and with the ones left behind when it was killed.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    instances::{post, upstream},
    support::{Server, ask, run, toolwire},
};

const FILES: [&str; 6] =
    ["store.redb", "deferred.redb", "turn_states.redb", "usage.redb", "usage_copy.redb", "results.redb"];

/// Writes a configuration that keeps its state in the subfolder `state` and whose client `team` has the key `free`.
fn config(folder: &TempDir) -> std::path::PathBuf {
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\nthreads = 1\nstate_dir = {state:?}\n[execution]\n[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\n\
         base_url = \"http://{}/v1\"\n[[models]]\nname = \"m\"\nupstream = \"u\"\n\
         [[keys]]\nname = \"team\"\nkey = \"free\"\ntokens_per_month = 1000000\n",
        upstream()
    );
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, text).unwrap();
    file
}

fn start(config: &Path) -> Server {
    Server::start(toolwire(&["serve", "--config"]).arg(config))
}

fn stored(address: &str) -> String {
    let (status, response) = post(address, "free", &json!({"model": "m", "input": "hi"}));
    assert_eq!(status, 200, "{response}");
    response["id"].as_str().unwrap().to_owned()
}

fn found(server: &Server, id: &str) -> bool {
    let path = format!("/v1/responses/{id}");
    let (head, body) = ask(server, &path, "authorization: Bearer free\r\n", "");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(head.contains(" 200 ") || head.contains(" 404 "), "{head}: {body}");
    head.contains(" 200 ")
}

#[test]
fn state_files_that_are_no_files_hold_nothing_up() {
    for kind in ["fifo", "folder"] {
        let folder = TempDir::new().unwrap();
        let config = config(&folder);
        for file in FILES.map(|file| folder.path().join("state").join(file)) {
            match kind {
                "fifo" => assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()),
                _ => fs::create_dir(&file).unwrap(),
            }
        }
        let server = start(&config);
        let id = stored(&server.address);
        assert!(found(&server, &id), "{kind}: it is kept in memory");
        let begin = server.start.clone();
        let (code, rest) = server.stop();
        let log = begin + &rest;
        assert_eq!(code, Some(0), "{kind}: {log}");
        let named =
            |file: &str| log.lines().any(|line| line.contains("not a regular file") && line.contains(file));
        assert!(named("store.redb") && named("usage.redb"), "{kind}: {log}");
        assert!(!log.contains("panicked"), "{kind}: {log}");
        for file in FILES.map(|file| folder.path().join("state").join(file)) {
            assert!(!fs::metadata(&file).unwrap().is_file(), "{kind}: {file:?} is left as it was");
        }
    }
}

/// Simulates a disk that is temporarily full.
#[test]
fn what_is_stored_and_used_while_files_cannot_be_written_is_written_later() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    fs::write(&config, fs::read_to_string(&config).unwrap() + "[admin]\n").unwrap();
    let serve = toolwire(&["serve", "--config"]);
    let mut unsignalled = Command::new("sh");
    unsignalled.args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\""]);
    unsignalled.arg(serve.get_program()).args(serve.get_args()).arg(&config);
    for (key, value) in serve.get_envs() {
        if let Some(value) = value {
            unsignalled.env(key, value);
        }
    }
    let server = Server::start(&mut unsignalled);
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    let may_write = |bytes| prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    let failures = || {
        let metrics = String::from_utf8(ask(&server, "/metrics", "", "").1).unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix("toolwire_store_failures_total "));
        line.map_or(0.0, |count| count.parse::<f64>().unwrap())
    };
    let mut ids: Vec<_> = (0..5).map(|_| stored(&server.address)).collect();
    for _ in 0..2 {
        let before = failures();
        may_write(Some(0));
        ids.extend((0..10).map(|_| stored(&server.address)));
        while failures() <= before {
            thread::sleep(std::time::Duration::from_millis(50));
        }
        may_write(None);
        ids.extend((0..10).map(|_| stored(&server.address)));
    }
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    let server = start(&config);
    let lost = ids.iter().filter(|id| !found(&server, id)).count();
    assert_eq!((lost, ids.len()), (0, 45), "{log}");
    let url = format!("http://{}", server.address);
    let (_, used, error) = run(&mut toolwire(&["keys", "usage", "--server", &url]));
    assert!(used.starts_with("team  45 requests, "), "{used} {error}");
}

/// Root can open these files despite their mode, so the test does not assert that they are left unused.
#[test]
fn state_files_without_permission_hold_nothing_up() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    for file in FILES.map(|file| folder.path().join("state").join(file)) {
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let server = start(&config);
    let id = stored(&server.address);
    assert!(found(&server, &id));
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn kill_during_writes_leaves_whole_files() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let mut durable: Vec<String> = Vec::new();
    let mut latest: Vec<String> = Vec::new();
    for round in 0..5 {
        let server = start(&config);
        assert!(!server.start.contains("damaged"), "round {round}: {}", server.start);
        // Data that was once loaded from the files must never be lost later.
        assert!(durable.iter().all(|id| found(&server, id)), "round {round}");
        durable.extend(latest.drain(..).filter(|id| found(&server, id)));
        let (address, is_over) = (server.address.clone(), AtomicBool::new(false));
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut ids = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    ids.push(stored(&address));
                }
                ids
            });
            while fs::metadata(folder.path().join("state/store.redb")).is_err() {
                thread::yield_now();
            }
            thread::sleep(std::time::Duration::from_millis(300 + 70 * round));
            is_over.store(true, Ordering::Relaxed);
            latest = writing.join().unwrap();
            // Kills the server while it is writing `latest`.
            drop(server);
        });
    }
    let names = fs::read_dir(folder.path().join("state")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("damaged")), "{names:?}");
    assert!(!durable.is_empty(), "nothing was written in five rounds");
    // An orderly shutdown loses no data.
    let server = start(&config);
    let last: Vec<_> = (0..20).map(|_| stored(&server.address)).collect();
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    let server = start(&config);
    assert!(last.iter().chain(&durable).all(|id| found(&server, id)));
}

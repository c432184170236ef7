//! Tests with a primary server that is found through sentinels.

use super::*;

struct Running(std::process::Child);

impl Running {
    fn start(arguments: &[&str], folder: &std::path::Path) -> Self {
        let mut command = std::process::Command::new("redis-server");
        command.args(arguments).current_dir(folder).stdout(std::process::Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> String {
    redis_server::free_port().unwrap().to_string()
}

/// The answer of a program to a command. Empty if there is none.
fn said(port: &str, command: &str) -> String {
    redis_server::said(port.parse().unwrap(), command).unwrap_or_default()
}

#[test]
fn sentinels_say_which_server_is_the_primary_one_also_after_a_failover() {
    let Some(mut primary) = redis_server::RedisServer::start().unwrap() else { return };
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (url, replica, sentinel, nobody) = (primary.url(), free_port(), free_port(), free_port());
    let first = &primary.port().to_string();
    let local = ["--bind", "127.0.0.1", "--save", "", "--port"];
    let copies = [&local[..], &[&replica, "--replicaof", "127.0.0.1", first]].concat();
    let _replica = Running::start(&copies, folder.path());
    let settings = format!(
        "bind 127.0.0.1\nport {sentinel}\nsentinel monitor main 127.0.0.1 {first} 1\n\
         sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
    );
    let file = folder.path().join("sentinel.conf");
    std::fs::write(&file, settings).unwrap();
    let _sentinel = Running::start(&[file.to_str().unwrap(), "--sentinel"], folder.path());
    until("the replica is there", || said(&replica, "INFO replication").contains("master_link_status:up"));
    until("the sentinel knows it", || said(&sentinel, "INFO sentinel").contains("slaves=1"));

    let address = format!("redis+sentinel://127.0.0.1:{nobody},127.0.0.1:{sentinel}/main/0");
    let (instance, other) = (client(&address), client(&address));
    until("the primary is found", || ask(&instance, &demand()).is_ok());
    let store = Stores::Redis(Arc::clone(&instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    store.put(key("x"), Bytes::from_static(b"1"), now());
    until("it is written", || responses(&url).get(&key("x"), now()).is_ok_and(|value| value.is_some()));
    until("it is copied", || said(&replica, "DBSIZE").starts_with(&said(first, "DBSIZE")));

    primary.kill().unwrap();
    until("it is away", || ask(&instance, &demand()).is_err());
    store.put(key("y"), Bytes::from_static(b"2"), now());
    let there = format!("redis://127.0.0.1:{replica}/0");
    for instance in [&instance, &other] {
        until("the replica is the primary", || ask(instance, &demand()).is_ok());
    }
    until("what waited is written", || {
        responses(&there).get(&key("y"), now()).is_ok_and(|value| value.is_some())
    });
    assert_eq!(store.get(&key("x"), now()).unwrap().as_deref(), Some(&b"1"[..]), "it was copied");
}

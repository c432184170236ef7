//! Tests two processes that share a store behind nginx, as described in docs/scaling.md. Skipped if nginx or the
//! store's server is not installed.

#[path = "../support/redis_server.rs"]
mod redis_server;

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::redis_server::{RedisServer, expect_ok, free_port};
use crate::support::{Server, run, toolwire};

/// The time limit for a request. It is longer than any response takes, so it only fails requests that hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn read_request(socket: &mut TcpStream) -> std::io::Result<()> {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = socket.read(&mut piece)?;
        seen.extend_from_slice(piece.get(..count).unwrap_or_default());
        let text = std::str::from_utf8(&seen).unwrap_or_default().to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Ok(());
            }
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// Starts an upstream that answers every request with the same short stream. Returns its address.
pub(super) fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let (text, end) = (chunk(json!({"content": "Hello."}), Value::Null), chunk(json!({}), json!("stop")));
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {text}\n\ndata: {end}\n\ndata: [DONE]\n\n"
    );
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (Ok(mut socket), answer) = (socket, answer.clone()) else { return };
            thread::spawn(move || {
                // The client may already have disconnected.
                let _ = read_request(&mut socket).and_then(|()| socket.write_all(answer.as_bytes()));
            });
        }
    });
    address
}

pub(super) fn post(address: &str, key: &str, body: &Value) -> (u16, Value) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/responses HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all((head + &body).as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Retries the request `next` until an instance can continue its conversation.
fn continued(address: &str, next: &Value) {
    let begun = Instant::now();
    while post(address, "free", next).0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "the conversation is not continued");
        thread::sleep(Duration::from_millis(50));
    }
}

/// An nginx that distributes requests round-robin.
struct Nginx {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Nginx {
    /// Starts nginx, or returns `None` if it is not installed.
    fn start(instances: [&str; 2]) -> Option<Self> {
        let is_there = Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok();
        if !is_there {
            assert!(std::env::var_os("CI").is_none(), "CI needs nginx");
            eprintln!("skipped: there is no nginx on this machine");
            return None;
        }
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let [first, second] = instances;
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {kind};"));
        let temporary = temporary.join(" ");
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log error.log; events {{}}\n\
             http {{ access_log off; {temporary}\n\
             upstream toolwire {{ server {first}; server {second}; }}\n\
             server {{ listen {address}; location / {{ proxy_pass http://toolwire; proxy_buffering off; \
             proxy_next_upstream off; }} }} }}"
        );
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e", "error.log"]);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, address, _folder: folder })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the configuration that both instances use. The store's URL is in the environment.
fn configuration(upstream: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nstore = \"env:STORE_URL\"\nthreads = 1\napi_keys = [\"free\"]\n[limits]\ninstances = 2\n\
         [[keys]]\nname = \"team\"\nkey = \"limited\"\nrequests_per_minute = 10\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
         base_url = \"http://{upstream}/v1\"\n[[models]]\nname = \"m\"\nupstream = \"up\"\n"
    )
}

/// Sends `count` requests on each of four threads, and returns the status of each response.
fn load(address: &str, key: &'static str, count: usize) -> Vec<u16> {
    let body = json!({"model": "m", "input": "hi"});
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (address, body) = (address.to_owned(), body.clone());
            thread::spawn(move || (0..count).map(|_| post(&address, key, &body).0).collect::<Vec<_>>())
        })
        .collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn two_processes_behind_nginx_share_limits_and_conversations_and_survive_the_end_of_the_store() {
    let Some(mut store) = RedisServer::start().unwrap() else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, configuration(&upstream())).unwrap();
    let serve = ["serve", "--config", file.to_str().unwrap()];
    let start = || Server::start(toolwire(&serve).env("STORE_URL", store.url()));
    let (first, second) = (start(), start());
    let Some(nginx) = Nginx::start([&first.address, &second.address]) else { return };

    // The limit is shared by both instances. It admits one more request every six seconds.
    let begun = Instant::now();
    let statuses = load(&nginx.address, "limited", 8);
    let admitted = statuses.iter().filter(|status| **status == 200).count() as u64;
    let back = begun.elapsed().as_secs() / 6 + 1;
    assert!((10..=10 + back).contains(&admitted), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");

    // nginx sends each request of the conversation to the instance that did not serve the previous one.
    let (status, mut last) = post(&nginx.address, "free", &json!({"model": "m", "input": "one"}));
    assert_eq!(status, 200, "{last}");
    for _ in 0..6 {
        let next = json!({"model": "m", "input": "two", "previous_response_id": last["id"]});
        let (status, response) = post(&nginx.address, "free", &next);
        assert_eq!((status, &response["previous_response_id"]), (200, &last["id"]), "{response}");
        last = response;
    }

    // The store is killed under load. Requests that do not need it succeed, the others are refused, and none hangs.
    let address = nginx.address.clone();
    let loading = thread::spawn(move || load(&address, "free", 40));
    thread::sleep(Duration::from_millis(200));
    store.kill().unwrap();
    let next = json!({"model": "m", "input": "three", "previous_response_id": last["id"]});
    let (status, refused) = post(&nginx.address, "free", &next);
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("store_unavailable")), "{refused}");
    let statuses = loading.join().unwrap();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    store.restart().unwrap();
    continued(&first.address, &next);
    continued(&second.address, &next);
    for server in [first, second] {
        let (status, log) = server.stop();
        assert_eq!(status, Some(0));
        assert!(
            log.contains("the store cannot be used") && log.contains("the store can be used again"),
            "{log}"
        );
    }
}

/// Creates a certificate authority and a certificate that it issued for 127.0.0.1. Returns the paths of the
/// authority's certificate, the issued certificate and its key; their file names start with `name`.
fn certificates(folder: &TempDir, name: &str) -> [String; 3] {
    let (authority, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&authority).unwrap().pem();
    let issuer = Issuer::new(params, authority);
    let signed = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    [("authority", own), ("certificate", signed.pem()), ("key", key.serialize_pem())].map(|(what, pem)| {
        let path = folder.path().join(format!("{name}-{what}.pem"));
        fs::write(&path, pem).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

#[test]
fn store_with_tls_shows_a_certificate_of_an_authority_of_ssl_cert_file() {
    shares_a_store_with_tls("rediss", &[], |_| ());
}

/// The servers of the cluster announce their TLS ports to each other.
#[test]
fn cluster_with_tls_shows_certificates_of_an_authority_of_ssl_cert_file() {
    let bus = free_port().unwrap().to_string();
    let options = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus];
    shares_a_store_with_tls("rediss+cluster", &options, |store| {
        expect_ok(store, "CLUSTER ADDSLOTSRANGE 0 16383").unwrap();
        while !store.said("CLUSTER INFO").contains("cluster_state:ok") {
            thread::sleep(Duration::from_millis(50));
        }
    });
}

/// Checks that two instances that trust the store's certificate share the store, and that an instance that does not
/// trust it reports an error.
fn shares_a_store_with_tls(scheme: &str, more: &[&str], prepare: impl FnOnce(&RedisServer)) {
    let folder = TempDir::new().unwrap();
    let [authority, certificate, key] = certificates(&folder, "store");
    let [stranger, ..] = certificates(&folder, "other");
    let port = free_port().unwrap().to_string();
    let tls = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let options = [&tls[..], &["--tls-ca-cert-file", &authority, "--tls-auth-clients", "no"], more].concat();
    let Some(store) = RedisServer::start_with(&options).unwrap() else { return };
    prepare(&store);
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, configuration(&upstream())).unwrap();
    let serve = ["serve", "--config", file.to_str().unwrap()];
    let url = format!("{scheme}://127.0.0.1:{port}/0");
    let start = |authority: &str| {
        Server::start(toolwire(&serve).env("STORE_URL", &url).env("SSL_CERT_FILE", authority))
    };
    let (first, second, other) = (start(&authority), start(&authority), start(&stranger));

    let (status, response) = post(&first.address, "free", &json!({"model": "m", "input": "one"}));
    assert_eq!(status, 200, "{response}");
    let next = json!({"model": "m", "input": "two", "previous_response_id": response["id"]});
    continued(&second.address, &next);
    let (status, refused) = post(&other.address, "free", &next);
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("store_unavailable")), "{refused}");
    let (_, log) = other.stop();
    assert!(log.contains("the store cannot be used") && log.contains("invalid peer certificate"), "{log}");
    for server in [first, second] {
        let (_, log) = server.stop();
        assert!(!log.contains("the store cannot be used"), "{log}");
    }
}

#[test]
fn password_of_the_store_is_not_shown() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, configuration("127.0.0.1:1")).unwrap();
    let check = ["check", "--config", file.to_str().unwrap()];
    let url = "rediss://user:hunter2@redis.example/1";
    let (status, shown, log) = run(toolwire(&check).env("STORE_URL", url));
    assert_eq!(status, 0, "{log}");
    assert!(shown.contains("store = \"rediss://********@redis.example:6379/1\""), "{shown}");
    for wrong in ["redis://:hunter2@", "http://hunter2@h", "redis://u:hunter2@h/x"] {
        let (status, shown, log) = run(toolwire(&check).env("STORE_URL", wrong));
        assert_eq!(status, 2, "{shown}");
        assert!(log.contains("redis://host:6379/0") || log.contains("number of a database"), "{log}");
        assert!(!shown.contains("hunter2") && !log.contains("hunter2"), "{log}");
    }
    assert!(!shown.contains("hunter2") && !log.contains("hunter2"), "{log}");
}

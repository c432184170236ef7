//! Tests `toolwire keys`, and a server that reads the key file.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, ask, run, toolwire};

/// A configuration without keys, and a state folder beside it.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate_dir = {:?}\n[[upstreams]]\nname = \"up\"\ndialect = \"messages\"\n\
             base_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"qwen3\"\n[[models]]\nname = \"other\"\n[admin]\n",
            desk.0.path().join("state")
        );
        fs::write(desk.config(), text).unwrap();
        desk
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("toolwire.toml")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("state/keys.toml")
    }

    fn keys(&self, arguments: &[&str]) -> (i32, String, String) {
        run(toolwire(&[&["keys"], arguments].concat()).arg("--config").arg(self.config()))
    }

    fn list(&self) -> Value {
        let (status, stdout, stderr) = self.keys(&["list", "--json"]);
        assert_eq!(status, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    fn add(&self, arguments: &[&str]) -> String {
        let (status, stdout, stderr) = self.keys(&[&["add"], arguments].concat());
        assert_eq!(status, 0, "{stderr}");
        stdout.trim_end().to_owned()
    }
}

fn status(server: &Server, path: &str, key: &str) -> String {
    let (head, _) = ask(server, path, &format!("authorization: Bearer {key}\r\n"), "");
    head.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn made_keys_are_listed_and_revoked_and_stand_nowhere() {
    let desk = Desk::new();
    assert_eq!(desk.list(), json!([]));
    let first =
        desk.add(&["team-a", "--models", "qwen*", "--requests-per-minute", "60", "--expires", "2999-01-31"]);
    let second = desk.add(&["team-a"]);
    let other: Value = serde_json::from_str(&desk.add(&["other", "--json"])).unwrap();
    assert_ne!(first, second);
    let listed = desk.list();
    let id = first.split('_').nth(1).unwrap();
    assert_eq!(listed[0]["id"], id);
    for (at, name, models, limit) in [
        (0, "team-a", json!(["qwen*"]), json!(60)),
        (1, "team-a", json!(["qwen*"]), json!(60)),
        (2, "other", json!([]), json!(null)),
    ] {
        let own = &listed[at];
        assert_eq!(
            (&own["name"], &own["models"], &own["requests_per_minute"]),
            (&json!(name), &models, &limit)
        );
        assert_eq!(own["state"], "valid");
    }
    assert_eq!(listed[0]["expires"], "2999-01-31T00:00:00Z");
    assert_eq!((&listed[1]["expires"], &other["id"]), (&json!(null), &listed[2]["id"]));

    let (_, text, _) = desk.keys(&["list"]);
    let file = fs::read_to_string(desk.file()).unwrap();
    for key in [first.as_str(), second.as_str(), other["key"].as_str().unwrap()] {
        let secret = key.rsplit('_').next().unwrap();
        assert!(!file.contains(secret) && !text.contains(secret));
    }
    assert!(
        text.starts_with(&format!(
            "team-a  {id}  valid    models qwen*, 60 requests/min, expires 2999-01-31T00:00:00Z\n"
        )),
        "{text}"
    );
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(desk.file()).unwrap().permissions()) & 0o777,
        0o600
    );

    assert_eq!(desk.keys(&["revoke", id]).1, format!("revoked {id} of `team-a`\n"));
    assert_eq!(desk.keys(&["revoke", id]).0, 1, "it is revoked already");
    assert_eq!(desk.keys(&["revoke", "team-a"]).0, 0);
    let states: Vec<_> = desk.list().as_array().unwrap().iter().map(|key| key["state"].clone()).collect();
    assert_eq!(states, ["revoked", "revoked", "valid"]);
}

#[test]
fn limits_given_for_a_name_hold_for_all_of_its_keys() {
    let desk = Desk::new();
    desk.add(&["team-a", "--streams", "1"]);
    let (_, _, stderr) = desk.keys(&["add", "team-a", "--streams", "2"]);
    assert!(stderr.contains("for all keys of `team-a`"), "{stderr}");
    let listed = desk.list();
    assert_eq!((&listed[0]["streams"], &listed[1]["streams"]), (&json!(2), &json!(2)));
}

#[test]
fn wrong_arguments_change_nothing() {
    let desk = Desk::new();
    for wrong in [
        &["add", "team a"][..],
        &["add", "team\r\nkey=other"],
        &["add", ""],
        &["add", "a", "--expires", "2001-01-01"],
        &["add", "a", "--expires", "tomorrow"],
        &["add", "a", "--streams", "0"],
        &["add"],
    ] {
        let (status, stdout, stderr) = desk.keys(wrong);
        assert_eq!((status, stdout.as_str()), (2, ""), "{wrong:?}: {stderr}");
    }
    assert!(!desk.file().exists());
    let (status, _, stderr) = desk.keys(&["revoke", "nobody"]);
    assert!(status == 1 && stderr.contains("no valid key has this name or id"), "{stderr}");
}

#[test]
fn many_commands_at_once_lose_no_key() {
    let desk = Desk::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| desk.add(&["team-a"]));
        }
    });
    assert_eq!(desk.list().as_array().unwrap().len(), 8);
}

#[test]
fn server_reads_the_keys_and_shows_what_was_used() {
    let desk = Desk::new();
    let key = desk.add(&["team-a", "--models", "QWEN*"]);
    let mut serve = toolwire(&["serve", "--config"]);
    let server = Server::start(serve.arg(desk.config()));
    assert_eq!(status(&server, "/v1/models", &key), "200");
    assert_eq!(status(&server, "/v1/models/qwen3", &key), "200");
    assert_eq!(status(&server, "/v1/models/other", &key), "403");
    assert_eq!(status(&server, "/v1/models", key.trim_end_matches(char::is_alphanumeric)), "401");
    let count = r#"{"model":"qwen3","messages":[{"role":"user","content":"hi"}]}"#;
    let (head, _) = ask(&server, "/v1/messages/count_tokens", &format!("x-api-key: {key}\r\n"), count);
    assert!(head.starts_with("http/1.1 200") || head.starts_with("http/1.0 200"), "{head}");
    let url = format!("http://{}", server.address);
    let (code, stdout, stderr) = run(&mut toolwire(&["keys", "usage", "--server", &url]));
    assert_eq!((code, stdout.as_str()), (0, "team-a  1 requests, 0 tokens (0 in, 0 out)\n"), "{stderr}");
    assert_eq!(desk.keys(&["revoke", "team-a"]).0, 0);
    let is_refused = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        status(&server, "/v1/models", &key) == "401"
    });
    assert!(is_refused, "the server does not notice");
    let (_, rest) = server.stop();
    assert!(rest.contains("key=\"team-a\"") || rest.contains("key=team-a"), "{rest}");
    assert!(!rest.contains(key.rsplit('_').next().unwrap()));
    let (code, _, stderr) = run(&mut toolwire(&["keys", "usage", "--server", &url]));
    assert!(code == 1 && stderr.contains("[admin]"), "{stderr}");
}

#[test]
fn mistake_in_the_file_is_reported_with_its_place() {
    let desk = Desk::new();
    desk.add(&["team-a"]);
    let text = fs::read_to_string(desk.file()).unwrap();
    for (wrong, why) in [
        (text.replace("team-a", "team a"), "letters, digits"),
        (text.replace("sha256:", "md5:"), "64 hexadecimal digits"),
        (text.clone() + &text.replace("# ", "# again "), "has the same key"),
        (text.replace("id = ", "identity = "), "missing key `id`"),
        ("[[keys]".to_owned(), "keys.toml:1:"),
    ] {
        fs::write(desk.file(), &wrong).unwrap();
        for command in ["check", "serve"] {
            let (status, _, stderr) = run(toolwire(&[command, "--config"]).arg(desk.config()));
            assert!(
                status == 2 && stderr.contains("keys.toml:") && stderr.contains(why),
                "{command}: {stderr}"
            );
        }
        let (status, _, stderr) = desk.keys(&["add", "team-b"]);
        assert!(status == 1 && stderr.contains(why), "{stderr}");
        assert_eq!(fs::read_to_string(desk.file()).unwrap(), wrong, "a file with mistakes is not replaced");
    }
}

#[test]
fn keys_of_the_configuration_are_checked_and_masked() {
    let desk = Desk::new();
    let text = fs::read_to_string(desk.config()).unwrap();
    let hash = format!("sha256:{}", "0f".repeat(32));
    let check = |entries: &str| {
        fs::write(desk.config(), format!("{text}{entries}")).unwrap();
        run(toolwire(&["check", "--config"]).arg(desk.config()))
    };
    let good =
        format!("[[keys]]\nname = \"a\"\nhash = \"{hash}\"\nmodels = [\"qwen*\"]\nexpires = 2027-01-31\n");
    let (status, stdout, stderr) = check(&good);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(!stdout.contains("0f0f") && stdout.contains("expires = \"2027-01-31T00:00:00Z\""), "{stdout}");
    for (entries, why) in [
        ("[[keys]]\nname = \"a\"", "neither `key` nor `hash`"),
        ("[[keys]]\nname = \"a\"\nkey = \"k\"\nhash = \"HASH\"", "both `key` and `hash`"),
        ("[[keys]]\nhash = \"HASH\"", "missing key `name`"),
        ("[[keys]]\nname = \"a\"\nhash = \"HASH\"\nmodels = []", "could use no model"),
        ("[[keys]]\nname = \"a\"\nhash = \"HASH\"\nstreams = 0", "at least 1"),
        ("[[keys]]\nname = \"a\"\nhash = \"HASH\"\nexpires = \"soon\"", "expected a date"),
        ("[[keys]]\nname = \"a\"\nhash = \"HASH\"\nexpires = 2027-01-31T12:00:00", "expected a date"),
        ("[[keys]]\nname = \"a\\r\\nb\"\nhash = \"HASH\"", "letters, digits"),
        ("[[keys]]\nname = \"a\"\nhash = \"HASH\"\nrequest_per_minute = 1", "`requests_per_minute`"),
        (
            "[[keys]]\nname = \"a\"\nhash = \"HASH\"\n[[keys]]\nname = \"b\"\nhash = \"HASH\"",
            "has the same key",
        ),
        (
            "[[keys]]\nname = \"a\"\nhash = \"HASH\"\nstreams = 1\n[[keys]]\nname = \"a\"\nkey = \"k\"\nstreams = 2",
            "belong to the name",
        ),
    ] {
        let (status, _, stderr) = check(&entries.replace("HASH", &hash));
        assert!(status == 2 && stderr.contains(why), "{entries}: {stderr}");
        assert!(!stderr.contains("0f0f"), "{stderr}");
    }
}

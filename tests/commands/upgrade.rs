//! Tests that this version reads state written by older versions. The state is in `fixtures/upgrade`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, ask, run, toolwire};

/// The subfolders of `fixtures/upgrade`, each named after a commit.
const VERSIONS: &[&str] = &["93faecc2"];

struct Copy {
    folder: TempDir,
    facts: Value,
}

impl Copy {
    fn of(version: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upgrade").join(version);
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        for entry in fs::read_dir(from.join("state")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), state.join(entry.file_name())).unwrap();
        }
        let text = fs::read_to_string(from.join("toolwire.toml")).unwrap();
        let text = text.replace("state_dir = \"state\"", &format!("state_dir = {state:?}"));
        fs::write(folder.path().join("toolwire.toml"), text).unwrap();
        let facts = serde_json::from_slice(&fs::read(from.join("facts.json")).unwrap()).unwrap();
        Self { folder, facts }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("toolwire.toml")
    }

    fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap()
    }

    fn server(&self) -> Server {
        Server::start(toolwire(&["serve", "--config"]).arg(self.config()))
    }

    /// Sends a GET with the key that `facts.json` stores under `key`. Returns the status and the body.
    fn get(&self, server: &Server, path: &str, key: &str) -> (String, Value) {
        let (head, body) = ask(server, path, &format!("authorization: Bearer {}\r\n", self.fact(key)), "");
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_slice(&body).unwrap())
    }

    /// Returns the state files that the program has set aside as damaged or unreadable.
    fn put_aside(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path().join("state")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with("damaged") || name.ends_with("unreadable")).collect()
    }
}

#[test]
fn state_of_older_versions_is_read() {
    for version in VERSIONS {
        let copy = Copy::of(version);
        let (status, stdout, stderr) =
            run(toolwire(&["keys", "list", "--json", "--config"]).arg(copy.config()));
        assert_eq!(status, 0, "{stderr}");
        let keys: Value = serde_json::from_str(&stdout).unwrap();
        assert!(keys.as_array().unwrap().iter().any(|key| key["name"] == "made"), "{version}: {keys}");

        // The second round reads the files that this version has written.
        for _ in 0..2 {
            let server = copy.server();
            let response = format!("/v1/responses/{}", copy.fact("response"));
            let (status, stored) = copy.get(&server, &response, "client_key");
            assert_eq!(status, "200", "{version}: {stored}");
            assert_eq!(stored["output"][0]["content"][0]["text"], copy.facts["text"], "{version}");
            assert_eq!(copy.get(&server, &response, "made_key").0, "404", "the response of another client");
            assert_eq!(copy.get(&server, "/v1/models", "made_key").0, "200");

            let (_, permissions) = copy.get(&server, "/admin/permissions", "admin_key");
            let rule = &permissions["rules"][0];
            assert_eq!(
                (&rule["tool"], &rule["granted"]),
                (&json!("lookup"), &json!(true)),
                "{version}: {permissions}"
            );
            let (_, settings) = copy.get(&server, "/admin/settings", "admin_key");
            let settings = settings["settings"].as_array().unwrap();
            let saved = settings.iter().find(|setting| setting["path"] == "execution.max_calls").unwrap();
            assert_eq!((&saved["value"], &saved["source"]), (&json!(3), &json!("overlay")), "{version}");
            server.stop();
        }
        assert_eq!(copy.put_aside(), Vec::<String>::new(), "{version}");
    }
}

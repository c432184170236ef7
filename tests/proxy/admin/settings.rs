//! Tests settings that are saved through the admin API and take effect immediately.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{Ask, KEY, WITH_KEY, event};
use crate::support::{
    proxy::Proxy,
    upstream::{Upstream, at_once},
};

const STAGE: &str = r#"
[execution]
max_calls = 7
[[providers]]
name = "serper"
kind = "serper"
api_key = "key-in-the-file"
max_results = 4
[[providers]]
name = "a.b"
kind = "command"
command = ["cat"]
parameters = { type = "object", properties = { x = { type = "string" } } }
[[providers]]
name = "draw"
kind = "images"
engine = "openai"
model = "painter"
api_key = "key-of-the-painter"
[[tools]]
name = "scrape"
label = "Reads"
permission = "ask"
"#;

/// Starts a proxy whose configuration and state are in `folder`.
async fn start(folder: &Path) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let (file, state, address) =
        (folder.join("toolwire.toml"), folder.display().to_string(), upstream.address);
    let served = format!(
        "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{address}/v1\"\n[[models]]\nname = \"m\"\n"
    );
    let top = format!("listen = \"127.0.0.1:0\"\nthreads = 1\nstate_dir = {state:?}\n");
    fs::write(&file, format!("{top}{STAGE}{WITH_KEY}{served}")).unwrap();
    (upstream, Proxy::of_file(&file))
}

async fn patch(proxy: &Proxy, body: &Value) -> (u16, Value) {
    Ask::new(proxy, "PATCH", "/admin/settings").key(KEY).json(body).answer().await
}

async fn delete(proxy: &Proxy, path: &str) -> (u16, Value) {
    Ask::new(proxy, "DELETE", path).key(KEY).answer().await
}

/// Returns the setting at `path`, and the entity tag of all settings.
async fn setting(proxy: &Proxy, path: &str) -> (Value, String) {
    let reply = Ask::new(proxy, "GET", "/admin/settings").key(KEY).send().await;
    let tag = reply.header("etag").unwrap().to_owned();
    let list = reply.json().await;
    let found = list["settings"].as_array().unwrap().iter().find(|setting| setting["path"] == path);
    (found.cloned().unwrap_or_default(), tag)
}

fn saved(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("settings.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn saved_setting_survives_a_restart_and_can_be_reset() {
    let folder = TempDir::new().unwrap();
    let path = "providers.serper.max_results";
    let (_upstream, proxy) = start(folder.path()).await;
    let before = setting(&proxy, path).await.0;
    assert_eq!((&before["value"], &before["source"]), (&json!(4), &json!("file")));
    assert_eq!((&before["default"], &before["min"], &before["max"]), (&json!(5), &json!(1), &json!(20)));

    let (status, said) = patch(&proxy, &json!({path: 8, "execution": {"deadline": "90s"}})).await;
    assert_eq!((status, &said["restart_required"]), (200, &json!(false)), "{said}");
    for proxy in [&proxy, &start(folder.path()).await.1] {
        let after = setting(proxy, path).await.0;
        assert_eq!((&after["value"], &after["source"]), (&json!(8), &json!("overlay")), "{after}");
        assert_eq!(after["file_value"], 4);
        assert!(after["where"].as_str().unwrap().contains(':'), "the line in the file: {after}");
        let deadline = setting(proxy, "execution.deadline").await.0;
        assert_eq!((&deadline["value"], &deadline["source"]), (&json!("90s"), &json!("overlay")));
        assert_eq!(deadline.get("file_value"), None);
    }
    assert_eq!(setting(&proxy, path).await.0.get("restart_required"), None);
    let mode = fs::metadata(folder.path().join("settings.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (_upstream, again) = start(folder.path()).await;
    assert_eq!(setting(&again, path).await.0.get("restart_required"), None);
    assert_eq!(delete(&again, &format!("/admin/settings/{path}")).await.0, 200);
    let (reset, _) = setting(&again, path).await;
    assert_eq!((&reset["value"], &reset["source"]), (&json!(4), &json!("file")));
    assert_eq!(reset.get("restart_required"), None);
    assert_eq!(delete(&again, &format!("/admin/settings/{path}")).await.0, 404);
    assert_eq!(delete(&again, "/admin/settings").await.0, 200);
    assert_eq!(saved(folder.path()), json!({}));
}

#[tokio::test]
async fn patch_takes_paths_parts_and_null() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let body = json!({
        "providers": {"serper": {"timeout": "10s", "denied_domains": ["bad.example"]}, "\"a.b\"": {"timeout": "5s"}},
        "providers.\"a.b\".max_running": 2,
        "tools.web_search.description": "Looks things up.",
        "providers.draw.request.quality": "low",
    });
    let (status, said) = patch(&proxy, &body).await;
    assert_eq!(status, 200, "{said}");
    let expected = json!({
        "providers.\"a.b\".max_running": 2,
        "providers.\"a.b\".timeout": "5s",
        "providers.draw.request.quality": "low",
        "providers.serper.denied_domains": ["bad.example"],
        "providers.serper.timeout": "10s",
        "tools.web_search.description": "Looks things up.",
    });
    assert_eq!(saved(folder.path()), expected);
    let (_upstream, again) = start(folder.path()).await;
    assert_eq!(setting(&again, "tools.web_search.description").await.0["value"], "Looks things up.");
    let request = setting(&again, "providers.draw.request").await.0;
    assert_eq!((&request["value"], &request["source"]), (&json!({"quality": "low"}), &json!("overlay")));

    let (status, said) = patch(&again, &json!({"providers.serper": {"timeout": null}, "tools": null})).await;
    assert_eq!((status, &said["restart_required"]), (200, &json!(false)));
    let changed: Vec<_> =
        said["settings"].as_array().unwrap().iter().map(|setting| &setting["path"]).collect();
    assert_eq!(changed, ["providers.serper.timeout", "tools.web_search.description"]);
    assert_eq!(saved(folder.path()).as_object().unwrap().len(), 4);
    assert_eq!(delete(&again, "/admin/settings/providers.%22a.b%22").await.0, 200);
    assert_eq!(saved(folder.path()).as_object().unwrap().len(), 2);
    assert_eq!(patch(&again, &json!({})).await.0, 200, "nothing changes");
}

#[tokio::test]
async fn settings_say_what_they_do_and_which_words_they_take() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let list = Ask::new(&proxy, "GET", "/admin/settings").key(KEY).send().await.json().await;
    let settings = list["settings"].as_array().unwrap();
    for own in settings {
        let about = own["about"].as_str().unwrap_or_else(|| panic!("no sentence: {own}"));
        assert!(!about.trim().is_empty(), "{own}");
    }
    for (path, words) in [
        ("execution.clash", json!(["client_wins", "server_wins", "prefix"])),
        ("execution.permission", json!(["allow", "ask", "deny"])),
        ("tools.scrape.permission", json!(["allow", "ask", "deny"])),
        ("providers.draw.engine", json!(["gemini", "openai", "predict"])),
        ("providers.serper.timeout", Value::Null),
    ] {
        let own = setting(&proxy, path).await.0;
        assert_eq!(own["words"], words, "{path}");
        for word in words.as_array().into_iter().flatten() {
            let (status, said) = patch(&proxy, &json!({path: word})).await;
            assert_eq!(status, 200, "{path} {word}: {said}");
        }
    }
    let name = setting(&proxy, "providers.serper.name").await.0;
    assert_eq!((&name["value"], name.get("default")), (&json!("serper"), None), "nobody invents a name");
}

#[tokio::test]
async fn json_schema_is_one_setting_that_is_replaced_as_a_whole() {
    let folder = TempDir::new().unwrap();
    let path = "providers.\"a.b\".parameters";
    let (_upstream, proxy) = start(folder.path()).await;
    let (before, _) = setting(&proxy, path).await;
    let of = |name: &str| json!({"type": "object", "properties": {name: {"type": "string", "maxLength": 9}}});
    let in_file = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    assert_eq!((&before["value"], &before["source"]), (&in_file, &json!("file")));
    assert!(before["where"].as_str().unwrap().contains("toolwire.toml:"), "{before}");
    for (body, name) in
        [(json!({path: of("y")}), "y"), (json!({"providers": {"\"a.b\"": {"parameters": of("z")}}}), "z")]
    {
        let (status, said) = patch(&proxy, &body).await;
        assert_eq!((status, &said["settings"][0]["path"]), (200, &json!(path)), "{said}");
        let (after, _) = setting(&proxy, path).await;
        assert_eq!((&after["value"], &after["source"]), (&of(name), &json!("overlay")), "{after}");
        assert_eq!(after["file_value"], in_file);
    }
    let (status, said) = patch(&proxy, &json!({path: "no table"})).await;
    assert_eq!((status, &said["error"]["problems"][0]["path"]), (422, &json!(path)), "{said}");
    let (status, said) = patch(&proxy, &json!({path: {"type": "object", "default": null}})).await;
    assert_eq!((status, &said["error"]["problems"][0]["path"]), (422, &json!(path)), "{said}");
    assert_eq!(setting(&proxy, path).await.0["value"], of("z"), "a refused change changes nothing");
    assert_eq!(patch(&proxy, &json!({path: null})).await.0, 200);
    assert_eq!(setting(&proxy, path).await.0["value"], in_file);
}

#[tokio::test]
async fn invalid_settings_are_refused_with_their_paths_and_nothing_is_saved() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let deep = (0..100).fold(json!(1), |value, _| json!({"a": value}));
    let many: Map<_, _> = (0..5000).map(|n| (format!("execution.k{n}"), json!(n))).collect();
    for (body, path) in [
        (json!({"providers.serper.max_results": 21}), "providers.serper.max_results"),
        (json!({"providers.serper.max_results": 0}), "providers.serper.max_results"),
        (json!({"providers.serper.max_results": "8"}), "providers.serper.max_results"),
        (json!({"providers.serper.max_results": 8.5}), "providers.serper.max_results"),
        (json!({"providers.serper.max_results": u64::MAX}), "providers.serper.max_results"),
        (json!({"providers.serper.timeout": "4s"}), "providers.serper.timeout"),
        (json!({"providers.serper.max_resluts": 8}), "providers.serper.max_resluts"),
        (json!({"providers.serper.max_results.x": 8}), "providers.serper.max_results.x"),
        (json!({"providers.serper.extra_tools": ["video_search"]}), "providers.serper.extra_tools"),
        (json!({"providers.serper.extra_tools": [null]}), "providers.serper.extra_tools"),
        (json!({"providers.sperer.max_results": 8}), "providers.sperer.max_results"),
        (json!({"execution.visibility": "loud"}), "execution.visibility"),
        (json!({"providers": 5}), "providers"),
        (json!({"execution": [1]}), "execution"),
        (json!({"": 5}), ""),
        (json!({"execution..x": 5}), "execution..x"),
        (json!({"execution.visibility": "x".repeat(900_000)}), "execution.visibility"),
        (deep, ""),
        (Value::Object(many), ""),
    ] {
        let (status, error) = patch(&proxy, &body).await;
        assert_eq!((status, &error["error"]["code"]), (422, &json!("invalid_settings")), "{error}");
        let problem = &error["error"]["problems"][0];
        assert!(path.is_empty() || problem["path"] == path, "{problem}");
        assert!(problem["message"].as_str().is_some_and(|message| !message.is_empty()), "{problem}");
        assert!(problem["nearest"].is_array());
        assert!(error.to_string().len() < 50_000);
    }
    let (_, error) = patch(&proxy, &json!({"providers.sperer.max_results": 8})).await;
    assert_eq!(error["error"]["problems"][0]["nearest"][0], "providers.serper.max_results");
    // One invalid value among valid ones: nothing is saved.
    assert_eq!(patch(&proxy, &json!({"execution": {"max_calls": 3, "max_rounds": 99}})).await.0, 422);
    assert_eq!(patch(&proxy, &json!([1])).await.0, 400);
    assert!(!folder.path().join("settings.json").exists());
    assert_eq!(setting(&proxy, "execution.max_calls").await.0["value"], 7);
}

#[tokio::test]
async fn saved_settings_are_bounded_together() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let description = |tool: &str, length| json!({format!("tools.{tool}.description"): "x".repeat(length)});
    assert_eq!(patch(&proxy, &description("web_search", 1_000_000)).await.0, 200);
    let (status, error) = patch(&proxy, &description("scrape", 100_000)).await;
    assert_eq!((status, &error["error"]["code"]), (422, &json!("invalid_settings")));
    assert_eq!(saved(folder.path()).as_object().unwrap().len(), 1);
    // A restarted proxy reads the saved settings.
    start(folder.path()).await;
}

#[tokio::test]
async fn dangerous_settings_are_only_set_in_the_file() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let command = "providers.\"a.b\"";
    for (path, value) in [
        (format!("{command}.command"), json!(["sh", "-c", "id"])),
        (format!("{command}.env.LD_PRELOAD"), json!("/tmp/x.so")),
        (format!("{command}.environment"), json!(["AWS_SECRET"])),
        (format!("{command}.working_dir"), json!("/")),
        (format!("{command}.kind"), json!("serper")),
        (format!("{command}.name"), json!("other")),
        ("tools.scrape.name".to_owned(), json!("other")),
        ("providers.serper.base_url".to_owned(), json!("http://evil.example")),
        ("providers.serper.scrape_url".to_owned(), json!("http://evil.example")),
        ("providers.draw.allow_private".to_owned(), json!(true)),
        ("execution.audit".to_owned(), json!("/etc/cron.d/x")),
        ("execution.image_dir".to_owned(), json!("/etc")),
        ("execution.public_url".to_owned(), json!("http://evil.example")),
        ("admin.api_keys".to_owned(), json!(["mine"])),
        ("admin.hosts".to_owned(), json!(["evil.example"])),
        ("state_dir".to_owned(), json!("/tmp")),
        ("listen".to_owned(), json!("0.0.0.0:80")),
        ("api_keys".to_owned(), json!([])),
        ("upstreams.up.base_url".to_owned(), json!("http://evil.example")),
        ("limits.max_body".to_owned(), json!("1GiB")),
        ("permissions".to_owned(), json!([{"permission": "allow"}])),
        ("providers.serper.api_key".to_owned(), json!("env:HOME")),
        ("providers.serper.api_key".to_owned(), json!("file:/etc/hostname")),
    ] {
        let (status, error) = patch(&proxy, &json!({path.as_str(): value})).await;
        assert_eq!(status, 422, "{path}: {error}");
        assert_eq!(error["error"]["problems"][0]["path"], path, "{error}");
        let message = error["error"]["problems"][0]["message"].as_str().unwrap();
        assert!(message.contains("configuration file"), "{path}: {message}");
    }
    assert!(!folder.path().join("settings.json").exists());
    for (path, settable) in [("listen", json!(false)), ("providers.serper.max_results", Value::Null)] {
        assert_eq!(setting(&proxy, path).await.0["settable"], settable, "{path}");
    }
}

#[tokio::test]
async fn secret_is_saved_and_never_shown() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let (status, said) = patch(&proxy, &json!({"providers.serper.api_key": "key-over-the-api"})).await;
    assert_eq!(status, 200);
    let shown = setting(&proxy, "providers.serper.api_key").await.0;
    assert_eq!((&shown["set"], &shown["source"]), (&json!(true), &json!("overlay")));
    let (_, error) = patch(&proxy, &json!({"providers.serper.api_key": "line\nkey-over-the-api"})).await;
    for text in [&said, &shown, &error] {
        for secret in ["key-over-the-api", "key-in-the-file"] {
            assert!(!text.to_string().contains(secret), "{text}");
        }
    }
    assert_eq!(saved(folder.path())["providers.serper.api_key"], "key-over-the-api");
}

#[tokio::test]
async fn change_needs_the_tag_of_what_it_replaces() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let old = setting(&proxy, "listen").await.1;
    let change = |condition: &str, calls: usize| {
        let ask = Ask::new(&proxy, "PATCH", "/admin/settings").key(KEY).header("if-match", condition);
        ask.json(&json!({"execution.max_calls": calls})).send()
    };
    let first = change(&old, 1).await;
    assert_eq!(first.status(), 200);
    let new = first.header("etag").unwrap().to_owned();
    assert_eq!(setting(&proxy, "listen").await.1, new);
    for (condition, status) in [
        (old.as_str(), 412),
        (&format!("W/{new}"), 412),
        ("\"\"", 412),
        ("nonsense", 412),
        (&format!("{old}, {new}"), 200),
        ("*", 200),
    ] {
        assert_eq!(change(condition, 1).await.status(), status, "{condition}");
    }
    let stale = Ask::new(&proxy, "DELETE", "/admin/settings").key(KEY).header("if-match", &old);
    let (status, error) = stale.answer().await;
    assert_eq!((status, &error["error"]["code"]), (412, &json!("changed")));

    let tag = setting(&proxy, "listen").await.1;
    let (one, other) = tokio::join!(change(&tag, 2), change(&tag, 3));
    let mut both = [one.status().as_u16(), other.status().as_u16()];
    both.sort_unstable();
    assert_eq!(both, [200, 412], "of two at once, one is first");
}

#[tokio::test]
async fn what_cannot_be_written_is_not_said_to_be_saved() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    fs::create_dir_all(folder.path().join("settings.json/x")).unwrap();
    let (status, error) = patch(&proxy, &json!({"execution.max_calls": 3})).await;
    assert_eq!((status, &error["error"]["code"]), (500, &json!("not_saved")));
    assert_eq!(setting(&proxy, "execution.max_calls").await.0["value"], 7);

    // A symbolic link at the temporary file's path must be replaced, not followed.
    let (other, target) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let victim = target.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let (_upstream, proxy) = start(other.path()).await;
    std::os::unix::fs::symlink(&victim, other.path().join("settings.json.new")).unwrap();
    assert_eq!(patch(&proxy, &json!({"execution.max_calls": 3})).await.0, 200);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

#[tokio::test]
async fn without_a_folder_nothing_can_be_saved() {
    let (_upstream, proxy) = super::proxy(&format!("{STAGE}{WITH_KEY}")).await;
    let (status, error) = patch(&proxy, &json!({"execution.max_calls": 3})).await;
    assert_eq!((status, &error["error"]["code"]), (409, &json!("no_state_dir")));
}

#[tokio::test]
async fn feed_tells_of_changes() {
    let folder = TempDir::new().unwrap();
    let (_upstream, proxy) = start(folder.path()).await;
    let mut feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    assert_eq!(patch(&proxy, &json!({"execution.max_calls": 3})).await.0, 200);
    let told = event(&mut feed, "config_loaded").await;
    assert!(told.contains("\"ok\":true"), "{told}");
}

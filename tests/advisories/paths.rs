//! Tests names of files that lead out of a folder.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use toolwire::config::Passthrough;

use crate::{
    clients::{ADMIN, answer_as, ask, bearer},
    hosted::result_of,
    support::{
        client::{Client, chat_request},
        proxy::{Proxy, Setup},
        upstream::{Upstream, at_once},
    },
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nabc";

/// A tool that returns an image, which is kept in `images` in this folder. Also returns that folder.
fn tool(folder: &Path, names: Value) -> (PathBuf, String) {
    let images = folder.join("images");
    let mut part = json!({"type": "image", "data": BASE64_STANDARD.encode(PNG), "mimeType": "image/png"});
    part.as_object_mut().unwrap().extend(names.as_object().cloned().unwrap_or_default());
    let answer = json!({"content": [part]});
    let tables = format!(
        "image_dir = {:?}\n[[providers]]\nname = \"look\"\nkind = \"command\"\ncommand = [\"echo\", '{answer}']\n",
        images.display().to_string()
    );
    (images, tables)
}

/// Lets the tool run. Returns the name of the image that it leaves.
async fn kept(images: &Path, tables: &str) -> String {
    let result = result_of(tables, "hi", "look", "{}").await;
    assert!(result.contains("/api/images/"), "{result}");
    let files: Vec<_> = fs::read_dir(images).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let [name] = &files[..] else { panic!("{files:?}") };
    name.to_str().unwrap().to_owned()
}

async fn serving(tables: &str) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: format!("[execution]\n{tables}"), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    (upstream, proxy)
}

/// CVE-2026-34070 (LangChain), CVE-2025-53110 (filesystem MCP server): a path led out of the folder by `..`, or to a
/// folder whose name begins in the same way.
#[tokio::test]
async fn name_of_an_image_does_not_lead_out_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (images, tables) = tool(folder.path(), Value::Null);
    let name = kept(&images, &tables).await;
    fs::create_dir(folder.path().join("images-of-others")).unwrap();
    for secret in ["secret.png", &name, "images-of-others/secret.png"] {
        fs::write(folder.path().join(secret), "the secret").unwrap();
    }
    let (_upstream, proxy) = serving(&tables).await;
    let own = format!("/api/images/{name}");
    assert_eq!(Client::new().get(&proxy, &own).await.bytes().await, PNG);
    for name in [
        "../secret.png".to_owned(),
        format!("../{name}"),
        format!("..%2f{name}"),
        format!("%2e%2e%2f{name}"),
        format!("..%5c{name}"),
        format!("....//{name}"),
        "../images-of-others/secret.png".to_owned(),
        "..%2fimages-of-others%2fsecret.png".to_owned(),
        folder.path().join("secret.png").display().to_string(),
        format!("{name}%00.png"),
        format!("{name}/../../secret.png"),
        String::new(),
        ".".to_owned(),
    ] {
        let response = ask(&proxy, ("GET", &format!("/api/images/{name}")), ("localhost", ""), "").await;
        assert!((400..500).contains(&response.status), "{name}: {}", response.status);
        assert!(!response.body.contains("the secret"), "{name}");
    }
}

/// CVE-2025-53109 (filesystem MCP server), CVE-2026-27905 (BentoML): a link inside of the folder led out of it.
#[tokio::test]
async fn link_among_the_images_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (images, tables) = tool(folder.path(), Value::Null);
    let name = kept(&images, &tables).await;
    let (stem, _) = name.rsplit_once('_').unwrap();
    let names = [format!("{stem}_{:032x}.png", 1), format!("{stem}_{:032x}.png", 2), name];
    fs::write(folder.path().join("secret"), PNG).unwrap();
    symlink(folder.path().join("secret"), images.join(&names[0])).unwrap();
    symlink("../secret", images.join(&names[1])).unwrap();
    let (_upstream, proxy) = serving(&tables).await;
    for (name, status) in names.iter().zip([404, 404, 200]) {
        assert_eq!(
            Client::new().get(&proxy, &format!("/api/images/{name}")).await.status(),
            status,
            "{name}"
        );
    }
}

/// CVE-2026-27825 (mcp-atlassian): the name of an attachment decided where its file was written.
#[tokio::test]
async fn name_of_a_file_in_a_result_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let evil = folder.path().join("evil.png");
    let names = json!({"name": "../evil.png", "filename": evil, "path": evil, "uri": "file:///../evil.png"});
    let (images, tables) = tool(folder.path(), names);
    let name = kept(&images, &tables).await;
    assert!(!evil.exists());
    let (_, random) = name.strip_suffix(".png").unwrap().rsplit_once('_').unwrap();
    assert!(random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
}

/// CVE-2026-27905 (BentoML): an archive had entries that led out of the folder where it was unpacked.
#[tokio::test]
async fn archive_of_an_exchange_has_plain_names() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.wildcard = true;
    setup.execution = "[admin]\napi_keys = [\"key-of-the-admin-1\"]\ncapture = \"redacted\"\n".to_owned();
    let proxy = setup.start().await;
    let tool =
        json!({"type": "function", "function": {"name": "x", "description": "../../evil", "parameters": {}}});
    let body = json!({"model": "evil/evil", "user": "/etc/evil", "messages": [{"role": "user", "content": "../x"}],
        "tools": [tool]});
    let status = Client::new().send(chat_request(&proxy, body.to_string())).await.unwrap().status();
    assert_eq!(status, 200);
    let (_, list) = answer_as(&proxy, ADMIN, ("GET", "/admin/exchanges"), &Value::Null).await;
    let path = format!("/admin/exchanges/{}/fixture", list["exchanges"][0]["id"].as_str().unwrap());
    let response = ask(&proxy, ("GET", &path), ("localhost", &bearer(ADMIN)), "").await;
    assert_eq!(response.status, 200, "{}", response.body);
    // A header of 512 bytes has the name in its first 100 bytes, the size in octal digits, and the kind of the entry.
    let (bytes, mut at, mut names) = (response.body.as_bytes(), 0, Vec::new());
    while bytes.get(at).is_some_and(|byte| *byte != 0) {
        let text = |range: std::ops::Range<usize>| {
            let field = &bytes[at..][range];
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            std::str::from_utf8(&field[..end]).unwrap().trim().to_owned()
        };
        let kind = bytes[at + 156];
        assert!(matches!(kind, b'0' | b'5' | 0), "a file or a folder, but not a link: {kind}");
        names.push(text(0..100));
        let size = usize::from_str_radix(&text(124..136), 8).unwrap();
        at += 512 + size.div_ceil(512) * 512;
    }
    assert!(names.len() > 1, "{names:?}");
    let is_plain = |name: &String| {
        !name.starts_with('/')
            && name.split('/').all(|part| part != "..")
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
            && !name.contains("evil")
    };
    assert!(names.iter().all(is_plain), "{names:?}");
}

/// CVE-2025-53110 (filesystem MCP server): as above, for the paths that are passed on.
#[tokio::test]
async fn path_that_is_passed_on_stays_below_its_prefix() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/files/*"]).unwrap();
    let proxy = setup.start().await;
    for path in [
        "/v1/files/../admin",
        "/v1/files/./../../admin",
        "/v1/files/%2e%2e/admin",
        "/v1/files/%2E%2E%2fadmin",
        "/v1/files/..%2fadmin",
        "/v1/files/..%5cadmin",
        "/v1/files/..\\admin",
        "/v1/files/..;/admin",
        "/v1/filesystem",
        "/v1/files-of-others/x",
        "/v1/FILES/x",
        "//v1/files/x/../../../admin",
    ] {
        let response = ask(&proxy, ("GET", path), ("localhost", ""), "").await;
        assert!((400..500).contains(&response.status), "{path}: {}", response.status);
    }
    assert_eq!(upstream.requests(), 0);
    assert_eq!(ask(&proxy, ("GET", "/v1/files/x/content"), ("localhost", ""), "").await.status, 200);
}

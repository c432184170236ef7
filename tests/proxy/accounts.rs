//! Tests the accounts of a Lumo upstream: which credentials requests carry, and when tokens are refreshed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use http::StatusCode;
use http_body_util::Full;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use toolwire::{
    dialect::lumo::{AccountSettings, Credentials, Form},
    proxy::ReloadReason,
};

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proton::{Proton, session},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Upstream, at_once},
};

/// Creates a session file with the tokens numbered `number` and additional `members`, and starts an upstream that
/// accepts the tokens numbered `valid`. Returns the folder, the file and the upstream.
async fn stand(number: usize, members: &Value, valid: usize) -> (TempDir, PathBuf, Proton) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lumo.json");
    fs::write(&file, session(number, members)).unwrap();
    let proton = Proton::start(valid, &file).await;
    (folder, file, proton)
}

fn setup(proton: &Proton, file: &Path) -> Setup {
    proton.setup(|account| account.session = Some(file.to_owned()))
}

fn kept(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

async fn ask(proxy: &Proxy) -> (StatusCode, String) {
    let reply = Client::new().chat(proxy, WHOLE).await;
    (reply.status(), reply.rest().await)
}

/// Sends a request that must fail. Returns the code and the message of the error.
async fn refusal(proxy: &Proxy) -> (String, String) {
    let (status, body) = ask(proxy).await;
    assert_eq!(status, 502, "{body}");
    let error: Value = serde_json::from_str(&body).unwrap();
    let text = |key: &str| error["error"][key].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

#[tokio::test]
async fn requests_carry_the_session_of_the_file_and_nothing_of_the_client() {
    let (_folder, file, proton) = stand(1, &json!({"app_version": "web-lumo@9"}), 1).await;
    let mut setup = setup(&proton, &file);
    setup.keys = vec!["clients-key"];
    let proxy = setup.start().await;
    let mut request = chat_request(&proxy, STREAM);
    request.headers_mut().insert("authorization", "Bearer clients-key".parse().unwrap());
    request.headers_mut().insert("x-pm-uid", "another".parse().unwrap());
    let reply = Client::new().send(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert!(reply.rest().await.contains("hello"));
    let accounts = proton.accounts();
    let head = &accounts.heads[0];
    assert!(head.contains("\r\nauthorization: bearer access-1\r\n"), "{head}");
    assert!(
        head.contains("\r\nx-pm-uid: u1\r\n") && head.contains("\r\nx-pm-appversion: web-lumo@9\r\n"),
        "{head}"
    );
    assert!(!head.contains("clients-key") && !head.contains("another") && !head.contains("cookie"), "{head}");
    assert_eq!((accounts.asked, accounts.refreshes), (1, 0));
}

async fn refreshes(proxy: &Proxy) -> Vec<String> {
    let metrics = Client::new().get(proxy, "/metrics").await.rest().await;
    let series = metrics.lines().filter_map(|line| line.strip_prefix("toolwire_lumo_refreshes_total"));
    series.map(str::to_owned).collect()
}

#[tokio::test]
async fn refused_token_is_refreshed_once_and_stored_before_it_is_used() {
    for form in [Form::Token, Form::Cookie] {
        let word = if form == Form::Token { "token" } else { "cookie" };
        let members = json!({"form": word, "note": "mine", "access_token": "ended"});
        let (_folder, file, proton) = stand(1, &members, 1).await;
        let proxy = setup(&proton, &file).start().await;
        assert_eq!(ask(&proxy).await.0, 200);
        assert_eq!(refreshes(&proxy).await, ["{upstream=\"up\",result=\"ok\"} 1"], "{word}");
        let accounts = proton.accounts();
        assert_eq!((accounts.refreshes, accounts.refused, accounts.unauthorized), (1, 0, 1), "{word}");
        let before_use = accounts.files.last().unwrap().as_ref().unwrap();
        assert_eq!(before_use["access_token"], "access-2", "{word}");
        let kept = kept(&file);
        assert_eq!((&kept["refresh_token"], &kept["note"]), (&json!("refresh-2"), &json!("mine")), "{word}");
        assert!(kept["expires_at"].as_u64() > kept["refreshed_at"].as_u64());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[tokio::test]
async fn token_that_is_refused_inside_a_stream_is_refreshed_for_the_next_request() {
    const REFUSED: &str = "data: {\"error\":{\"code\":401,\"message\":\"Invalid access token\"}}\n\n";
    let (_folder, file, proton) = stand(1, &json!({}), 1).await;
    let proxy = setup(&proton, &file).start().await;
    proton.accounts().event = Some(REFUSED);
    let (status, body) = ask(&proxy).await;
    assert_eq!(status, 401, "{body}");
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(proton.counts(), (1, 0, 2));
    assert!(proton.accounts().heads.last().unwrap().contains("authorization: bearer access-2\r\n"));
    // The token is too new for this report to be plausible, so it is not refreshed again.
    proton.accounts().event = Some(REFUSED);
    assert_eq!(ask(&proxy).await.0, 401);
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(proton.counts(), (1, 0, 4));
}

#[tokio::test]
async fn session_that_was_doubted_is_used_if_it_cannot_be_refreshed() {
    let (_folder, file, proton) = stand(1, &json!({}), 1).await;
    let proxy = setup(&proton, &file).start().await;
    proton.accounts().trouble = Some(("503 Service Unavailable", "{}"));
    proton.accounts().event =
        Some("data: {\"error\":{\"code\":401,\"message\":\"Invalid access token\"}}\n\n");
    assert_eq!(ask(&proxy).await.0, 401);
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(proton.counts(), (1, 0, 3));
}

#[tokio::test]
async fn thousand_waiting_requests_make_one_refresh() {
    for members in [json!({"expires_at": 1}), json!({"access_token": "ended"})] {
        let (_folder, file, proton) = stand(1, &members, 1).await;
        let mut setup = setup(&proton, &file);
        setup.threads = 4;
        setup.upstream.queue.max_concurrent = 64;
        setup.upstream.queue.max_waiting = 1000;
        let proxy = setup.start().await;
        let mut asking = JoinSet::new();
        for _ in 0..4 {
            let client = Client::http2();
            for _ in 0..250 {
                let (client, request) = (client.clone(), chat_request(&proxy, WHOLE));
                asking.spawn(async move {
                    let reply = client.send(request).await.unwrap();
                    let status = reply.status();
                    (status, reply.rest().await)
                });
            }
        }
        for (status, body) in asking.join_all().await {
            assert_eq!(status, 200, "{body}");
        }
        let accounts = proton.accounts();
        assert_eq!((accounts.refreshes, accounts.refused), (1, 0), "{members}");
        assert_eq!(accounts.asked - accounts.unauthorized, 1000, "{members}");
    }
}

/// A refresh token can be used only once. Of two proxies with the same file, the later one picks up the tokens that
/// the first one received.
#[tokio::test]
async fn two_proxies_with_one_file_keep_the_session() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    let proxies = [setup(&proton, &file).start().await, setup(&proton, &file).start().await];
    for round in 1..4 {
        let (first, second) = tokio::join!(ask(&proxies[0]), ask(&proxies[1]));
        assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK), "{first:?} {second:?}");
        let accounts = proton.accounts();
        assert_eq!((accounts.refreshes, accounts.refused), (1, 0), "round {round}");
    }
    assert_eq!(kept(&file)["access_token"], "access-2");
}

/// Two proxies share a session even if they use different paths for its file. A symbolic link to the file is
/// preserved.
#[tokio::test]
async fn session_behind_a_link_is_replaced_where_it_is() {
    let (folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    let (inner, link) = (folder.path().join("inner"), folder.path().join("inner/link.json"));
    fs::create_dir(inner).unwrap();
    symlink("../lumo.json", &link).unwrap();
    let proxies = [setup(&proton, &link).start().await, setup(&proton, &file).start().await];
    let (first, second) = tokio::join!(ask(&proxies[0]), ask(&proxies[1]));
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK), "{first:?} {second:?}");
    let accounts = proton.accounts();
    assert_eq!((accounts.refreshes, accounts.refused), (1, 0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((&kept(&file)["access_token"], kept(&link)), (&json!("access-2"), kept(&file)));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// The current tokens are only seconds old, but another process or `toolwire lumo refresh` has already replaced
/// them.
#[tokio::test]
async fn tokens_that_another_process_renews_at_once_are_taken() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    let proxy = setup(&proton, &file).start().await;
    assert_eq!(ask(&proxy).await.0, 200);
    for valid in [5, 6] {
        fs::write(&file, session(valid, &json!({}))).unwrap();
        proton.accounts().valid = valid;
        assert_eq!(ask(&proxy).await.0, 200, "{valid}");
    }
    let accounts = proton.accounts();
    assert_eq!((accounts.refreshes, accounts.refused), (1, 0));
}

#[tokio::test]
async fn token_is_renewed_before_it_expires_without_a_wait() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let members = json!({"expires_at": now + 300, "refreshed_at": now - 43_200});
    let (_folder, file, proton) = stand(1, &members, 1).await;
    proton.refreshable.forget_permits(usize::MAX);
    let proxy = setup(&proton, &file).start().await;
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(proton.accounts().unauthorized, 0, "the old token is good until the new one is there");
    proton.refreshable.add_permits(100);
    soon("the new token", async {
        while kept(&file)["access_token"] != "access-2" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(ask(&proxy).await.0, 200);
    assert_eq!(proton.accounts().refreshes, 1);
}

/// The server invalidates the old token as soon as it receives the refresh, so a client that disconnects must not
/// cancel it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn refresh_survives_the_client_and_the_server() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    proton.refreshable.forget_permits(usize::MAX);
    let proxy = setup(&proton, &file).start().await;
    let request = Client::new();
    let request = request.send(chat_request(&proxy, STREAM));
    tokio::select! {
        reply = request => panic!("{:?}", reply.map(|reply| reply.status())),
        () = soon("a refresh", async {
            while proton.accounts().heads.is_empty() {
                tokio::task::yield_now().await;
            }
        }) => {}
    }
    proton.refreshable.add_permits(100);
    // Dropping the proxy waits for the refresh, which the upstream answers on another thread.
    drop(proxy);
    soon("the new token", async {
        while kept(&file)["access_token"] != "access-2" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(proton.accounts().asked, 0);
}

/// The previous account's refresh completes, but it delays neither the reload nor the responses of other upstreams.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn reload_does_not_wait_for_a_refresh() {
    let (folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    proton.refreshable.forget_permits(usize::MAX);
    let other = Upstream::start(at_once).await;
    let text = |version: &str| {
        let upstream = |name: &str, dialect: &str, base: String| {
            format!(
                "[[models]]\nname = \"{name}\"\nupstream = \"{name}\"\n[[upstreams]]\nname = \"{name}\"\ndialect = \"{dialect}\"\nbase_url = \"{base}\"\n"
            )
        };
        "listen = \"127.0.0.1:0\"\nthreads = 1\nstore = \"off\"\n".to_owned()
            + &upstream("m", "chat", format!("http://{}/v1", other.address))
            + &upstream("lumo", "lumo", format!("http://{}/base", proton.address()))
            + &format!("[upstreams.lumo]\nsession = \"{}\"\napp_version = \"{version}\"\n", file.display())
    };
    let config = folder.path().join("toolwire.toml");
    fs::write(&config, text("one")).unwrap();
    let proxy = Proxy::of_file(&config);
    let client = Client::new();
    tokio::select! {
        reply = client.chat(&proxy, STREAM.replace("\"m\"", "\"lumo\"")) => panic!("{:?}", reply.status()),
        () = soon("a refresh", async {
            while proton.accounts().heads.is_empty() {
                tokio::task::yield_now().await;
            }
        }) => {}
    }
    fs::write(&config, text("two")).unwrap();
    soon("the reload", proxy.reloads.reload(ReloadReason::Signal)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(soon("another response", Client::new().chat(&proxy, STREAM)).await.status(), 200);
    }
    assert_eq!(proton.accounts().refreshes, 0);
    proton.refreshable.add_permits(100);
    soon("the new token", async {
        while kept(&file)["access_token"] != "access-2" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn ended_session_is_reported_and_a_new_login_is_taken() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 7).await;
    let proxy = setup(&proton, &file).start().await;
    for _ in 0..20 {
        let (code, message) = refusal(&proxy).await;
        assert_eq!(code, "upstream_logged_out");
        assert!(message.contains("log in again") && !message.contains("lumo.json"), "{message}");
    }
    assert_eq!(proton.counts(), (1, 1, 0), "no storm");
    let counted = refreshes(&proxy).await;
    assert!(counted.len() == 1 && counted[0].contains("result=\"logged_out\""), "{counted:?}");
    fs::write(&file, session(7, &json!({}))).unwrap();
    soon("the new session", async {
        while ask(&proxy).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(proton.counts(), (1, 1, 1));
}

#[tokio::test]
async fn server_that_cannot_refresh_is_not_asked_by_every_request() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    proton.accounts().trouble =
        Some(("503 Service Unavailable", r#"{"Code":503,"Error":"refresh-1 access-1"}"#));
    let proxy = setup(&proton, &file).start().await;
    for _ in 0..20 {
        let (code, message) = refusal(&proxy).await;
        assert_eq!(code, "upstream_refresh_failed");
        assert!(!message.contains("access-1") && !message.contains("refresh-1"), "{message}");
    }
    assert_eq!(proton.counts(), (1, 0, 0));
    assert_eq!(refreshes(&proxy).await, ["{upstream=\"up\",result=\"failed\"} 1"]);
}

#[tokio::test]
async fn fresh_token_is_not_refreshed_again_whatever_is_said_of_it() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    proton.accounts().lifetime = json!(0);
    let proxy = setup(&proton, &file).start().await;
    for _ in 0..10 {
        assert_eq!(ask(&proxy).await.0, 200);
    }
    // From now on, the upstream rejects its own token.
    proton.accounts().valid = 9;
    for _ in 0..10 {
        assert_eq!(refusal(&proxy).await.0, "upstream_logged_out");
    }
    assert_eq!(proton.accounts().refreshes, 1);
}

#[tokio::test]
async fn request_that_is_refused_twice_is_not_sent_again() {
    let (_folder, file, proton) = stand(1, &json!({}), 1).await;
    proton.accounts().error = Some(("401 Unauthorized", r#"{"Code":401,"Error":"Never"}"#.to_owned()));
    let proxy = setup(&proton, &file).start().await;
    let (status, body) = ask(&proxy).await;
    assert_eq!(status, 401, "{body}");
    assert!(body.contains("authentication_error"), "{body}");
    assert_eq!(proton.counts(), (1, 0, 2));
}

#[tokio::test]
async fn configured_tokens_begin_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lumo.json");
    let proton = Proton::start(1, &file).await;
    let change = |account: &mut AccountSettings| {
        account.session = Some(file.clone());
        account.uid = Some("u1".to_owned());
        account.access_token = Some("ended".into());
        account.refresh_token = Some("refresh-1".into());
    };
    assert_eq!(ask(&proton.setup(change).start().await).await.0, 200);
    assert_eq!(kept(&file)["refresh_token"], "refresh-2");
    // The configured token has been used up, but the file has valid ones.
    assert_eq!(ask(&proton.setup(change).start().await).await.0, 200);
    let (refreshes, refused, _) = proton.counts();
    assert_eq!((refreshes, refused), (1, 0));
    // A configured login with another ID takes precedence over the file.
    let proxy = proton.setup(|account| {
        change(account);
        account.uid = Some("u2".to_owned());
    });
    assert_eq!(refusal(&proxy.start().await).await.0, "upstream_logged_out");
}

#[tokio::test]
async fn token_without_a_refresh_token_is_used_until_it_ends() {
    let proton = Proton::start(1, &PathBuf::from("/nowhere")).await;
    let proxy = proton.setup(|account| {
        account.uid = Some("u1".to_owned());
        account.access_token = Some("access-1".into());
    });
    let proxy = proxy.start().await;
    assert_eq!(ask(&proxy).await.0, 200);
    proton.accounts().valid = 2;
    for _ in 0..3 {
        assert_eq!(refusal(&proxy).await.0, "upstream_logged_out");
    }
    assert_eq!(proton.accounts().refreshes, 0);
}

#[tokio::test]
async fn missing_and_broken_files_leave_the_upstream_logged_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lumo.json");
    let proton = Proton::start(1, &file).await;
    for text in [None, Some("{\"uid\":\"u1\""), Some("{}"), Some("")] {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let proxy = setup(&proton, &file).start().await;
        assert_eq!(refusal(&proxy).await.0, "upstream_logged_out", "{text:?}");
    }
    // Opening a pipe would block until something writes to it.
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert_eq!(refusal(&setup(&proton, &file).start().await).await.0, "upstream_logged_out");
    assert_eq!(proton.accounts().heads.len(), 0);
}

/// Tokens that cannot be saved are used from memory. They are saved when the proxy stops, unless there has been a
/// new login.
#[tokio::test]
async fn tokens_that_cannot_be_written_are_written_at_the_end() {
    for is_new_login in [false, true] {
        let (folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
        let obstacle = folder.path().join("lumo.json.new");
        fs::create_dir(&obstacle).unwrap();
        let mut proxy = setup(&proton, &file).start().await;
        assert_eq!(ask(&proxy).await.0, 200);
        assert_eq!(kept(&file)["access_token"], "access-1");
        fs::remove_dir(&obstacle).unwrap();
        if is_new_login {
            fs::write(&file, session(7, &json!({"uid": "u7"}))).unwrap();
        }
        proxy.stop();
        proxy.ended().await;
        assert_eq!(kept(&file)["access_token"], if is_new_login { "access-7" } else { "access-2" });
    }
}

#[tokio::test]
async fn tokens_that_the_upstream_repeats_are_covered() {
    let (_folder, file, proton) = stand(1, &json!({"expires_at": 1}), 1).await;
    proton.accounts().error =
        Some(("400 Bad Request", json!({"error": {"message": "no access-2, no refresh-2"}}).to_string()));
    let proxy = setup(&proton, &file).start().await;
    let (status, body) = ask(&proxy).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("no xxxxxxxx, no xxxxxxxxx"), "{body}");
}

/// A proxy whose clients bring their own sessions.
fn of_clients(proton: &Proton) -> Setup {
    proton.setup(|account| account.credentials = Credentials::Client)
}

async fn ask_with(proxy: &Proxy, headers: &[(&'static str, &str)], body: &str) -> (StatusCode, Value) {
    let mut request = chat_request(proxy, body.to_owned());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let reply = Client::new().send(request).await.unwrap();
    (reply.status(), reply.json().await)
}

const SESSION: [(&str, &str); 3] =
    [("authorization", "Bearer access-1"), ("x-pm-uid", "u1"), ("x-pm-appversion", "web-lumo@9")];

#[tokio::test]
async fn clients_session_goes_to_the_upstream_and_the_proxys_key_does_not() {
    let proton = Proton::start(1, &PathBuf::from("/nowhere")).await;
    let mut setup = of_clients(&proton);
    setup.keys = vec!["clients-key"];
    let proxy = setup.start().await;
    let with = |further: &[(&'static str, &'static str)]| [&SESSION[..], further].concat();
    let (status, body) =
        ask_with(&proxy, &with(&[("x-api-key", "clients-key"), ("cookie", "console=1")]), WHOLE).await;
    assert_eq!(status, 200, "{body}");
    let head = proton.accounts().heads.pop().unwrap();
    assert!(
        head.contains("\r\nauthorization: bearer access-1\r\n") && head.contains("\r\nx-pm-uid: u1\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nx-pm-appversion: web-lumo@9\r\n"), "{head}");
    assert!(!head.contains("clients-key") && !head.contains("console"), "{head}");
    // A session is not accepted in place of the proxy's key, nor a key in place of a session.
    assert_eq!(ask_with(&proxy, &with(&[]), WHOLE).await.0, 401);
    let (status, body) = ask_with(&proxy, &[("authorization", "Bearer clients-key")], WHOLE).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (401, &json!("upstream_session_required")));
    assert!(body["error"]["message"].as_str().unwrap().contains("x-pm-uid"), "{body}");
    assert_eq!(proton.counts(), (0, 0, 1));
}

#[tokio::test]
async fn refused_session_of_a_client_is_the_clients_matter() {
    let proton = Proton::start(2, &PathBuf::from("/nowhere")).await;
    let proxy = of_clients(&proton).start().await;
    let (status, body) = ask_with(&proxy, &SESSION, WHOLE).await;
    assert_eq!((status.as_u16(), &body["error"]["message"]), (401, &json!("Invalid access token")));
    assert_eq!(proton.counts(), (0, 0, 1));
    proton.accounts().valid = 1;
    proton.accounts().error =
        Some(("400 Bad Request", json!({"error": {"message": "not Bearer, and not access-1"}}).to_string()));
    let (_, body) = ask_with(&proxy, &SESSION, WHOLE).await;
    assert_eq!(body["error"]["message"], "not Bearer, and not xxxxxxxx");
}

/// Stored responses belong to a session. The session's ID is not secret, so it gives no access by itself.
#[tokio::test]
async fn stored_responses_belong_to_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let proton = Proton::start(1, &PathBuf::from("/nowhere")).await;
    let mut setup = of_clients(&proton);
    setup.state_dir = Some(folder.path().to_owned());
    let proxy = setup.start().await;
    let send = |method: &str, path: String, headers: Vec<(&'static str, &'static str)>, body: String| {
        let mut request = http::Request::builder().method(method).uri(proxy.url(&path));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        async move { Client::new().send(request).await.unwrap() }
    };
    let asked = json!({"model": "m", "input": "hi"}).to_string();
    let reply = send("POST", "/v1/responses".to_owned(), SESSION.to_vec(), asked).await;
    assert_eq!(reply.status(), 200);
    let id = reply.json().await["id"].as_str().unwrap().to_owned();
    let [token, uid, _] = SESSION;
    for (headers, expected) in [
        (SESSION.to_vec(), 200),
        (vec![uid, ("authorization", "Bearer guessed")], 404),
        (vec![token, ("x-pm-uid", "u2")], 404),
        (vec![uid], 404),
        (vec![token], 404),
        (vec![], 404),
    ] {
        let reply = send("GET", format!("/v1/responses/{id}"), headers.clone(), String::new()).await;
        assert_eq!(reply.status(), expected, "{headers:?}");
    }
}

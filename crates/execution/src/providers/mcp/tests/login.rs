//! Requests to a server that wants tokens.

use super::*;
use crate::oauth::fake::{Answer, Fake, ok, refused, tokens};
use secrecy::SecretString;

const TOKEN: &str = "POST /token";
const SERVER: &str = "POST /mcp";

/// The authorization of each request to the server.
fn shown(fake: &Fake) -> Vec<String> {
    let requests = fake.requests(SERVER).into_iter();
    let line = |head: String| {
        let found = head.lines().find_map(|line| line.strip_prefix("authorization: ").map(str::to_owned));
        found.unwrap_or_default()
    };
    requests.map(|(head, _)| line(head)).collect()
}

async fn send(fake: &Fake, account: &Arc<crate::oauth::Account>, key: Option<&SecretString>) -> Option<u16> {
    let http = HttpClient::direct();
    let server = http::HttpServer::new(http, key, &BTreeMap::new(), Some(Arc::clone(account)), 1000);
    let url = fake.url().to_string();
    let sent = server.send(::http::Method::POST, &url, None, [], &[], "{}".into()).await;
    sent.ok().map(|response| response.status().as_u16())
}

/// A login whose login requests are not counted.
async fn logged_in(fake: &Fake) -> (Arc<crate::oauth::Account>, usize) {
    let account = fake.account();
    fake.log_in(&account).await;
    (account, fake.requests(SERVER).len())
}

#[tokio::test]
async fn rejected_request_is_sent_once_more_with_a_new_token() {
    let fake = Fake::start().await;
    let (account, before) = logged_in(&fake).await;
    fake.set(TOKEN, ok(&tokens("access-two", "refresh-two", 3600)));
    fake.set_all(SERVER, [fake.challenge(""), ok(&json!({}))]);
    assert_eq!(send(&fake, &account, None).await, Some(200));
    assert_eq!(shown(&fake)[before..], ["Bearer access-one", "Bearer access-two"]);
    // A server that rejects every token gets one request more, and the authorization server none.
    let (asked, sent) = (fake.requests(TOKEN).len(), shown(&fake).len());
    fake.set(SERVER, fake.challenge(""));
    for _ in 0..5 {
        assert_eq!(send(&fake, &account, None).await, None);
    }
    assert_eq!(fake.requests(TOKEN).len() - asked, 1);
    assert_eq!(shown(&fake).len() - sent, 6);
    assert!(account.need().is_some());
}

#[tokio::test]
async fn key_takes_precedence_and_is_not_replaced() {
    let fake = Fake::start().await;
    let (account, before) = logged_in(&fake).await;
    let key = SecretString::from("own-key");
    assert_eq!(send(&fake, &account, Some(&key)).await, None);
    assert_eq!(shown(&fake)[before..], ["Bearer own-key"]);
    assert_eq!(fake.requests(TOKEN).len(), 1);
}

#[tokio::test]
async fn missing_permission_is_not_a_missing_login() {
    let fake = Fake::start().await;
    let (account, before) = logged_in(&fake).await;
    fake.set(SERVER, Answer(403, String::new(), String::new()));
    assert_eq!((send(&fake, &account, None).await, account.need()), (None, None));
    let header = "WWW-Authenticate: Bearer error=insufficient_scope, scope=\"admin\"\r\n";
    fake.set(SERVER, Answer(403, header.to_owned(), String::new()));
    assert_eq!(send(&fake, &account, None).await, None);
    assert!(account.need().is_some_and(|need| need.contains("admin read write")));
    assert_eq!((shown(&fake).len() - before, fake.requests(TOKEN).len()), (2, 1));
}

#[tokio::test]
async fn server_without_a_login_says_so_and_uses_a_later_one() {
    let fake = Fake::start().await;
    let options = Options { url: Some(fake.url()), protocol: Protocol::Initialize, ..Options::default() };
    let host = Host::detached("s").with_vault(Some(fake.vault()));
    let provider = options.build(&host).expect("a provider");
    Arc::clone(&provider).start(&host);
    let server = Started(provider);
    server.until(|provider| provider.status().state == ProviderState::NeedsLogin).await;
    assert_eq!(server.0.status().reason.as_deref(), Some("needs a login: run `toolwire mcp login s`"));
    // A login of another process.
    fake.log_in(&fake.account()).await;
    fake.set(TOKEN, refused("invalid_grant"));
    let uses = |head: &str| head.contains("authorization: Bearer access-one");
    server.until(|_| fake.requests(SERVER).iter().any(|(head, _)| uses(head))).await;
    // That is rejected, and cannot be refreshed.
    server.until(|_| fake.requests(TOKEN).len() == 2).await;
    server.until(|provider| provider.status().state == ProviderState::NeedsLogin).await;
    assert_eq!(host.redacted("x access-one y refresh-one"), "x xxxxxxxxxx y xxxxxxxxxxx");
}

//! Tests with a scripted authorization server.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    challenge::Challenge,
    fake::{Answer, Fake, by_itself, ok, refused, tokens},
    *,
};
use crate::http::HttpClient;

const REDIRECT: &str = "http://127.0.0.1:9/callback";

async fn token(account: &Arc<Account>) -> Option<String> {
    account.token().await.unwrap().map(|token| token.expose_secret().to_owned())
}

/// Why a login cannot begin.
async fn fault(fake: &Fake) -> String {
    fake.account().begin(REDIRECT, None).await.unwrap_err().to_string()
}

#[tokio::test]
async fn person_logs_in_with_discovery_registration_and_pkce() {
    let fake = Fake::start().await;
    fake.set("POST /mcp", fake.challenge(", scope=\"mcp:use\""));
    let account = fake.account();
    assert_eq!((token(&account).await, account.state()), (None, LoginState::LoggedOut { reason: None }));
    let begun = fake.begun(&account).await;
    for (name, expected) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "own client"),
        ("redirect_uri", REDIRECT),
        ("code_challenge_method", "S256"),
        ("scope", "mcp:use"),
    ] {
        assert_eq!(begun[name], expected, "{name}");
    }
    assert_eq!(begun["resource"], fake.url().to_string());
    let (_, registration) = fake.requests("POST /register").pop().unwrap();
    let registration: Value = serde_json::from_str(&registration).unwrap();
    assert_eq!(
        (&registration["redirect_uris"][0], &registration["application_type"]),
        (&json!(REDIRECT), &json!("native"))
    );
    let query = fake.response(&begun);
    assert!(account.awaits(&query) && !account.awaits("state=x&code=1"));
    account.finish(&query).await.unwrap();
    let form = fake.form("POST /token");
    for (name, expected) in [
        ("grant_type", "authorization_code"),
        ("code", "the code"),
        ("redirect_uri", REDIRECT),
        ("client_id", "own client"),
        ("resource", &begun["resource"]),
    ] {
        assert_eq!(form[name], expected, "{name}");
    }
    let hash = digest(&SHA256, form["code_verifier"].as_bytes());
    assert_eq!(URL_SAFE_NO_PAD.encode(hash), begun["code_challenge"]);
    assert_eq!(token(&account).await.as_deref(), Some("access-one"));
    // Another process sees the login, and one for another URL does not.
    assert_eq!(token(&fake.account()).await.as_deref(), Some("access-one"));
    let other = format!("{}/other", fake.origin).parse().unwrap();
    let other = Account::new(
        "s".into(),
        &other,
        OAuthOptions::default(),
        &HttpClient::direct(),
        Some(fake.vault()),
        None,
    );
    assert_eq!(token(&other.unwrap()).await, None);
    // A response counts once.
    assert!(matches!(account.finish(&query).await, Err(OAuthError::State)));
    let shown = format!("{account:?}");
    assert!(!shown.contains("access-one") && !shown.contains("refresh-one"), "{shown}");
    assert!(account.log_out().await.unwrap() && !account.log_out().await.unwrap());
    let form = fake.form("POST /revoke");
    assert_eq!((form["token"].as_str(), form["token_type_hint"].as_str()), ("refresh-one", "refresh_token"));
    assert_eq!(token(&account).await, None);
}

#[tokio::test]
async fn metadata_is_found_where_servers_have_it() {
    let fake = Fake::start().await;
    let (resource, at) =
        ("GET /.well-known/oauth-protected-resource/mcp", |path: &str| format!("{}{path}", fake.origin));
    // A challenge without a URL, and metadata of the whole origin.
    fake.set("POST /mcp", Answer(401, "WWW-Authenticate: Bearer\r\n".to_owned(), String::new()));
    fake.set(resource, Answer(404, String::new(), String::new()));
    fake.set("GET /.well-known/oauth-protected-resource", ok(&json!({"resource": at("/")})));
    assert_eq!(fake.begun(&fake.account()).await["resource"], at("/"));
    // None at all, as with protocol version 2025-03-26.
    fake.set("GET /.well-known/oauth-protected-resource", Answer(404, String::new(), String::new()));
    assert_eq!(fake.begun(&fake.account()).await["resource"], at("/mcp"));
    // An authorization server below a path, in each place where its metadata may be.
    let issuer = at("/tenant/a");
    fake.set(resource, ok(&json!({"resource": at("/mcp"), "authorization_servers": [issuer]})));
    let mut metadata = fake.metadata();
    metadata["issuer"] = json!(issuer);
    for place in [
        "GET /.well-known/oauth-authorization-server/tenant/a",
        "GET /.well-known/openid-configuration/tenant/a",
        "GET /tenant/a/.well-known/openid-configuration",
    ] {
        fake.set(place, ok(&metadata));
        fake.begun(&fake.account()).await;
        fake.set(place, Answer(404, String::new(), String::new()));
    }
    assert_eq!(fault(&fake).await, "no authorization server was found for this server");
    // A site that has a page for any address.
    let page = || Answer(200, "Content-Type: text/html; charset=utf-8\r\n".to_owned(), "<html>".to_owned());
    fake.set("GET /.well-known/oauth-authorization-server/tenant/a", page());
    fake.set("GET /.well-known/openid-configuration/tenant/a", ok(&metadata));
    fake.begun(&fake.account()).await;
    // A redirect of a document within the rules.
    let moved = Answer(301, "Location: /elsewhere\r\n".to_owned(), String::new());
    fake.set("GET /.well-known/oauth-authorization-server/tenant/a", moved);
    fake.set("GET /elsewhere", ok(&metadata));
    fake.begun(&fake.account()).await;
    fake.set("GET /elsewhere", Answer(302, "Location: /elsewhere\r\n".to_owned(), String::new()));
    assert!(fault(&fake).await.ends_with("sent too many redirects"));
}

#[tokio::test]
async fn metadata_that_leads_elsewhere_is_refused() {
    let fake = Fake::start().await;
    let (resource, server) =
        ("GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server");
    let with = |mut document: Value, name: &str, value: Value| {
        document[name] = value;
        ok(&document)
    };
    for (name, value, expected) in [
        ("resource", json!("https://bank.example/mcp"), "the server describes another resource"),
        ("resource", json!("http://127.0.0.1:1/mcp"), "the server describes another resource"),
        ("authorization_servers", json!(["http://169.254.169.254/latest"]), "may not be used: "),
        ("authorization_servers", json!(["http://metadata.google.internal"]), "may not be used: "),
        ("authorization_servers", json!(["file:///etc/passwd"]), "may not be used: "),
        ("authorization_servers", json!(["http://user@127.0.0.1/"]), "may not be used: "),
        ("authorization_servers", json!("x"), "sent an invalid document"),
        ("resource", json!(7), "sent an invalid document"),
    ] {
        fake.set(resource, with(fake.resource(), name, value.clone()));
        let said = fault(&fake).await;
        assert!(said.contains(expected), "{name} {value}: {said}");
    }
    fake.set(resource, ok(&fake.resource()));
    for (name, value, expected) in [
        ("issuer", json!("https://bank.example"), "is that of `https://bank.example`"),
        ("token_endpoint", json!("http://169.254.169.254/token"), "may not be used: "),
        ("authorization_endpoint", json!("javascript:alert(1)"), "may not be used: "),
        ("registration_endpoint", json!("data:,"), "may not be used: "),
        ("code_challenge_methods_supported", json!(["plain"]), "does not support PKCE"),
        ("code_challenge_methods_supported", json!(null), "does not support PKCE"),
        ("registration_endpoint", json!(null), "set `oauth_client_id`"),
        ("authorization_endpoint", json!(null), "no authorization server was found"),
        ("token_endpoint", json!(null), "sent an invalid document"),
    ] {
        fake.set(server, with(fake.metadata(), name, value.clone()));
        let said = fault(&fake).await;
        assert!(said.contains(expected), "{name} {value}: {said}");
    }
    for (body, expected) in [
        ("{".to_owned(), "sent an invalid document"),
        ("[".repeat(100_000), "sent an invalid document"),
        (format!("{{\"issuer\": \"{}\"}}", "a".repeat(300 << 10)), "sent more than it may"),
        ("<html>".to_owned(), "sent an invalid document"),
    ] {
        fake.set(server, Answer(200, String::new(), body));
        assert!(fault(&fake).await.ends_with(expected));
    }
    let away = Answer(302, "Location: http://169.254.169.254/\r\n".to_owned(), String::new());
    fake.set(server, away);
    assert!(fault(&fake).await.contains("may not be used: "));
    fake.set(server, Answer(503, String::new(), String::new()));
    assert!(fault(&fake).await.contains("HTTP status 503"));
}

#[tokio::test]
async fn public_server_does_not_lead_to_this_machine() {
    let account = |issuer: Option<&str>| {
        let options =
            OAuthOptions { oauth_issuer: issuer.map(|url| url.parse().unwrap()), ..OAuthOptions::default() };
        let url = "https://mcp.example/mcp".parse().unwrap();
        Account::new("s".into(), &url, options, &HttpClient::direct(), None, None).unwrap()
    };
    let public = account(None);
    for url in [
        "https://127.0.0.1/x",
        "https://localhost:8443/x",
        "https://[::1]/x",
        "https://10.0.0.1/x",
        "https://2130706433/x",
        "https://0x7f.1/x",
        "https://auth.internal/x",
        "http://auth.example/x",
        "https://auth.example:25/x",
        "https://mcp.example@127.0.0.1/x",
    ] {
        assert!(matches!(public.fetcher.checked(url), Err(OAuthError::Address(..))), "{url}");
    }
    assert!(public.fetcher.checked("https://auth.example:8443/x").is_ok());
    // The operator may say otherwise, for one origin.
    let configured = account(Some("https://auth.internal/realm"));
    assert!(configured.fetcher.checked("https://auth.internal/x").is_ok());
    assert!(configured.fetcher.checked("https://auth.internal:444/x").is_err());
}

#[tokio::test]
async fn responses_that_do_not_belong_to_the_login_are_refused() {
    let fake = Fake::start().await;
    let account = fake.account();
    let (first, second) = (fake.begun(&account).await, fake.begun(&account).await);
    let (one, two) = (&first["state"], &second["state"]);
    assert_ne!(one, two);
    for (query, expected) in [
        (String::new(), "no login waits for this response: it has ended, expired, or begun elsewhere"),
        (
            "code=x&state=".to_owned(),
            "no login waits for this response: it has ended, expired, or begun elsewhere",
        ),
        (
            format!("code=x&state={one}&state={two}"),
            "the response is not that of a login: a parameter is repeated",
        ),
        (
            format!("code={}&state={one}", "x".repeat(20_000)),
            "the response is not that of a login: it is too long",
        ),
    ] {
        assert_eq!(account.finish(&query).await.unwrap_err().to_string(), expected, "{query:.40}");
    }
    // Each of these ends its login.
    for (query, expected) in [
        ("code=x", "the response is not that of a login: it does not name its authorization server"),
        (
            "code=x&iss=https://bank.example",
            "the response is from the authorization server `https://bank.example`, not from",
        ),
        ("error=denied&iss=https://bank.example", "the response is from the authorization server"),
        (
            "error=access_denied&error_description=a%1B%0Ab&iss=ORIGIN",
            "the login was refused: access_denied: a  b",
        ),
        ("iss=ORIGIN", "the response is not that of a login: it has no code"),
        ("code=&iss=ORIGIN", "the response is not that of a login: it has no code"),
    ] {
        let begun = fake.begun(&account).await;
        let query = format!("{}&state={}", query.replace("ORIGIN", &fake.origin), begun["state"]);
        let said = account.finish(&query).await.unwrap_err().to_string();
        assert!(said.starts_with(expected), "{query}: {said}");
        assert!(matches!(account.finish(&query).await, Err(OAuthError::State)));
    }
    assert_eq!(fake.requests("POST /token").len(), 0);
    // Two logins at once: each has its own response, and the later one counts.
    account.finish(&fake.response(&second)).await.unwrap();
    fake.set("POST /token", ok(&tokens("access-two", "refresh-two", 60)));
    account.finish(&fake.response(&first)).await.unwrap();
    assert_eq!(token(&account).await.as_deref(), Some("access-two"));
}

#[tokio::test]
async fn invalid_tokens_are_refused() {
    let fake = Fake::start().await;
    let account = fake.account();
    let json = |body: Value| ok(&body);
    for (answer, expected) in [
        (json(json!({"access_token": "a\r\nX: y"})), "sent a token that no request can carry"),
        (json(json!({"access_token": "a b"})), "sent a token that no request can carry"),
        (json(json!({"access_token": "ä"})), "sent a token that no request can carry"),
        (json(json!({"access_token": ""})), "sent a token that no request can carry"),
        (json(json!({"access_token": "a".repeat(40 << 10)})), "sent a token that no request can carry"),
        (
            json(json!({"access_token": "a", "refresh_token": "\u{0}"})),
            "sent a token that no request can carry",
        ),
        (json(json!({"access_token": "a", "token_type": "mac"})), "sent a token of an unknown type"),
        (json(json!({"access_token": 1})), "sent an invalid response for a token"),
        (json(json!([])), "sent an invalid response for a token"),
        (
            Answer(302, format!("Location: {}/token2\r\n", fake.origin), String::new()),
            "sent HTTP status 302 Found",
        ),
        (Answer(500, String::new(), String::new()), "sent HTTP status 500 Internal Server Error"),
        (refused("invalid_grant"), "refuses the token: invalid_grant: no [31m more"),
    ] {
        fake.set("POST /token", answer);
        let begun = fake.begun(&account).await;
        let said = account.finish(&fake.response(&begun)).await.unwrap_err().to_string();
        assert!(said.ends_with(expected), "{said}");
    }
    assert_eq!((token(&account).await, fake.requests("POST /token2").len()), (None, 0));
}

#[tokio::test]
async fn many_requests_refresh_an_expired_token_once() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.set("POST /token", ok(&tokens("access-one", "refresh-one", 0)));
    fake.log_in(&account).await;
    fake.set("POST /token", ok(&tokens("access-two", "refresh-two", 3600)));
    fake.delay(Duration::from_millis(50));
    // Two processes, each with many requests.
    let accounts = [account, fake.account()];
    let asked = (0..100).map(|number| {
        let account = Arc::clone(&accounts[number % 2]);
        async move { token(&account).await }
    });
    let got = futures_util::future::join_all(asked).await;
    assert!(got.iter().all(|token| token.as_deref() == Some("access-two")), "{got:?}");
    assert_eq!(fake.requests("POST /token").len(), 2);
    let form = fake.form("POST /token");
    assert_eq!(
        (form["grant_type"].as_str(), form["refresh_token"].as_str()),
        ("refresh_token", "refresh-one")
    );
    assert_eq!(form["resource"], fake.url().to_string());
}

#[tokio::test]
async fn refresh_goes_on_without_its_caller() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.set("POST /token", ok(&tokens("access-one", "refresh-one", 0)));
    fake.log_in(&account).await;
    fake.set("POST /token", ok(&tokens("access-two", "refresh-two", 3600)));
    fake.delay(Duration::from_millis(200));
    let cancelled = tokio::time::timeout(Duration::from_millis(50), account.token()).await;
    assert!(cancelled.is_err());
    assert_eq!(token(&account).await.as_deref(), Some("access-two"));
    assert_eq!(fake.requests("POST /token").len(), 2);
}

#[tokio::test]
async fn rejected_token_is_refreshed_once_and_a_new_one_not_again() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.log_in(&account).await;
    fake.set("POST /token", ok(&json!({"access_token": "access-two", "expires_in": "3600"})));
    let rejected = |token: &str| account.rejected(Some(token.to_owned().into()), Challenge::default());
    assert!(rejected("access-one").await.unwrap());
    assert_eq!(token(&account).await.as_deref(), Some("access-two"));
    // A request that was sent with the old token.
    assert!(rejected("access-one").await.unwrap());
    assert!(!rejected("access-two").await.unwrap());
    assert_eq!(fake.requests("POST /token").len(), 2);
    let need = account.need().unwrap();
    assert!(need.starts_with("the server refuses the token"), "{need}");
    // The refresh token without rotation is still used.
    account.accepted();
    assert!(rejected("access-two").await.unwrap());
    assert_eq!(fake.form("POST /token")["refresh_token"], "refresh-one");
}

#[tokio::test]
async fn ended_login_needs_another_one() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.log_in(&account).await;
    let rejected =
        || account.rejected(account.current().map(|login| login.access.clone()), Challenge::default());
    // A failure of the authorization server does not end the login.
    fake.set("POST /token", Answer(503, String::new(), String::new()));
    assert!(rejected().await.is_err());
    assert!(matches!(account.state(), LoginState::LoggedIn { .. }));
    fake.set("POST /token", refused("invalid_grant"));
    assert!(!rejected().await.unwrap());
    let expected = "needs a login: run `toolwire mcp login s`";
    assert_eq!(account.state(), LoginState::LoggedOut { reason: Some(expected.to_owned()) });
    assert_eq!(token(&fake.account()).await, None);
    let before = fake.requests("POST /token").len();
    assert!(!rejected().await.unwrap());
    assert_eq!(fake.requests("POST /token").len(), before);
    // Another process logs in.
    fake.set("POST /token", ok(&tokens("access-new", "refresh-new", 3600)));
    let (waiting, other) = (account.changed(), fake.account());
    let ((), ()) = tokio::join!(waiting, fake.log_in(&other));
    assert_eq!(token(&account).await.as_deref(), Some("access-new"));
}

#[tokio::test]
async fn login_of_another_process_is_noticed_within_a_second() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.log_in(&account).await;
    fake.account().log_out().await.unwrap();
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(token(&account).await, None);
}

#[tokio::test]
async fn missing_scopes_are_named_and_asked_for() {
    let fake = Fake::start().await;
    let account = fake.account();
    fake.log_in(&account).await;
    let header = "Bearer error=\"insufficient_scope\", scope=\"admin\"";
    let challenge = Account::refusal(http::StatusCode::FORBIDDEN, header).unwrap();
    assert_eq!(Account::refusal(http::StatusCode::FORBIDDEN, "Bearer"), None);
    account.lacks_scope(challenge);
    let expected = "needs a login with more scopes: run `toolwire mcp login s --scope \"admin read write\"`";
    assert_eq!(account.need().unwrap(), expected);
    assert_eq!(fake.begun(&account).await["scope"], "admin read write");
}

#[tokio::test]
async fn client_with_a_secret_needs_no_person() {
    let fake = Fake::start().await;
    let mut metadata = fake.metadata();
    metadata["token_endpoint_auth_methods_supported"] = json!(null);
    fake.set("GET /.well-known/oauth-authorization-server", ok(&metadata));
    fake.set("POST /token", ok(&json!({"access_token": "machine", "expires_in": 3600})));
    let account = fake.account_with(by_itself());
    assert_eq!(token(&account).await, None);
    let challenge = Challenge::parse("Bearer scope=\"mcp:use\"");
    assert!(account.rejected(None, challenge).await.unwrap());
    assert_eq!(token(&account).await.as_deref(), Some("machine"));
    let (head, _) = fake.requests("POST /token").pop().unwrap();
    // `id%3A1:s3cret%26s3cret`
    assert!(head.contains("authorization: Basic aWQlM0ExOnMzY3JldCUyNnMzY3JldA=="), "{head}");
    let form = fake.form("POST /token");
    assert_eq!((form["grant_type"].as_str(), form["scope"].as_str()), ("client_credentials", "mcp:use"));
    assert!(!form.contains_key("client_secret"));
    // Nothing is written.
    assert!(fake.vault().read(fake.account().login_name()).unwrap().is_none());
    fake.set("POST /token", refused("invalid_client"));
    account.accepted();
    assert!(account.rejected(Some("machine".to_owned().into()), Challenge::default()).await.is_err());
    assert!(account.need().unwrap().contains("refuses the token: invalid_client"));
}

#[tokio::test]
async fn redirect_stays_on_this_machine_or_is_encrypted() {
    let fake = Fake::start().await;
    let account = fake.account();
    for redirect in
        ["http://127.0.0.1:1/a", "http://[::1]:1/a", "http://localhost/a", "https://admin.example/console/"]
    {
        assert!(account.begin(redirect, None).await.is_ok(), "{redirect}");
    }
    for redirect in [
        "http://admin.example/console/",
        "http://localhost.example/",
        "javascript:1",
        "https://a.example/?x",
        "https://a.example/#x",
        "https://user@a.example/",
        "",
    ] {
        assert!(matches!(account.begin(redirect, None).await, Err(OAuthError::Redirect)), "{redirect}");
    }
}

#[test]
fn settings_that_contradict_are_reported() {
    let only = |options: OAuthOptions| options.fault().map(|(key, _)| key);
    assert_eq!(only(by_itself()), None);
    assert_eq!(only(OAuthOptions { oauth_client_secret: None, ..by_itself() }), Some("oauth_grant"));
    let per_key = OAuthOptions { oauth_login_per: LoginPer::Key, ..by_itself() };
    assert_eq!(only(per_key), Some("oauth_login_per"));
    let secret = OAuthOptions { oauth_client_secret: Some("a".to_owned().into()), ..OAuthOptions::default() };
    assert_eq!(only(secret), Some("oauth_client_secret"));
    let scopes = OAuthOptions { oauth_scopes: vec!["a b".to_owned()], ..OAuthOptions::default() };
    assert_eq!(only(scopes), Some("oauth_scopes"));
}

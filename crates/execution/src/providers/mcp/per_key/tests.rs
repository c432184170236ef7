//! Logins of client keys at a server that shows each user another tool.

use serde_json::json;
use tokio::time::timeout;

use super::{super::Protocol, *};
use crate::{
    Asker, ExecutionSettings,
    ask::Payer,
    double::{asker, stage_of},
    oauth::fake::{Fake, ok, per_key, tokens},
};

const TOKEN: &str = "POST /token";
const SERVER: &str = "POST /mcp";

async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), waiting).await.expect("it happens");
}

fn started(fake: &Fake, max_connections: usize) -> Arc<PerKey> {
    let oauth = per_key();
    let options =
        Options { url: Some(fake.url()), protocol: Protocol::Initialize, oauth, ..Options::default() };
    let host = Host::detached("s").with_vault(Some(fake.vault()));
    let account = options.account("s", &host.http, host.vault.clone(), None).expect("an account");
    let provider = Arc::new(PerKey { max_connections, ..PerKey::new(options, account) });
    Arc::clone(&provider).start(&host);
    provider
}

/// Logs the key `key` in, whose tokens end with `-user`.
async fn log_in(fake: &Fake, provider: &PerKey, key: &str, user: &str, lifetime: u64) {
    fake.serve_user(user, Some(&format!("of_{user}")));
    fake.set(TOKEN, ok(&tokens(&format!("access-{user}"), &format!("refresh-{user}"), lifetime)));
    fake.log_in(&provider.account(Some(key)).expect("an account")).await;
}

fn names(provider: &dyn Provider) -> Vec<String> {
    provider.tools().iter().map(|spec| spec.name.clone()).collect()
}

/// What the key `key` gets for a call to the tool of `user`.
async fn called(provider: &PerKey, key: Option<&str>, user: &str) -> Result<String, ToolError> {
    let own = provider.of_key(key).expect("a provider");
    until(|| own.status().state != ProviderState::Starting).await;
    let call = Invocation::in_test(&format!("s__of_{user}"), json!({}));
    own.run(&call).await.map(|output| output.content)
}

/// How many connections were begun with the tokens of `user`.
fn begun(fake: &Fake, user: &str) -> usize {
    let requests = fake.requests(SERVER).into_iter();
    let is_own = |(head, body): &(String, String)| {
        format!("{head}\r\n").contains(&format!("-{user}\r\n")) && body.contains("initialize\"")
    };
    requests.filter(is_own).count()
}

#[tokio::test]
async fn each_key_has_its_own_login_and_tools() {
    let fake = Fake::start().await;
    let provider = started(&fake, 8);
    let refused = called(&provider, Some("alice"), "one").await.unwrap_err();
    let expected =
        "For the client key `alice`, the server `s` needs a login: run `toolwire mcp login s --key alice`.";
    assert_eq!((refused.code, &*refused.message), (ErrorCode::AuthFailed, expected));
    let refused = called(&provider, None, "one").await.unwrap_err();
    assert!(refused.message.contains("send a key that has a name"), "{refused:?}");
    assert_eq!(fake.requests(SERVER).len(), 0, "nobody is asked without a login");
    log_in(&fake, &provider, "alice", "one", 3600).await;
    // Another key, whose name differs only in case, has no login yet.
    assert!(called(&provider, Some("Alice"), "one").await.unwrap_err().message.contains("--key Alice`"));
    log_in(&fake, &provider, "Alice", "two", 3600).await;
    for (key, user) in [("alice", "one"), ("Alice", "two")] {
        assert_eq!(called(&provider, Some(key), user).await.unwrap(), format!("access-{user}"));
        let own = provider.of_key(Some(key)).unwrap();
        assert_eq!(names(&*own), [format!("s__of_{user}")]);
    }
    assert!(
        provider.of_key(None).unwrap().tools().is_empty()
            && provider.of_key(Some("bob")).unwrap().tools().is_empty()
    );
    assert_eq!(names(&*provider), ["s__of_two", "s__of_one"]);
    assert_eq!(provider.account.keys().unwrap(), ["Alice", "alice"]);
    // The server ends one login.
    fake.serve_user("one", None);
    assert_eq!(called(&provider, Some("alice"), "one").await.unwrap_err().message, expected);
    assert_eq!(called(&provider, Some("alice"), "one").await.unwrap_err().message, expected);
    assert_eq!(called(&provider, Some("Alice"), "two").await.unwrap(), "access-two");
    assert_eq!((begun(&fake, "one"), begun(&fake, "two")), (1, 1));
    // A login that a person ends.
    assert!(provider.account(Some("Alice")).unwrap().log_out().await.unwrap());
    assert_eq!(provider.of_key(Some("Alice")).unwrap().status().state, ProviderState::NeedsLogin);
    until(|| {
        provider.close_unused(IDLE);
        provider.tools().is_empty()
    })
    .await;
}

/// A client with a key of this name.
#[derive(Debug)]
struct Named(&'static str);

impl Payer for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn pay(&self, _model: &str, _tokens: (u64, u64)) {}
}

#[tokio::test]
async fn key_without_a_login_learns_which_one_it_needs() {
    let fake = Fake::start().await;
    let provider = started(&fake, 8);
    log_in(&fake, &provider, "alice", "one", 3600).await;
    assert!(called(&provider, Some("alice"), "one").await.is_ok());
    let execution = stage_of(ExecutionSettings::default(), vec![("s", Arc::clone(&provider) as _)]);
    let missing = |key: Option<&'static str>| {
        let payer = key.map(|key| Arc::new(Named(key)) as Arc<dyn Payer>);
        execution.missing(&Asker { payer, ..asker() })
    };
    let of_bob =
        "The tools of `s` are missing: the client key `bob` must log in with `toolwire mcp login s --key bob`.";
    assert_eq!((missing(Some("alice")), missing(Some("bob"))), (vec![], vec![of_bob.to_owned()]));
    let [of_nobody] = &missing(None)[..] else { panic!("one sentence") };
    assert!(of_nobody.ends_with("so the request needs a key that has a name."), "{of_nobody}");
    assert!(provider.account(Some("alice")).unwrap().log_out().await.unwrap());
    assert_eq!(missing(Some("alice")), [of_bob.replace("bob", "alice")]);
}

#[tokio::test]
async fn first_calls_of_two_keys_refresh_each_login_once() {
    let fake = Fake::start().await;
    let provider = started(&fake, 8);
    for (key, user) in [("a", "one"), ("b", "two")] {
        log_in(&fake, &provider, key, user, 0).await;
    }
    let before = fake.requests(TOKEN).len();
    fake.delay(Duration::from_millis(30));
    let calls = (0..20).map(|number| {
        let (key, user) = if number % 2 == 0 { ("a", "one") } else { ("b", "two") };
        let provider = &provider;
        async move { assert_eq!(called(provider, Some(key), user).await.unwrap(), format!("renewed-{user}")) }
    });
    futures_util::future::join_all(calls).await;
    let renewed: Vec<_> = fake.requests(TOKEN).into_iter().skip(before).map(|(_, body)| body).collect();
    for user in ["one", "two"] {
        assert_eq!(renewed.iter().filter(|body| body.contains(&format!("refresh-{user}"))).count(), 1);
        assert_eq!(begun(&fake, user), 1);
    }
}

#[tokio::test]
async fn connections_are_limited_and_unused_ones_are_closed() {
    let fake = Fake::start().await;
    let provider = started(&fake, 2);
    for (key, user) in [("a", "one"), ("b", "two"), ("c", "three")] {
        log_in(&fake, &provider, key, user, 3600).await;
    }
    let connected = || provider.keys.lock().connected.keys().cloned().collect::<Vec<_>>();
    for (key, user) in [("a", "one"), ("b", "two"), ("c", "three"), ("b", "two")] {
        assert_eq!(called(&provider, Some(key), user).await.unwrap(), format!("access-{user}"));
    }
    assert_eq!(connected(), ["b", "c"]);
    let held = ["b", "c"].map(|key| provider.of_key(Some(key)).unwrap());
    let refused = called(&provider, Some("a"), "one").await.unwrap_err();
    assert_eq!(refused.message, "Too many keys use the server of the tool at the moment.");
    provider.close_unused(Duration::ZERO);
    assert_eq!(connected(), ["b", "c"]);
    drop(held);
    assert_eq!(called(&provider, Some("a"), "one").await.unwrap(), "access-one");
    assert_eq!(connected(), ["a", "c"]);
    provider.close_unused(Duration::ZERO);
    assert!(connected().is_empty());
    // Accounts in memory are limited too, and those with a connection stay.
    assert_eq!(called(&provider, Some("a"), "one").await.unwrap(), "access-one");
    (0..2 * MAX_ACCOUNTS).for_each(|number| _ = provider.account(Some(&format!("k{number}"))));
    let accounts = &provider.keys.lock().accounts;
    assert!(accounts.len() <= MAX_ACCOUNTS && accounts.contains_key("a"), "{}", accounts.len());
}

#[test]
fn only_a_server_with_logins_can_have_them_per_key() {
    let oauth = per_key();
    let url = Some("https://mcp.example/mcp".parse().unwrap());
    let own = Options { oauth, url, ..Options::default() };
    assert!(own.check().is_ok());
    let with_key = Options { api_key: Some("a-key".into()), ..own.clone() };
    let mut program = Options { url: None, ..own };
    program.program.command = vec!["server".to_owned()];
    for options in [with_key, program] {
        assert_eq!(options.check().unwrap_err().key, "oauth_login_per");
    }
}

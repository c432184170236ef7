//! [`Fake`]: an authorization server and a server that wants its tokens, for tests.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use url::{Url, form_urlencoded};

use super::{Account, Grant, LoginPer, OAuthOptions, Vault};
use crate::http::HttpClient;

/// A response: status, further headers and body.
#[derive(Debug, Clone)]
pub(crate) struct Answer(pub(crate) u16, pub(crate) String, pub(crate) String);

pub(crate) fn ok(body: &Value) -> Answer {
    Answer(200, String::new(), body.to_string())
}

pub(crate) fn refused(error: &str) -> Answer {
    Answer(400, String::new(), json!({"error": error, "error_description": "no\u{1b}[31m more"}).to_string())
}

#[derive(Default)]
struct Script {
    /// By method and path. The last answer is repeated.
    answers: HashMap<String, VecDeque<Answer>>,
    /// Method and path, head, and body.
    requests: Vec<(String, String, String)>,
    delay: Duration,
    /// The tool that the server shows to each user, by the end of the user's tokens. Empty if the server is scripted.
    users: HashMap<String, String>,
}

/// Listens on a port of its own.
pub(crate) struct Fake {
    pub(crate) origin: String,
    script: Arc<Mutex<Script>>,
    folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// A server at `/mcp` that is protected by an authorization server at the same origin.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let script: Arc<Mutex<Script>> = Arc::default();
        let (mut tasks, seen) = (JoinSet::new(), Arc::clone(&script));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        let fake = Self { origin, script, folder: tempfile::tempdir().unwrap(), _tasks: tasks };
        fake.set("GET /.well-known/oauth-protected-resource/mcp", ok(&fake.resource()));
        fake.set("GET /.well-known/oauth-authorization-server", ok(&fake.metadata()));
        fake.set("POST /mcp", fake.challenge(""));
        fake.set(
            "POST /register",
            Answer(201, String::new(), json!({"client_id": "own client"}).to_string()),
        );
        fake.set("POST /token", ok(&tokens("access-one", "refresh-one", 3600)));
        fake.set("POST /revoke", ok(&json!({})));
        fake
    }

    pub(crate) fn resource(&self) -> Value {
        let own = format!("{}/mcp", self.origin);
        json!({"resource": own, "authorization_servers": [self.origin], "scopes_supported": ["read", "write"]})
    }

    pub(crate) fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.origin);
        json!({
            "issuer": self.origin, "authorization_endpoint": at("/authorize?tenant=1"), "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"), "revocation_endpoint": at("/revoke"),
            "code_challenge_methods_supported": ["plain", "S256"], "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// Status 401 that names the metadata, with more parameters.
    pub(crate) fn challenge(&self, more: &str) -> Answer {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
        Answer(
            401,
            format!("WWW-Authenticate: Bearer resource_metadata=\"{metadata}\"{more}\r\n"),
            String::new(),
        )
    }

    /// Sets the answer to a method and path.
    pub(crate) fn set(&self, what: &str, answer: Answer) {
        self.set_all(what, [answer]);
    }

    pub(crate) fn set_all(&self, what: &str, answers: impl IntoIterator<Item = Answer>) {
        self.script.lock().answers.insert(what.to_owned(), answers.into_iter().collect());
    }

    /// Lets the server work for this user, whose tokens end with `-user`. Without a tool, they are refused from now on.
    pub(crate) fn serve_user(&self, user: &str, tool: Option<&str>) {
        self.set("GET /mcp", Answer(405, String::new(), String::new()));
        let mut script = self.script.lock();
        match tool {
            Some(tool) => _ = script.users.insert(user.to_owned(), tool.to_owned()),
            None => _ = script.users.remove(user),
        }
    }

    /// Makes each answer wait.
    pub(crate) fn delay(&self, delay: Duration) {
        self.script.lock().delay = delay;
    }

    /// The heads and bodies of the requests to a method and path.
    pub(crate) fn requests(&self, what: &str) -> Vec<(String, String)> {
        let script = self.script.lock();
        let own = script.requests.iter().filter(|(line, ..)| line == what);
        own.map(|(_, head, body)| (head.clone(), body.clone())).collect()
    }

    /// The fields of the last form that was sent to `what`.
    pub(crate) fn form(&self, what: &str) -> HashMap<String, String> {
        let (_, body) = self.requests(what).pop().unwrap();
        form_urlencoded::parse(body.as_bytes()).into_owned().collect()
    }

    pub(crate) fn vault(&self) -> Arc<Vault> {
        Arc::new(Vault::new(self.folder.path(), None))
    }

    pub(crate) fn url(&self) -> http::Uri {
        format!("{}/mcp", self.origin).parse().unwrap()
    }

    pub(crate) fn account(&self) -> Arc<Account> {
        self.account_with(OAuthOptions::default())
    }

    pub(crate) fn account_with(&self, options: OAuthOptions) -> Arc<Account> {
        let http = HttpClient::direct();
        Account::new("s".into(), &self.url(), options, &http, Some(self.vault()), None).unwrap()
    }

    /// Begins a login, and returns the parameters of the URL to open.
    pub(crate) async fn begun(&self, account: &Account) -> HashMap<String, String> {
        let url = account.begin("http://127.0.0.1:9/callback", None).await.unwrap();
        Url::parse(&url).unwrap().query_pairs().into_owned().collect()
    }

    /// The query with which the browser comes back.
    pub(crate) fn response(&self, begun: &HashMap<String, String>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("code", "the code").append_pair("state", &begun["state"]);
        query.append_pair("iss", &self.origin).finish()
    }

    /// Logs in.
    pub(crate) async fn log_in(&self, account: &Account) {
        let begun = self.begun(account).await;
        account.finish(&self.response(&begun)).await.unwrap();
    }
}

pub(crate) fn tokens(access: &str, refresh: &str, lifetime: u64) -> Value {
    json!({"access_token": access, "refresh_token": refresh, "token_type": "bearer", "expires_in": lifetime})
}

/// Options of a server at which each client key has a login of its own.
pub(crate) fn per_key() -> OAuthOptions {
    OAuthOptions { oauth_login_per: LoginPer::Key, ..OAuthOptions::default() }
}

/// Options of a client that needs no person.
pub(crate) fn by_itself() -> OAuthOptions {
    OAuthOptions {
        oauth_client_id: Some("id:1".to_owned()),
        oauth_client_secret: Some("s3cret&s3cret".to_owned().into()),
        oauth_grant: Grant::ClientCredentials,
        ..OAuthOptions::default()
    }
}

/// The answer of a server that works. `None` for what is scripted.
fn served(users: &HashMap<String, String>, what: &str, head: &str, body: &str) -> Option<Answer> {
    let of_token =
        |token: &str| token.rsplit('-').next().map(str::to_owned).filter(|user| users.contains_key(user));
    match what {
        "POST /token" if !users.is_empty() && body.contains("grant_type=refresh_token") => {
            let fields: HashMap<_, _> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            Some(match of_token(&fields["refresh_token"]) {
                Some(user) => ok(&tokens(&format!("renewed-{user}"), &format!("refresh-{user}"), 3600)),
                None => refused("invalid_grant"),
            })
        }
        "POST /mcp" => {
            let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "))?;
            let tool = &users[&of_token(token)?];
            let message: Value = serde_json::from_str(body).unwrap();
            let result = match message["method"].as_str().unwrap() {
                "initialize" => json!({
                    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "1"},
                }),
                "tools/list" => json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]}),
                "tools/call" => json!({"content": [{"type": "text", "text": token}]}),
                _ if message["id"].is_null() => return Some(Answer(202, String::new(), String::new())),
                _ => {
                    let error = json!({"code": -32601, "message": "unknown method"});
                    return Some(ok(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error})));
                }
            };
            Some(ok(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})))
        }
        _ => None,
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let Ok(length @ 1..) = stream.read(&mut piece).await else { return };
        read.extend_from_slice(&piece[..length]);
        let text = String::from_utf8(read.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let line = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() < line.unwrap_or(0) {
            continue;
        }
        let what: Vec<_> = head.split(' ').take(2).collect();
        let what = what.join(" ");
        let (answer, delay) = {
            let mut script = script.lock();
            script.requests.push((what.clone(), head.to_owned(), body.to_owned()));
            let served = served(&script.users, &what, head, body);
            let answer = match script.answers.get_mut(&what) {
                _ if served.is_some() => served,
                Some(answers) if answers.len() > 1 => answers.pop_front(),
                Some(answers) => answers.front().cloned(),
                None => None,
            };
            (answer.unwrap_or(Answer(404, String::new(), "{}".to_owned())), script.delay)
        };
        sleep(delay).await;
        let Answer(status, headers, body) = answer;
        let length = body.len();
        let kind = if headers.contains("Content-Type: ") { "" } else { "Content-Type: application/json\r\n" };
        let fields = format!("{kind}Content-Length: {length}\r\n{headers}");
        let response = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{fields}\r\n{body}");
        // The client may have closed the connection.
        let _ = stream.write_all(response.as_bytes()).await;
        return;
    }
}

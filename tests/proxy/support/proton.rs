//! An upstream with accounts like Proton's: it issues and rotates tokens, rejects old ones, and counts requests.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolwire::dialect::{UpstreamDialect, lumo};

use super::{
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

/// The state of the upstream. Tokens contain their number, as in `access-1` and `refresh-1`.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// The number of the valid tokens, or 0 if the session has ended.
    pub(crate) valid: usize,
    pub(crate) refreshes: usize,
    pub(crate) refused: usize,
    pub(crate) asked: usize,
    pub(crate) unauthorized: usize,
    /// The answer to a refresh in place of new tokens.
    pub(crate) trouble: Option<(&'static str, &'static str)>,
    /// The answer to a request in place of a model's response.
    pub(crate) error: Option<(&'static str, String)>,
    /// The event that replaces the text in the next stream.
    pub(crate) event: Option<&'static str>,
    /// The lifetime of tokens in seconds.
    pub(crate) lifetime: Value,
    /// The heads of all requests, in lower case.
    pub(crate) heads: Vec<String>,
    /// The client's session file at the time of each authorized request.
    pub(crate) files: Vec<Option<Value>>,
}

#[derive(Clone)]
pub(crate) struct Proton {
    upstream: Arc<Upstream>,
    accounts: Arc<Mutex<Accounts>>,
    /// Each refresh needs one of these permits to be answered.
    pub(crate) refreshable: Arc<Semaphore>,
}

/// More permits than any test uses.
const ALWAYS: usize = 1 << 20;

impl Proton {
    /// Starts an upstream that accepts the tokens with the number `valid`. `file` is where its client keeps the
    /// session.
    pub(crate) async fn start(valid: usize, file: &Path) -> Self {
        let accounts = Accounts {
            valid,
            refreshes: 0,
            refused: 0,
            asked: 0,
            unauthorized: 0,
            trouble: None,
            error: None,
            event: None,
            lifetime: json!(43_200),
            heads: Vec::new(),
            files: Vec::new(),
        };
        let (accounts, refreshable) = (Arc::new(Mutex::new(accounts)), Arc::new(Semaphore::new(ALWAYS)));
        let shared = (Arc::clone(&accounts), Arc::clone(&refreshable), file.to_owned());
        let upstream =
            Upstream::start_sharing(shared, |exchange, (accounts, refreshable, file)| async move {
                respond(exchange, &accounts, &refreshable, &file).await
            });
        Self { upstream: Arc::new(upstream.await), accounts, refreshable }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.upstream.address
    }

    pub(crate) fn accounts(&self) -> MutexGuard<'_, Accounts> {
        locked(&self.accounts)
    }

    /// Returns the number of refreshes, of refreshes with an old token, and of requested responses.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let accounts = self.accounts();
        (accounts.refreshes, accounts.refused, accounts.asked)
    }

    /// Returns the setup of a proxy in front of this upstream, after `change` has modified its account.
    pub(crate) fn setup(&self, change: impl FnOnce(&mut lumo::AccountSettings)) -> Setup {
        let mut setup = Setup::new(self.upstream.address);
        let mut options = lumo::Options::default();
        change(&mut options.account);
        setup.upstream.options = UpstreamDialect::Lumo(options);
        setup.upstream.api_key = None;
        setup
    }
}

/// The content of a session file with the tokens of this number and with additional `members`.
pub(crate) fn session(number: usize, members: &Value) -> String {
    let mut session = json!({
        "uid": "u1",
        "access_token": format!("access-{number}"),
        "refresh_token": format!("refresh-{number}"),
    });
    for (key, value) in members.as_object().into_iter().flatten() {
        session[key] = value.clone();
    }
    session.to_string()
}

fn locked(accounts: &Mutex<Accounts>) -> MutexGuard<'_, Accounts> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

const JSON: &str = "content-type: application/json\r\n";

async fn respond(
    mut exchange: Exchange,
    accounts: &Mutex<Accounts>,
    refreshable: &Semaphore,
    file: &Path,
) -> Exchange {
    locked(accounts).heads.push(exchange.head.clone());
    if exchange.head.starts_with("post /base/auth/refresh ") {
        let permit = refreshable.acquire().await;
        let (status, headers, body) = refresh(&exchange, &mut locked(accounts));
        drop(permit);
        exchange.whole(status, &headers, &body).await;
        return exchange;
    }
    let is_valid = {
        let accounts = locked(accounts);
        let token = format!("bearer access-{}", accounts.valid);
        accounts.valid > 0
            && exchange.header("authorization") == Some(&token)
            && exchange.header("x-pm-uid") == Some("u1")
            && exchange.header("x-pm-appversion").is_some()
    };
    let is_response = exchange.head.starts_with("post /base/ai/v1/chat/completions ");
    let (error, event) = {
        let mut accounts = locked(accounts);
        accounts.asked += usize::from(is_response);
        accounts.unauthorized += usize::from(is_response && !is_valid);
        if is_valid && is_response {
            let kept = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
            accounts.files.push(kept);
        }
        let event = accounts.event.take_if(|_| is_valid && is_response);
        (accounts.error.clone(), event)
    };
    if !is_valid {
        let body = r#"{"Code":401,"Error":"Invalid access token"}"#;
        exchange.whole("401 Unauthorized", JSON, body).await;
    } else if exchange.head.starts_with("delete /base/core/v4/auth ") {
        locked(accounts).valid = 0;
        exchange.whole("200 OK", JSON, r#"{"Code":1000}"#).await;
    } else if let Some((status, body)) = error {
        exchange.whole(status, JSON, &body).await;
    } else if let Some(event) = event {
        exchange.whole("200 OK", "content-type: text/event-stream\r\n", event).await;
    } else {
        let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n\
             data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        exchange.whole("200 OK", "content-type: text/event-stream\r\n", text).await;
    }
    exchange
}

/// Answers a refresh with new tokens if its token is valid.
fn refresh(exchange: &Exchange, accounts: &mut Accounts) -> (&'static str, String, String) {
    accounts.refreshes += 1;
    if let Some((status, body)) = accounts.trouble {
        return (status, JSON.to_owned(), body.to_owned());
    }
    let wanted = format!("refresh-{}", accounts.valid);
    let asked: Option<Value> = serde_json::from_slice(&exchange.body).ok();
    let with_json = asked.as_ref().is_some_and(|asked| {
        asked["RefreshToken"] == wanted && asked["UID"] == "u1" && asked["GrantType"] == "refresh_token"
    });
    let cookie = exchange.header("cookie").unwrap_or_default();
    let with_cookie = cookie.starts_with("refresh-u1=") && cookie.contains(&format!("%22{wanted}%22"));
    if !(with_json || with_cookie) {
        accounts.refused += 1;
        let body = r#"{"Code":10013,"Error":"Invalid refresh token"}"#;
        return ("422 Unprocessable Entity", JSON.to_owned(), body.to_owned());
    }
    accounts.valid += 1;
    let number = accounts.valid;
    let mut tokens = json!({"Code": 1000, "UID": "u1", "ExpiresIn": accounts.lifetime});
    let mut headers = JSON.to_owned();
    if with_cookie {
        headers.push_str(&format!("set-cookie: AUTH-u1=access-{number}; Path=/; HttpOnly\r\n"));
        headers.push_str(&format!(
            "set-cookie: REFRESH-u1=%7B%22RefreshToken%22%3A%22refresh-{number}%22%7D; Path=/\r\n"
        ));
    } else {
        tokens["AccessToken"] = json!(format!("access-{number}"));
        tokens["RefreshToken"] = json!(format!("refresh-{number}"));
    }
    ("200 OK", headers, tokens.to_string())
}

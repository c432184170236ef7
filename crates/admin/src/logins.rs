//! `/admin/providers/{name}/login` and `/admin/logins`: a person logs in to a provider's server, in the console.
//!
//! The authorization server sends the browser back to the console's page, not to a path of this API: the session's
//! cookie is not sent with a navigation that another site has caused. The page then sends the response here, like any
//! change, with the session and its token. Only a login that was begun here has the response's `state`.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Uri, header, request};
use serde_json::{Value, json};

use super::{AdminError, AdminResponse, object, ok};
use toolwire_config::client_keys::{NAME_EXPECTED, is_name};
use toolwire_execution::{
    Execution, Provider,
    oauth::{Account, LoginState, OAuthError},
};

/// The path at which the console's page is, below any prefix.
const PAGE: &str = "/console/";

pub(super) fn shown(account: &Account) -> Value {
    match account.state() {
        LoginState::LoggedOut { .. } => json!({"state": "logged_out"}),
        LoginState::LoggedIn { expires_at, is_refreshable } => {
            json!({"state": "logged_in", "expires_at": expires_at, "refreshable": is_refreshable})
        }
    }
}

/// The logins of client keys at a server, by the keys' names.
pub(super) fn of_keys(provider: &dyn Provider, account: &Account) -> Value {
    let keys = account.keys().unwrap_or_else(|error| {
        tracing::warn!(provider = account.name(), %error, "the logins of client keys cannot be read");
        Vec::new()
    });
    let of = |key: String| Some((provider.account(Some(&key)).map(|account| shown(&account))?, key));
    keys.into_iter().filter_map(of).map(|(shown, key)| (key, shown)).collect::<serde_json::Map<_, _>>().into()
}

/// Begins or ends the login at the server of the provider `name`.
pub(super) async fn change(
    execution: &Execution,
    name: &str,
    head: &request::Parts,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    match head.method {
        Method::DELETE => end(execution, name, head.uri.query()).await,
        _ => begin(execution, name, head, body).await,
    }
}

/// Begins a login. The response goes to `redirect`, the console's page.
async fn begin(
    execution: &Execution,
    name: &str,
    head: &request::Parts,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let account = account(execution, name, head.uri.query())?;
    let wrong = || AdminError::invalid("`redirect` is the URL of this console's page", Some("redirect"));
    let body = object(body)?;
    let redirect = body.get("redirect").and_then(Value::as_str).ok_or_else(wrong)?.to_owned();
    if !is_own_page(&redirect, &head.headers) {
        return Err(wrong());
    }
    let begun = run(execution, async move { account.begin(&redirect, None).await }).await?;
    tracing::info!(provider = name, "a login at an MCP server has begun");
    Ok(AdminResponse::json(json!({"url": begun})))
}

/// Ends a login with the query of the URL at which the browser came back.
pub(super) async fn finish(execution: &Execution, body: &[u8]) -> Result<AdminResponse, AdminError> {
    let body = object(body)?;
    let query = body.get("query").and_then(Value::as_str);
    let query = query.ok_or_else(|| AdminError::invalid("`query` is a string", Some("query")))?.to_owned();
    let accounts = execution.registry().providers().iter().flat_map(|(_, provider)| provider.accounts());
    let found = accounts.into_iter().find(|account| account.awaits(&query));
    let account = found.ok_or_else(|| failed(&OAuthError::State))?;
    let (name, key) = (account.name().to_owned(), account.key().map(str::to_owned));
    run(execution, async move { account.finish(&query).await }).await?;
    Ok(AdminResponse::json(json!({"provider": name, "key": key})))
}

async fn end(execution: &Execution, name: &str, query: Option<&str>) -> Result<AdminResponse, AdminError> {
    let account = account(execution, name, query)?;
    let own = Arc::clone(&account);
    if !run(execution, async move { own.log_out().await }).await? {
        return Err(AdminError::new(StatusCode::CONFLICT, "not_logged_in", "there is no login"));
    }
    tracing::info!(provider = name, "a login at an MCP server was ended");
    // The connection was made with the login. That of a client key is closed when it is not used any more.
    if let Some(provider) = execution.provider(name).filter(|_| account.key().is_none()) {
        provider.restart();
    }
    Ok(ok())
}

/// The account of the client key in `query`, or that of all clients.
fn account(execution: &Execution, name: &str, query: Option<&str>) -> Result<Arc<Account>, AdminError> {
    let provider = execution.provider(name).ok_or_else(|| AdminError::unknown("provider", name))?;
    let none = |message| AdminError::new(StatusCode::CONFLICT, "no_login", message);
    let account = provider.account(None).filter(|account| account.wants_person());
    let message = "a login is only for an MCP server with `url` and without `api_key`";
    let account = account.ok_or_else(|| none(message))?;
    let mut parameters = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let key = parameters.find(|(name, _)| name == "key").map(|(_, key)| key);
    match key {
        Some(_) if !account.is_per_key() => {
            Err(none("all clients use one login at this server (`oauth_login_per`)"))
        }
        Some(key) if !is_name(&key) => {
            Err(AdminError::invalid(format!("`key` is {NAME_EXPECTED}"), Some("key")))
        }
        None if account.is_per_key() => {
            Err(AdminError::invalid("`key` is the name of the client key whose login it is", Some("key")))
        }
        key => provider.account(key.as_deref()).ok_or_else(|| none(message)),
    }
}

/// Runs `work` on the runtime that has the connections of providers.
async fn run<T: Send + 'static>(
    execution: &Execution,
    work: impl Future<Output = Result<T, OAuthError>> + Send + 'static,
) -> Result<T, AdminError> {
    match execution.runtime().run(work).await {
        Some(done) => done.map_err(|error| failed(&error)),
        None => Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the login was not made")),
    }
}

fn failed(error: &OAuthError) -> AdminError {
    let status = match error {
        OAuthError::State | OAuthError::Redirect | OAuthError::Response(_) => StatusCode::BAD_REQUEST,
        OAuthError::NoVault | OAuthError::NoRegistration => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    };
    AdminError::new(status, "login_failed", error.to_string())
}

/// Whether `redirect` is the console's page at the origin of the page that has sent the request.
fn is_own_page(redirect: &str, headers: &HeaderMap) -> bool {
    let Ok(url) = redirect.parse::<Uri>() else { return false };
    let origin =
        url.scheme_str().zip(url.authority()).map(|(scheme, authority)| format!("{scheme}://{authority}"));
    // Scripts have no origin.
    let shown = headers.get(header::ORIGIN);
    url.path().ends_with(PAGE)
        && url.query().is_none()
        && shown.is_none_or(|shown| origin.is_some_and(|origin| shown.as_bytes() == origin.as_bytes()))
}

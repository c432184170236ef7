//! Tells programs that toolwire has started: `{type: "ORCHESTRATOR_READY"}`.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use secrecy::SecretString;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::credentials;
use crate::http::HttpClient;

/// Maximum number of attempts per URL. The program may be starting as well.
const TRIES: usize = 5;

/// Delay between attempts.
const PAUSE: Duration = Duration::from_secs(3);

/// Time limit for one attempt.
const LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of the response in bytes. Its content is ignored.
const MAX_RESPONSE: usize = 64 << 10;

/// Sends the message to `url` until it is accepted or all attempts have failed. A program that does not receive it can
/// still register.
pub(super) async fn announce(http: &HttpClient, key: &SecretString, url: &str) {
    for tried in 1..=TRIES {
        let Some(request) = request(key, url) else {
            tracing::error!(url, "not a URL to which a message can be sent (ready_callbacks)");
            return;
        };
        match timeout(LIMIT, http.send(request, MAX_RESPONSE)).await {
            Ok(Ok(response)) if response.status().is_success() => return,
            _ if tried == TRIES => tracing::info!(url, "could not notify this address that toolwire has started"),
            _ => sleep(PAUSE).await,
        }
    }
}

fn request(key: &SecretString, url: &str) -> Option<Request<Bytes>> {
    let body = json!({"type": "ORCHESTRATOR_READY"}).to_string();
    let uri: http::Uri = url.parse().ok().filter(|uri: &http::Uri| uri.host().is_some())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
    for (name, value) in credentials::signed(key, &Method::POST, &path, body.as_bytes()) {
        request = request.header(name, value);
    }
    request.body(body.into()).ok()
}

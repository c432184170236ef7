//! [`Asker`]: sends chat requests to toolwire and reads the streams like a client.

use std::{fmt, net::SocketAddr, time::Duration};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::fixture::{Answer, assemble};
use toolwire_pipeline::dialect::ClientDialect;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 4 << 20;

/// Maximum size of an error response, in bytes.
const MAX_ERROR: usize = 64 << 10;

/// Maximum retained size of a text or of a call's arguments, in bytes.
const MAX_TEXT: usize = 16 << 10;

/// Maximum number of retained calls.
const MAX_CALLS: usize = 64;

/// A response and its timing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    /// The response, truncated to the limits.
    pub(crate) answer: Answer,
    /// Time from the request to the first delta of a call.
    pub(crate) to_call: Option<Duration>,
    /// Time from the request to the end of the response.
    pub(crate) total: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("{message} (status {status})")]
    Refused {
        status: u16,
        code: Option<String>,
        message: String,
        /// The response's `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The stream could not be read to its end.
    #[error("{0}")]
    Broken(String),
    /// The response took longer than this.
    #[error("no complete response within {}", humantime::format_duration(*.0))]
    Slow(Duration),
}

/// A client of one server.
#[derive(Debug)]
pub(crate) struct Asker {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    /// The value of `Authorization`.
    authorization: String,
    timeout: Duration,
}

impl Asker {
    /// Creates a client of the server at `address`, which requires `key`. A response may take up to `timeout`.
    pub(crate) fn new(address: SocketAddr, key: &str, timeout: Duration) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, base: format!("http://{address}/v1"), authorization: format!("Bearer {key}"), timeout }
    }

    /// Sends a streamed chat request.
    pub(crate) async fn ask(&self, body: Bytes) -> Result<Reply, AskError> {
        let limit = self.timeout;
        timeout(limit, self.exchange(body)).await.unwrap_or(Err(AskError::Slow(limit)))
    }

    async fn exchange(&self, body: Bytes) -> Result<Reply, AskError> {
        let started = Instant::now();
        let request = Request::post(format!("{}/chat/completions", self.base))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, &self.authorization)
            .body(Full::new(body))
            .map_err(|error| AskError::Broken(error.to_string()))?;
        let response =
            self.client.request(request).await.map_err(|error| AskError::Broken(error.to_string()))?;
        if response.status() != StatusCode::OK {
            return Err(refused(response).await);
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE);
        let mut events = body.into_data_stream().eventsource();
        let (mut read, mut to_call) = (String::new(), None);
        while let Some(event) = events.next().await {
            let data = event.map_err(|error| AskError::Broken(error.to_string()))?.data;
            if to_call.is_none() && begins_call(&data) {
                to_call = Some(started.elapsed());
            }
            // `[DONE]` ends the response, even if the connection stays open.
            read.extend(["data: ", &data, "\n\n"]);
            if data == "[DONE]" {
                break;
            }
        }
        let assembled = assemble(ClientDialect::Chat, read.as_bytes(), true, 200);
        match assembled.faults.into_iter().next() {
            Some(fault) => Err(AskError::Broken(fault)),
            None => Ok(Reply { answer: clipped(assembled.answer), to_call, total: started.elapsed() }),
        }
    }

    /// Returns the names listed at `/v1/models`.
    pub(crate) async fn models(&self) -> Result<Vec<String>, AskError> {
        let broken = |error: &dyn fmt::Display| AskError::Broken(error.to_string());
        let request = Request::get(format!("{}/models", self.base))
            .header(header::AUTHORIZATION, &self.authorization)
            .body(Full::default());
        let request = request.map_err(|error| broken(&error))?;
        let list = async {
            let response = self.client.request(request).await.map_err(|error| broken(&error))?;
            if response.status() != StatusCode::OK {
                return Err(refused(response).await);
            }
            let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
            let body = body.map_err(|error| broken(&error))?.to_bytes();
            let list: Value = serde_json::from_slice(&body).map_err(|error| broken(&error))?;
            let names = list.get("data").and_then(Value::as_array).into_iter().flatten();
            Ok(names.filter_map(|model| Some(model.get("id")?.as_str()?.to_owned())).collect())
        };
        timeout(self.timeout, list).await.unwrap_or(Err(AskError::Slow(self.timeout)))
    }
}

/// Whether an event contains the first delta of a call.
fn begins_call(data: &str) -> bool {
    // Cheap test first, since most events are text. The text may also contain the word, so the JSON decides.
    data.contains("tool_calls")
        && serde_json::from_str::<Value>(data).is_ok_and(|frame| {
            let calls = frame.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
            calls.is_some_and(|calls| !calls.is_empty())
        })
}

/// Reads an error response.
async fn refused(response: Response<Incoming>) -> AskError {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = Limited::new(response.into_body(), MAX_ERROR).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let error = assemble(ClientDialect::Chat, &body, false, status).answer.error;
    let (code, message) = error.map_or((None, None), |error| (error.code, error.message));
    let message = message.unwrap_or_else(|| "the upstream refused the request".to_owned());
    AskError::Refused { status, code, message, retry_after: retry_after.map(Duration::from_secs) }
}

/// Truncates the response to the limits.
fn clipped(mut answer: Answer) -> Answer {
    let clip = |text: &mut String| {
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
    };
    clip(&mut answer.text);
    clip(&mut answer.reasoning);
    clip(&mut answer.refusal);
    answer.annotations.clear();
    answer.results.clear();
    answer.calls.truncate(MAX_CALLS);
    for call in &mut answer.calls {
        clip(&mut call.name);
        clip(&mut call.arguments);
        call.id = None;
    }
    answer
}

//! [`HttpServer`]: an MCP server with a URL, over streamable HTTP.
//!
//! rmcp tracks the session; this type sends the requests and reads the responses. Redirects are only followed within
//! the same origin, because the requests contain the key.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    error::Error,
    ops::ControlFlow,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT, WWW_AUTHENTICATE},
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::{
        DynamicTransportError,
        streamable_http_client::{
            AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::Sse;

use super::message;
use toolwire_pipeline::{settings::TableText, wire::sse::{Frame, Frames}};
use crate::{
    http::{HttpClient, HttpError, collected},
    oauth::{Account, OAuthError},
    providers::Fault,
};

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const MAX_REDIRECTS: usize = 3;

pub(super) type Failure = StreamableHttpError<HttpError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Checks that names and values are valid in headers.
///
/// # Errors
/// The first invalid header.
pub(super) fn check_headers(headers: &BTreeMap<String, TableText>) -> Result<(), Fault> {
    let fault = |message: String| Err(Fault::new("headers", message));
    for (name, value) in headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            return fault(format!("`{name}` cannot be the name of a header"));
        }
        if HeaderValue::from_str(value.expose_secret()).is_err() {
            return fault(format!("the value of `{name}` cannot be that of a header"));
        }
    }
    Ok(())
}

/// Whether a message could not be sent because the server rejected the key.
pub(super) fn is_refusal(error: &DynamicTransportError) -> bool {
    matches!(error.error.downcast_ref(), Some(Failure::AuthRequired(_)))
}

#[derive(Debug, Clone)]
pub(super) struct HttpServer {
    http: HttpClient,
    headers: Arc<HeaderMap>,
    /// Authorizes the requests, if there is no key.
    account: Option<Arc<Account>>,
    max_message: usize,
}

impl HttpServer {
    /// Creates a client that sends `key` and `headers` with every request, or else the token of `account`.
    /// `max_message` is the maximum size of a message from the server, in bytes.
    pub(super) fn new(
        http: HttpClient,
        key: Option<&SecretString>,
        headers: &BTreeMap<String, TableText>,
        account: Option<Arc<Account>>,
        max_message: usize,
    ) -> Self {
        let mut all = HeaderMap::new();
        all.insert(USER_AGENT, HeaderValue::from_static(concat!("toolwire/", env!("CARGO_PKG_VERSION"))));
        let key = key.map(|key| ("authorization", format!("Bearer {}", key.expose_secret())));
        let own = headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret().to_owned()));
        for (name, value) in key.into_iter().chain(own) {
            // Invalid headers were rejected when the settings were read.
            if let (Ok(name), Ok(mut value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value))
            {
                value.set_sensitive(true);
                all.insert(name, value);
            }
        }
        let account = account.filter(|_| !all.contains_key(AUTHORIZATION));
        Self { http, headers: Arc::new(all), account, max_message }
    }

    /// Sends a request with the configured headers and a token. If the server rejects the token and there is another
    /// one, sends the request once more. Redirects are followed within the origin of `uri`.
    pub(super) async fn send(
        &self,
        method: Method,
        uri: &str,
        session: Option<&str>,
        custom: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        own: &[(HeaderName, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let mut headers = (*self.headers).clone();
        let own =
            own.iter().map(|(name, value)| (name.clone(), *value)).chain(session.map(|id| (SESSION, id)));
        for (name, value) in own {
            headers.insert(
                name,
                HeaderValue::from_str(value).map_err(|_| unexpected("an id that no header can carry"))?,
            );
        }
        for (name, value) in custom {
            headers.insert(name, value);
        }
        let uri: Uri = uri.parse().map_err(|_| unexpected("an invalid URL"))?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        match &self.account {
            Some(account) => self.authorized(account, request).await,
            None => checked(self.followed(request).await?),
        }
    }

    /// Sends a request with the token of `account`, and once more if that is rejected and there is another one.
    async fn authorized(
        &self,
        account: &Arc<Account>,
        mut request: Request<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let failed = |error: OAuthError| Failure::UnexpectedServerResponse(error.to_string().into());
        let token = account.token().await.map_err(failed)?;
        put_token(&mut request, token.as_ref());
        let response = self.followed(request.clone()).await?;
        let Some(challenge) = Account::refusal(response.status(), &challenges(&response)) else {
            account.accepted();
            return checked(response);
        };
        if response.status() == StatusCode::FORBIDDEN {
            account.lacks_scope(challenge);
            return checked(response);
        }
        if !account.rejected(token, challenge).await.map_err(failed)? {
            return checked(response);
        }
        put_token(&mut request, account.token().await.map_err(failed)?.as_ref());
        let response = self.followed(request).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => account.refused_again(),
            _ => account.accepted(),
        }
        checked(response)
    }

    /// Sends a request, and follows redirects within its origin.
    async fn followed(&self, mut request: Request<Bytes>) -> Result<Response<Incoming>, Failure> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.http.exchange(request.clone()).await.map_err(Failure::Client)?;
            match redirected(request.uri(), &response) {
                Some(target) => *request.uri_mut() = target,
                None => return Ok(response),
            }
        }
        Err(unexpected("too many redirects"))
    }

    /// Maximum size of a message from the server, in bytes.
    pub(super) fn max_message(&self) -> usize {
        self.max_message
    }

    /// Reads a response that consists of one JSON message.
    async fn whole(&self, response: Response<Incoming>) -> Result<Option<ServerJsonRpcMessage>, Failure> {
        let body = collected(response, self.max_message).await.map_err(|error| match error {
            HttpError::TooLarge => Failure::ResponseBodyTooLarge { max_size: self.max_message },
            error => Failure::Client(error),
        })?;
        Ok(message::read(body.body()))
    }
}

pub(super) fn unexpected(what: &'static str) -> Failure {
    Failure::UnexpectedServerResponse(what.into())
}

/// The target of a redirect within the same origin.
fn redirected(from: &Uri, response: &Response<Incoming>) -> Option<Uri> {
    if !matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let target = response.headers().get(LOCATION)?.to_str().ok()?;
    let target: Uri = target.parse().ok()?;
    let mut parts = target.into_parts();
    let is_same = |own: Option<&str>, other: Option<&str>| other.is_none_or(|other| own == Some(other));
    let is_same_origin = is_same(from.scheme_str(), parts.scheme.as_ref().map(AsRef::as_ref))
        && is_same(from.authority().map(AsRef::as_ref), parts.authority.as_ref().map(AsRef::as_ref));
    parts.scheme = from.scheme().cloned();
    parts.authority = from.authority().cloned();
    Uri::from_parts(parts).ok().filter(|_| is_same_origin)
}

fn put_token(request: &mut Request<Bytes>, token: Option<&SecretString>) {
    request.headers_mut().remove(AUTHORIZATION);
    let value = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())));
    if let Some(Ok(mut value)) = value {
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
}

/// The server's challenges, or an empty string.
fn challenges(response: &Response<Incoming>) -> String {
    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
    values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(", ")
}

/// Returns the response unless the server rejects the key. The error contains the server's challenge, if there is one.
fn checked(response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(Failure::AuthRequired(AuthRequiredError::new(challenges(&response))))
        }
        _ => Ok(response),
    }
}

/// The status of the response that made a message fail, if it is not that of a rejected key.
pub(super) fn status(error: &DynamicTransportError) -> Option<StatusCode> {
    match error.error.downcast_ref() {
        Some(Failure::Client(HttpError::Status(status))) => Some(*status),
        _ => None,
    }
}

/// Whether this status and error mean that the server does not know the session, for instance because the server was
/// restarted. The protocol uses status 404 for this, but some servers send 400 with a message.
fn is_session_lost(status: StatusCode, error: Option<&ServerJsonRpcMessage>) -> bool {
    let is_named = |message: &str| ["session", "not initialized"].iter().any(|word| message.contains(word));
    match (status, error) {
        (StatusCode::NOT_FOUND, _) => true,
        (StatusCode::BAD_REQUEST, Some(JsonRpcMessage::Error(error))) => {
            is_named(&error.error.message.to_ascii_lowercase())
        }
        _ => false,
    }
}

pub(super) fn is_of_type(response: &Response<Incoming>, expected: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(expected))
}

impl StreamableHttpClient for HttpServer {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let own = [(CONTENT_TYPE, JSON), (ACCEPT, "application/json, text/event-stream")];
        let response = self.send(Method::POST, &uri, session.as_deref(), custom, &own, body).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let new_session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request),
            _ => None,
        };
        if !status.is_success() {
            let error = if is_of_type(&response, JSON) { self.whole(response).await? } else { None };
            if session.is_some() && is_session_lost(status, error.as_ref()) {
                return Err(Failure::SessionExpired);
            }
            let is_discovery = request.is_some_and(|request| {
                session.is_none() && matches!(request.request, ClientRequest::DiscoverRequest(_))
            });
            return match (error, request) {
                (Some(JsonRpcMessage::Error(mut error)), Some(request)) => {
                    error.id = Some(request.id.clone());
                    Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), new_session))
                }
                // An older server does not know this request.
                (_, Some(request)) if is_discovery && status.is_client_error() => {
                    let error = ErrorData::invalid_request("unknown request", None);
                    let error = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
                    Ok(StreamableHttpPostResponse::Json(error, None))
                }
                _ => Err(Failure::Client(HttpError::Status(status))),
            };
        }
        let Some(request) = request else {
            // Nothing waits for a response to a notification.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if is_of_type(&response, EVENT_STREAM) {
            let events = events(response.into_body(), self.max_message, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Sse(events, new_session));
        }
        let message = match self.whole(response).await {
            Ok(message) => {
                message.unwrap_or_else(|| message::failure(message::UNREADABLE, request.id.clone()))
            }
            Err(Failure::ResponseBodyTooLarge { .. }) => {
                message::failure(message::TOO_LARGE, request.id.clone())
            }
            Err(error) => return Err(error),
        };
        Ok(StreamableHttpPostResponse::Json(message, new_session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let response = self.send(Method::DELETE, &uri, Some(&session), custom, &[], Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Failure::ServerDoesNotSupportDeleteSession),
            _ => Ok(()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        let mut own = vec![(ACCEPT, EVENT_STREAM)];
        own.extend(last_event.as_deref().map(|id| (LAST_EVENT, id)));
        let response = self.send(Method::GET, &uri, session.as_deref(), custom, &own, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Failure::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if session.is_some() => Err(Failure::SessionExpired),
            status if !status.is_success() => {
                Err(Failure::Client(HttpError::Status(status)))
            }
            _ if !is_of_type(&response, EVENT_STREAM) => Err(Failure::ServerDoesNotSupportSse),
            _ => Ok(events(response.into_body(), self.max_message, None)),
        }
    }
}

/// The events in a body. If `request` is set, the body should contain the response to it. A response that is too large
/// is replaced with an error.
fn events(body: Incoming, max_event: usize, request: Option<RequestId>) -> Events {
    let reader = EventReader {
        body,
        frames: Frames::new(max_event),
        request,
        ready: VecDeque::new(),
        has_ended: false,
    };
    stream::unfold(reader, async |mut reader| reader.next().await.map(|event| (event, reader))).boxed()
}

struct EventReader {
    body: Incoming,
    frames: Frames,
    request: Option<RequestId>,
    ready: VecDeque<Sse>,
    has_ended: bool,
}

impl EventReader {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.has_ended {
                return None;
            }
            match self.body.frame().await {
                None => self.has_ended = true,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.push(&data);
                    }
                }
                Some(Err(error)) => {
                    self.has_ended = true;
                    let error: Box<dyn Error + Send + Sync> = error.into();
                    return Some(Err(SseError::Body(error)));
                }
            }
        }
    }

    fn push(&mut self, data: &[u8]) {
        let ready = &mut self.ready;
        let pushed = self.frames.push(data, |frame| {
            match frame {
                Frame::Event(event) => {
                    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
                    let id = event.id.and_then(text);
                    // rmcp ignores messages that it cannot parse. The request would then wait forever.
                    let data = match message::in_place(event.data) {
                        Some(message) => serde_json::to_string(&message).ok(),
                        None => text(event.data),
                    };
                    ready.push_back(Sse { event: None, data, id, retry: None });
                }
                Frame::Retry(milliseconds) => {
                    ready.push_back(Sse { retry: Some(milliseconds), ..Sse::default() });
                }
                Frame::Comment(_) => {}
            }
            ControlFlow::Continue(())
        });
        if pushed.is_err() {
            self.has_ended = true;
            let failure = self.request.take().map(|id| message::failure(message::TOO_LARGE, id));
            let data = failure.and_then(|failure| serde_json::to_string(&failure).ok());
            self.ready.extend(data.map(|data| Sse::default().data(data)));
        }
    }
}

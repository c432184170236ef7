//! [`Client`]: sends a case's request to the gateway and reads the response to its end.

use std::{error::Error, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use super::{
    case::{Ask, Case},
    check::Found,
    departures::Departures,
    received_response::{self, ReceivedResponse},
    request,
};
use crate::clients;
use toolwire_net::causes::causes;
use toolwire_pipeline::dialect::ClientDialect;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// How long a gateway may take to close its request after the client has left.
const DEPARTURE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Client {
    client: legacy::Client<HttpConnector, Full<Bytes>>,
    base: String,
    key: Option<SecretString>,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
}

impl Client {
    /// Creates a client of the gateway at `base`, such as `http://127.0.0.1:8787/v1`.
    pub fn new(
        base: &Uri,
        key: Option<SecretString>,
        headers: Vec<(HeaderName, HeaderValue)>,
        timeout: Duration,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let client = legacy::Client::builder(TokioExecutor::new()).build(tcp);
        Self { client, base: base.to_string().trim_end_matches('/').to_owned(), key, headers, timeout }
    }

    pub(crate) async fn ask(&self, dialect: ClientDialect, case: &Case, model: &str) -> ReceivedResponse {
        let broken = |why: String| ReceivedResponse { broken: Some(why), ..ReceivedResponse::default() };
        let request = match self.request(dialect, case, model) {
            Ok(request) => request,
            Err(error) => return broken(error.to_string()),
        };
        match timeout(self.timeout, self.exchange(dialect, case.ask, request)).await {
            Ok(Ok(received)) => received,
            Ok(Err(error)) => broken(causes(&*error)),
            Err(_) => broken(format!("no end within {}", humantime::format_duration(self.timeout))),
        }
    }

    /// Asks, leaves after the first bytes of the response, and waits until the gateway has closed its request.
    pub(crate) async fn leave(
        &self,
        dialect: ClientDialect,
        case: &Case,
        model: &str,
        departures: &Departures,
    ) -> Found {
        let begun = async {
            let response = self.client.request(self.request(dialect, case, model)?).await?;
            let status = response.status();
            let first = response.into_body().frame().await.transpose()?;
            Ok::<_, Box<dyn Error + Send + Sync>>((status, first.is_some()))
        };
        match timeout(self.timeout, begun).await {
            Ok(Ok((StatusCode::OK, true))) => {}
            other => {
                let why = match other {
                    Ok(Ok((StatusCode::OK, false))) => "the response is empty".to_owned(),
                    Ok(Ok((status, _))) => status.to_string(),
                    Ok(Err(error)) => causes(&*error),
                    Err(_) => format!("no response within {}", humantime::format_duration(self.timeout)),
                };
                return Found::fault("a good response is refused", why);
            }
        }
        let key = request::key(&case.name, dialect.dialect().name());
        match timeout(self.timeout.min(DEPARTURE), departures.wait(&key)).await {
            Ok(()) => Found::default(),
            Err(_) => Found::fault("the upstream request goes on after the client has left", String::new()),
        }
    }

    fn request(
        &self,
        dialect: ClientDialect,
        case: &Case,
        model: &str,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let body = Bytes::from(request::body(dialect, case, model).to_string());
        let api = clients::api(dialect);
        let mut request = Request::post(api.path_at(&self.base, model, case.ask != Ask::Whole))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream, application/x-ndjson");
        if let Some(key) = &self.key {
            // Many gateways read only the first, whatever the dialect.
            let key = key.expose_secret();
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
            let (name, value) = api.key_header(key);
            if name != header::AUTHORIZATION {
                request = request.header(name, value);
            }
        }
        for (name, value) in api.headers() {
            request = request.header(*name, *value);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body))
    }

    async fn exchange(
        &self,
        dialect: ClientDialect,
        ask: Ask,
        request: Request<Full<Bytes>>,
    ) -> Result<ReceivedResponse, Box<dyn Error + Send + Sync>> {
        let response = self.client.request(request).await?;
        let status = response.status().as_u16();
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| clients::api(dialect).is_stream_type(kind));
        let mut body = response.into_body();
        let (mut bytes, mut broken) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Err(error) => {
                    broken = Some(format!("the body was interrupted: {}", causes(&error)));
                    break;
                }
            }
            if bytes.len() > MAX_RESPONSE {
                broken = Some("the response is too large".to_owned());
                break;
            }
        }
        if status != 200 {
            return Ok(received_response::of_refusal(dialect, status, &bytes));
        }
        if ask == Ask::Whole {
            return Ok(received_response::of_whole(dialect, &bytes, broken));
        }
        let mut received = received_response::of_stream(dialect, &bytes, broken.as_deref());
        if !is_stream {
            received.violations.insert(0, "the response is not an event stream".to_owned());
        }
        Ok(received)
    }
}

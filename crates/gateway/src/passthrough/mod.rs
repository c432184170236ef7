//! Requests that are passed to an upstream without being parsed, and their responses. Configured by `passthrough`.
//!
//! ```text
//! client ─▶ path, body, two headers ─▶ model entry ─▶ upstream (queue, key, limits) ─▶ status, body, safe headers ─▶ client
//! ```
//!
//! Only the model's name is read from the request ([`model`]). Nothing is read from the response, except that the body
//! of an error is searched for configured secrets. hyper writes these responses, with a [`PassedBody`] as the body.

mod body;
mod model;
mod multipart;

pub(super) use body::{BrokenOff, PassedBody};

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request, response};

use super::{large, limits::RequestDemand, reply, upstream::RawRequest};
use toolwire_config::{Config, Model, passthrough::BASE};
use toolwire_http1::list_contains;
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
    format::estimated_tokens,
};

/// Request headers that are passed on. All others are dropped, in particular the client's credentials.
const REQUEST_HEADERS: [HeaderName; 2] = [header::CONTENT_TYPE, header::ACCEPT];

/// Response headers that are passed on, unless `Connection` lists them (RFC 9110, section 7.6.1).
const RESPONSE_HEADERS: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LANGUAGE,
    header::RETRY_AFTER,
];

#[derive(Debug)]
pub(super) struct Prepared<'c> {
    pub(super) model: &'c Model,
    /// The model's name in the request, if there is one.
    pub(super) asked: Option<String>,
    pub(super) request: RawRequest,
}

/// Returns what the request needs of its client's limits. The response is not read, so only the estimated tokens of a
/// text body count. They are estimated only if `has_limits` is set.
///
/// # Errors
/// [`Kind::Internal`]
pub(super) async fn demand(request: &RawRequest, has_limits: bool) -> Result<RequestDemand, Failure> {
    let is_form = request.headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart"))
    });
    let is_text = !is_form || model::begins_as_object(&request.body);
    let input = match &request.body {
        _ if !has_limits || !is_text => 0,
        body if large::is_large(body.len()) => {
            let body = body.clone();
            large::apart(move || tokens(&body)).await?
        }
        body => tokens(body),
    };
    Ok(RequestDemand { input, max_output: Some(0), choices: 1, takes_place: true, counts_tokens: true })
}

fn tokens(body: &[u8]) -> u64 {
    str::from_utf8(body).map_or(0, estimated_tokens) as u64
}

/// Makes all checks that do not need the body.
///
/// # Errors
/// [`Kind::Request`] if the client wants a WebSocket, or if a header that must be unambiguous occurs twice.
pub(super) fn check(head: &request::Parts) -> Result<(), Failure> {
    if head.headers.contains_key(header::SEC_WEBSOCKET_KEY) {
        let message = "WebSockets are not passed through";
        return Err(Failure::new(Kind::Request, message).with_param(header::UPGRADE.as_str()));
    }
    for name in [header::CONTENT_TYPE, model::HEADER] {
        if head.headers.get_all(&name).iter().nth(1).is_some() {
            let message = format!("the request has more than one `{name}` header");
            return Err(Failure::new(Kind::Request, message).with_param(name.as_str()));
        }
    }
    Ok(())
}

/// Prepares the request of a client of `dialect` with `body` for `path`, which has no query.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown model; [`Kind::Request`] if the upstream is ambiguous or does not have such paths.
pub(super) async fn prepare<'c>(
    config: &'c Config,
    path: &str,
    dialect: ClientDialect,
    head: &request::Parts,
    body: Bytes,
) -> Result<Prepared<'c>, Failure> {
    if !body.is_empty() && head.method != Method::POST {
        let message = format!("a {} request that is passed through has no body", head.method);
        return Err(Failure::new(Kind::Request, message).with_param("body"));
    }
    let max_n = config.limits.max_n;
    let named = if large::is_large(body.len()) {
        let (headers, body) = (head.headers.clone(), body.clone());
        large::apart(move || model::named(&headers, &body, max_n)).await??
    } else {
        model::named(&head.headers, &body, max_n)?
    };
    let model = match &named {
        Some(named) => config.model(&named.name).ok_or_else(|| dialect.side().unknown_model(&named.name))?,
        None => model::default(config).ok_or_else(|| {
            let message = format!("the request names no model; set the header `{}`", model::HEADER);
            Failure::new(Kind::Request, message).with_param("model")
        })?,
    };
    let path = path_at(model, path, dialect).ok_or_else(|| {
        let (upstream, dialect) = (&model.upstream.name, model.upstream.dialect());
        let message = format!("upstream `{upstream}` speaks `{dialect}`, which has no such path");
        Failure::new(Kind::Request, message).with_param("model")
    })?;
    if head.uri.query().is_some_and(|query| model::names_model(query.as_bytes())) {
        let message =
            format!("the query names a model; name it in the body or in the header `{}`", model::HEADER);
        return Err(Failure::new(Kind::Request, message).with_param("model"));
    }
    let body = match &named {
        Some(named) => named.renamed(model.upstream_name(&named.name), body),
        None => body,
    };
    // The query of a dialect's own path may contain the client's key.
    let query = head.uri.query().filter(|_| dialect.side().key_parameter().is_none());
    let path = match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let headers = copied(&head.headers, &REQUEST_HEADERS);
    let request = RawRequest { method: head.method.clone(), path, headers, body };
    Ok(Prepared { model, asked: named.map(|named| named.name), request })
}

/// The path at the upstream of `model` that corresponds to a client's `path`, relative to the upstream's base URL.
fn path_at(model: &Model, path: &str, dialect: ClientDialect) -> Option<String> {
    match path.strip_prefix(BASE) {
        Some(below) => Some(format!("{}{below}", model.upstream.options.side().openai_base()?)),
        // The path is one of the dialect's own.
        None if model.upstream.dialect() == dialect.dialect() => {
            Some(path.trim_start_matches('/').to_owned())
        }
        None => None,
    }
}

/// Selects the headers of a response that are passed on.
///
/// # Errors
/// [`Kind::Protocol`] if the response cannot be passed on. This includes redirects, which could lead the client around
/// toolwire.
pub(super) fn response_headers(head: &response::Parts) -> Result<HeaderMap, Failure> {
    if head.status.is_informational() || head.status.is_redirection() {
        let message = format!("the upstream responded with status {}; is its base_url right?", head.status);
        return Err(Failure::new(Kind::Protocol, message));
    }
    let mut headers = copied(&head.headers, &RESPONSE_HEADERS);
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        headers.remove(header::CONTENT_TYPE);
    }
    // Content from another server must not become a page of this server, whatever its type.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply::put_no_page(&mut headers);
    if let Some(disposition) = headers.get(header::CONTENT_DISPOSITION).and_then(saved) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(headers)
}

/// Returns a `Content-Disposition` that makes browsers save the content instead of showing it. `None` if `disposition`
/// already does.
fn saved(disposition: &HeaderValue) -> Option<HeaderValue> {
    const SAVED: &[u8] = b"attachment";
    let bytes = disposition.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b';').unwrap_or(bytes.len());
    let (kind, parameters) = bytes.split_at_checked(end)?;
    if kind.trim_ascii().eq_ignore_ascii_case(SAVED) {
        return None;
    }
    Some(
        HeaderValue::from_bytes(&[SAVED, parameters].concat())
            .unwrap_or(HeaderValue::from_static("attachment")),
    )
}

/// Copies the first value of each of `names`, except for headers that are meant only for this connection.
fn copied(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let is_ours = |name: &HeaderName| list_contains(headers, &header::CONNECTION, name.as_str().as_bytes());
    let names = names.iter().filter(|name| !is_ours(name));
    names.filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// Applies `cover` to `bytes` if they are UTF-8.
pub(super) fn covered(bytes: Bytes, cover: impl for<'t> FnOnce(&'t str) -> Cow<'t, str>) -> Bytes {
    match str::from_utf8(&bytes).map(cover) {
        Ok(Cow::Owned(covered)) => covered.into(),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::large::{LARGE, tests::MOVED};
    use toolwire_config::of_text;

    const CONFIG: &str = "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        [[models]]\nname = \"m\"\nupstream = \"u\"\nupstream_name = \"o\"\n";

    /// Returns the body that is passed on, its estimated tokens, and how many times work was moved to another thread.
    async fn prepared(body: String, has_limits: bool) -> (Bytes, u64, usize) {
        let config = of_text(CONFIG.to_owned()).unwrap();
        let request = Request::post("/v1/embeddings").header("content-type", "application/json").body(());
        let (head, ()) = request.unwrap().into_parts();
        let before = MOVED.get();
        let prepared =
            prepare(&config, "/v1/embeddings", ClientDialect::Chat, &head, body.into()).await.unwrap();
        let demand = demand(&prepared.request, has_limits).await.unwrap();
        (prepared.request.body, demand.input, MOVED.get() - before)
    }

    #[tokio::test]
    async fn large_bodies_are_read_apart() {
        let body = |size: usize| {
            let empty = r#"{"model":"m","input":""}"#;
            empty.replace("\"\"", &format!("\"{}\"", "x ".repeat(size).get(empty.len()..size).unwrap()))
        };
        for (size, has_limits, moved) in
            [(LARGE - 1, true, 0), (LARGE, false, 1), (LARGE, true, 2), (1000, true, 0)]
        {
            let (sent, tokens, times) = prepared(body(size), has_limits).await;
            assert_eq!(times, moved, "{size}, {has_limits}");
            assert_eq!(sent, body(size).replace("\"m\"", "\"o\""));
            assert_eq!(tokens > 0, has_limits);
        }
    }
}

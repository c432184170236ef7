//! `POST /mcp`: the hosted tools, for clients of the Model Context Protocol.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, request};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Body;

use super::{Service, admit};
use crate::{
    auth::Caller,
    budget::Reservation,
    drain,
    extension::RequestBody,
    feed_body::{FeedBody, FeedSource},
    limits::{Allowance, RequestDemand},
    observe::Access,
    reply::{self, DEFAULT_DIALECT, ReplyBody},
    routes,
};
use toolwire_execution::{Asker, mcp_server};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A response that is sent as its events arrive, and what it holds.
#[derive(Debug)]
struct Events {
    body: BoxBody<Bytes, Infallible>,
    _allowance: Option<Box<Allowance>>,
    _memory: Reservation,
}

impl FeedSource for Events {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(data));
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Service {
    pub(super) async fn mcp(
        &self,
        caller: Caller,
        head: &request::Parts,
        body: RequestBody<'_>,
        access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure, access| reply::error(failure, DEFAULT_DIALECT, access);
        let unknown = || routes::not_found(head.uri.path(), &self.site(head)).1;
        let Some(execution) = &self.shared.hosting.execution else {
            return fail(unknown(), access);
        };
        if !self.shared.drain.is_serving() {
            return fail(drain::refusal(), access);
        }
        let (read, memory) = match body.read(self, &head.headers, None).await {
            Ok(read) => read,
            Err(failure) => return fail(failure, access),
        };
        let allowance = match admit(&caller, |_| RequestDemand::PLAIN, DEFAULT_DIALECT).await {
            Ok(allowance) => allowance,
            Err(refused) => return refused.response(DEFAULT_DIALECT, access),
        };
        let asker = Asker {
            owner: caller.owner,
            client: caller.label().map(Into::into),
            payer: caller.payer(),
            describer: None,
            model: "".into(),
            exchange: access.id().into(),
        };
        let request = Request::from_parts(head.clone(), Full::new(read));
        let Some(response) = mcp_server::respond(execution, asker, request).await else {
            return fail(unknown(), access);
        };
        let (parts, body) = response.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE).cloned().unwrap_or(PLAIN);
        if content_type.as_bytes().starts_with(b"text/event-stream") {
            let events = Events { body, _allowance: allowance, _memory: memory };
            let (keep_alive, stopped) =
                (self.shared.config.limits.keep_alive, self.shared.drain.when_begun());
            return reply::feed(FeedBody::new(Box::new(events), keep_alive, stopped, access));
        }
        let Ok(collected) = body.collect().await;
        reply::plain(parts.status, content_type, collected.to_bytes(), access)
    }
}

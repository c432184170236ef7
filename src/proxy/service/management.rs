//! Requests that concern toolwire itself: the admin API, and programs that register their tools.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{Response, request};
use hyper::body::Incoming;

use super::{Rest, Service};
use crate::{
    observe::Access,
    proxy::{
        admin::{self, Admin},
        drain,
        feed_body::FeedBody,
        intake, programs,
        reply::{self, ReplyBody},
        routes::{self, ProgramPath},
    },
};

impl Service {
    /// A request to the admin API.
    pub(super) async fn administer(
        &self,
        admin: &Arc<Admin>,
        (head, body, peer): (&request::Parts, Incoming, IpAddr),
        rest: &mut Rest,
        access: Access,
    ) -> Response<ReplyBody> {
        let admitted = match admin.admit(head, &path_of(head), peer) {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(methods)) => return admin::options(methods, access),
            Err(error) => return admin::response(Err(error), access),
        };
        if let Some(source) = admin.stream(&admitted, head) {
            return admin.events(source, &self.drain, self.config.limits.keep_alive, access);
        }
        let mut read = Bytes::new();
        let mut _memory = None;
        if admitted.has_body(&head.method) {
            match intake::read(&head.headers, body, self.bounds(Some(admin::MAX_BODY))).await {
                Ok((body, memory)) => (read, _memory) = (body, Some(memory)),
                Err(failure) => return admin::response(Err(failure.into()), access),
            }
            *rest = Rest::None;
        }
        admin::response(admin.answer(admitted, head, (read, peer)).await, access)
    }

    /// A request of a program that registers its tools.
    pub(super) async fn program(
        &self,
        path: &ProgramPath,
        (head, body): (&request::Parts, Incoming),
        rest: &mut Rest,
        access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure, access| reply::error(failure, routes::DEFAULT_DIALECT, access);
        let Some(execution) = &self.execution else {
            let (_, failure) = routes::not_found(head.uri.path());
            return fail(failure, access);
        };
        if !self.drain.is_serving() {
            return fail(drain::refusal(), access);
        }
        let (mut read, mut _memory) = (Bytes::new(), None);
        if programs::has_body(&head.method) {
            match intake::read(&head.headers, body, self.bounds(None)).await {
                Ok((body, memory)) => (read, _memory) = (body, Some(memory)),
                Err(failure) => return fail(failure, access),
            }
            *rest = Rest::None;
        }
        match programs::answer(execution, path, head, &read) {
            Ok(programs::Outcome::Json(value)) => reply::json(&value, access),
            Ok(programs::Outcome::Calls(calls)) => {
                let (keep_alive, stopped) = (self.config.limits.keep_alive, self.drain.when_begun());
                reply::feed(FeedBody::new(Box::new(calls), keep_alive, stopped, access))
            }
            Err(failure) => fail(failure, access),
        }
    }
}

/// The path of a request, as routes are found by it.
fn path_of(head: &request::Parts) -> std::borrow::Cow<'_, str> {
    routes::without_doubled_slash(head.uri.path())
}

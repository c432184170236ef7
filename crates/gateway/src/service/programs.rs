//! Requests from programs that register their tools.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Response, request};
use hyper::body::Incoming;

use super::{Rest, Service};
use crate::{
    drain,
    feed_body::FeedBody,
    intake,
    observe::Access,
    programs,
    reply::{self, ReplyBody},
    routes::{self, ProgramPath},
};
use toolwire_pipeline::failure::Kind;

impl Service {
    /// Handles a request from a program that registers its tools.
    pub(super) async fn program(
        &self,
        path: &ProgramPath,
        (head, body, peer): (&request::Parts, Incoming, IpAddr),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure, access| reply::error(failure, reply::DEFAULT_DIALECT, access);
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
            Err(failure) if failure.kind() == Kind::Unauthorized => {
                fail(self.refuse_key(failure, (&head.headers, true), peer, &mut access).await, access)
            }
            Err(failure) => fail(failure, access),
        }
    }
}

//! Requests from programs that register their tools.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Response, request};

use super::Service;
use crate::{
    drain,
    extension::RequestBody,
    feed_body::FeedBody,
    observe::Access,
    programs,
    reply::{self, ReplyBody},
    routes::{self, ProgramPath},
};
use toolwire_pipeline::failure::Kind;

impl Service {
    pub(super) async fn program(
        &self,
        path: &ProgramPath,
        head: &request::Parts,
        peer: IpAddr,
        body: RequestBody<'_>,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure, access| reply::error(failure, reply::DEFAULT_DIALECT, access);
        let Some(execution) = &self.shared.hosting.execution else {
            let (_, failure) = routes::not_found(head.uri.path(), &self.site(head));
            return fail(failure, access);
        };
        if !self.shared.drain.is_serving() {
            return fail(drain::refusal(), access);
        }
        let (mut read, mut _memory) = (Bytes::new(), None);
        if programs::has_body(&head.method) {
            match body.read(self, &head.headers, None).await {
                Ok((body, memory)) => (read, _memory) = (body, Some(memory)),
                Err(failure) => return fail(failure, access),
            }
        }
        match programs::answer(execution, path, head, &read) {
            Ok(programs::Outcome::Json(value)) => reply::json(&value, access),
            Ok(programs::Outcome::Calls(calls)) => {
                let (keep_alive, stopped) =
                    (self.shared.config.limits.keep_alive, self.shared.drain.when_begun());
                reply::feed(FeedBody::new(Box::new(calls), keep_alive, stopped, access))
            }
            Err(failure) if failure.kind() == Kind::Unauthorized => {
                fail(self.refuse_key(failure, &head.headers, true, peer, &mut access).await, access)
            }
            Err(failure) => fail(failure, access),
        }
    }
}

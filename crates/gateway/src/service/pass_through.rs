//! Requests that are passed to the upstream without being parsed.

use std::pin::pin;

use http::{Response, request};
use tokio::time::Instant;

use super::{Service, admit, put_rates};
use crate::{
    auth::Caller,
    budget::Reservation,
    drain,
    extension::RequestBody,
    limits::Allowance,
    observe::Access,
    passthrough::{self, PassedBody, Prepared},
    reply::{self, ReplyBody},
    upstream::RawRequest,
};
use toolwire_config::Model;
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind, Redact},
};

impl Service {
    /// Handles a request that is passed to the upstream without being parsed.
    pub(super) async fn pass_through(
        &self,
        path: &str,
        dialect: ClientDialect,
        caller: Caller,
        head: &request::Parts,
        body: RequestBody<'_>,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure, access| self.passing_failed(failure, dialect, access);
        let prepared = async {
            if !self.shared.drain.is_serving() {
                return Err(drain::refusal());
            }
            passthrough::check(head)?;
            let (body, memory) = body.read(self, &head.headers, None).await?;
            Ok((passthrough::prepare(&self.shared.config, path, dialect, head, body).await?, memory))
        };
        let (Prepared { model, asked, request }, memory) = match prepared.await {
            Ok(prepared) => prepared,
            Err(failure) => return fail(failure, access),
        };
        let name = asked.as_deref().unwrap_or(&model.name);
        if asked.is_some() {
            access.asked(name, false);
        }
        let admitted = async {
            caller.check_model(name)?;
            let demand = passthrough::demand(&request, caller.account.is_some()).await?;
            admit(&caller, |_| demand, dialect).await
        };
        let allowance = match admitted.await {
            Ok(allowance) => allowance,
            Err(refused) => return refused.response(dialect, access),
        };
        let passing = Passing { model, request, dialect, caller: &caller, allowance, may_lack: false };
        match self.pass(passing, Some(memory), access).await {
            Ok(response) => response,
            Err(access) => fail(no_such_path(), *access),
        }
    }

    /// Passes a request to the upstream, and its response to the client. `memory` is what the request has reserved.
    ///
    /// # Errors
    /// The upstream does not have the path, as [`Passing::may_lack`] allows. Returns the request's record.
    pub(super) async fn pass(
        &self,
        passing: Passing<'_>,
        memory: Option<Reservation>,
        mut access: Access,
    ) -> Result<Response<ReplyBody>, Box<Access>> {
        let Passing { model, request, dialect, caller, allowance, may_lack } = passing;
        let fail = |failure, access| Ok(self.passing_failed(failure, dialect, access));
        let upstream = &model.upstream;
        let client = match self.client(upstream) {
            Ok(client) => client,
            Err(failure) => return fail(failure, access),
        };
        access.routed(&model.name, upstream);
        let client = client.traced(access.pass(&model.name, upstream).as_ref());
        let (begun, mut cut) = (Instant::now(), pin!(self.shared.drain.when_cut()));
        let passed = tokio::select! {
            passed = client.pass(request, caller.claimant()) => passed,
            () = &mut cut => Err(drain::refusal()),
        };
        // The upstream has received the request, so the memory is no longer needed.
        drop(memory);
        let passed = passed.and_then(|opened| Ok((passthrough::response_headers(&opened.head)?, opened)));
        let (mut headers, opened) = match passed {
            Ok(passed) => passed,
            Err(failure) => return fail(failure, access),
        };
        let status = opened.head.status;
        if may_lack && matches!(status.as_u16(), 404 | 405 | 501) {
            return Err(Box::new(access));
        }
        if status.is_client_error() || status.is_server_error() {
            let (bytes, failure) = client.error_of(opened).await;
            let bytes = passthrough::covered(bytes, |text| self.shared.monitors.redactor.redact(text));
            let failure = failure.redacted(&*self.shared.monitors.redactor);
            return Ok(reply::passed_error(status, headers, bytes, failure, access));
        }
        access.status(status.as_u16());
        put_rates(allowance.as_deref(), &mut headers);
        let (timeouts, cut) = (upstream.timeouts.clone(), self.shared.drain.when_cut());
        let body = PassedBody::new(opened, allowance, timeouts, begun, cut, access);
        Ok(reply::passed(status, headers, body))
    }

    fn passing_failed(
        &self,
        failure: Failure,
        dialect: ClientDialect,
        access: Access,
    ) -> Response<ReplyBody> {
        reply::error(failure.redacted(&*self.shared.monitors.redactor), dialect, access)
    }
}

/// A request that is passed to an upstream.
pub(super) struct Passing<'r> {
    pub(super) model: &'r Model,
    pub(super) request: RawRequest,
    /// The client's dialect, in which errors are written.
    pub(super) dialect: ClientDialect,
    pub(super) caller: &'r Caller,
    pub(super) allowance: Option<Box<Allowance>>,
    /// Whether the upstream may lack the path.
    pub(super) may_lack: bool,
}

fn no_such_path() -> Failure {
    Failure::new(Kind::Upstream, "the upstream does not have this path")
}

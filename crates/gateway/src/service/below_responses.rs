//! Requests below the path of responses: for a compaction, and for the number of tokens of a request. An upstream of
//! the client's API is asked first. If it does not have the path, toolwire does the same itself.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header};

use super::{Refused, Service, admit, generate::decode, pass_through::Passing};
use crate::{
    answer::AnswerBody,
    auth::Caller,
    drain, exchange,
    extension::RequestBody,
    large,
    observe::Access,
    passthrough,
    reply::{self, ReplyBody},
    stamp::unix_time,
    upstream::RawRequest,
};
use toolwire_config::Model;
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{ClientDialect, Target},
    failure::Failure,
};

/// The paths below that of responses.
pub(super) const COMPACT: &str = "compact";
pub(super) const INPUT_TOKENS: &str = "input_tokens";

impl Service {
    /// Handles a request for a compaction as a resource of its own.
    pub(super) async fn compact(
        self: &Arc<Self>,
        dialect: ClientDialect,
        target: Target<'_>,
        caller: Caller,
        headers: &HeaderMap,
        body: RequestBody<'_>,
        access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        if !self.shared.drain.is_serving() {
            return Err(reply::error(drain::refusal(), dialect, access));
        }
        let (body, memory) = match self.read_whole(dialect, &target, &caller, headers, body).await {
            Ok(read) => read,
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        let access = match self.ask_below(dialect, &caller, COMPACT, &body, access).await {
            Ok(response) => return Err(response),
            Err(access) => *access,
        };
        let is_large = large::is_large(body.len());
        let request = move || dialect.side().compaction_request(&body);
        let written = if is_large { large::apart(request).await } else { Ok(request()) };
        match written {
            Ok(body) => self.generate_read(dialect, caller, headers, (body, memory), access).await,
            Err(failure) => Err(reply::error(failure, dialect, access)),
        }
    }

    /// Passes the request in `body` to the path `name` of an upstream of the client's API.
    ///
    /// # Errors
    /// The upstream has another API or does not have the path, or the request cannot be sent. Returns the request's
    /// record.
    pub(super) async fn ask_below(
        self: &Arc<Self>,
        dialect: ClientDialect,
        caller: &Caller,
        name: &str,
        body: &Bytes,
        mut access: Access,
    ) -> Result<Response<ReplyBody>, Box<Access>> {
        let Ok(conversation) = decode(dialect, body).await else { return Err(Box::new(access)) };
        let asked = conversation.model.clone();
        let model = match exchange::model(&self.shared.config, dialect, &conversation) {
            Ok(model) if model.upstream.dialect() == dialect.dialect() => model,
            _ => return Err(Box::new(access)),
        };
        let path = format!("{}/{name}", model.upstream.options.side().path());
        let admitted = async {
            caller.check_model(&asked)?;
            let request = self.request_below(dialect, caller, path, *conversation, body.len()).await?;
            let demand = passthrough::demand(&request, caller.account.is_some()).await?;
            Ok::<_, Refused>((request, admit(caller, |_| demand, dialect).await?))
        };
        let (request, allowance) = match admitted.await {
            Ok(admitted) => admitted,
            Err(refused) => return Ok(refused.response(dialect, access)),
        };
        access.asked(&asked, false);
        self.pass(Passing { model, request, dialect, caller, allowance, may_lack: true }, None, access).await
    }

    /// Encodes a conversation of about `size` bytes for `path`.
    async fn request_below(
        self: &Arc<Self>,
        dialect: ClientDialect,
        caller: &Caller,
        path: String,
        conversation: Conversation,
        size: usize,
    ) -> Result<RawRequest, Failure> {
        let (own, owner) = (Arc::clone(self), caller.owner);
        let encode = move || {
            let model = exchange::model(&own.shared.config, dialect, &conversation)?;
            own.encoded_below(dialect, model, owner, &conversation)
        };
        let body = if large::is_large(size) { large::apart(encode).await?? } else { encode()? };
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(RawRequest { method: Method::POST, path, headers: HeaderMap::from_iter([json]), body })
    }

    fn encoded_below(
        &self,
        dialect: ClientDialect,
        model: &Model,
        owner: Owner,
        conversation: &Conversation,
    ) -> Result<Bytes, Failure> {
        let now = unix_time();
        let known = self.shared.capabilities.about(model, conversation, owner);
        let mut sent = exchange::sent(model, conversation, dialect.dialect(), &known.means, now)?;
        let encoded = exchange::encode(model, &known, &mut sent, now)?;
        Ok(dialect.side().below(&encoded.request.body))
    }
}

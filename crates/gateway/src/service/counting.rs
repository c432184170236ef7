//! Requests for the number of tokens of a model request.

use std::sync::Arc;

use http::{HeaderMap, Response};

use super::{Refused, Service, admit, generate, put_rates};
use crate::{
    auth::Caller,
    count,
    exchange::{self, RequestContext},
    extension::RequestBody,
    large,
    limits::RequestDemand,
    observe::Access,
    reply::{self, ReplyBody},
    stamp::unix_time,
};
use toolwire_execution::ExchangeId;
use toolwire_pipeline::{conversation::Conversation, dialect::ClientDialect, failure::Failure};

impl Service {
    /// Handles a request for the number of tokens of a model request.
    pub(super) async fn count_tokens(
        self: &Arc<Self>,
        dialect: ClientDialect,
        caller: Caller,
        headers: &HeaderMap,
        body: RequestBody<'_>,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let (body, _memory) = match body.read(self, headers, None).await {
            Ok(read) => read,
            Err(failure) => return reply::error(failure, dialect, access),
        };
        let counted = async {
            let conversation = generate::decode(dialect, &body).await?;
            access.asked(&conversation.model, false);
            caller.check_model(&conversation.model)?;
            let allowance = admit(&caller, |_| RequestDemand::PLAIN, dialect).await?;
            let id = access.id().into();
            let tokens = if large::is_large(body.len()) {
                let (own, caller) = (Arc::clone(self), caller.clone());
                large::apart(move || own.tokens(dialect, &caller, &id, conversation)).await??
            } else {
                self.tokens(dialect, &caller, &id, conversation)?
            };
            Ok::<_, Refused>((tokens, allowance))
        };
        match counted.await {
            Ok((tokens, allowance)) => {
                let mut response = reply::json(&dialect.side().token_count(tokens), access);
                put_rates(allowance.as_deref(), response.headers_mut());
                response
            }
            Err(refused) => refused.response(dialect, access),
        }
    }

    /// The estimated tokens of a model request.
    fn tokens(
        &self,
        dialect: ClientDialect,
        caller: &Caller,
        id: &ExchangeId,
        mut conversation: Conversation,
    ) -> Result<usize, Failure> {
        let model = exchange::model(&self.shared.config, dialect, &conversation)?;
        if let Some(execution) = self.shared.hosting.execution.as_deref() {
            exchange::host(execution, model, &mut conversation, RequestContext { caller, exchange: id });
        }
        exchange::settle_choice(model, &mut conversation)?;
        let (_, means) = self.shared.capabilities.about(model, &conversation, caller.owner);
        let sent = exchange::sent(model, &conversation, dialect.dialect(), &means, unix_time())?;
        Ok(count::tokens(&sent))
    }
}

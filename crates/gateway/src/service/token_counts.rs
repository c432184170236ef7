//! Requests for the number of a request's tokens.

use std::sync::Arc;

use http::{HeaderMap, Response};

use super::{
    super::{
        auth::Caller,
        count, exchange,
        extension::RequestBody,
        large,
        limits::RequestDemand,
        reply::{self, ReplyBody},
        stamp::unix_time,
        tool_search,
    },
    Refused, Service, admit,
    below_responses::INPUT_TOKENS,
    generate::decode,
    put_rates,
};
use crate::observe::Access;
use toolwire_execution::{ClientTools, ExchangeId};
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{ClientDialect, Target},
    failure::Failure,
};

impl Service {
    /// Handles a request for the number of tokens of a model request.
    pub(super) async fn count_tokens(
        self: &Arc<Self>,
        dialect: ClientDialect,
        target: Target<'_>,
        caller: Caller,
        headers: &HeaderMap,
        body: RequestBody<'_>,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let (body, _memory) = match self.read_whole(dialect, &target, &caller, headers, body).await {
            Ok(read) => read,
            Err(failure) => return reply::error(failure, dialect, access),
        };
        if dialect.side().counts_at_upstreams() {
            access = match self.ask_below(dialect, &caller, INPUT_TOKENS, &body, access).await {
                Ok(response) => return response,
                Err(access) => *access,
            };
        }
        let counted = async {
            let conversation = decode(dialect, &body).await?;
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

    /// Estimates the number of tokens in a model request.
    fn tokens(
        &self,
        dialect: ClientDialect,
        caller: &Caller,
        id: &ExchangeId,
        mut conversation: Box<Conversation>,
    ) -> Result<usize, Failure> {
        let model = exchange::model(&self.shared.config, dialect, &conversation)?;
        if let Some(execution) = self.shared.hosting.execution.as_deref() {
            exchange::host(execution, model, &mut conversation, (caller, None, ClientTools::default()), id);
        }
        let options = self.shared.capabilities.servers.options(&model.upstream);
        tool_search::offer(model, options, dialect, &mut conversation);
        exchange::settle_choice(model, &mut conversation)?;
        let known = self.shared.capabilities.about(model, &conversation, caller.owner);
        let sent = exchange::sent(model, &conversation, dialect.dialect(), &known.means, unix_time())?;
        Ok(count::tokens(&sent))
    }
}

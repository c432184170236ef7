//! Exchanges that the program itself starts, as a client would.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{Refused, Service};
use crate::{
    answer::{self, AnswerBody},
    auth::Caller,
    budget::Reservation,
    exchange::{self, RequestContext, SharedState},
    observe::{Access, Outcome},
    permits::Queue,
    routes::Route,
    stamp::unix_time,
    upstream::Client,
};
use toolwire_config::Config;
use toolwire_execution::ExchangeId;
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
};

/// An exchange that the program starts.
#[derive(Debug)]
pub struct OwnExchange<'r> {
    /// The name of the client. If a key has this name, its limits apply.
    pub client: &'static str,
    pub dialect: ClientDialect,
    /// The request, as a client would send it.
    pub body: Bytes,
    pub id: &'r ExchangeId,
    /// The response that replaces an upstream's response. `None` if the upstream is asked.
    pub made: Option<MadeResponse>,
}

/// A response that already exists, so that no upstream is asked for it.
#[derive(Debug)]
pub struct MadeResponse {
    /// The configuration for the exchange, with a single upstream.
    pub config: Arc<Config>,
    /// The body.
    pub body: Bytes,
}

impl Service {
    /// Starts an exchange, with the `memory` of its request. The exchange is logged and counted like a client's.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub async fn begin_own(
        self: &Arc<Self>,
        own: OwnExchange<'_>,
        memory: Reservation,
    ) -> Result<Pin<Box<AnswerBody>>, Failure> {
        let OwnExchange { client, dialect, body, id, made } = own;
        let (route, path) = Route::generating(dialect)
            .ok_or_else(|| Failure::new(Kind::Internal, "no path takes requests of this dialect"))?;
        let (headers, method) = (HeaderMap::new(), Method::POST);
        let trace = self.trace(Some(&route), (&headers, &method, &path), &id.request);
        let (metrics, request) = (Arc::clone(&self.metrics), String::from(&*id.request));
        let mut access = Access::new(metrics, request, method, &path, route.name()).traced(trace);
        access.asks_model();
        let caller = self.keys.own(client, unix_time());
        if let Some(account) = &caller.account {
            access.shown_key(Arc::clone(account.name()));
        }
        let answer: Result<Box<dyn FnOnce(Access) -> AnswerBody + Send>, _> = if let Some(made) = made {
            let answer = self.begin_made((dialect, &caller), (body, id), (made, memory), &mut access).await;
            answer.map(|answer| Box::new(answer) as _)
        } else {
            let request = (&headers, body, id.clone());
            let answer = self.begin_answer((dialect, caller), request, memory, &mut access).await;
            answer.map(|answer| Box::new(answer) as _)
        };
        match answer {
            Ok(answer) => Ok(Box::pin(answer(access))),
            Err(refused) => {
                let failure = refused.into_failure().redacted(&*self.redactor);
                access.status(failure.status());
                access.ended(Outcome::Failed(failure.clone()));
                Err(failure)
            }
        }
    }

    /// Starts an exchange for which the upstream's response already exists. `access` becomes part of the response's
    /// body.
    async fn begin_made(
        &self,
        (dialect, caller): (ClientDialect, &Caller),
        (body, id): (Bytes, &ExchangeId),
        (made, memory): (MadeResponse, Reservation),
        access: &mut Access,
    ) -> Result<impl FnOnce(Access) -> AnswerBody + use<>, Refused> {
        let client = self.client_of_made(&made.config)?;
        let conversation = exchange::decode(dialect, &body)?;
        access.asked(&conversation.model, conversation.stream);
        let shared = SharedState {
            config: &made.config,
            capabilities: &self.capabilities,
            states: &self.states,
            execution: None,
        };
        let context = RequestContext { caller, exchange: id };
        let how = (None, self.stamp());
        let model = exchange::model(&made.config, dialect, &conversation)?;
        let mut exchange = exchange::prepare(shared, context, dialect, (Some(&body), conversation), how)?;
        exchange.made = Some(made.body);
        access.routed(&model.name, &model.upstream);
        access.show(dialect, caller.label());
        let exchange = self.open((model, exchange), (client, None, caller), &body, (id, None)).await?;
        let (keep_alive, cut) = (self.config.limits.keep_alive, self.drain.when_cut());
        Ok(move |access| {
            let parts =
                answer::Parts { stream: true, access, allowance: None, memory, exchange, attempts: None };
            AnswerBody::new(parts, keep_alive, cut)
        })
    }

    /// A client of the first upstream of `config`.
    fn client_of_made(&self, config: &Config) -> Result<Arc<Client>, Failure> {
        let wrong = |what: &str| Failure::new(Kind::Internal, format!("a made response has no {what}"));
        let upstream = config.upstreams.first().ok_or_else(|| wrong("upstream"))?;
        let queue = Arc::new(Queue::new(upstream.queue.clone(), self.metrics.waiting(&upstream.name)));
        let client = Client::new(Arc::clone(upstream), queue, &self.metrics, &self.redactor)
            .map_err(|_| wrong("address"))?;
        Ok(Arc::new(client))
    }
}

//! Exchanges that the program starts itself, as a client would.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{Refused, Service, generate::ClientRequest, opening::ReadyExchange};
use crate::{
    answer::{AnswerBody, Parts},
    budget::Reservation,
    exchange::{self, DecodedRequest, SharedState},
    models::UsableModel,
    observe::{Access, Outcome},
    permits::Queue,
    routes::Route,
    stamp::unix_time,
    upstream::Client,
};
use toolwire_config::Config;
use toolwire_execution::{ClientTools, ExchangeId};
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
};

#[derive(Debug)]
pub struct OwnExchange<'r> {
    /// The client's name. If a key has this name, its limits apply.
    pub client: &'static str,
    pub dialect: ClientDialect,
    /// The request as a client would send it.
    pub body: Bytes,
    pub id: &'r ExchangeId,
    /// The response that replaces the upstream's. `None` if the upstream is asked.
    pub made: Option<MadeResponse>,
}

/// A response that takes the place of an upstream's.
#[derive(Debug)]
pub struct MadeResponse {
    /// The configuration of the exchange, with a single upstream.
    pub config: Arc<Config>,
    pub body: Bytes,
}

impl Service {
    /// Starts an exchange that is logged and counted like a client's. `memory` is the memory that is reserved for its
    /// request.
    ///
    /// # Errors
    /// Fails if there is no response.
    pub async fn begin_own(
        self: &Arc<Self>,
        own: OwnExchange<'_>,
        memory: Reservation,
    ) -> Result<Pin<Box<AnswerBody>>, Failure> {
        let OwnExchange { client, dialect, body, id, made } = own;
        let (route, path) = Route::generating(dialect)
            .ok_or_else(|| Failure::new(Kind::Internal, "no path takes requests of this dialect"))?;
        let (headers, method) = (HeaderMap::new(), Method::POST);
        let trace = self.trace(Some(&route), &headers, &method, path, &id.request);
        let (metrics, request) = (Arc::clone(&self.shared.monitors.metrics), String::from(&*id.request));
        let mut access = Access::new(metrics, request, method, path, route.name()).traced(trace);
        access.asks_model();
        let caller = self.shared.keys.own(client, unix_time());
        if let Some(account) = &caller.account {
            access.shown_key(Arc::clone(account.name()));
        }
        let request = ClientRequest { id: id.clone(), dialect, caller, headers: &headers, body, memory };
        let parts = match made {
            Some(made) => self.begin_made(request, made, &mut access).await,
            None => self.ask_own(request, &mut access).await,
        };
        match parts {
            Ok(parts) => Ok(self.answer_body(parts, access)),
            Err(refused) => {
                let failure = refused.into_failure().redacted(&*self.shared.monitors.redactor);
                access.status(failure.status());
                access.ended(Outcome::Failed(failure.clone()));
                Err(failure)
            }
        }
    }

    /// The models that the client of this name may use in [`begin_own`](Self::begin_own), configured names first.
    ///
    /// # Errors
    /// If no model is known because an upstream returns no list.
    pub async fn own_models(&self, client: &'static str) -> Result<Vec<UsableModel>, Failure> {
        let caller = self.shared.keys.own(client, unix_time());
        let usable = self.shared.models.usable(&caller).await;
        usable.map_err(|failure| failure.redacted(&*self.shared.monitors.redactor))
    }

    async fn ask_own(
        self: &Arc<Self>,
        request: ClientRequest<'_>,
        access: &mut Access,
    ) -> Result<Parts, Refused> {
        let ClientRequest { dialect, caller, body, .. } = &request;
        let responses = &self.shared.stored.responses;
        let body = responses.with_history(*dialect, caller.owner, body.clone(), None, unix_time()).await?;
        self.ask(ClientRequest { body, ..request }, access).await
    }

    /// Starts an exchange for which the upstream's response already exists.
    async fn begin_made(
        &self,
        request: ClientRequest<'_>,
        made: MadeResponse,
        access: &mut Access,
    ) -> Result<Parts, Refused> {
        let ClientRequest { id, dialect, caller, body, memory, .. } = request;
        let client = self.client_of_made(&made.config)?;
        let conversation = exchange::decode(dialect, &body)?;
        access.asked(&conversation.model, conversation.stream);
        let shared = SharedState {
            config: &made.config,
            capabilities: &self.shared.capabilities,
            states: &self.shared.stored.turns,
            execution: None,
            hops: &self.shared.stored.hops,
            vision: None,
        };
        let model = exchange::model(&made.config, dialect, &conversation)?;
        let mut exchange = exchange::prepare(
            shared,
            DecodedRequest {
                id: &id,
                caller: &caller,
                dialect,
                received: &body,
                is_as_sent: true,
                conversation,
                reasoning: None,
                stamp: self.stamp(),
                earlier: None,
                client_tools: ClientTools::default(),
            },
        )?;
        exchange.made = Some(made.body);
        access.routed(&model.name, &model.upstream);
        access.show(dialect, caller.label());
        let (id, body, caller) = (&id, &body, &caller);
        let ready = ReadyExchange {
            model,
            exchange,
            client,
            caller,
            id,
            body,
            store: None,
            trace: None,
            continues: false,
        };
        let exchange = self.open(ready).await?;
        Ok(Parts { stream: true, allowance: None, memory, exchange, attempts: None })
    }

    /// Creates a client for the first upstream of `config`.
    fn client_of_made(&self, config: &Config) -> Result<Arc<Client>, Failure> {
        let wrong = |what: &str| Failure::new(Kind::Internal, format!("a made response has no {what}"));
        let upstream = config.upstreams.first().ok_or_else(|| wrong("upstream"))?;
        let queue = Arc::new(Queue::new(
            upstream.queue.clone(),
            self.shared.monitors.metrics.waiting(&upstream.name),
        ));
        let client = Client::new(
            Arc::clone(upstream),
            queue,
            &self.shared.monitors.metrics,
            &self.shared.monitors.redactor,
        )
        .map_err(|_| wrong("address"))?;
        Ok(Arc::new(client))
    }
}

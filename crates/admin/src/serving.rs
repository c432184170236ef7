//! Serves requests for the admin API and the console.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, header, request};
use serde_json::{Value, json};

use super::{
    Admin, AdminError, AdminResponse, Admitted, MAX_BODY, event_stream, object, options, page,
    playground::{self, Chat, ChatRequest, Driven},
    response, sample,
};
use toolwire_gateway::{
    budget::Reservation,
    drain,
    extension::ExtensionRequest,
    reply::ReplyBody,
    routes::{self, ExtensionRouteKind},
    service::{OwnExchange, Service},
};

impl Admin {
    pub(super) async fn serve(&self, request: ExtensionRequest<'_>) -> Response<ReplyBody> {
        match request.route.kind {
            ExtensionRouteKind::Api => self.administer(request).await,
            ExtensionRouteKind::Page => self.page(request),
        }
    }

    async fn administer(&self, request: ExtensionRequest<'_>) -> Response<ReplyBody> {
        let ExtensionRequest { service, head, peer, body, mut access, .. } = request;
        let admitted = match self.admit(head, &path_of(head), peer) {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(methods)) => return options(methods, access),
            Err(error) => {
                if error.is_of_key() {
                    access.refused(peer);
                }
                if error.is_of_many() {
                    service.penalty().await;
                }
                return response(Err(error), access);
            }
        };
        let keep_alive = service.limits().keep_alive;
        if let Some(events) = self.events(&admitted, head) {
            // An open chat may finish during a shutdown, like any other response.
            let stopped = match admitted.attaches_chat() {
                true => service.drain().when_cut(),
                false => service.drain().when_begun(),
            };
            return event_stream(events, keep_alive, stopped, access);
        }
        let mut read = Bytes::new();
        let mut memory = None;
        if admitted.has_body(&head.method) {
            match body.read(service, &head.headers, Some(MAX_BODY)).await {
                Ok((body, reserved)) => (read, memory) = (body, Some(reserved)),
                Err(failure) => return response(Err(failure.into()), access),
            }
        }
        let secrets = admitted.repeats_others().then(|| service.redactor().of_configured());
        let result = match memory {
            Some(memory) if admitted.begins_chat() => {
                let chat = self.chat(service, &admitted, read, memory, access.id()).await;
                let chat = match chat {
                    Ok(chat) => chat,
                    Err(error) => return response(Err(error), access),
                };
                if wants_json(&head.headers) {
                    chat.reader().ended().await;
                    return response(Ok(AdminResponse::json(chat.summary())), access);
                }
                let events = self.reading(&chat, &admitted);
                return event_stream(events, keep_alive, service.drain().when_cut(), access);
            }
            Some(memory) if admitted.is_sample() => {
                self.sample(service, &admitted, memory, access.id()).await
            }
            _held if admitted.lists_models() => Ok(self.models(service).await),
            _held => self.answer(admitted, head, read, peer).await,
        };
        let result = match secrets {
            Some(secrets) => result.map(|response| response.covered(&secrets)),
            None => result,
        };
        if result.as_ref().is_err_and(AdminError::is_of_key) {
            access.refused(peer);
        }
        response(result, access)
    }

    /// Lists the models that chats may ask, and whether any other name is accepted. `error` says why there are none.
    async fn models(&self, service: &Service) -> AdminResponse {
        let (models, failure) = match Box::pin(service.own_models(playground::CLIENT)).await {
            Ok(models) => (models, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let models = models.into_iter().map(|model| {
            let mut shown = json!({"name": model.name, "upstream": model.upstream});
            if let (Value::Object(shown), Some(answers)) = (&mut shown, model.answers) {
                shown.insert("answers".to_owned(), answers.into());
            }
            shown
        });
        let models: Vec<_> = models.collect();
        let takes_any = self.config.models.iter().any(toolwire_config::Model::is_wildcard);
        let mut listed = json!({"models": models, "any": takes_any});
        if let (Value::Object(listed), Some(failure)) = (&mut listed, failure) {
            listed.insert("error".to_owned(), failure.message().into());
        }
        AdminResponse::json(listed)
    }

    async fn chat(
        &self,
        service: &Arc<Service>,
        admitted: &Admitted,
        body: Bytes,
        memory: Reservation,
        request: &str,
    ) -> Result<Arc<Chat>, AdminError> {
        let asked = ChatRequest::read(&object(&body)?)?;
        self.begin_chat(service, admitted, &asked, memory, request).await
    }

    /// Serves a request for the sample exchange: a chat without an upstream. The response is sent when the chat ends.
    async fn sample(
        &self,
        service: &Arc<Service>,
        admitted: &Admitted,
        memory: Reservation,
        request: &str,
    ) -> Result<AdminResponse, AdminError> {
        let asked = ChatRequest::read(&object(sample::REQUEST.as_bytes())?)?;
        let chat = self.begin_chat(service, admitted, &asked, memory, request).await?;
        chat.reader().ended().await;
        Ok(AdminResponse::json(json!({"exchange": **chat.id()})))
    }

    /// Starts a model request, as for a client whose key has the name `console`. `request` is the id of the console's
    /// HTTP request.
    async fn begin_chat(
        &self,
        service: &Arc<Service>,
        admitted: &Admitted,
        asked: &ChatRequest,
        memory: Reservation,
        request: &str,
    ) -> Result<Arc<Chat>, AdminError> {
        if !service.drain().is_serving() {
            return Err(drain::refusal().into());
        }
        self.chats().make_room()?;
        let exchange = service.exchange_id(request);
        let chat = Arc::new(Chat::new(Arc::clone(&exchange.own), admitted.mark(), service.redactor()));
        // Subscribes before the request is sent to the upstream, so that no call is missed.
        let bus = self.execution.as_ref().map(|_| self.audit.subscribe());
        let (body, made) = match admitted.is_sample() {
            true => {
                let made = sample::response().map_err(|failure| AdminError::of_model(&failure))?;
                (Bytes::from_static(sample::REQUEST.as_bytes()), Some(made))
            }
            false => (asked.body(), None),
        };
        let own =
            OwnExchange { client: playground::CLIENT, dialect: asked.client, body, id: &exchange, made };
        let answer = service.begin_own(own, memory).await;
        let answer = answer.map_err(|failure| AdminError::of_model(&failure))?;
        chat.started(asked, &exchange);
        let is_captured = self.audit.is_captured();
        self.chats().begin(&chat, Driven::new(asked, exchange, answer, bus, is_captured));
        Ok(chat)
    }

    /// Serves the console's page. Without configured keys, only visitors who may use the API get it.
    fn page(&self, request: ExtensionRequest<'_>) -> Response<ReplyBody> {
        let ExtensionRequest { service, head, peer, access, .. } = request;
        match self.check_host(head, peer) {
            Ok(()) => page::respond(&path_of(head), &head.headers, &service.site(head), access),
            Err(error) => response(Err(error), access),
        }
    }
}

/// Whether the client accepts a JSON object rather than a stream.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.contains("application/json") && !accepted.contains("text/event-stream")
}

/// Returns the request's path as routing sees it.
fn path_of(head: &request::Parts) -> std::borrow::Cow<'_, str> {
    routes::without_doubled_slash(head.uri.path())
}

//! Requests that concern toolwire itself: the admin API, and programs that register their tools.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, header, request};
use hyper::body::Incoming;
use serde_json::json;

use super::{Rest, Service, sample};
use crate::{
    failure::Kind,
    observe::{Access, Outcome},
    proxy::{
        admin::{self, Admin, AdminError, Admitted, Said},
        answer::AnswerBody,
        budget::Reservation,
        console, drain,
        feed_body::FeedBody,
        intake,
        playground::{self, Chat, ChatRequest, Driven},
        programs,
        reply::{self, ReplyBody},
        routes::{self, ProgramPath, Route},
        stamp::unix_time,
    },
};

impl Service {
    /// A request to the admin API.
    pub(super) async fn administer(
        self: &Arc<Self>,
        admin: &Arc<Admin>,
        (head, body, peer): (&request::Parts, Incoming, IpAddr),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let admitted = match admin.admit(head, &path_of(head), peer) {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(methods)) => return admin::options(methods, access),
            Err(error) => {
                if error.is_of_key() {
                    access.refused(peer);
                }
                if error.is_of_many() {
                    self.penalty().await;
                }
                return admin::response(Err(error), access);
            }
        };
        if let Some(events) = admin.events(&admitted, head) {
            // A chat that is in progress may end, as other responses do.
            let stopped = match admitted.attaches_chat() {
                true => self.drain.when_cut(),
                false => self.drain.when_begun(),
            };
            return admin::event_stream(events, self.config.limits.keep_alive, stopped, access);
        }
        let mut read = Bytes::new();
        let mut memory = None;
        if admitted.has_body(&head.method) {
            match intake::read(&head.headers, body, self.bounds(Some(admin::MAX_BODY))).await {
                Ok((body, reserved)) => (read, memory) = (body, Some(reserved)),
                Err(failure) => return admin::response(Err(failure.into()), access),
            }
            *rest = Rest::None;
        }
        let secrets = admitted.repeats_others().then(|| self.redactor.of_configured());
        let said = match memory {
            Some(memory) if admitted.begins_chat() => {
                return self.chat((admin, &admitted), (head, read, memory), access).await;
            }
            Some(memory) if admitted.is_sample() => {
                self.sample((admin, &admitted), memory, access.id()).await
            }
            _held => admin.answer(admitted, head, (read, peer)).await,
        };
        let said = match secrets {
            Some(secrets) => said.map(|said| said.covered(&secrets)),
            None => said,
        };
        if said.as_ref().is_err_and(AdminError::is_of_key) {
            access.refused(peer);
        }
        admin::response(said, access)
    }

    /// A request that begins a chat of the console.
    async fn chat(
        self: &Arc<Self>,
        (admin, admitted): (&Arc<Admin>, &Admitted),
        (head, body, memory): (&request::Parts, Bytes, Reservation),
        access: Access,
    ) -> Response<ReplyBody> {
        let asked = admin::object(&body).and_then(|asked| ChatRequest::read(&asked));
        let begun = match asked {
            Ok(asked) => self.begin_chat((admin, admitted), (&asked, memory), access.id()).await,
            Err(error) => Err(error),
        };
        let chat = match begun {
            Ok(chat) => chat,
            Err(error) => return admin::response(Err(error), access),
        };
        if wants_json(&head.headers) {
            chat.reader().ended().await;
            return admin::response(Ok(Said::json(chat.summary())), access);
        }
        let events = admin.reading(&chat, admitted);
        admin::event_stream(events, self.config.limits.keep_alive, self.drain.when_cut(), access)
    }

    /// A request for the sample exchange: a chat whose upstream is not asked. The answer comes at its end.
    async fn sample(
        self: &Arc<Self>,
        (admin, admitted): (&Arc<Admin>, &Admitted),
        memory: Reservation,
        request: &str,
    ) -> Result<Said, AdminError> {
        let asked = ChatRequest::read(&admin::object(sample::REQUEST.as_bytes())?)?;
        let chat = self.begin_chat((admin, admitted), (&asked, memory), request).await?;
        chat.reader().ended().await;
        Ok(Said::json(json!({"exchange": **chat.id()})))
    }

    /// Asks a model as a client would whose key has the name `console`. `request`: the id of the console's own request.
    async fn begin_chat(
        self: &Arc<Self>,
        (admin, admitted): (&Arc<Admin>, &Admitted),
        (asked, memory): (&ChatRequest, Reservation),
        request: &str,
    ) -> Result<Arc<Chat>, AdminError> {
        if !self.drain.is_serving() {
            return Err(drain::refusal().into());
        }
        admin.chats().make_room()?;
        let (route, path) = Route::generating(asked.client).ok_or_else(AdminError::not_found)?;
        let (headers, method) = (HeaderMap::new(), Method::POST);
        let trace = self.trace(Some(&route), (&headers, &method, &path), request);
        let (metrics, id) = (Arc::clone(&self.metrics), request.to_owned());
        let mut access = Access::new(metrics, id, method, &path, route.name()).traced(trace);
        access.asks_model();
        let caller = self.keys.own(playground::CLIENT, unix_time());
        if let Some(account) = &caller.account {
            access.shown_key(Arc::clone(account.name()));
        }
        let exchange = self.exchange_id(request);
        let chat = Arc::new(Chat::new(Arc::clone(&exchange.own), admitted.mark(), &self.redactor));
        // Before the upstream is asked: no call is missed.
        let bus = self.audit.as_ref().filter(|_| self.execution.is_some()).map(|audit| audit.subscribe());
        let answer: Result<Box<dyn FnOnce(Access) -> AnswerBody + Send>, _> = if admitted.is_sample() {
            let answer = self.begin_sample(&caller, &exchange, memory, &mut access).await;
            answer.map(|answer| Box::new(answer) as _)
        } else {
            let request = (&headers, asked.body(), exchange.clone());
            let answer = self.begin_answer((asked.client, caller), request, memory, &mut access).await;
            answer.map(|answer| Box::new(answer) as _)
        };
        let answer = answer.map_err(|refused| {
            let failure = refused.into_failure().redacted(&*self.redactor);
            access.status(failure.status());
            access.ended(Outcome::Failed(failure.clone()));
            AdminError::of_model(&failure)
        })?;
        let answer = Box::pin(answer(access));
        chat.started(asked, &exchange);
        admin.chats().begin(&chat, Driven::new(asked, exchange, answer, bus));
        Ok(chat)
    }

    /// A request for the console's page, which is there if the admin API is. Who may not use that API without a key does not
    /// get the page either.
    pub(super) fn page(&self, head: &request::Parts, peer: IpAddr, access: Access) -> Response<ReplyBody> {
        match self.admin.as_ref().map_or(Ok(()), |admin| admin.check_host(head, peer)) {
            Ok(()) => console::respond(&path_of(head), &head.headers, access),
            Err(error) => admin::response(Err(error), access),
        }
    }

    /// A request of a program that registers its tools.
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

/// Whether the answer is to be one object.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.contains("application/json") && !accepted.contains("text/event-stream")
}

/// The path of a request, as routes are found by it.
fn path_of(head: &request::Parts) -> std::borrow::Cow<'_, str> {
    routes::without_doubled_slash(head.uri.path())
}

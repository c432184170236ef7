//! The handshake of a WebSocket, and the requests on it.

use std::{pin::Pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::{Response, header, request};
use toolwire_net::store::Owner;

use super::{Rest, Service, admit, generate::decode};
use crate::{
    answer::AnswerBody,
    auth::Caller,
    budget::Reservation,
    cors::Grant,
    drain, exchange,
    extension::RequestBody,
    large,
    limits::RequestDemand,
    observe::{Access, Outcome},
    reply::{self, ReplyBody},
    routes::Route,
    stamp::{seed, unix_time},
    websocket::{self, Handshake, LocalRecord, LocalResponses},
};
use toolwire_pipeline::{
    dialect::{Answering, ClientDialect, Ids, SocketCreate},
    event::{Event, Finish},
    failure::{Failure, Kind},
};

/// What becomes of a request on a WebSocket.
pub(crate) enum Created {
    /// The upstream is asked. The record is kept when the response is complete.
    Asked(Pin<Box<AnswerBody>>, Option<LocalRecord>),
    /// The response is made without a model. These are its events.
    Made(Bytes, Option<LocalRecord>),
    /// The response with an error.
    Refused(Response<ReplyBody>),
}

impl Service {
    /// Responds to a handshake whose sender may send requests.
    pub(super) fn open_websocket(
        &self,
        handshake: Handshake,
        body: &RequestBody<'_>,
        access: Access,
    ) -> Response<ReplyBody> {
        let dialect = handshake.dialect;
        if !self.shared.drain.is_serving() {
            return reply::error(drain::refusal(), dialect, access);
        }
        if *body.rest == Rest::Unread {
            let failure = Failure::new(Kind::Request, "a WebSocket's handshake must not have a body");
            return reply::error(failure, dialect, access);
        }
        match websocket::accept(&handshake.head.headers) {
            Ok(accept) => reply::switching(handshake, accept, access),
            Err(failure) => {
                let mut response = reply::error(failure, dialect, access);
                response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, websocket::VERSION);
                response
            }
        }
    }

    /// Returns an empty reservation for the memory of a message.
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation::new(&self.shared.budget)
    }

    /// The error for a message that does not become a request.
    pub(crate) fn refuse_message(&self, handshake: &Handshake, failure: Failure) -> Response<ReplyBody> {
        let (_, access) = self.record_of(handshake);
        refused(failure, handshake.dialect, access)
    }

    /// Handles a request on a connection, as [`Service::begin`] handles one over HTTP.
    pub(crate) async fn create(
        self: Arc<Self>,
        handshake: Arc<Handshake>,
        create: SocketCreate,
        local: Arc<LocalResponses>,
        memory: Reservation,
    ) -> Created {
        let (route, mut access) = self.record_of(&handshake);
        match self.admit_socket(&handshake, &route, &mut access).await {
            Ok(caller) => self.create_for(caller, &handshake, create, local, memory, access).await,
            Err(failure) => Created::Refused(refused(failure, handshake.dialect, access)),
        }
    }

    /// Starts the record of a request.
    fn record_of(&self, Handshake { dialect, head, .. }: &Handshake) -> (Option<Route>, Access) {
        let id = Ids::new(seed(), 0).next("req_");
        let route = Route::generating(*dialect).map(|(route, _)| route);
        let (name, path) = (route.as_ref().map_or("unknown", Route::name), head.uri.path());
        let trace = self.trace(route.as_ref(), &head.headers, &head.method, path, &id);
        let metrics = Arc::clone(&self.shared.monitors.metrics);
        let mut access = Access::new(metrics, id, head.method.clone(), path, name).traced(trace);
        access.asks_model();
        (route, access)
    }

    /// Checks the sender of a request, since keys and origins may have changed since the handshake.
    async fn admit_socket(
        &self,
        Handshake { head, peer, .. }: &Handshake,
        route: &Option<Route>,
        access: &mut Access,
    ) -> Result<Caller, Failure> {
        let missing = || Failure::new(Kind::Internal, "no path takes requests of this dialect");
        let route = route.as_ref().ok_or_else(missing)?;
        let is_open = self.shared.keys.are_not_needed();
        let grant = Grant::new(&self.shared.config.cors_origins, &head.headers);
        if let Some(failure) = self.refuse_page(is_open, Some(route), head, &grant) {
            return Err(failure);
        }
        let caller = self.identify(is_open, route, head, *peer, access).await?;
        if !self.shared.drain.is_serving() {
            return Err(drain::refusal());
        }
        Ok(Caller { peer: Some(*peer), ..caller })
    }

    async fn create_for(
        self: &Arc<Self>,
        caller: Caller,
        handshake: &Handshake,
        create: SocketCreate,
        local: Arc<LocalResponses>,
        memory: Reservation,
        mut access: Access,
    ) -> Created {
        let Handshake { dialect, head: request::Parts { headers, .. }, .. } = handshake;
        let dialect = *dialect;
        let SocketCreate { lane, generates, body, .. } = create;
        let responses = &self.shared.stored.responses;
        let body = match responses.with_history(dialect, caller.owner, body, Some(&local), unix_time()).await
        {
            Ok(body) => body,
            Err(failure) => return Created::Refused(refused(failure, dialect, access)),
        };
        let record = self.local_record(local, dialect, caller.owner, lane, &body).await;
        if !generates {
            return match self.empty_response(dialect, &caller, &body, &mut access).await {
                Ok(events) => Created::Made(events, record),
                Err(refused) => Created::Refused(with_id(|access| refused.response(dialect, access), access)),
            };
        }
        let id = access.id().to_owned();
        match self.generate_read(dialect, caller, headers, (body, memory), access).await {
            Ok(answer) => Created::Asked(answer, record),
            Err(mut response) => {
                reply::put_request_id(response.headers_mut(), &id);
                Created::Refused(response)
            }
        }
    }

    /// Prepares the record of a response for the connection. `None` if there is no memory for it.
    async fn local_record(
        &self,
        responses: Arc<LocalResponses>,
        dialect: ClientDialect,
        owner: Owner,
        lane: Option<String>,
        body: &Bytes,
    ) -> Option<LocalRecord> {
        let mut memory = self.reservation();
        memory.grow(body.len()).ok()?;
        let input = if large::is_large(body.len()) {
            let body = body.clone();
            large::apart(move || dialect.side().record_input(&body)).await.ok()?
        } else {
            dialect.side().record_input(body)
        };
        Some(LocalRecord { responses, dialect, owner, lane, input: input?, memory })
    }

    /// Returns the events of an empty response. The request is checked as if a model were asked.
    async fn empty_response(
        &self,
        dialect: ClientDialect,
        caller: &Caller,
        body: &Bytes,
        access: &mut Access,
    ) -> Result<Bytes, super::Refused> {
        let mut conversation = decode(dialect, body).await?;
        access.asked(&conversation.model, true);
        caller.check_model(&conversation.model)?;
        admit(caller, |_| RequestDemand::PLAIN, dialect).await?;
        let model = exchange::model(&self.shared.config, dialect, &conversation)?;
        access.routed(&model.name, &model.upstream);
        // Only the connection remembers it.
        conversation.stored = false;
        let mut writer = dialect.side().writer(&Answering::new(&conversation, self.stamp()));
        let mut events = BytesMut::new();
        writer.event(&Event::Finish(Finish::Stop), &mut events);
        writer.finish(&mut events);
        access.status(200);
        access.wrote(events.len());
        access.ended(Outcome::Done);
        Ok(events.freeze())
    }
}

/// The response with an error, and with the id of the request.
fn refused(failure: Failure, dialect: ClientDialect, access: Access) -> Response<ReplyBody> {
    with_id(|access| reply::error(failure, dialect, access), access)
}

fn with_id(respond: impl FnOnce(Access) -> Response<ReplyBody>, access: Access) -> Response<ReplyBody> {
    let id = access.id().to_owned();
    let mut response = respond(access);
    reply::put_request_id(response.headers_mut(), &id);
    response
}

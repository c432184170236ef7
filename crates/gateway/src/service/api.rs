//! Requests for the paths of clients' APIs.

use std::{net::IpAddr, pin::Pin, sync::Arc};

use http::{Method, Response};

use super::{Service, routing::Arrived};
use crate::{
    answer::AnswerBody,
    auth::Caller,
    extension::RequestBody,
    observe::Access,
    reply::{self, ReplyBody},
    routes::ApiPath,
    websocket::Handshake,
};
use toolwire_pipeline::{
    dialect::{ModelAbout, Operation},
    failure::{Failure, Kind},
};

impl Service {
    /// Handles a request for a path of a client's API.
    ///
    /// # Errors
    /// The response, if it does not come from an upstream.
    pub(super) async fn api(
        self: &Arc<Self>,
        api: &ApiPath,
        client: Caller,
        arrived: Arrived<'_>,
        peer: IpAddr,
        body: RequestBody<'_>,
        access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let Arrived { head, dialect, .. } = arrived;
        let target = api.target(head.uri.query());
        // A future is moved once for each function that it is part of. Those of rare requests are on the heap to keep
        // this one small.
        Err(match api.endpoint.operation {
            Operation::Generate if head.method == Method::GET => {
                let handshake = Handshake { dialect, head: head.clone(), peer };
                self.open_websocket(handshake, &body, access)
            }
            Operation::Generate => {
                return self.generate(dialect, target, client, &head.headers, body, access).await;
            }
            Operation::Compact => {
                return Box::pin(self.compact(dialect, target, client, &head.headers, body, access)).await;
            }
            Operation::CountTokens => {
                Box::pin(self.count_tokens(dialect, target, client, &head.headers, body, access)).await
            }
            Operation::Models => {
                let list = Box::pin(self.shared.models.list(&client)).await;
                let list = list.map_err(|failure| failure.redacted(&*self.shared.monitors.redactor));
                match list.and_then(|list| dialect.side().model_list(list, head.uri.query())) {
                    Ok(list) => reply::json(&list, access),
                    Err(failure) => reply::error(failure, dialect, access),
                }
            }
            Operation::Model if api.endpoint.names_model() => {
                Box::pin(self.model(&api.model, true, &client, arrived, access)).await
            }
            Operation::Model => Box::pin(self.model_of_body(client, arrived, body, access)).await,
            Operation::Facts => reply::json(&dialect.side().facts(api.endpoint), access),
            Operation::Pass => {
                let path = api.endpoint.path;
                Box::pin(self.pass_through(path, dialect, client, head, body, access)).await
            }
            Operation::Refuse(why) => {
                let failure = Failure::new(Kind::Request, why).with_status(501);
                reply::error(failure, dialect, access)
            }
        })
    }

    /// Handles a request for a single entry in the list of models.
    async fn model(
        &self,
        name: &str,
        is_in_path: bool,
        caller: &Caller,
        Arrived { dialect, .. }: Arrived<'_>,
        access: Access,
    ) -> Response<ReplyBody> {
        if let Err(failure) = caller.check_model(name) {
            return reply::error(failure, dialect, access);
        }
        let config = self.shared.config.model(name).zip(self.shared.models.find(name).await);
        match config {
            Some((_, entry)) if is_in_path => reply::json(&dialect.side().model_entry(entry), access),
            Some((model, entry)) => {
                let about =
                    ModelAbout { name: model.upstream_name(name), sees_images: model.vision.is_some() };
                reply::json(&dialect.side().model_shown(entry, &about), access)
            }
            None => reply::error(dialect.side().unknown_model(name), dialect, access),
        }
    }

    /// Handles a request for the entry of the model that its body names.
    async fn model_of_body(
        &self,
        caller: Caller,
        arrived: Arrived<'_>,
        body: RequestBody<'_>,
        access: Access,
    ) -> Response<ReplyBody> {
        let Arrived { head, dialect, .. } = arrived;
        let read = Box::pin(body.read(self, &head.headers, None)).await;
        match read.and_then(|(body, _memory)| dialect.side().model_asked(&body)) {
            Ok(name) => self.model(&name, false, &caller, arrived, access).await,
            Err(failure) => reply::error(failure, dialect, access),
        }
    }
}

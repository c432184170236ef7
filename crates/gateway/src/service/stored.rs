//! Requests for stored responses.

use http::Response;

use super::Service;
use crate::{
    observe::Access,
    reply::{self, ReplyBody},
    stamp::unix_time,
    stored_responses::Part,
};
use toolwire_net::store::Owner;
use toolwire_pipeline::dialect::ClientDialect;

impl Service {
    /// Handles a request for a stored response, or for its input.
    pub(super) async fn stored(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        id: &str,
        part: Part,
        access: Access,
    ) -> Response<ReplyBody> {
        match self.shared.stored.responses.find(dialect, owner, id, part, unix_time()).await {
            Ok(body) => reply::json_text(body, access),
            Err(failure) => reply::error(failure, dialect, access),
        }
    }

    /// Handles a request to delete a stored response.
    pub(super) async fn delete(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        id: &str,
        access: Access,
    ) -> Response<ReplyBody> {
        match self.shared.stored.responses.delete(owner, id, unix_time()).await {
            Ok(()) => {
                reply::json(&serde_json::json!({"id": id, "object": "response", "deleted": true}), access)
            }
            Err(failure) => reply::error(failure, dialect, access),
        }
    }
}

//! Decides who may send requests. If keys are configured, a valid key is needed. If not, requests from unknown web
//! pages are refused.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, Method, request};

use super::Service;
use crate::{
    attempt_throttle::PENALTY,
    auth::{Caller, with_key_of_query},
    cors::Grant,
    images, models,
    observe::Access,
    routes::Route,
    stamp::unix_time,
    web_pages::{self, HostNames},
};
use toolwire_pipeline::failure::{Failure, Kind};

impl Service {
    /// Returns the failure of a request that may come from a web page, if clients need no key.
    pub(super) fn refuse_page(
        &self,
        is_open: bool,
        route: Option<&Route>,
        head: &request::Parts,
        grant: &Grant,
    ) -> Option<Failure> {
        let is_allowed = match route {
            // Extensions make their own checks.
            Some(Route::Extension(_)) => return None,
            // Load balancers may use any host name, and these responses contain no data.
            Some(Route::Health | Route::Ready) => return None,
            _ if !is_open => return None,
            Some(Route::Image(_)) if images::is_shown(&head.headers) => true,
            _ => grant.is_some(),
        };
        let own = self.shared.config.admin.as_ref().map_or(&[][..], |admin| &admin.hosts);
        web_pages::check(head, HostNames([&self.shared.config.hosts, own]), is_allowed).err()
    }

    /// Identifies the sender of a request. If no key is needed and the route takes JSON, the body must be declared as
    /// JSON, which pages of other origins cannot do without permission. The handshake of a WebSocket has no body, and
    /// browsers always send the page's origin with it.
    ///
    /// # Errors
    /// If there is no valid key, or if the request may come from a web page.
    pub(super) async fn identify(
        &self,
        is_open: bool,
        route: &Route,
        head: &request::Parts,
        peer: IpAddr,
        access: &mut Access,
    ) -> Result<Caller, Failure> {
        if is_open && route.takes_json() && head.method == Method::POST {
            web_pages::check_json(&head.headers)?;
        }
        let session = self.session(&head.headers);
        let dialect = models::asking_dialect(Some(route), head).unwrap_or_else(|| route.dialect());
        let parameter = dialect.side().key_parameter();
        let headers = with_key_of_query(&head.headers, head.uri.query(), parameter);
        let client = match self.shared.keys.identify(&headers, session.as_ref(), unix_time()) {
            Ok(client) => client,
            Err(_) if !route.needs_key() => Caller::default(),
            Err(failure) if failure.kind() == Kind::Unauthorized => {
                let may_be_bearer = session.is_none();
                let refused = self.refuse_key(failure, &headers, may_be_bearer, peer, access);
                return Err(Box::pin(refused).await);
            }
            Err(failure) => return Err(failure),
        };
        if !is_open && route.needs_key() {
            self.shared.keys.forget_wrong(peer);
        }
        if let Some(account) = &client.account {
            access.shown_key(Arc::clone(account.name()));
        }
        Ok(client)
    }

    /// Returns the failure of a request with a wrong key. After too many wrong keys, this is a different failure and is
    /// delayed. `may_be_bearer` is true if `Authorization` may contain the key.
    pub(super) async fn refuse_key(
        &self,
        failure: Failure,
        headers: &HeaderMap,
        may_be_bearer: bool,
        peer: IpAddr,
        access: &mut Access,
    ) -> Failure {
        access.refused(peer);
        let Err(seconds) = self.shared.keys.count_wrong(headers, may_be_bearer, peer) else { return failure };
        self.penalty().await;
        let message = format!("too many wrong API keys from this address; try again in {seconds} s");
        Failure::new(Kind::RateLimit, message).with_retry_after(seconds.to_string())
    }

    /// Delays the response to a client that guesses keys.
    pub async fn penalty(&self) {
        let _ = tokio::time::timeout(PENALTY, self.shared.drain.when_begun()).await;
    }
}

//! [`SessionFeed`]: an event stream that ends together with the session that opened it.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{access::Access, sessions::Digest};
use toolwire_gateway::feed_body::FeedSource;

/// An event stream of a session. It notices the session's end when it is next polled, at the latest for the next
/// keep-alive.
#[derive(Debug)]
pub(super) struct SessionFeed {
    door: Access,
    /// Digest of the session's token.
    token: Digest,
    source: Box<dyn FeedSource>,
}

impl SessionFeed {
    pub(super) fn new(door: &Access, token: Digest, source: Box<dyn FeedSource>) -> Self {
        Self { door: door.clone(), token, source }
    }
}

impl FeedSource for SessionFeed {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.door.lasts(&self.token) {
            true => self.source.poll_events(cx),
            false => Poll::Ready(None),
        }
    }
}

//! [`SessionFeed`]: a stream of events that ends with the session that opened it.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{access::Access, sessions::Digest};
use toolwire_gateway::feed_body::FeedSource;

/// An event stream that belongs to a session. The end of the session is noticed when the stream is next polled, which
/// is at the latest for its next keep-alive.
#[derive(Debug)]
pub(super) struct SessionFeed {
    door: Access,
    /// The digest of the session's token.
    token: Digest,
    source: Box<dyn FeedSource>,
}

impl SessionFeed {
    /// Limits `source` to the session of this token.
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

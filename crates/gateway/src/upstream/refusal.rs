//! Reads error responses, and explains why other responses cannot be read.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header, response::Parts};
use tokio::time::timeout;

use super::{Client, OpenError, Opened, UpstreamBody, body_read::BodyRead};
use crate::retry_after;
use toolwire_pipeline::failure::{Failure, Kind};

/// Maximum number of bytes to read of the body of an error response. Error objects are small.
const MAX_REFUSAL: usize = 64 << 10;

const HTML: &[u8] = b"text/html";

impl Client {
    /// Reads the body of an error response, up to a limit. Returns it with the corresponding failure.
    pub(in super::super) async fn error_of(&self, opened: Opened) -> (Bytes, Failure) {
        let Opened { head, body, permit: _permit } = opened;
        let OpenError { failure, said, .. } = self.refused(head, body).await;
        (said.map(|(_, body)| body).unwrap_or_default(), failure)
    }

    /// Returns the failure of a response whose status is an error.
    pub(super) async fn refused(&self, head: Parts, body: UpstreamBody) -> OpenError {
        let body = self.refusal_body(body).await;
        let told = retry_after::told(&head.headers);
        let failure = self.upstream.options.side().refusal(head.status.as_u16(), told.as_deref(), &body);
        OpenError { failure, said: Some((head, body)), permit: None }
    }

    /// Reads as much of the body as arrives in time. A refusal whose body is cut off is still a refusal.
    async fn refusal_body(&self, mut body: UpstreamBody) -> Bytes {
        let mut read = BytesMut::new();
        let reading = async {
            let mut last = Ok(BodyRead::Data);
            while matches!(last, Ok(BodyRead::Data)) && read.len() < MAX_REFUSAL {
                let step = poll_fn(|cx| {
                    body.poll_data(cx, |data| {
                        let room = MAX_REFUSAL - read.len();
                        read.extend_from_slice(data.get(..room).unwrap_or(data));
                    })
                });
                last = step.await;
            }
        };
        // After a timeout, the bytes read so far are used.
        if timeout(self.upstream.timeouts.idle, reading).await.is_err() {
            body.retire();
        }
        read.freeze()
    }
}

/// If the body of a response that is not a refusal cannot be read, returns the reason.
pub(super) fn unreadable(head: &Parts) -> Option<Failure> {
    let protocol = |message: String| Some(Failure::new(Kind::Protocol, message));
    if !head.status.is_success() {
        let hint = if head.status.is_redirection() { "; is its base_url right?" } else { "" };
        return protocol(format!("the upstream responded with status {}{hint}", head.status));
    }
    if head.status == StatusCode::NO_CONTENT {
        return protocol("the upstream responded without content".to_owned());
    }
    if let Some(encoding) =
        head.headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
    {
        return protocol(format!(
            "the upstream's response is compressed ({encoding:?}), which was not requested"
        ));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE)?.as_bytes().trim_ascii_start();
    if content_type.get(..HTML.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(HTML)) {
        return protocol(
            "the upstream responded with a web page, not with a stream; is its base_url right?".into(),
        );
    }
    None
}

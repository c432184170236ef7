//! [`Guard`]: filters a server's messages before rmcp receives them.
//!
//! rmcp starts a task for every notification and every request from a server. Therefore, progress is passed on to its
//! call here, and notifications that toolwire does not use are dropped. So are requests while [`MAX_UNANSWERED`] earlier ones are unanswered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::reported_calls::ReportedCalls;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification},
    transport::Transport,
};

/// Maximum number of requests from the server that toolwire has not answered yet.
const MAX_UNANSWERED: usize = 32;

/// A transport that drops messages.
#[derive(Debug)]
pub(super) struct Guard<T> {
    transport: T,
    unanswered: Arc<AtomicUsize>,
    calls: ReportedCalls,
}

impl<T> Guard<T> {
    /// `calls` gets the progress that the server reports.
    pub(super) fn new(transport: T, calls: ReportedCalls) -> Self {
        Self { transport, unanswered: Arc::default(), calls }
    }

    fn admits(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
            JsonRpcMessage::Notification(message) => matches!(
                message.notification,
                ServerNotification::ToolListChangedNotification(_)
                    | ServerNotification::SubscriptionsAcknowledgedNotification(_)
            ),
            JsonRpcMessage::Request(_) => {
                let more = |count: usize| (count < MAX_UNANSWERED).then_some(count + 1);
                self.unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
            }
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guard<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.calls.sent(&message);
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let unanswered = is_answer.then(|| Arc::clone(&self.unanswered));
        let sending = self.transport.send(message);
        async move {
            let sent = sending.await;
            if let Some(unanswered) = unanswered {
                let less = |count: usize| Some(count.saturating_sub(1));
                let _ = unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.transport.receive().await?;
            if self.admits(&message) {
                return Some(message);
            }
            if let JsonRpcMessage::Notification(message) = message
                && let ServerNotification::ProgressNotification(progress) = message.notification
            {
                self.calls.report(progress.params);
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

//! [`Guard`]: filters a server's messages before rmcp receives them.
//!
//! rmcp starts a task for every notification and every request from a server. Therefore, progress is passed on to its
//! call here, and notifications that toolwire does not use are dropped. So are requests while [`MAX_UNANSWERED`] earlier
//! ones are unanswered.

use std::{collections::HashSet, sync::Arc};

use super::reported_calls::ReportedCalls;
use parking_lot::Mutex;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification},
    transport::Transport,
};

/// Maximum number of requests from the server that toolwire has not answered yet.
const MAX_UNANSWERED: usize = 32;

/// A transport that drops messages.
#[derive(Debug)]
pub(super) struct Guard<T> {
    transport: T,
    /// Requests of the server that are neither answered nor cancelled.
    unanswered: Arc<Mutex<HashSet<RequestId>>>,
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
            JsonRpcMessage::Notification(message) => match &message.notification {
                ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::PromptListChangedNotification(_)
                | ServerNotification::SubscriptionsAcknowledgedNotification(_) => true,
                ServerNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    id.is_some_and(|id| self.unanswered.lock().remove(id))
                }
                _ => false,
            },
            JsonRpcMessage::Request(request) => {
                let mut unanswered = self.unanswered.lock();
                unanswered.len() < MAX_UNANSWERED && unanswered.insert(request.id.clone())
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
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let unanswered = Arc::clone(&self.unanswered);
        let sending = self.transport.send(message);
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                unanswered.lock().remove(&id);
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

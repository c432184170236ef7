//! [`ReportedCalls`]: assigns notifications about progress to running calls.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcMessage, ProgressNotificationParam, ProgressToken,
};
use toolwire_pipeline::wire::text::boundary_upto;

use crate::reports::{Report, Reports};

/// Maximum size of a message about progress, in bytes.
const MAX_MESSAGE: usize = 4 << 10;

/// The calls that wait for reports of their progress, by the token in their requests.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportedCalls(Arc<Mutex<HashMap<ProgressToken, Reports>>>);

impl ReportedCalls {
    /// Called with each message before it is sent. The extensions of a call's request contain its [`Reports`].
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        let ClientRequest::CallToolRequest(call) = &request.request else { return };
        let token = request.request.get_meta().get_progress_token();
        if let (Some(reports), Some(token)) = (call.extensions.get::<Reports>(), token) {
            let mut calls = self.0.lock();
            calls.retain(|_, reports| reports.is_awaited());
            calls.insert(token, reports.clone());
        }
    }

    /// Ignores reports about calls that have ended or never existed.
    pub(super) fn report(&self, progress: ProgressNotificationParam) {
        let calls = self.0.lock();
        let Some(reports) = calls.get(&progress.progress_token) else { return };
        let mut message = progress.message.unwrap_or_default();
        message.truncate(boundary_upto(&message, MAX_MESSAGE));
        reports.report(Report { done: progress.progress, total: progress.total, message });
    }
}

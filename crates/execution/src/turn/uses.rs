//! How often tools may be called, and with which options of the client.

use std::sync::Arc;

use tokio::time::Instant;
use url::Url;

use super::HostedTurn;
use crate::{ErrorCode, ToolError, client_options::ClientOptions, registry::Hosted};

impl HostedTurn {
    /// The setting whose limit is reached, if any. The next hop may then not call hosted tools, so the model must
    /// answer without them.
    pub fn exhausted_limit(&self) -> Option<&'static str> {
        let state = self.state.lock();
        let settings = self.execution.settings();
        let limits = [
            ("max_rounds", state.rounds >= settings.max_rounds),
            ("max_calls", state.calls >= settings.max_calls),
            ("max_results", state.bytes >= settings.max_results),
            ("deadline", Instant::now() >= self.deadline),
        ];
        limits.into_iter().find_map(|(name, is_reached)| is_reached.then_some(name))
    }

    /// The names of the tools that may not be called again in this turn.
    pub fn exhausted(&self) -> Vec<&str> {
        let state = self.state.lock();
        let is_exhausted = |hosted: &Hosted| {
            let uses = state.uses.get(&hosted.name).copied().unwrap_or(0);
            self.max_uses(hosted).is_some_and(|most| uses >= most)
        };
        let offered = self.offered.iter().flatten();
        let exhausted =
            offered.filter(|(_, place)| self.snapshot.tools().get(**place).is_some_and(is_exhausted));
        exhausted.map(|(name, _)| name.as_str()).collect()
    }

    /// Maximum number of calls to the tool in one response, by its rules and the client's request.
    pub(super) fn max_uses(&self, hosted: &Hosted) -> Option<usize> {
        let by_client = self.options.of_tool(&hosted.name).and_then(|options| options.max_uses);
        [hosted.rules.max_uses, by_client].into_iter().flatten().min()
    }

    /// What the client's request says about calls to the tool.
    pub(crate) fn options_of(&self, hosted: &Hosted) -> Option<&Arc<ClientOptions>> {
        self.options.of_tool(&hosted.name)
    }

    /// Checks a call's URL against the client's request and the conversation.
    ///
    /// # Errors
    /// Why the URL may not be used.
    pub(crate) fn check_page(&self, hosted: &Hosted, url: Option<&str>) -> Result<(), ToolError> {
        let blocked = |message: &str| Err(ToolError::new(ErrorCode::BlockedUrl, message));
        let options = self.options_of(hosted);
        options.map_or(Ok(()), |options| options.check())?;
        let Some(url) = url else { return Ok(()) };
        let is_admitted =
            |options: &Arc<ClientOptions>| Url::parse(url).is_ok_and(|url| options.admits(&url));
        if !options.is_none_or(is_admitted) {
            return blocked("The client's request does not allow pages at this address.");
        }
        if hosted.spec.reads_known_pages && self.options.pages.as_ref().is_some_and(|pages| !pages.has(url)) {
            return blocked("Only addresses that the user or a result of a tool has named may be read.");
        }
        Ok(())
    }
}

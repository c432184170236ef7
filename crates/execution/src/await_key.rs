//! Waits for the tools that a client key's own login shows.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{provider::ProviderState, stage::Execution};

/// How long a request waits for tools that are not known yet.
const WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

impl Execution {
    /// Waits for the tools of servers at which the client key `key` has a login of its own, but not for long.
    pub async fn await_key(&self, key: Option<&str>) {
        let providers = self.registry().providers().iter();
        let own: Vec<_> = providers.filter_map(|(_, provider)| provider.of_key(key)).collect();
        let is_starting = move || own.iter().any(|own| own.status().state == ProviderState::Starting);
        if !is_starting() {
            return;
        }
        let waiting = async move {
            while is_starting() {
                sleep(PAUSE).await;
            }
        };
        self.runtime()
            .run(async { timeout(WAIT, waiting).await.unwrap_or_default() })
            .await
            .unwrap_or_default();
    }
}

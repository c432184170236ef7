//! Replaces [`RedisServer`] in builds without the `redis` feature.

use std::{io, sync::Arc, time::Duration};

use super::{
    HeldBytes, OnChange, OnFailure, ServerFacts, SharedLimits, SharedText, Space, Store, StoreAddress,
    StoreError,
};

/// A server that stores values and limits. It cannot be created in this build.
#[derive(Debug)]
pub enum RedisServer {}

impl RedisServer {
    /// Fails, since this build does not support servers.
    ///
    /// # Errors
    /// Always.
    pub(super) fn new(_address: StoreAddress, _on_change: OnChange) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this build cannot use a server"))
    }

    /// Fails, since this build does not support servers.
    ///
    /// # Errors
    /// Always.
    pub async fn examine(_address: &StoreAddress) -> Result<ServerFacts, StoreError> {
        Err(StoreError::new("this build cannot use a server"))
    }

    pub(super) fn store(
        self: &Arc<Self>,
        _space: Space,
        _ttl: Duration,
        _on_failure: OnFailure,
    ) -> Arc<dyn Store> {
        match **self {}
    }

    pub(super) fn held(&self) -> HeldBytes {
        match *self {}
    }

    pub(super) fn limits(self: &Arc<Self>) -> Arc<dyn SharedLimits> {
        match **self {}
    }

    pub(super) fn text(self: &Arc<Self>, _name: &str) -> Arc<dyn SharedText> {
        match **self {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StoreAddress, Stores};

    #[test]
    fn server_that_this_build_cannot_use_is_refused() {
        let address = StoreAddress::parse("redis://127.0.0.1:1/0").unwrap();
        let refused = Stores::on_server(address, Box::new(|_| ())).unwrap_err();
        assert_eq!(refused.to_string(), "this build cannot use a server");
    }
}

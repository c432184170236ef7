//! Helpers for end-to-end tests: a scripted upstream, a proxy in front of it, and clients.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod client;
pub(crate) mod http2;
pub(crate) mod proton;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod taught;
pub(crate) mod tls;
pub(crate) mod upstream;
pub(crate) mod websocket;

use std::time::Duration;

use tokio::time::timeout;

/// Fails a test that hangs. The timeout is far longer than any passing test needs, so tests do not depend on speed.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = timeout(Duration::from_secs(20), future).await else { panic!("{what}: still waiting") };
    output
}

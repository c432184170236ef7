//! Limits of client connections.

use std::time::Duration;

/// How long a connection may wait for its first or next request.
pub(super) const IDLE: Duration = Duration::from_secs(75);

/// Number of bytes that hyper buffers per connection and direction. The head of a request must fit.
pub(super) const BUFFER: usize = 64 << 10;

/// How long a client may continue to send after the last response when the server stops.
pub(super) const GOODBYE: Duration = Duration::from_millis(100);

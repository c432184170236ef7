//! Bounds of clients' connections.

use std::time::Duration;

/// How long a connection may go without a request, also between two requests. Then it is closed.
pub(super) const IDLE: Duration = Duration::from_secs(75);

/// Bytes that hyper buffers per connection, in each direction; the head of a request must fit.
pub(super) const BUFFER: usize = 64 << 10;

/// How long a client may go on sending after the last response of a connection when the server stops.
pub(super) const GOODBYE: Duration = Duration::from_millis(100);

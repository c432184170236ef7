//! Limits of clients' connections.

use std::time::Duration;

/// Time after which a connection without a request is closed. Also applies between two requests.
pub(super) const IDLE: Duration = Duration::from_secs(75);

/// Number of bytes that hyper buffers per connection and direction; the head of a request must fit.
pub(super) const BUFFER: usize = 64 << 10;

/// Time for which a client may continue to send after the last response on a connection when the server stops.
pub(super) const GOODBYE: Duration = Duration::from_millis(100);

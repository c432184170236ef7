//! The bytes for the client. While another model may still answer, the text of the current one is held back, and only
//! keep-alives are sent.

use std::mem;

use bytes::BytesMut;

use super::{MAX_BYTES, exchange_state::ExchangeState};

/// A keep-alive that may be sent before the first event of a stream.
const COMMENT: &[u8] = b": keep-alive\n\n";

impl ExchangeState {
    /// Whether the client's connection has taken all bytes.
    pub(super) fn is_flushed(&self) -> bool {
        self.out.is_empty()
            && !self.asked.pipeline.has_more()
            && (self.observers.failure_written || self.asked.failure().is_none())
    }

    /// Whether output waits, since it would be dropped if another model answers. What earlier hops have written stays.
    fn holds_output(&self) -> bool {
        self.can_fail_over() && !self.is_later_hop
    }

    /// Writes more of the pending output, if the client accepts it.
    pub(super) fn pour(&mut self) {
        if self.asked.pipeline.has_more() {
            self.asked.pipeline.pour(&mut self.out, MAX_BYTES);
        }
    }

    /// Whether there are bytes to send. While another model may still answer, only keep-alives count.
    pub(super) fn has_output(&self) -> bool {
        let is_held =
            self.holds_output() && self.is_open() && self.comments == 0 && self.out.len() < MAX_BYTES;
        !self.out.is_empty() && !is_held
    }

    /// Writes a keep-alive before text that is held back.
    pub(super) fn keep_alive(&mut self) {
        let held = if self.holds_output() { self.out.split_off(self.comments) } else { BytesMut::new() };
        match held.is_empty() {
            true => self.asked.pipeline.keep_alive(&mut self.out),
            false => self.out.extend_from_slice(COMMENT),
        }
        self.comments = self.out.len();
        self.out.unsplit(held);
    }

    /// Takes the bytes to send: only keep-alives while another model may still answer.
    pub(super) fn take(&mut self) -> BytesMut {
        if self.holds_output() && self.is_open() && self.comments > 0 && self.out.len() < MAX_BYTES {
            let held = self.out.split_off(mem::take(&mut self.comments));
            self.observers.wrote(self.out.len(), false);
            return mem::replace(&mut self.out, held);
        }
        if self.holds_output() && self.out.len() > self.comments {
            self.close_attempts();
        }
        self.comments = 0;
        self.observers.wrote(self.out.len(), self.asked.pipeline.has_content());
        mem::take(&mut self.out)
    }

    /// Writes the error into a stream that has already begun, once, after all content that was certain before the failure.
    pub(super) fn write_failure(&mut self) {
        if !self.observers.failure_written && self.asked.failure().is_some() {
            self.asked.pipeline.write_failure(&mut self.out);
            self.observers.failed(self.asked.failure());
        }
    }
}

//! Handles broken calls that have waited, so that nothing of them has been sent: they are text.

use super::{
    Detector, State,
    reading::{Reading, Rivals},
    text::head,
};
use crate::event::{Event, Sink, Warning};

impl Detector {
    /// Handles a broken call of which nothing has been sent. It is text as written, and later calls are still read.
    pub(super) fn broken(&mut self, mut reading: Box<Reading>, out: &mut impl Sink) {
        if self.doubted.is_some() || reading.quote.has_marks() {
            return self.fail(*reading, 0, false, out);
        }
        self.say_broken(&reading, out);
        drop(reading.container.take_waiting());
        (reading.rivals, reading.takes_line, reading.is_text) = (Rivals::None, false, true);
        self.put_certain(&reading, out);
        self.state = State::Calls(reading);
    }

    /// Passes on the held source as text, up to what may begin a call.
    pub(super) fn put_certain(&mut self, reading: &Reading, out: &mut impl Sink) {
        let certain = self.held.len().saturating_sub(reading.container.undecided());
        self.prose.put(head(&self.held, certain), out);
        self.held.drain(..certain);
    }

    /// Warns that the call that waits is broken, and is therefore text.
    pub(super) fn say_broken(&self, reading: &Reading, out: &mut impl Sink) {
        let name = reading.container.waiting_name().unwrap_or_default();
        let message =
            format!("the arguments of a call to `{name}` are not valid, so the call is passed on as text");
        out.event(Event::Warning(Warning { code: "invalid_arguments", message: message.into() }));
    }
}

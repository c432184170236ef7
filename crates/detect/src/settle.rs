//! Transitions back to prose: handles what continues, ends, fails, or exceeds the limit for held text.

use super::{
    Detector, State,
    fence::{Fence, Foreign},
    gate::Waiting,
    gated_container::Passed,
    pattern::Fit,
    quote::Quote,
    reading::{Outlet, Reading, Rivals},
    tentative::{LastEnd, MAX_DOUBT},
    text::{append, boundary_from, head, tail},
    thinking::Thinking,
    walk::Surroundings,
};
use crate::event::{CallEnd, Event, Sink, Warning};

/// How much capacity of the source buffer is retained after a call, in bytes. Most calls are short.
const MAX_SPACE: usize = 4 << 10;

/// Whether the start of a marker is not a word, and long enough that it is hardly text.
fn is_half_marker(held: &str) -> bool {
    held.starts_with(['<', '[', ']']) && (held.len() >= 4 || (held.len() == 3 && held.contains('|')))
}

impl Detector {
    /// Resolves the held text at the end of the text. `stopped` is set if the model stopped by itself.
    pub(super) fn decide(&mut self, stopped: bool, out: &mut impl Sink) {
        self.decide_state(stopped, out);
        if self.settle_pending(stopped, out) {
            self.decide_state(stopped, out);
        }
    }

    /// Like [`Self::decide`], but pending calls stay pending.
    pub(super) fn decide_state(&mut self, stopped: bool, out: &mut impl Sink) {
        self.decide_until(stopped, out, |state| {
            matches!(state, State::Prose | State::Foreign(_) | State::Json(_) | State::Dropped)
        });
    }

    /// Resolves the text held before a call to one of the client's tools that the upstream tried to run, since the model
    /// apologises after it. Reasoning is left open, since it has its own end. Other calls on the upstream's own channel
    /// do not interrupt the text.
    pub(super) fn interrupt(&mut self, out: &mut impl Sink) {
        let has_call = matches!(&self.state, State::Calls(reading) if reading.container.has_begun());
        if has_call || self.held() > self.prose.held() {
            let is_resolved = |state: &State| {
                !matches!(
                    state,
                    State::Attributes { .. }
                        | State::Marker { .. }
                        | State::Opener(_)
                        | State::Calls(_)
                        | State::Behind
                        | State::Ending { .. }
                )
            };
            self.decide_until(true, out, is_resolved);
            if self.settle_pending(false, out) {
                self.decide_until(true, out, is_resolved);
            }
        }
        if matches!(self.state, State::Prose) {
            self.prose.interrupt(out);
        }
    }

    /// Resolves held text until `is_resolved` accepts the state.
    fn decide_until(&mut self, stopped: bool, out: &mut impl Sink, is_resolved: fn(&State) -> bool) {
        self.flow = None;
        while !is_resolved(&self.state) {
            if !self.is_paused() {
                self.resolve(stopped, out);
            } else if self.state_is_behind() {
                return;
            } else {
                self.resolve_behind_pending(stopped, out);
            }
        }
    }

    /// Whether nothing but white space has followed the last call.
    fn state_is_behind(&self) -> bool {
        matches!(self.state, State::Behind) && self.held.is_empty()
    }

    /// Resolves the held text of the current state at the end of the text.
    pub(super) fn resolve(&mut self, stopped: bool, out: &mut impl Sink) {
        match std::mem::replace(&mut self.state, State::Prose) {
            // The opener of an HTML element is ASCII.
            State::Attributes { .. } => self.release(self.held.len().saturating_sub(1), out),
            State::Marker { quote, place, .. } if !quote.has_backtick() && self.is_markup(place) => {
                self.leave_out(out);
            }
            State::Marker { .. } | State::Opener(_) => self.release(0, out),
            State::Calls(reading) => self.resolve_calls(reading, stopped, out),
            State::Reasoning(mut thinking) => {
                if self.is_cut && is_half_marker(thinking.markup()) {
                    self.held = thinking.take_markup();
                    self.leave_out(out);
                }
                thinking.finish(out);
                self.reasoning_unclosed(&thinking, stopped);
            }
            State::QuotedCloser(_) => self.take_closer(),
            State::Whole(kept) => self.read_kept(&kept, stopped, out),
            State::Behind if self.is_cut && is_half_marker(&self.held) => self.leave_out(out),
            State::Tentative(tentative) => self.finish_tentative(*tentative, stopped, out),
            State::Behind => self.leave_call(out),
            State::Ending { ended } if ended == self.held.len() => self.held.clear(),
            State::Ending { ended } => self.release(self.held.len().saturating_sub(ended), out),
            State::Invented(_) => self.held.clear(),
            State::Prose | State::Foreign(_) | State::Json(_) | State::Dropped => {}
        }
    }

    /// Resolves calls, which may not be complete, at the end of the text.
    fn resolve_calls(&mut self, mut reading: Box<Reading>, stopped: bool, out: &mut impl Sink) {
        let unfinished = stopped && reading.container.is_unfinished();
        let ended = self.finish_calls(&mut reading, stopped, out);
        self.unfinished |= unfinished && ended;
        let cut = !ended
            && self.is_cut
            && reading.container.waiting_end().is_none()
            && reading.is_in_markup(&self.held);
        if cut {
            self.leave_out(out);
        }
        self.settle_calls(&reading, ended || cut, out);
    }

    /// Whether the held text, which may begin a marker, is not text although the response ends in it.
    fn is_markup(&self, place: usize) -> bool {
        let markers = &self.search.sought.markers;
        // A tag of any name may be text.
        let is_known = || markers.get(place).is_some_and(|opener| !opener.text.starts_with("<%"));
        let is_whole = || matches!(markers.turn_end(&self.held), Fit::Whole(_));
        (self.is_cut && is_half_marker(&self.held) && is_known()) || is_whole()
    }

    /// Drops the held markup. If the response was cut off in it, the client is told.
    fn leave_out(&mut self, out: &mut impl Sink) {
        let count = self.held.len();
        self.held.clear();
        self.doubted = None;
        self.prose.forget_wrapper();
        if self.is_cut && count > 0 {
            let message = format!("the response was cut off in markup, of which {count} bytes were left out");
            out.event(Event::Warning(Warning { code: "cut_markup", message: message.into() }));
        }
    }

    /// Handles the end of the text. `ended` is set if it ended with calls.
    fn settle_calls(&mut self, reading: &Reading, ended: bool, out: &mut impl Sink) {
        let unsent = if ended || self.doubted.is_some() { None } else { reading.container.waiting_end() };
        match self.doubted.take() {
            _ if ended && reading.is_text => self.release(0, out),
            _ if ended && reading.punctuation > 0 => {
                self.held.drain(..self.held.len().saturating_sub(reading.punctuation));
                self.release(0, out);
            }
            _ if ended => self.held.clear(),
            // Half a call is neither a call nor text.
            _ if unsent == Some(CallEnd::Cut) && self.is_cut && reading.is_certain() => {
                let name = reading.container.waiting_name().unwrap_or_default();
                let message =
                    format!("the response was cut off inside a call to `{name}`, which is left out");
                out.event(Event::Warning(Warning { code: "cut_markup", message: message.into() }));
                self.held.clear();
            }
            _ if unsent == Some(CallEnd::Broken) => {
                self.say_broken(reading, out);
                self.release(0, out);
            }
            Some(thinking) => self.think_on(thinking, out),
            // What follows the tag of a possible call may contain other calls.
            None => {
                let tag = Some(reading.container.undecided()).filter(|tag| *tag < self.held.len());
                self.release(tag.unwrap_or_default(), out);
            }
        }
    }

    /// Feeds the reading, and sends the calls that it finds.
    fn feed(&mut self, reading: &mut Reading, text: &str, out: &mut impl Sink) -> Passed {
        if let Some(watch) = reading.watch.take() {
            return self.feed_watched(reading, watch, text, out);
        }
        let (format, starts_line) = (reading.format, reading.takes_line);
        let rules = reading.rules(&self.search);
        let (prose, next) = (&mut self.prose, &mut self.next);
        let mut outlet = Outlet { format, starts_line, prose, next, at_end: false, out };
        reading.feed(text, &rules, &mut |piece| outlet.piece(piece))
    }

    fn finish_calls(&mut self, reading: &mut Reading, stopped: bool, out: &mut impl Sink) -> bool {
        if let Some(watch) = reading.watch.take() {
            return self.finish_watched(reading, watch, stopped, out);
        }
        let (format, starts_line) = (reading.format, reading.takes_line);
        let rules = reading.rules(&self.search);
        let (prose, next) = (&mut self.prose, &mut self.next);
        let mut outlet = Outlet { format, starts_line, prose, next, at_end: true, out };
        let ended = reading.finish(stopped, &rules, &mut |piece| outlet.piece(piece));
        if ended {
            outlet.pieces(reading.container.take_waiting());
        }
        ended
    }

    pub(super) fn calls(&mut self, text: &str, out: &mut impl Sink) -> usize {
        self.flow = None;
        let State::Calls(mut reading) = std::mem::replace(&mut self.state, State::Prose) else { return 0 };
        let text = self.within_limit(text, &reading);
        let passed = self.feed(&mut reading, text, out);
        match reading.watch.take() {
            Some(watch) => self.watched(reading, watch, passed, text, out),
            None => self.proceed(reading, passed, text, out),
        }
    }

    /// Acts on what became of `text`.
    pub(super) fn proceed(
        &mut self,
        mut reading: Box<Reading>,
        passed: Passed,
        text: &str,
        out: &mut impl Sink,
    ) -> usize {
        match passed {
            Passed::More => {
                self.take_all(reading, text, out);
                text.len()
            }
            Passed::Certain(taken) => {
                self.held.push_str(head(text, taken));
                self.last_end = LastEnd { rescan: reading.container.undecided(), broken: false };
                self.make_certain(&mut reading, out);
                self.held.shrink_to(MAX_SPACE);
                if reading.has_messages {
                    reading.watch = self.watch(reading.quote);
                }
                self.state = State::Calls(reading);
                taken
            }
            Passed::Broken(taken) => {
                reading.watch = self.watch(reading.quote);
                self.held.push_str(head(text, taken));
                self.last_end = LastEnd { rescan: reading.container.undecided(), broken: true };
                self.broken(reading, out);
                taken
            }
            Passed::Ended { taken, rescan } => {
                self.held.push_str(head(text, taken));
                self.end_calls(&mut reading, rescan, out);
                taken
            }
            Passed::MessageEnded(taken) => {
                self.end_calls(&mut reading, 0, out);
                self.state = State::Dropped;
                taken
            }
            Passed::Cut { taken, rescan } => {
                self.held.push_str(head(text, taken));
                let again = self.held.split_off(self.held.len().saturating_sub(rescan));
                self.make_certain(&mut reading, out);
                self.held = again;
                self.fail(*reading, rescan, true, out);
                taken
            }
            Passed::Failed { taken, rescan } => {
                self.held.push_str(head(text, taken));
                let certain = self.held.len().saturating_sub(reading.uncertain());
                self.held.drain(..certain);
                self.fail(*reading, rescan, false, out);
                taken
            }
        }
    }

    /// Cuts `text` to at most one character more than may be held, so that the limit is reached at the same
    /// character regardless of splits.
    fn within_limit<'t>(&self, text: &'t str, reading: &Reading) -> &'t str {
        let max_hold = self.max_hold();
        if self.held.len() + text.len() <= max_hold {
            return text;
        }
        let room = reading.limit(&self.search, max_hold).saturating_sub(self.held.len());
        head(text, boundary_from(text, room.saturating_add(1)))
    }

    /// Handles a piece that was read completely. The source of a waiting call is held in addition to its arguments,
    /// since it may still become text.
    fn take_all(&mut self, mut reading: Box<Reading>, text: &str, out: &mut impl Sink) {
        append(&mut self.held, text);
        let certain = self.held.len().saturating_sub(reading.uncertain());
        self.held.drain(..certain);
        if reading.container.is_streaming() {
            self.doubted = None;
            reading.rivals = Rivals::None;
        }
        let max_hold = self.max_hold();
        let overflows = self.held.len() > max_hold && self.held.len() > reading.limit(&self.search, max_hold);
        self.flow = reading.string().filter(|_| self.held.is_empty());
        self.state = State::Calls(reading);
        if overflows {
            self.overflow(out);
        }
    }

    /// Drops the held source that is no longer needed, because it cannot become text and no other format will be
    /// tried on it.
    fn forget_certain(&mut self, reading: &mut Reading) {
        self.doubted = None;
        self.keeps_end = false;
        (reading.found, reading.is_text) = (true, false);
        let certain = self.held.len().saturating_sub(reading.container.undecided());
        self.held.drain(..certain);
        reading.rivals = Rivals::None;
    }

    /// Like [`Self::forget_certain`], but also sends the calls that waited.
    fn make_certain(&mut self, reading: &mut Reading, out: &mut impl Sink) {
        if reading.is_text && !reading.container.has_begun() {
            return self.put_certain(reading, out);
        }
        self.forget_certain(reading);
        let waiting = reading.container.take_waiting();
        self.send(reading, waiting, false, out);
    }

    /// Handles the end of calls. The last `rescan` bytes of the held text follow that end.
    fn end_calls(&mut self, reading: &mut Reading, rescan: usize, out: &mut impl Sink) {
        self.doubted = None;
        self.last_end = LastEnd { rescan, broken: false };
        if reading.is_text {
            return self.release(rescan, out);
        }
        let waiting = reading.container.take_waiting();
        self.send(reading, waiting, false, out);
        let again = self.held.split_off(self.held.len().saturating_sub(rescan));
        self.held.clear();
        self.held.shrink_to(MAX_SPACE);
        self.prose.container_ended(reading.takes_line);
        self.go_on();
        self.text(&again, out);
    }

    /// Sends waiting pieces of calls. `at_end` is set if the text has ended.
    pub(super) fn send(
        &mut self,
        reading: &Reading,
        pieces: Vec<Waiting>,
        at_end: bool,
        out: &mut impl Sink,
    ) {
        let (format, starts_line) = (reading.format, reading.takes_line);
        let (prose, next) = (&mut self.prose, &mut self.next);
        Outlet { format, starts_line, prose, next, at_end, out }.pieces(pieces);
    }

    /// How many bytes of source may be held before a call has begun.
    pub(super) fn max_hold(&self) -> usize {
        let most = self.search.max_hold;
        if self.doubted.is_some() { most.min(MAX_DOUBT) } else { most }
    }

    /// Handles held text that exceeds the limit. It becomes text if no call has begun. A waiting call is sent as
    /// cut off, since its arguments exceed their limit too.
    fn overflow(&mut self, out: &mut impl Sink) {
        let State::Calls(mut reading) = std::mem::replace(&mut self.state, State::Prose) else { return };
        if !reading.container.has_begun() {
            reading.rivals = Rivals::None;
            return self.fail(*reading, 0, false, out);
        }
        let pieces = reading.abandon();
        self.send(&reading, pieces, true, out);
        self.doubted = None;
        self.held.clear();
    }

    /// Handles text that does not contain calls of this format. If another format has the same opener, that format
    /// is tried. Otherwise, the source since the last certain point becomes text, and what follows is read
    /// accordingly. `cut` is set if a call was cut off here.
    pub(super) fn fail(&mut self, reading: Reading, rescan: usize, cut: bool, out: &mut impl Sink) {
        let (quotation, begun, takes_line) =
            (reading.is_quotation(), reading.container.has_begun(), reading.takes_line);
        self.last_end = LastEnd { rescan, broken: begun || cut };
        let Reading { starts_line, quote, marked, mut container, rivals, .. } = reading;
        let mut wraps = false;
        let surroundings = container.surroundings(cut);
        self.keeps_end |= matches!(surroundings, Surroundings::Message);
        match if quotation { Rivals::None } else { rivals } {
            Rivals::Marked { opener, next } => {
                wraps = marked && quote == Quote::None && self.is_only_opener(opener, rescan);
                if let Some(place) = self.rival(opener, next, starts_line) {
                    let held = std::mem::take(&mut self.held);
                    self.held.push_str(head(&held, opener));
                    self.enter_at(place, starts_line, quote, out);
                    self.text(tail(&held, opener), out);
                    return;
                }
            }
            Rivals::Unmarked { next } => {
                let byte = self.held.bytes().next().unwrap_or_default();
                if self.enter_unmarked(byte, next, starts_line, quote) {
                    let held = std::mem::take(&mut self.held);
                    self.text(&held, out);
                    return;
                }
            }
            Rivals::None => {}
        }
        if let Some(thinking) = self.doubted.take_if(|_| begun) {
            return self.think_on(thinking, out);
        }
        self.state = State::Prose;
        match surroundings {
            Surroundings::Prose if wraps => {
                let again = self.held.split_off(self.held.len().saturating_sub(rescan));
                self.prose.wrap(&std::mem::take(&mut self.held), out);
                return self.text(&again, out);
            }
            Surroundings::Prose | Surroundings::Message => {}
            Surroundings::Behind => self.prose.container_ended(takes_line),
            Surroundings::Fence(fence) => return self.leave_fence(Some(fence), out),
            Surroundings::Json(scanner) => self.state = State::Json(scanner),
        }
        self.release(rescan, out);
    }

    /// Whether the held text before the last `rescan` bytes is an opener of this length, which may be around a call
    /// of another format.
    fn is_only_opener(&self, opener: usize, rescan: usize) -> bool {
        let read = head(&self.held, self.held.len().saturating_sub(rescan));
        let is_tag = head(read, opener).ends_with(['>', ']']);
        is_tag && self.doubted.is_none() && read.get(opener..).is_some_and(|behind| behind.trim().is_empty())
    }

    /// Turns all held text into reasoning, since no call that will be sent has begun in it. The text is not
    /// searched again, because it may be as long as a call and full of openers.
    pub(super) fn think_on(&mut self, mut thinking: Thinking, out: &mut impl Sink) {
        thinking.say(&std::mem::take(&mut self.held), out);
        self.state = State::Reasoning(thinking);
    }

    /// Returns the index of another opener, from `next` on, that matches the start of the held text. `opener` is
    /// the length of that start in bytes.
    fn rival(&self, opener: usize, next: usize, starts_line: bool) -> Option<usize> {
        let markers = &self.search.sought.markers;
        let (place, whole) = markers.find(head(&self.held, opener), self.here(starts_line), next)?;
        let counts = |place| markers.get(place).is_some_and(|rival| markers.ends_reasoning(rival.format));
        (whole && (self.doubted.is_none() || counts(place))).then_some(place)
    }

    /// Handles a fence that does not contain calls after all, and is therefore not searched. `fence` is the fence,
    /// if its opener is complete.
    pub(super) fn leave_fence(&mut self, fence: Option<Fence>, out: &mut impl Sink) {
        self.state = match (&self.state, fence) {
            (_, Some(fence)) => State::Foreign(Foreign::in_body(fence, &self.held)),
            (State::Opener(opener), None) => State::Foreign(Foreign::in_info(opener.fence())),
            _ => State::Prose,
        };
        self.release(0, out);
    }

    /// Releases held source as text. The last `rescan` bytes are read again.
    pub(super) fn release(&mut self, rescan: usize, out: &mut impl Sink) {
        let held = std::mem::take(&mut self.held);
        if let Some(mut thinking) = self.doubted.take() {
            // No call has begun, so the reasoning continues after the first character of the opener.
            let first = held.chars().next().map_or(0, char::len_utf8);
            thinking.say(head(&held, first), out);
            self.state = State::Reasoning(thinking);
            self.text(tail(&held, first), out);
            return;
        }
        let again = held.len().saturating_sub(rescan);
        self.prose.put(head(&held, again), out);
        if matches!(self.state, State::Prose) {
            self.go_on();
        }
        if rescan > 0 {
            self.text(tail(&held, again), out);
        }
    }
}

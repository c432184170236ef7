//! [`Pending`]: calls that are quotations unless they stand alone, and all that follows them.
//!
//! They wait until the text ends or something visible follows. In the first case, all of it is sent. In the second one,
//! it is read again, with quotations as text. So each byte is read at most twice.

use super::{
    Detector, State,
    prose::Prose,
    quote::QuotedCount,
    reading::Reading,
    text::{append, boundary_from, head, is_blank},
};
use crate::event::{CallEnd, Event, Sink};

/// Calls that are a quotation unless they stand alone, and all that follows them.
#[derive(Debug)]
pub(super) struct Pending {
    /// The state before the first of these calls.
    prose: Prose,
    next: u32,
    count: QuotedCount,
    /// The source from there on.
    source: String,
    /// Whether the source begins inside a header, like the message.
    begins_message: bool,
    output: Output,
    /// Whether the source is being read at the moment, so that output already goes to `output`.
    is_running: bool,
    pub(super) calls: u64,
}

/// Output that waits.
#[derive(Debug, Default)]
pub(super) struct Output {
    events: Vec<Event<'static>>,
    /// Whether there is text that is not only white space, or a call that is not whole.
    is_visible: bool,
}

impl Sink for Output {
    fn event(&mut self, event: Event<'_>) {
        self.is_visible |= match &event {
            Event::Text(text) => !text.bytes().all(is_blank),
            Event::CallEnd { end, .. } => *end != CallEnd::Complete,
            _ => false,
        };
        if !self.events.last_mut().is_some_and(|last| last.continues(&event)) {
            self.events.push(event.into_owned());
        }
    }
}

impl Detector {
    /// Lets calls and all that follows them wait. The held text and `more` have been read of the calls.
    pub(super) fn pend(&mut self, reading: &Reading, more: &str) {
        let source = [&self.held, more].concat();
        let begins_message = reading.has_messages && !self.search.sought.markers.opens_call(&source);
        self.pending = Some(Box::new(Pending {
            prose: self.prose.clone(),
            next: self.next,
            count: self.quoted,
            source,
            begins_message,
            output: Output::default(),
            is_running: true,
            calls: 1,
        }));
    }

    pub(super) fn pending_source(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.source.len())
    }

    /// Whether what is read must wait, and output does not wait yet.
    pub(super) fn is_paused(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.is_running)
    }

    /// Reads the start of `text`, which follows pending calls.
    pub(super) fn step_behind_pending(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let Some(mut output) = self.run_on() else { return 0 };
        let room = self.max_pending().saturating_sub(self.pending_source());
        let text = head(text, boundary_from(text, room.saturating_add(1)));
        // What the model invented after a call is dropped, but shows that the call does not stand alone.
        output.is_visible |= matches!(self.state, State::Dropped) && !text.bytes().all(is_blank);
        let taken = self.step(text, &mut output);
        if let Some(pending) = &mut self.pending {
            append(&mut pending.source, head(text, taken));
        }
        self.pause(output, out);
        taken
    }

    /// Resolves the state at the end of the text, behind pending calls.
    pub(super) fn resolve_behind_pending(&mut self, stopped: bool, out: &mut impl Sink) {
        let Some(mut output) = self.run_on() else { return };
        self.resolve(stopped, &mut output);
        self.pause(output, out);
    }

    fn max_pending(&self) -> usize {
        self.search.max_hold.saturating_add(self.search.max_arguments)
    }

    fn run_on(&mut self) -> Option<Output> {
        let pending = self.pending.as_mut()?;
        pending.is_running = true;
        Some(std::mem::take(&mut pending.output))
    }

    /// Stores the output behind pending calls. If it is visible, the calls are quotations.
    pub(super) fn pause(&mut self, output: Output, out: &mut impl Sink) {
        let max = self.max_pending();
        self.flow = None;
        let Some(pending) = &mut self.pending else { return };
        pending.is_running = false;
        let is_quotation = output.is_visible || pending.source.len() > max;
        pending.output = output;
        if is_quotation {
            self.retract(out);
        }
    }

    /// Called at the end of a piece. In prose, the next piece would not be recorded as the source of pending calls.
    pub(super) fn stay_behind_pending(&mut self) {
        if matches!(self.state, State::Prose) && self.is_paused() {
            self.state = State::Behind;
        }
    }

    /// Reads pending calls again, as text.
    fn retract(&mut self, out: &mut impl Sink) {
        let Some(pending) = self.pending.take() else { return };
        let Pending { prose, next, count, source, begins_message, .. } = *pending;
        (self.prose, self.next, self.quoted, self.state) = (prose, next, count, State::Prose);
        self.held.clear();
        if begins_message {
            self.start(false);
        }
        let again = std::mem::replace(&mut self.quotes_only, true);
        self.text(&source, out);
        self.quotes_only = again;
        // What follows the source may be read again, and only it may show the end of the calls. They must not wait again.
        if let State::Calls(reading) = &mut self.state
            && let Some(watch) = &mut reading.watch
            && self.held.len() == source.len()
        {
            watch.stay_text();
        }
    }

    /// Decides about pending calls at the end of the text. They are calls if the model has stopped. Returns whether
    /// there were any.
    pub(super) fn settle_pending(&mut self, stopped: bool, out: &mut impl Sink) -> bool {
        let is_pending = self.pending.is_some();
        if !stopped {
            self.retract(out);
        } else if let Some(pending) = self.pending.take() {
            self.quoted.as_calls += pending.calls;
            pending.output.events.into_iter().for_each(|event| out.event(event));
        }
        is_pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conversation::{CallOutput, Conversation, Part, Role, Tool, Turn},
        event::Finish,
        format::KnownFormats,
        rules::Rules,
        tools::DeclaredTools,
    };

    /// Returns the text and the number of the calls in a response to a tool's `result`.
    fn read(result: &str, pieces: &[&str]) -> (String, usize) {
        let output = CallOutput {
            id: String::new(),
            name: "f".to_owned(),
            content: result.to_owned(),
            is_error: false,
        };
        let conversation = Conversation {
            tools: vec![Tool::named("f")],
            turns: vec![Turn::of(Role::Tool, vec![Part::Result(output)])],
            ..Conversation::default()
        };
        let tools = DeclaredTools::new(&conversation, "");
        let detector = Detector::new(tools, &Rules::default(), KnownFormats::built_in()).unwrap();
        let mut detector = detector.reading(&conversation);
        let mut events: Vec<Event<'static>> = Vec::new();
        for piece in pieces {
            detector.event(Event::Text((*piece).into()), &mut events);
        }
        detector.event(Event::Finish(Finish::Stop), &mut events);
        let texts = events
            .iter()
            .filter_map(|event| if let Event::Text(text) = event { Some(&**text) } else { None });
        (texts.collect(), events.iter().filter(|event| matches!(event, Event::CallStart(_))).count())
    }

    /// The byte that shows the end of the calls is behind them, and that they are broken is visible at once. They were
    /// read again and again.
    #[test]
    fn quotation_that_ends_before_the_byte_that_shows_it_is_read_twice() {
        for call in ["<|tool_call>call:f{x,<<tool_call|><", "<|tool_call>call:f{x:1,<<tool_call|><b"] {
            for text in [format!("The page says:\n{call}, and nothing else."), format!("{call}\n{call}.")] {
                let characters: Vec<&str> = text.split_inclusive(|_| true).collect();
                assert_eq!(read(call, &[&text]), (text.clone(), 0));
                assert_eq!(read(call, &characters), (text.clone(), 0));
            }
        }
    }
}

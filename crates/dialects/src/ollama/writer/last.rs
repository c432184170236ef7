//! [`Last`]: the members of the last line: why the response ended, counts, durations and notes.

use std::time::Duration;

use serde_json::Value;

use super::calls::Ended;
use crate::{
    Answering, Clock,
    event::{Event, Finish, Usage},
    notes::Notes,
    wire::json::Encoder,
};

#[derive(Debug)]
pub(super) struct Last {
    finish: Option<Finish>,
    /// Whether the text is a refusal, for which the API only has a reason.
    refused: bool,
    usage: Option<Box<Usage>>,
    clock: Clock,
    begun: Duration,
    /// When the first content arrived.
    first: Option<Duration>,
    notes: Notes,
}

impl Last {
    pub(super) fn new(answering: &Answering) -> Self {
        let clock = answering.clock;
        let begun = clock.now();
        Self { finish: None, refused: false, usage: None, clock, begun, first: None, notes: Notes::default() }
    }

    /// Must be called at each piece of content.
    pub(super) fn content(&mut self) {
        if self.first.is_none() {
            self.first = Some(self.clock.now());
        }
    }

    /// Records an event that has no line of its own.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Finish(finish) => self.finish = Some(*finish),
            Event::Refusal(_) => self.refused = true,
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            event => self.notes.event(event),
        }
    }

    pub(super) fn note_all(&mut self, calls: impl Iterator<Item = Ended>) {
        for call in calls {
            if let Ended::Told(list, call) = call {
                self.note(list, call);
            }
        }
    }

    pub(super) fn note(&mut self, list: &str, element: Value) {
        self.notes.add(list, element);
    }

    pub(super) fn kept(&self) -> usize {
        self.notes.kept()
    }

    pub(super) fn put(&self, line: &mut Encoder) {
        line.key("done").value(&true);
        line.key("done_reason").string(match self.finish {
            Some(Finish::Length) => "length",
            Some(Finish::Filter) => "content_filter",
            Some(Finish::Stop) if self.refused => "content_filter",
            _ => "stop",
        });
        let usage = self.usage.as_deref();
        let mut put = |key: &str, count: Option<u64>| {
            if let Some(count) = count {
                line.key(key).value(&count);
            }
        };
        let end = self.clock.now();
        let first = self.first.unwrap_or(end);
        let nanoseconds = |duration: Duration| {
            let is_known = self.clock.is_some();
            is_known.then(|| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        };
        put("total_duration", nanoseconds(end.saturating_sub(self.begun)));
        put("load_duration", nanoseconds(Duration::ZERO));
        // Clients add the counts up, so unknown ones are 0.
        put("prompt_eval_count", Some(usage.and_then(|usage| usage.input).unwrap_or(0)));
        put("prompt_eval_duration", nanoseconds(first.saturating_sub(self.begun)));
        put("eval_count", Some(usage.and_then(|usage| usage.output).unwrap_or(0)));
        put("eval_duration", nanoseconds(end.saturating_sub(first)));
        self.notes.put(line);
    }
}

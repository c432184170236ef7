//! The start of a call: resolves the declared name, assigns the final index and id, and decides how the call
//! is handled.

use std::borrow::Cow;

use super::{super::CallTally, Calls, Entry, Fate, send};
use crate::{
    event::{CallStart, Event, Runner, Sink, Source},
    rules::{ArgumentDelivery, ServerCalls},
};

impl Calls {
    pub(super) fn start(&mut self, mut start: CallStart<'_>, frame: Option<&str>, out: &mut impl Sink) {
        if self.begun >= self.settings.limits.max_calls {
            self.failure = Some(self.settings.limits.too_many_calls());
            return;
        }
        let mut frame = frame;
        if let Some(name) = self.undecorated(&start) {
            start.name = Cow::Owned(name);
            frame = None;
        }
        let is_long = start.name.len() > self.settings.limits.max_name;
        if is_long && self.tools.resolve(&start.name).is_none() {
            self.failure = Some(self.settings.limits.name_too_long());
            return;
        }
        self.begun += 1;
        let written = start.name.clone();
        let rescue = start.runner == Runner::Upstream && self.is_misrouted(&written);
        if rescue {
            start.runner = Runner::Client;
        }
        if start.runner == Runner::Client {
            if let Some(declared) = self.tools.resolve(&written) {
                start.name = Cow::Owned(self.tools.declared(declared).to_owned());
            } else if let Some(name) = self.hosted_name(&written) {
                start.name = Cow::Owned(name);
            }
        }
        let frame = frame.filter(|_| start.name == written);
        let source = start.index;
        if start.runner == Runner::Client && self.is_hosted(&start.name) {
            self.corrections.begins(&written, true);
            let fate = self.begin_hosted(start, rescue);
            self.entries.push(Entry { source, bytes: 0, fate });
            return;
        }
        if start.runner == Runner::Client {
            self.corrections.begins(&written, self.tools.resolve(&written).is_some());
        }
        let checks = self.corrections.checks_arguments();
        let is_held = match &mut self.hosted {
            Some(hosted) if start.runner == Runner::Client => {
                hosted.begins(source, &start, "");
                hosted.holds_client_calls()
            }
            _ => false,
        };
        let whole = checks || is_held || self.settings.arguments == ArgumentDelivery::Whole;
        // Clients that speak the upstream's own dialect get the blocks of server tools unchanged.
        let is_framed = frame.is_some() && self.settings.server_calls != ServerCalls::Hide;
        let fate = if start.runner == Runner::Upstream && !is_framed && !self.forwards(&written) {
            self.left_out(&start)
        } else if rescue || (whole && start.runner == Runner::Client) {
            let Event::CallStart(start) = Event::CallStart(start).into_owned() else { return };
            Fate::Waits { start, arguments: String::new(), rescue }
        } else {
            let runner = start.runner;
            let sent = self.send_start(start, frame, out);
            if sent.is_some() && runner == Runner::Client {
                self.note_sent(source);
            }
            sent.map_or(Fate::Hidden, |index| Fate::Sent { index, runner })
        };
        self.entries.push(Entry { source, bytes: 0, fate });
    }

    /// The declared name of a native call whose name the model wrote with markup, white space or a namespace
    /// around it.
    fn undecorated(&self, start: &CallStart<'_>) -> Option<String> {
        if start.runner != Runner::Client || matches!(start.source, Source::Format(_)) {
            return None;
        }
        let is_known = self.tools.resolve(&start.name).is_some();
        self.tools.undecorated(&start.name).filter(|_| !is_known).map(str::to_owned)
    }

    /// Sends the start of a call with its final index and id. Returns the index, or `None` if the call is
    /// dropped.
    pub(super) fn send_start(
        &mut self,
        mut start: CallStart<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Option<u32> {
        if start.runner == Runner::Client {
            if !self.parallel && self.client_calls > 0 {
                self.tally.dropped_calls += 1;
                return None;
            }
            self.before_call();
            self.client_calls += 1;
        }
        let index = u32::try_from(self.sent_ids.len()).unwrap_or(u32::MAX);
        // Servers that number their calls from 0 in each response reuse ids from the history, and clients
        // would mistake such a call for the earlier one.
        let is_block = start.runner == Runner::Upstream && frame.is_some();
        let fresh =
            !is_block && (start.id.is_empty() || self.is_used(&start.id) || self.has_guessable_id(&start));
        let same = is_block || (index == start.index && !fresh);
        if fresh {
            start.id = Cow::Owned(self.unused_id());
        }
        start.index = index;
        self.sent_ids.push(start.id.clone().into_owned());
        if start.runner == Runner::Client {
            self.state.call(&start.id, start.signature.as_ref());
        }
        let format = match start.source {
            Source::Native | Source::NativeCustom | Source::NativeBuiltIn => "native",
            Source::Format(name) => name,
        };
        let name = self.tools.resolve(&start.name).map(|name| self.tools.declared(name).to_owned());
        let renamed = name.as_deref().is_some_and(|name| name != start.name);
        self.tally.calls.push(CallTally { format, name });
        send(Event::CallStart(start), frame.filter(|_| same && !renamed), out);
        Some(index)
    }

    /// Whether a call in this response or in the request's history has this id.
    pub(super) fn is_used(&self, id: &str) -> bool {
        self.sent_ids.iter().chain(&self.annotated_ids).chain(&self.past_ids).any(|used| used == id)
            || self.hosted.as_ref().is_some_and(|hosted| hosted.has_id(id))
    }

    pub(super) fn unused_id(&mut self) -> String {
        loop {
            let id = self.ids.next("call_");
            if !self.is_used(&id) {
                return id;
            }
        }
    }
}

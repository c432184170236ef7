//! Calls on the upstream's server-tool channel to tools that the client declared. The upstream cannot run
//! them, so they are sent to the client, or the model is asked to make them again (`misroute = "bounce"`).

use super::{
    super::hops::{FollowUp, Reason},
    Calls,
};
use crate::{
    digest::Digest,
    event::{CallStart, Sink},
    rules::Misroute,
};

impl Calls {
    /// Whether a call on the upstream's own channel is meant for the client because the client declared the
    /// tool. If tools are taught with a prefix and the upstream has a tool with the bare name, the bare name
    /// means the upstream's tool.
    pub(super) fn is_misrouted(&self, written: &str) -> bool {
        let prefixed = self.tools.unprefixed(written).is_some_and(|name| self.tools.resolve(name).is_some());
        let theirs =
            self.tools.is_prefixed() && self.settings.server_tools.iter().any(|name| name == written);
        prefixed || (self.tools.resolve(written).is_some() && !theirs)
    }

    /// Sends the start of a call that the upstream cannot run, or collects the call if the model should be
    /// asked to make it again.
    pub(super) fn rescue(
        &mut self,
        start: CallStart<'static>,
        arguments: &str,
        out: &mut impl Sink,
    ) -> Option<u32> {
        self.apologises = true;
        // The model often repeats a call that the upstream refused to run; the client must not run it twice.
        let call = (start.name.clone().into_owned(), Digest::of(arguments));
        let waits =
            self.incomplete.iter().any(|other| other.name() == call.0 && other.arguments == arguments);
        if waits || self.rescued.contains(&call) {
            return None;
        }
        if self.settings.misroute == Misroute::Bounce && self.may_follow_up {
            let missing: Vec<String> =
                self.tools.missing(&call.0, arguments).into_iter().map(str::to_owned).collect();
            if !missing.is_empty() {
                self.incomplete.push(Incomplete { start, arguments: arguments.to_owned(), missing });
                return None;
            }
        }
        self.rescued.push(call);
        self.send_start(start, None, out)
    }

    /// Called when the call at `index` has been sent completely: it replaces an earlier call to the same tool
    /// that lacks arguments.
    pub(super) fn supersede(&mut self, index: u32) {
        if self.incomplete.is_empty() {
            return;
        }
        let call = usize::try_from(index).ok().and_then(|index| self.tally.calls.get(index));
        let Some(name) = call.and_then(|call| call.name.as_deref()) else { return };
        let before = self.incomplete.len();
        self.incomplete.retain(|call| call.name() != name);
        let superseded = before - self.incomplete.len();
        self.tally.dropped_calls += u64::try_from(superseded).unwrap_or(u64::MAX);
    }
}

/// A call that lacks required arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incomplete {
    pub(super) start: CallStart<'static>,
    pub(super) arguments: String,
    missing: Vec<String>,
}

impl Incomplete {
    fn name(&self) -> &str {
        &self.start.name
    }
}

/// Asks the model to make the calls again. `text` is what the model wrote in this hop.
pub(super) fn follow_up(text: &str, calls: &[Incomplete]) -> FollowUp {
    let messages = calls.iter().map(|call| {
        let (name, arguments, missing) = (call.name(), &call.arguments, call.missing.join("`, `"));
        format!(
            "Your call to the tool `{name}` with the arguments {arguments} was not run: the required arguments \
             `{missing}` are missing. Make the call again with all of them. Do not apologise or explain."
        )
    });
    FollowUp::new(Reason::Misrouted, text, messages.collect::<Vec<_>>().join("\n\n"))
}

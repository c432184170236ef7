//! Calls that the upstream ran itself: forwarded, reported separately with their results, or hidden.

use std::borrow::Cow;

use super::{Calls, Entry, Fate, send};
use crate::{
    dialect::search_results,
    event::{Annotation, CallResult, CallStart, Event, Runner, ServerCall, Sink},
    rules::ServerCalls,
};

/// The size that is assumed for a citation in addition to its texts, in bytes.
const SOURCE: usize = 64;

impl Calls {
    /// Whether a call that the upstream ran itself is sent as one of the response's calls. Many clients try
    /// to run every call, and fail if they did not declare the tool.
    pub(super) fn forwards(&self, written: &str) -> bool {
        match self.settings.server_calls {
            ServerCalls::Forward => true,
            ServerCalls::Auto => match &self.hosted {
                None => !self.has_tools || self.tools.resolve(written).is_some(),
                Some(hosted) => self.tools.resolve(written).is_some_and(|name| !hosted.has(name)),
            },
            ServerCalls::Annotate | ServerCalls::Hide => false,
        }
    }

    /// Decides how to handle a server call that is not forwarded. If its id is empty or already used, it
    /// gets a new one, since clients use the id to match the result to the call.
    pub(super) fn left_out(&mut self, start: &CallStart<'_>) -> Fate {
        if self.settings.server_calls == ServerCalls::Hide {
            return Fate::Hidden;
        }
        let is_fresh = start.id.is_empty() || self.is_used(&start.id);
        let id = if is_fresh { self.unused_id() } else { start.id.clone().into_owned() };
        self.annotated_ids.push(id.clone());
        let name = start.name.clone().into_owned();
        Fate::Annotated { id, name, arguments: Some(String::new()) }
    }

    /// Handles the result of a call that the upstream ran. `frame` is the upstream's frame that contains the
    /// result.
    pub(super) fn result(&mut self, result: CallResult<'_>, frame: Option<&str>, out: &mut impl Sink) {
        let Some(entry) = self.entry(result.index) else { return };
        match &entry.fate {
            Fate::Sent { index, .. } => {
                let index = *index;
                let id = usize::try_from(index).ok().and_then(|index| self.sent_ids.get(index)).cloned();
                let id = id.map_or(Cow::Borrowed(""), Cow::Owned);
                send(Event::CallResult(CallResult { index, id, ..result }), frame, out);
            }
            Fate::Annotated { .. } => {
                // Lumo's results are objects. Other upstreams send lists, and citations of their own.
                if result.content.trim_start().starts_with('{') {
                    search_results::citations(&result.content).for_each(|page| self.cite(&page, out));
                }
                self.annotate(result.index, Some(&result), out);
                self.settle(result.index, Fate::Hidden);
            }
            _ => {}
        }
    }

    /// Reports a call that the upstream ran, separately from the response's own calls.
    pub(super) fn annotate(&mut self, source: u32, result: Option<&CallResult<'_>>, out: &mut impl Sink) {
        let Some(Entry { fate: Fate::Annotated { id, name, arguments }, .. }) = self.entry(source) else {
            return;
        };
        let told = arguments.take();
        let call = ServerCall {
            id: Cow::Borrowed(id),
            name: Cow::Borrowed(name),
            runner: Runner::Upstream,
            server: Cow::Borrowed(""),
            arguments: told.as_deref().map(Cow::Borrowed),
            content: result.map(|result| Cow::Borrowed(&*result.content)),
            details: None,
            is_error: result.is_some_and(|result| result.is_error),
            approval: Cow::Borrowed(""),
        };
        out.event(Event::from(call));
        self.kept -= told.map_or(0, |told| told.len());
    }

    /// Takes a page that a web search found (docs/protocols/lumo.md#server-tools) as a source of the text that follows.
    pub(in crate::pipeline) fn cite(&mut self, page: &Annotation<'_>, out: &mut impl Sink) {
        self.source_bytes += SOURCE + page.url.len() + page.title.len();
        self.sources.push((page.url.to_string(), page.title.to_string()));
        if self.source_bytes > self.settings.limits.max_hold {
            self.send_sources(out);
        }
    }

    /// Sends the citations that are held, for the position that the text has reached.
    pub(super) fn send_sources(&mut self, out: &mut impl Sink) {
        let at = self.characters.unwrap_or(0);
        self.source_bytes = 0;
        for (url, title) in self.sources.drain(..) {
            let (url, title) = (Cow::Owned(url), Cow::Owned(title));
            out.event(Event::Annotation(Annotation { url, title, span: (at, at) }));
        }
    }
}

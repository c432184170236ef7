//! [`Arguments`]: collects the arguments of a call as they arrive, and recognises when the server repeats
//! them.
//!
//! Some servers send complete arguments a second time, in one or more pieces. Others send `{}` first, or send
//! the object again whenever it has grown. Arguments that have been passed on cannot be taken back. If the
//! first piece is a complete object, it is therefore held until something else follows (other content,
//! another call, or the end of the response), and the latest such object is used. Arguments that arrive in
//! several pieces are never held; if an object with the same value follows them, it is recognised as a
//! repetition.

use std::borrow::Cow;

use super::{extent::Extent, named_calls::Streamed};
use crate::wire::json::{continues, is_same};

/// Maximum bytes of arguments that are retained so that repetitions can be compared by value. A repetition of
/// longer arguments is recognised only if its bytes are the same.
const MAX_SENT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Arguments {
    pub(super) extent: Extent,
    /// The text that has been passed on, unless it is longer than [`MAX_SENT`] or the call has ended.
    sent: String,
    /// The length and the digest of longer text that has been passed on.
    beyond: Option<Box<Streamed>>,
    /// A complete object that has not been passed on.
    held: String,
    /// Whether the held object has been repaired, so that it differs from what arrived.
    is_repaired: bool,
    /// Text after a complete object, while it may still be a repetition of that object.
    again: Option<Box<Again>>,
    max_depth: usize,
    limit: usize,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
}

fn is_empty(text: &str) -> bool {
    let inner = text.trim_ascii().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.is_some_and(|inner| inner.trim_ascii().is_empty())
}

/// Repairs complete arguments that are not an object. `None` if that is impossible.
pub(super) fn mended(text: &str, max_depth: usize, limit: usize) -> Option<String> {
    let mut arguments = Arguments::new(max_depth, limit, true);
    let mut given = String::new();
    let mut give = |piece: Cow<'_, str>| given.push_str(&piece);
    arguments.push(text, false, &mut give);
    arguments.settle(&mut give);
    arguments.finish(false, &mut give);
    arguments.extent.is_whole().then_some(given)
}

#[derive(Debug)]
struct Again {
    text: String,
    extent: Extent,
    /// Whether the text arrived with an id or a name, so that it may start another call.
    is_named: bool,
}

impl Arguments {
    pub(super) fn new(max_depth: usize, limit: usize, repairs: bool) -> Self {
        let extent = Extent::new(max_depth).mending(repairs.then_some(limit));
        Self {
            extent,
            sent: String::new(),
            beyond: None,
            held: String::new(),
            is_repaired: false,
            again: None,
            max_depth,
            limit,
            repairs,
        }
    }

    fn fresh(&self) -> Extent {
        Extent::new(self.max_depth).mending(self.repairs.then_some(self.limit))
    }

    /// Handles a piece. `give` receives the text that is certain. If the text belongs to the next call
    /// instead, it is returned. This happens only if its pieces had an id or a name.
    pub(super) fn push(
        &mut self,
        text: &str,
        is_named: bool,
        give: impl FnMut(Cow<'_, str>),
    ) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        if self.extent.is_whole() {
            return self.behind(text, is_named, give);
        }
        let text = self.extent.push(text);
        self.pass(text, give);
        None
    }

    /// Handles a piece that `extent` has already scanned. If it completes an object, a repetition may follow.
    pub(super) fn pass(&mut self, text: Cow<'_, str>, mut give: impl FnMut(Cow<'_, str>)) {
        let second = if text.is_empty() { 0 } else { self.extent.take_second() };
        if second > 0
            && let Some((first, again)) = text.split_at_checked(text.len().saturating_sub(second))
        {
            self.pass_first(first.to_owned().into(), &mut give);
            self.behind(again, false, give);
            return;
        }
        self.pass_first(text, &mut give);
    }

    fn pass_first(&mut self, text: Cow<'_, str>, give: &mut impl FnMut(Cow<'_, str>)) {
        if text.is_empty() {
        } else if self.extent.is_whole() && !self.has_sent() {
            self.held.push_str(&text);
            self.is_repaired |= matches!(text, Cow::Owned(_));
        } else {
            self.note_sent(&text);
            give(text);
        }
    }

    /// Handles a piece of a plain-text input.
    pub(super) fn text(&mut self, text: &str, mut give: impl FnMut(Cow<'_, str>)) {
        if !text.is_empty() {
            self.note_sent(text);
            give(text.into());
        }
    }

    /// The part of a complete plain-text input that follows its pieces. `None` if it does not start with
    /// them.
    pub(super) fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        match &self.beyond {
            Some(beyond) => beyond.rest_of(whole),
            None => whole.strip_prefix(self.sent.as_str()),
        }
    }

    fn has_sent(&self) -> bool {
        !self.sent.is_empty() || self.beyond.is_some()
    }

    /// Whether `text` means the same as the text that has been passed on.
    fn says(&self, text: &str) -> bool {
        match &self.beyond {
            Some(beyond) => beyond.rest_of(text).is_some_and(str::is_empty),
            None => is_same(&self.sent, text),
        }
    }

    fn note_sent(&mut self, text: &str) {
        if self.beyond.is_none() && self.sent.len() + text.len() <= MAX_SENT {
            return self.sent.push_str(text);
        }
        let beyond = self.beyond.get_or_insert_default();
        beyond.push(&std::mem::take(&mut self.sent));
        beyond.push(text);
    }

    /// Passes a piece on without holding it.
    pub(super) fn force(&mut self, text: &str, mut give: impl FnMut(Cow<'_, str>)) {
        let text = self.extent.push(text);
        self.note_sent(&text);
        give(text);
    }

    /// Ends the arguments when none of them are held: passes on the end of a repair, and `{}` if there were
    /// no arguments.
    pub(super) fn finish(&mut self, cut: bool, mut give: impl FnMut(Cow<'_, str>)) {
        let text = self.extent.finish(cut);
        if !text.is_empty() {
            self.note_sent(&text);
            give(text);
        }
    }

    /// Handles complete arguments, parts of which may already have arrived as pieces. Returns whether they
    /// mean the same as those pieces.
    pub(super) fn complete(&mut self, whole: &str, mut give: impl FnMut(Cow<'_, str>)) -> bool {
        self.again = None;
        let rest = self.rest_of(whole).filter(|_| self.held.is_empty());
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(self.extent.pending()?)) {
            let text = self.extent.push(rest);
            self.pass(text, give);
            return true;
        }
        let mut extent = self.fresh();
        let text = extent.push(whole).into_owned();
        if !self.held.is_empty() {
            (self.held, self.extent, self.is_repaired) = (text, extent, true);
            return true;
        }
        match self.rest_of(&text) {
            Some(rest) => {
                give(rest.to_owned().into());
                self.extent = extent;
                true
            }
            None => self.says(&text),
        }
    }

    /// Handles a piece after a complete object.
    fn behind(&mut self, text: &str, is_named: bool, give: impl FnMut(Cow<'_, str>)) -> Option<String> {
        if self.again.is_none() && text.trim_ascii().is_empty() {
            self.pass(text.into(), give);
            return None;
        }
        if self.is_placeholder() && text.trim_ascii_start().starts_with('{') {
            self.held.clear();
            self.extent = self.fresh();
            return self.push(text, is_named, give);
        }
        let new = || Again { text: String::new(), extent: Extent::new(self.max_depth), is_named };
        let again = self.again.get_or_insert_with(|| Box::new(new()));
        again.text.push_str(text);
        again.extent.push(text);
        again.is_named |= is_named;
        if again.extent.is_open() && again.text.len() <= self.limit {
            return None;
        }
        let again = self.again.take()?;
        if again.extent.is_whole() {
            if self.held.is_empty() && self.says(&again.text) || !again.is_named && is_empty(&again.text) {
                return None;
            }
            if !self.held.is_empty() && continues(&self.held, &again.text) {
                (self.held, self.is_repaired) = (again.text, true);
                return None;
            }
        }
        if again.is_named {
            return Some(again.text);
        }
        self.append(&again.text, give);
        None
    }

    /// Passes on text after a complete object, which makes the arguments invalid.
    fn append(&mut self, text: &str, mut give: impl FnMut(Cow<'_, str>)) {
        self.release(&mut give);
        let text = self.extent.push(text);
        self.extent.keep_second();
        self.pass(text, give);
    }

    /// Whether the arguments are `{}` and nothing has been passed on.
    pub(super) fn is_placeholder(&self) -> bool {
        is_empty(&self.held)
    }

    pub(super) fn holds(&self, text: &str) -> bool {
        self.held == text
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.again.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_sent() && self.held.is_empty()
    }

    /// Passes on the held object, which is certain because something else follows.
    pub(super) fn release(&mut self, mut give: impl FnMut(Cow<'_, str>)) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.note_sent(&held);
            let is_repaired = std::mem::take(&mut self.is_repaired);
            give(if is_repaired { held.into() } else { held.as_str().into() });
        }
    }

    /// Ends the arguments and passes on held text. An incomplete repetition counts as a repetition.
    pub(super) fn settle(&mut self, mut give: impl FnMut(Cow<'_, str>)) {
        let again = self.again.take();
        let repeats =
            |again: &Again| [&self.held, &self.sent].iter().any(|text| text.starts_with(&again.text));
        let other = again.filter(|again| !repeats(again));
        self.release(&mut give);
        if let Some(again) = other {
            self.append(&again.text, give);
        }
    }

    /// Drops the text, because nothing will be compared with it any more.
    pub(super) fn forget(&mut self) {
        (self.sent, self.beyond) = (String::new(), None);
    }
}

//! [`Walk`]: the trait implemented by everything that reads a call, with its input and output types.
//!
//! A walk decides by the text alone. Each step takes as much text as is certain, and sees the remaining text again
//! together with what follows, so a walk never knows where a piece ends.

use std::fmt::Debug;

use super::{
    broken::{Rest, Resumes},
    fence::Fence,
    pattern::Fit,
    string_fast_path::StringFastPath,
    text::{boundary_from, head, tail},
};
use crate::{event::CallEnd, format::Voice, tools::DeclaredTools, wire::json::Scanner};

/// A piece of a container of calls. Pieces are sent in the order in which they become certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The text before this piece is framing.
    Framed,
    /// A piece of text or reasoning between calls.
    Said(Voice, &'a str),
    /// A message to this tool begins that cannot be a call, and is left out.
    LeftOut(&'a str),
    /// A call begins. The ID is empty if none was written.
    Start { name: &'a str, id: &'a str },
    /// A piece of the call's arguments.
    Arguments(&'a str),
    /// The call's arguments have ended.
    End(CallEnd),
}

/// Rules that apply to all calls of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRules<'a> {
    pub(super) tools: &'a DeclaredTools,
    /// Whether the format has its own marker, so that reading is lenient, and a name is enough to begin a call.
    pub(super) marked: bool,
    /// Whether a marked format accepts undeclared names.
    pub(super) any_name: bool,
    /// Whether an undeclared name in the form of a call needs no marker, because the model is asked again.
    pub(super) asks: bool,
    /// Names by which the format says that no tool is called.
    pub(super) no_tool: &'a [&'a str],
    pub(super) repair: bool,
    /// Whether calls wait until they have been read completely, so that even their last byte can cause a refusal.
    pub(super) whole: bool,
    /// Whether calls wait until they have been read completely. A broken call can then be text as written.
    pub(super) waits: bool,
    pub(super) max_depth: usize,
    pub(super) max_name: usize,
    pub(super) max_markup: usize,
    pub(super) max_hold: usize,
}

impl CallRules<'_> {
    /// Rules of a format with its own marker, with small limits.
    #[cfg(test)]
    pub(super) fn lenient(tools: &DeclaredTools) -> CallRules<'_> {
        CallRules {
            tools,
            marked: true,
            any_name: true,
            asks: false,
            no_tool: &[],
            repair: true,
            whole: false,
            waits: false,
            max_depth: 16,
            max_name: 256,
            max_markup: 1024,
            max_hold: 100,
        }
    }

    /// Returns the name of the tool that `written` calls, if calls to it are allowed.
    pub(super) fn name<'n>(&self, written: &'n str) -> Option<&'n str> {
        let undeclared = || (self.marked && self.any_name && self.is_legal_name(written)).then_some(written);
        let nothing = || self.no_tool.contains(&written).then_some(written);
        self.tools.resolve(written).or_else(nothing).or_else(undeclared)
    }

    /// Like [`CallRules::name`]. If an undeclared name contains dots, also accepts a declared name after one of the
    /// dots. The longest such name wins.
    pub(super) fn dotted_name<'n>(&self, written: &'n str) -> Option<&'n str> {
        let behind = written.match_indices('.').map(|(at, _)| tail(written, at + 1));
        let declared = std::iter::once(written).chain(behind).find_map(|name| self.tools.resolve(name));
        declared.or_else(|| self.name(written))
    }

    /// Like [`CallRules::name`], in JSON or Python whose form alone shows that it is a call.
    pub(super) fn name_in_call<'n>(&self, written: &'n str) -> Option<&'n str> {
        let asked = || (self.asks && self.is_legal_name(written)).then_some(written);
        self.name(written).or_else(asked)
    }

    /// Like [`CallRules::may_become_name`], for [`CallRules::name_in_call`].
    pub(super) fn may_become_name_in_call(&self, start: &str) -> bool {
        self.asks || self.may_become_name(start)
    }

    /// Whether `name` has the form of a name: letters, digits or `_-.:/`.
    fn is_legal_name(&self, name: &str) -> bool {
        (1..=self.max_name).contains(&name.len())
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'))
    }

    pub(super) fn may_become_name(&self, start: &str) -> bool {
        let nothing = || self.no_tool.iter().any(|name| name.starts_with(start));
        (self.marked && self.any_name) || self.tools.may_become(start) || nothing()
    }
}

/// Receives the pieces of calls.
pub(super) type Out<'o> = dyn FnMut(Piece<'_>) + 'o;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// This many bytes have been read, or 0 if only the state changed.
    Took(usize),
    /// The meaning of the text depends on what follows. The step must be repeated with more text.
    Hold,
    /// This many bytes have been read. If a call was open, it is complete. Everything read so far is certain,
    /// unless the calls of this container wait for each other.
    Whole(usize),
    /// Like `Whole`, but everything read so far is certain in any case.
    Certain(usize),
    /// The walk ends after this many bytes. If a call was open, it is complete.
    End(usize),
    /// Like `End`, but the model invented everything after this point of the message.
    EndMessage(usize),
    /// Like `Certain`, but an open call is broken.
    Broken(usize),
    /// This many bytes have been read. The text after them cannot continue the walk.
    Stop(usize),
}

impl Step {
    /// Applies `length` to the number of bytes in the step.
    pub(super) fn map(self, length: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Took(len) => Self::Took(length(len)),
            Self::Hold => Self::Hold,
            Self::Whole(len) => Self::Whole(length(len)),
            Self::Certain(len) => Self::Certain(length(len)),
            Self::End(len) => Self::End(length(len)),
            Self::EndMessage(len) => Self::EndMessage(length(len)),
            Self::Broken(len) => Self::Broken(length(len)),
            Self::Stop(len) => Self::Stop(length(len)),
        }
    }
}

/// Reads one call, or a value that contains several calls.
pub(super) trait Walk: Debug + Send {
    /// Continues reading at the start of `text`, which is not empty. Sends pieces to `out` in order: `Start` once
    /// the call is certain, then `Arguments` as they arrive. The driver adds `End`.
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step;

    /// The maximum number of bytes that may be held. A step sees at most one byte more, so it decides the same way
    /// whether it waits or not.
    fn bound(&self) -> usize {
        usize::MAX
    }

    /// Ends the text inside an open call. `held` is the text that no step has taken, and `stopped` is set if the
    /// model stopped by itself. Returns whether the call is complete: what is missing is markup, and no value that
    /// the model began can go on.
    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool;

    /// Called where a marker ends an open call too early. If only closing brackets are missing, writes them and
    /// returns true.
    fn mend(&mut self, _out: &mut Out<'_>) -> bool {
        false
    }

    /// Called where an open call broke. Returns what is known about the rest of the call.
    fn breaks(&mut self) -> Rest {
        Rest::default()
    }

    /// Matches the call's own closer, which may depend on the call, against the start of `text`.
    fn ends_call(&self, _text: &str) -> Fit {
        Fit::No
    }

    /// Continues after a call that broke or was mended, whose rest has been read.
    fn resume(&mut self) -> Resumes {
        Resumes::Never
    }

    /// Whether the open call is known to be broken.
    fn is_broken(&self) -> bool {
        false
    }

    /// Passes on what is held of a broken call, because the text has ended.
    fn abandon(&mut self, _out: &mut Out<'_>) {}

    /// The current argument string, if all of its text is sent as it arrives.
    fn string(&self) -> Option<StringFastPath> {
        None
    }

    /// How many bytes the walk holds in addition to the source.
    fn kept(&self) -> usize {
        0
    }

    /// Whether what was read since the last certain point may contain text.
    fn has_text(&self) -> bool {
        false
    }

    /// Whether the last text read belongs to a call that has started.
    fn is_in_call(&self) -> bool {
        false
    }

    /// Whether a call that has not started would start if the text ended here.
    fn starts_at_end(&self) -> bool {
        false
    }

    /// Whether the end of the text also ends the open call, with nothing missing.
    fn ends_with_text(&self) -> bool {
        false
    }

    /// Handles a `Stop` of the last step. `open` is set if a call is open. Returns whether the walk continues in another
    /// state.
    fn recover(&mut self, _open: bool) -> bool {
        false
    }

    /// Ends the text outside of any call. `held` is the text that no step has taken. Returns whether everything
    /// read since the last certain point has a meaning, so that none of it is text.
    fn ends_outside(&mut self, _held: &str, _out: &mut Out<'_>) -> bool {
        false
    }

    /// Whether the walk has read calls, and another call or the end of their list is missing. `held` is the text that
    /// no step has taken.
    fn is_unfinished(&self, _held: &str) -> bool {
        false
    }

    /// Whether the text could only go on with another call or the end of their list, if a call has been sent.
    fn is_in_list(&self, held: &str) -> bool {
        self.is_unfinished(held)
    }

    /// Returns what kind of text follows the walk. `cut` is set if the walk ended within a call.
    fn surroundings(&mut self, cut: bool) -> Surroundings {
        if cut { Surroundings::Behind } else { Surroundings::Prose }
    }
}

/// What kind of text follows a failed container.
#[derive(Debug)]
pub(super) enum Surroundings {
    Prose,
    /// The text of a message whose header is text as well.
    Message,
    /// Prose right after a container of calls.
    Behind,
    /// A fence that is not searched.
    Fence(Fence),
    Json(Scanner),
}

/// Runs a step of `walk` on at most one byte more than the walk may hold. Returns `Stop` if the walk still cannot
/// decide.
pub(super) fn step(walk: &mut dyn Walk, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
    let bound = walk.bound();
    let seen = bounded(text, bound);
    match walk.step(seen, rules, out) {
        Step::Hold if seen.len() > bound => Step::Stop(0),
        step => step,
    }
}

/// Cuts `text` to slightly more than `most` bytes.
pub(super) fn bounded(text: &str, most: usize) -> &str {
    if text.len() <= most { text } else { head(text, boundary_from(text, most.saturating_add(1))) }
}

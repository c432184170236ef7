//! [`Doubles`]: drops calls that arrive twice. Some servers send a call natively and also leave it in the
//! text; others send a call twice with the same id.
//!
//! A call is held until it ends if the same tool was called on the other channel (native or text), or if an
//! earlier call has the same id. If the arguments are then equal, the call is dropped as a duplicate;
//! otherwise it is passed on. Equal calls on the same channel are separate calls. Without such calls, nothing
//! is held.

use std::mem;

use crate::{
    event::{CallEnd, CallStart, Runner, Source},
    rules::Limits,
    wire::json::is_same,
};

#[derive(Debug, Default)]
pub(super) struct Doubles {
    made: Vec<Made>,
    doubtful: Vec<Held>,
    kept: usize,
}

/// A call that has already been passed on.
#[derive(Debug)]
struct Made {
    source: u32,
    name: String,
    id: String,
    is_native: bool,
    arguments: String,
    has_ended: bool,
    /// Whether a duplicate of this call has arrived, or its arguments are no longer available for comparison.
    is_matched: bool,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) start: CallStart<'static>,
    name: String,
    pub(super) arguments: String,
    pub(super) end: Option<CallEnd>,
}

/// Maximum bytes of arguments that are retained for comparison. Longer calls are hardly ever sent twice.
const MAX_KEPT: usize = 64 << 10;

const MAX_HELD: usize = 128;

impl Doubles {
    /// Handles the start of a call to the tool `name`. Returns whether the call is held.
    pub(super) fn begins(&mut self, start: &CallStart<'_>, name: &str) -> bool {
        if start.runner != Runner::Client {
            return false;
        }
        let is_native = is_native(start.source);
        // Calls that follow a held call are held too, so that they stay in order.
        let is_doubtful = self.is_holding() || self.made.iter().any(|made| made.may_be(start, name));
        if is_doubtful && self.doubtful.len() < MAX_HELD {
            let start = CallStart {
                id: start.id.clone().into_owned().into(),
                name: start.name.clone().into_owned().into(),
                signature: start.signature.clone().map(crate::event::Opaque::into_owned),
                ..*start
            };
            self.doubtful.push(Held { start, name: name.to_owned(), arguments: String::new(), end: None });
            return true;
        }
        self.make(start.index, name, &start.id, is_native);
        false
    }

    fn make(&mut self, source: u32, name: &str, id: &str, is_native: bool) {
        let (name, id) = (name.to_owned(), id.to_owned());
        let (arguments, has_ended, is_matched) = (String::new(), false, false);
        self.made.push(Made { source, name, id, is_native, arguments, has_ended, is_matched });
    }

    /// Handles a piece of a call's arguments. Returns whether the piece is held.
    pub(super) fn piece(&mut self, source: u32, piece: &str, limits: &Limits) -> bool {
        if let Some(held) = self.doubtful.iter_mut().rfind(|held| held.start.index == source) {
            held.arguments.push_str(piece);
            return true;
        }
        if let Some(made) = self.made.iter_mut().rfind(|made| made.source == source)
            && !made.is_matched
        {
            if self.kept + piece.len() > limits.max_hold.min(MAX_KEPT) {
                self.kept -= made.arguments.len();
                (made.is_matched, made.arguments) = (true, String::new());
            } else {
                self.kept += piece.len();
                made.arguments.push_str(piece);
            }
        }
        false
    }

    /// Handles the end of a call. Returns whether the end is held.
    pub(super) fn ends(&mut self, source: u32, end: CallEnd) -> bool {
        if let Some(held) = self.doubtful.iter_mut().rfind(|held| held.start.index == source) {
            held.end = Some(end);
            return true;
        }
        if let Some(made) = self.made.iter_mut().rfind(|made| made.source == source) {
            made.has_ended = true;
        }
        false
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Removes and returns the held calls that should now be passed on, because they are not duplicates or
    /// exceed `limits`. `is_last` is set if the response has ended.
    pub(super) fn settled(&mut self, is_last: bool, limits: &Limits) -> Vec<Held> {
        let mut settled = Vec::new();
        for held in mem::take(&mut self.doubtful) {
            let is_long = held.arguments.len() > limits.max_arguments;
            if !self.doubtful.is_empty() && !is_last || held.end.is_none() && !is_last && !is_long {
                self.doubtful.push(held);
                continue;
            }
            let may_be = |made: &&mut Made| made.may_be(&held.start, &held.name);
            if let Some(made) =
                self.made.iter_mut().filter(may_be).find(|made| is_same(&made.arguments, &held.arguments))
            {
                made.is_matched = made.is_native != is_native(held.start.source);
                continue;
            }
            if !is_last && !is_long && self.made.iter().any(|made| made.is_open(&held)) {
                self.doubtful.push(held);
                continue;
            }
            self.make(held.start.index, &held.name, &held.start.id, is_native(held.start.source));
            settled.push(held);
        }
        settled
    }
}

impl Made {
    /// Whether a call to `name` that starts with `start` may be a duplicate of this call.
    fn may_be(&self, start: &CallStart<'_>, name: &str) -> bool {
        let is_native = is_native(start.source);
        let has_id = is_native && !start.id.is_empty() && start.id == self.id;
        !self.is_matched && self.name == name && (self.is_native != is_native || has_id)
    }

    /// Whether this call is still incomplete and may turn out to equal `held`.
    fn is_open(&self, held: &Held) -> bool {
        let is_whole = || serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok();
        self.may_be(&held.start, &held.name) && !self.has_ended && !is_whole()
    }
}

fn is_native(source: Source) -> bool {
    matches!(source, Source::Native | Source::NativeCustom | Source::NativeBuiltIn)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = Limits::default;

    /// Plays calls of the form `source id name arguments`, where sources from 100 on are native and `-`
    /// stands for an empty id. Returns the sources of the calls that were passed on.
    fn play(calls: &[(u32, &str, &str, &str)]) -> Vec<u32> {
        let (mut doubles, mut gone_on) = (Doubles::default(), Vec::new());
        for (source, id, name, arguments) in calls {
            let start = CallStart {
                index: *source,
                id: (*id).into(),
                name: (*name).into(),
                runner: Runner::Client,
                source: if *source < 100 { Source::Format("hermes") } else { Source::Native },
                signature: None,
            };
            if !doubles.begins(&start, name) {
                gone_on.push(*source);
            }
            for piece in arguments.split_inclusive(':') {
                doubles.piece(*source, piece, &LIMITS());
            }
            doubles.ends(*source, CallEnd::Complete);
            gone_on.extend(doubles.settled(false, &LIMITS()).iter().map(|held| held.start.index));
        }
        gone_on.extend(doubles.settled(true, &LIMITS()).iter().map(|held| held.start.index));
        gone_on
    }

    #[test]
    fn a_call_on_two_channels_is_one() {
        let (a, spaced, b) = (r#"{"x":1,"y":2}"#, r#"{ "y": 2, "x": 1.0 }"#, r#"{"x":3}"#);
        assert_eq!(play(&[(0, "", "f", a), (100, "p", "f", spaced)]), [0]);
        assert_eq!(play(&[(100, "p", "f", a), (0, "", "f", a)]), [100]);
        assert_eq!(play(&[(0, "", "f", a), (100, "p", "f", b)]), [0, 100]);
        assert_eq!(play(&[(0, "", "f", a), (100, "p", "g", a)]), [0, 100]);
        assert_eq!(play(&[(0, "", "f", a), (1, "", "f", b), (100, "p", "f", a), (101, "q", "f", b)]), [0, 1]);
    }

    #[test]
    fn equal_calls_on_one_channel_are_several() {
        let a = r#"{"x":1}"#;
        assert_eq!(play(&[(0, "", "f", a), (1, "", "f", a)]), [0, 1]);
        assert_eq!(play(&[(100, "p", "f", a), (101, "q", "f", a)]), [100, 101]);
        assert_eq!(play(&[(0, "", "f", a), (100, "p", "f", a), (101, "q", "f", a)]), [0, 101]);
        assert_eq!(play(&[(100, "p", "f", a), (101, "p", "f", a)]), [100], "with one id they are the same");
    }

    fn start(index: u32, source: Source) -> CallStart<'static> {
        CallStart { index, id: "".into(), name: "f".into(), runner: Runner::Client, source, signature: None }
    }

    #[test]
    fn a_call_waits_for_one_that_is_not_whole() {
        let mut doubles = Doubles::default();
        assert!(!doubles.begins(&start(0, Source::Native), "f"));
        doubles.piece(0, r#"{"x":"#, &LIMITS());
        assert!(doubles.begins(&start(1, Source::Format("hermes")), "f"));
        doubles.piece(1, r#"{"x":1}"#, &LIMITS());
        doubles.ends(1, CallEnd::Complete);
        assert!(doubles.settled(false, &LIMITS()).is_empty() && doubles.is_holding());
        doubles.piece(0, "1}", &LIMITS());
        doubles.ends(0, CallEnd::Complete);
        assert!(doubles.settled(false, &LIMITS()).is_empty() && !doubles.is_holding());
    }

    #[test]
    fn what_is_kept_and_held_is_bounded() {
        let limits = Limits { max_hold: 10, max_arguments: 20, ..Limits::default() };
        let mut doubles = Doubles::default();
        doubles.begins(&start(0, Source::Native), "f");
        doubles.piece(0, &"x".repeat(11), &limits);
        assert!(!doubles.begins(&start(1, Source::Format("hermes")), "f"), "nothing is known of the first");
        doubles.begins(&start(2, Source::Native), "f");
        doubles.piece(2, &"y".repeat(21), &limits);
        assert_eq!(doubles.settled(false, &limits).len(), 1);
    }
}

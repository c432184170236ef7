//! Message bodies: text, reasoning, and arguments in their several forms.

use super::{Channel, Mark, Phase};
use crate::{
    detect::{
        body::{Fed, JsonBody},
        envelope::{CallRules, Piece},
        gated::Passed,
        text::{boundary_from, head, tail},
        walker::{Out, Parsed},
    },
    event::CallEnd,
    format::Voice,
    wire::json::escape_str,
};

impl Channel {
    /// Reads a spoken body (text or reasoning).
    pub(super) fn said(&mut self, text: &str, voice: Voice, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        if self.markup.is_empty() {
            let begins = |byte: u8| {
                let markers = self.channels.open.iter().map(|(open, _)| open).chain(self.channels.end);
                markers.filter_map(|marker| marker.as_bytes().first()).any(|&first| first == byte)
            };
            let run = text.bytes().position(begins).unwrap_or(text.len());
            if run > 0 {
                self.say(voice, head(text, run), out);
                return (run, None);
            }
        }
        let Some(character) = text.chars().next() else { return (0, None) };
        let at = self.markup_at();
        self.markup.push(character);
        (character.len_utf8(), self.settle(at, voice, out))
    }

    /// Releases held characters of a spoken body that are not a marker. `at`: where the held markup begins in
    /// the uncertain bytes.
    pub(super) fn settle(&mut self, mut at: usize, voice: Voice, out: &mut Out<'_>) -> Option<Passed> {
        while !self.markup.is_empty() {
            match self.mark() {
                Mark::Begins => return None,
                Mark::End => {
                    self.end_raw(true, out);
                    self.markup.clear();
                    self.reasoning.end();
                    self.phase = Phase::Between;
                    return Some(Passed::Certain(0));
                }
                Mark::Open(open) => {
                    self.inside = Some(voice);
                    self.open(open, at);
                    return None;
                }
                Mark::None => {
                    let first = self.markup.chars().next().map_or(0, char::len_utf8);
                    let rest = tail(&self.markup, first).to_owned();
                    let markup = std::mem::replace(&mut self.markup, rest);
                    self.say(voice, head(&markup, first), out);
                    at += first;
                }
            }
        }
        None
    }

    pub(super) fn say(&mut self, voice: Voice, text: &str, out: &mut Out<'_>) {
        if text.is_empty() {
            return;
        }
        if self.raw {
            let mut escaped = String::with_capacity(text.len());
            escape_str(&mut escaped, text);
            return self.gate.pass(Piece::Arguments(&escaped), out);
        }
        if voice == Voice::Text {
            return out(Piece::Said(voice, text));
        }
        self.reasoning.put(text, |text| out(Piece::Said(voice, text)));
    }

    /// Reads a call's arguments.
    pub(super) fn arguments(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> (usize, Option<Passed>) {
        let Phase::Arguments(body) = &mut self.phase else { return (0, None) };
        let gate = &mut self.gate;
        match body.feed(text, &mut |text: &str| gate.pass(Piece::Arguments(text), out)) {
            Fed::More => (text.len(), None),
            Fed::Done(len) => {
                self.end(CallEnd::Complete, out);
                self.phase = Phase::Between;
                (len, Some(Passed::Certain(0)))
            }
            Fed::Fault(len) => {
                let body = std::mem::replace(body, JsonBody::new(rules.repair, rules.max_depth));
                self.phase = Phase::Broken(body);
                (len, self.certain())
            }
        }
    }

    /// Handles the text after arguments that stopped short.
    pub(super) fn broken(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        let at = self.markup_at();
        self.markup.push(character);
        let mark = self.mark();
        if mark == Mark::Begins {
            return (character.len_utf8(), None);
        }
        let Phase::Broken(mut body) = std::mem::replace(&mut self.phase, Phase::Between) else {
            return (0, None);
        };
        let whole = mark != Mark::None && self.mends(rules) && self.close(&mut body, out);
        if mark == Mark::None {
            self.markup.pop();
        }
        let rescan = self.markup.len();
        self.markup.clear();
        self.source.clear();
        if !self.end(if whole { CallEnd::Complete } else { CallEnd::Cut }, out) {
            self.phase = Phase::Failed;
            return (
                if mark == Mark::None { 0 } else { character.len_utf8() },
                Some(Passed::Failed { taken: 0, rescan }),
            );
        }
        match mark {
            Mark::End => (character.len_utf8(), Some(Passed::Certain(0))),
            Mark::Open(open) => {
                self.open(open, at);
                (character.len_utf8(), Some(Passed::Certain(0)))
            }
            // The text continues after the call that was cut.
            Mark::None | Mark::Begins => (0, Some(Passed::Failed { taken: 0, rescan })),
        }
    }

    /// Reads a call whose body holds its name, or whose arguments have their own grammar. Until the call
    /// begins, it is kept as source together with its header.
    pub(super) fn call(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> (usize, Option<Passed>) {
        let Phase::Call(mut walker) = std::mem::replace(&mut self.phase, Phase::Between) else {
            return (0, None);
        };
        let begun = walker.found();
        let text = self.bounded(text, begun, rules);
        let (len, parsed) = walker.feed(text, rules, &mut |piece| self.piece(piece, begun, out));
        let (found, rest) = (walker.found(), walker.undecided());
        let passed = match parsed {
            Parsed::More if !found && self.source.len() + len > rules.max_hold => {
                return self.no_call(text, out);
            }
            Parsed::More => {
                self.phase = Phase::Call(walker);
                None
            }
            Parsed::Whole | Parsed::Certain => {
                // Each call is independent of the ones that follow it.
                self.gate.settle(Some(CallEnd::Complete), out);
                self.phase = Phase::Call(walker);
                Some(Passed::Certain(0))
            }
            Parsed::End | Parsed::EndMessage => {
                self.gate.settle(Some(CallEnd::Complete), out);
                Some(Passed::Again { taken: 0, rest, certain: true })
            }
            Parsed::Stop if !found => return self.no_call(head(text, len), out),
            Parsed::Stop => {
                let open = walker.is_open();
                let in_call = open || (walker.is_in_call() && self.mends(rules));
                let end =
                    if open { walker.finish(false, &mut |piece| self.gate.pass(piece, out)) } else { None };
                let certain = in_call && self.gate.settle(end, out);
                if !certain {
                    self.phase = Phase::Failed;
                }
                Some(if certain {
                    Passed::Again { taken: 0, rest, certain }
                } else {
                    Passed::Failed { taken: 0, rescan: rest }
                })
            }
        };
        if !found {
            self.source.push_str(head(text, len));
        }
        (len, passed)
    }

    /// Sends a piece of a call in a message's body. `begun`: it is not the first piece.
    fn piece(&mut self, piece: Piece<'_>, begun: bool, out: &mut Out<'_>) {
        if !begun && matches!(piece, Piece::Start { .. }) {
            self.begin(out);
        }
        self.gate.pass(piece, out);
    }

    /// The header is not followed by a call: the header and `text` after it are read as they would be without
    /// one.
    fn no_call(&mut self, text: &str, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        let mut source = std::mem::take(&mut self.source);
        source.push_str(text);
        (text.len(), self.no_message(source, out))
    }

    /// At most one character more than may be held of `text`, while the call has not begun.
    fn bounded<'t>(&self, text: &'t str, begun: bool, rules: &CallRules<'_>) -> &'t str {
        let room = rules.max_hold.saturating_sub(self.source.len()).saturating_add(1);
        if begun || text.len() <= room { text } else { head(text, boundary_from(text, room)) }
    }
}

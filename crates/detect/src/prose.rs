//! [`Prose`]: sends the text around calls, and handles the white space beside them.
//!
//! White space beside a call is framing, so it is held until something visible follows. In a message with calls, it
//! is dropped at the very start and the very end, but preserved between texts. In a message without calls, it is
//! never changed. A container at the start of a line includes its indentation and line ending
//! (docs/protocols/text-formats.md#white-space). The result depends only on the text and not on where pieces end,
//! and at most one run of white space is delayed.

use std::{borrow::Cow, ops::Range};

use super::{
    quote::Quoting,
    search::opens,
    text::{head, is_blank, slice, tail},
    trimmer::hold_blank,
};
use crate::event::{Event, Sink};

/// The maximum length of the openers around a call that belong to other formats, in bytes.
const MAX_WRAPPER: usize = 128;

fn trim_start(text: &str) -> &str {
    tail(text, text.bytes().position(|byte| !is_blank(byte)).unwrap_or(text.len()))
}

fn trim_end(text: &str) -> &str {
    head(text, text.bytes().rposition(|byte| !is_blank(byte)).map_or(0, |at| at + 1))
}

/// Returns the last `count` bytes of `text`, or a few more if a character begins before them.
fn last_bytes(text: &str, count: usize) -> &str {
    let from = text.len().saturating_sub(count);
    tail(text, (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default())
}

/// How much text before a quotation is compared at least, in bytes. Less could be there by chance.
const MIN_RECENT: usize = 8;

/// What stands before the text that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Text,
    /// A call, and only white space has followed it.
    Call,
    /// Like `Call`, but what comes next is text rather than framing.
    LeftCall,
}

/// The state of the text outside of calls.
#[derive(Debug, Clone)]
pub(super) struct Prose {
    /// The white space since the last visible character.
    blank: String,
    /// The opener in `blank` that belongs to the call if one follows, and is text otherwise.
    wrapper: Option<Range<usize>>,
    /// Whether only white space has followed the last line ending, not counting containers.
    line_blank: bool,
    /// The last character, or NUL after a container.
    last: char,
    quoting: Quoting,
    seen_text: bool,
    seen_call: bool,
    behind: Behind,
    /// Set after a container that began its line: the offset in `blank` at which the remainder of that line starts.
    /// If nothing else follows on the line, the remainder is dropped.
    line_rest: Option<usize>,
    /// Whether `line_rest` follows reasoning or its frame, so that all line ends up to the text are markup.
    takes_lines: bool,
    /// Whether reasoning was sent right before `line_rest`.
    behind_reasoning: bool,
    /// The end of the text, if there are texts that it may repeat.
    recent: Option<String>,
    /// The maximum amount of white space that is held, in bytes. More is sent.
    max_hold: usize,
    /// Whether calls are detected, so that white space beside them must be held. Otherwise, only white space before
    /// the first text is held.
    calls: bool,
}

impl Prose {
    pub(super) fn new(max_hold: usize, calls: bool) -> Self {
        Self {
            blank: String::new(),
            wrapper: None,
            line_blank: true,
            last: '\0',
            quoting: Quoting::Nothing,
            seen_text: false,
            seen_call: false,
            behind: Behind::Text,
            line_rest: None,
            takes_lines: false,
            behind_reasoning: false,
            recent: None,
            max_hold,
            calls,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.blank.len()
    }

    /// Whether only white space precedes the end of `upto` on its line.
    pub(super) fn starts_line(&self, upto: &str) -> bool {
        for byte in upto.bytes().rev() {
            match byte {
                b'\n' => return true,
                _ if is_blank(byte) => {}
                _ => return false,
            }
        }
        self.line_blank
    }

    pub(super) fn starts_message(&self) -> bool {
        !self.seen_text && !self.seen_call
    }

    /// The places, as flags of [`opens`], that the next text is at.
    pub(super) fn here(&self) -> u8 {
        let fresh = if self.starts_message() { opens::MESSAGE_START } else { 0 };
        let quoting = if self.is_quoting() { opens::QUOTED } else { 0 };
        opens::ANYWHERE | fresh | quoting
    }

    /// The character before the end of `upto`.
    pub(super) fn last(&self, upto: &str) -> char {
        upto.chars().next_back().unwrap_or(self.last)
    }

    pub(super) fn is_quoting(&self) -> bool {
        self.quoting != Quoting::Nothing
    }

    pub(super) fn begin_quoting(&mut self, quoting: Quoting) {
        self.quoting = quoting;
    }

    /// Whether `>` after `before` ends a comment.
    pub(super) fn ends_comment(&self, before: &str) -> bool {
        self.quoting == Quoting::Comment(true) && self.last(before) == '-'
    }

    /// Handles a byte of a quotation that may end it and has just been sent. `last` is the character before it. A
    /// blank line ends a comment too, since people mention `<!--` without an end.
    pub(super) fn quoted_byte(&mut self, byte: u8, last: char) {
        self.quoting = match (self.quoting, byte) {
            (Quoting::Line, b'\n') => Quoting::Nothing,
            (Quoting::Comment(_), b'\n') if self.blank.matches('\n').nth(1).is_some() => Quoting::Nothing,
            (Quoting::Comment(true), b'>') if last == '-' => Quoting::Nothing,
            (Quoting::Comment(_), b'-') => Quoting::Comment(last == '-'),
            (quoting, _) => quoting,
        }
    }

    /// Whether the white space sent last, at the start of a line, makes what follows indented code: text, and no call,
    /// precedes it.
    pub(super) fn is_indented_code(&self) -> bool {
        let blank =
            head(&self.blank, self.wrapper.as_ref().map_or(self.blank.len(), |wrapper| wrapper.start));
        let line = blank.rfind('\n').map(|end| tail(blank, end + 1)).filter(|line| !line.is_empty());
        let columns = |line: &str| line.bytes().map(|byte| if byte == b'\t' { 4 } else { 1 }).sum::<usize>();
        self.seen_text && self.behind == Behind::Text && line.is_some_and(|line| columns(line) >= 4)
    }

    /// Whether `text` can be sent unchanged, with nothing held before or after it.
    pub(super) fn passes(&self, text: &str) -> bool {
        let leads = self.seen_call && !self.seen_text && text.bytes().next().is_some_and(is_blank);
        let trails = match self.calls {
            true => text.bytes().next_back().is_none_or(is_blank),
            false => !self.seen_text && text.bytes().all(is_blank),
        };
        self.blank.is_empty() && !self.notes_more() && !leads && !trails
    }

    /// Records that `text`, for which [`Prose::passes`] returned true, was sent unchanged.
    pub(super) fn passed(&mut self, text: &str) {
        self.note(text);
        self.seen_text = true;
        self.behind = Behind::Text;
    }

    /// Whether the message has calls.
    pub(super) fn has_call(&self) -> bool {
        self.seen_call
    }

    pub(super) fn is_behind_call(&self) -> bool {
        self.behind == Behind::Call
    }

    /// Makes what follows the last call count as text rather than framing.
    pub(super) fn leave_call(&mut self) {
        if self.is_behind_call() {
            self.behind = Behind::LeftCall;
        }
    }

    /// Sends text, but holds its trailing white space.
    pub(super) fn put(&mut self, text: &str, out: &mut impl Sink) {
        let text = if self.notes_more() { self.note_more(text, out) } else { text };
        if text.is_empty() {
            return;
        }
        if !self.calls && (self.seen_text || !trim_end(text).is_empty()) {
            return self.put_whole(text, out);
        }
        self.note(text);
        let visible = trim_end(text);
        let blank = tail(text, visible.len());
        if !visible.is_empty() {
            let mut visible = visible;
            if self.seen_call && !self.seen_text {
                // This white space begins the message, so it is dropped unless there is too much of it to hold.
                let rest = trim_start(visible);
                self.hold(head(visible, visible.len() - rest.len()), out);
                visible = rest;
            }
            self.show(visible, out);
        }
        self.hold(blank, out);
    }

    /// How many bytes of white space may still be held, plus one.
    fn room(&self) -> usize {
        self.max_hold.saturating_sub(self.blank.len()) + 1
    }

    fn hold(&mut self, blank: &str, out: &mut impl Sink) {
        let mut released = false;
        hold_blank(&mut self.blank, blank, self.max_hold, |blank| {
            out.event(Event::Text(Cow::Borrowed(blank)));
            released = true;
        });
        if released {
            self.seen_text = true;
            self.line_rest = None;
            self.wrapper = None;
        }
    }

    /// Holds the opener of a container in which no call of its format follows. If a call of another format follows
    /// directly, the opener is framing.
    pub(super) fn wrap(&mut self, opener: &str, out: &mut impl Sink) {
        let start = self.wrapper.as_ref().map_or(self.blank.len(), |wrapper| wrapper.start);
        if self.blank.len() + opener.len() - start > MAX_WRAPPER {
            return self.put(opener, out);
        }
        self.note_recent(opener);
        self.line_rest = None;
        self.wrapper = Some(start..self.blank.len() + trim_end(opener).len());
        self.blank.push_str(opener);
    }

    /// Drops an opener that no text followed.
    pub(super) fn forget_wrapper(&mut self) {
        if let Some(wrapper) = self.wrapper.take() {
            self.blank.truncate(wrapper.start);
        }
    }

    /// Sends an opener that no call followed.
    pub(super) fn release_wrapper(&mut self, out: &mut impl Sink) {
        if let Some(Range { start, end }) = self.wrapper.take() {
            let from = if self.seen_text || !self.seen_call { 0 } else { start };
            out.event(Event::Text(Cow::Borrowed(slice(&self.blank, from, end))));
            self.blank = tail(&self.blank, end).to_owned();
            self.seen_text = true;
        }
    }

    /// Sends text with its white space, for places where no call can be adjacent: inside code and other JSON.
    pub(super) fn put_whole(&mut self, text: &str, out: &mut impl Sink) {
        if text.is_empty() {
            return;
        }
        self.line_rest = None;
        self.note_recent(text);
        self.note(text);
        self.show(text, out);
    }

    /// Handles the start of markup that is not text, which makes white space before the first visible text framing.
    pub(super) fn framed(&mut self) {
        if !self.seen_text {
            let wrapper = self.wrapper.take();
            self.blank.drain(..wrapper.as_ref().map_or(self.blank.len(), |wrapper| wrapper.start));
            self.wrapper = wrapper.map(|wrapper| 0..wrapper.end.saturating_sub(wrapper.start));
        }
    }

    /// Called when a call has become certain. `starts_line` is set if its container began a line.
    pub(super) fn call(&mut self, starts_line: bool) {
        self.seen_call = true;
        self.behind = Behind::Call;
        self.forget_wrapper();
        if starts_line {
            let line = self.blank.rfind('\n').map_or(0, |at| at + 1);
            self.blank.truncate(line);
        }
    }

    /// Handles the end of reasoning: the line ends behind it are markup. `has_said` is set if there was any.
    pub(super) fn reasoning_ended(&mut self, has_said: bool) {
        self.behind_reasoning = has_said || self.is_behind_reasoning();
        self.takes_lines = true;
        self.line_rest = Some(self.blank.len());
        self.line_blank = true;
        self.last = '\0';
    }

    /// Handles a marker around the answer: the line ends on its inner side are markup.
    pub(super) fn frame(&mut self, closes: bool) {
        if !self.seen_text {
            self.reasoning_ended(false);
        } else if closes {
            let inner = self.blank.trim_end_matches(['\n', '\r']).len();
            self.blank.truncate(inner);
        }
    }

    /// Whether nothing visible has followed the last reasoning.
    pub(super) fn is_behind_reasoning(&self) -> bool {
        self.behind_reasoning && self.takes_lines && self.line_rest.is_some()
    }

    pub(super) fn container_ended(&mut self, starts_line: bool) {
        self.takes_lines = false;
        self.last = '\0';
        self.line_rest = starts_line.then_some(self.blank.len());
    }

    /// Handles content of another channel. White space that is not beside a call is sent.
    pub(super) fn interrupt(&mut self, out: &mut impl Sink) {
        if !self.seen_call {
            self.release_blank(out);
        }
    }

    pub(super) fn finish(&mut self, out: &mut impl Sink) {
        self.release_wrapper(out);
        if !self.seen_call {
            self.release_blank(out);
        }
        self.blank.clear();
    }

    /// Begins the text of another response, which begins a line like the first response did.
    pub(super) fn next_answer(&mut self) {
        self.line_blank = true;
        self.last = '\0';
        self.quoting = Quoting::Nothing;
        self.line_rest = None;
    }

    /// Whether more than usual is noted of the text.
    fn notes_more(&self) -> bool {
        self.line_rest.is_some() || self.recent.is_some()
    }

    /// Returns the rest of the text, without what was handled.
    fn note_more<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> &'t str {
        self.note_recent(text);
        if self.line_rest.is_some() { self.take_line_rest(text, out) } else { text }
    }

    fn note_recent(&mut self, text: &str) {
        if let Some(recent) = &mut self.recent {
            recent.push_str(last_bytes(text, MIN_RECENT));
            let kept = last_bytes(recent, MIN_RECENT).len();
            recent.drain(..recent.len() - kept);
        }
    }

    /// Keeps the end of the text from here on.
    pub(super) fn keep_recent(&mut self) {
        self.recent.get_or_insert_default();
    }

    /// Returns the end of the text, if there is enough to be compared.
    pub(super) fn recent(&self) -> Option<&str> {
        self.recent.as_deref().filter(|recent| recent.len() >= MIN_RECENT)
    }

    fn note(&mut self, text: &str) {
        self.line_blank = self.starts_line(text);
        self.last = self.last(text);
    }

    /// Handles the remainder of a line that a container began. Returns what follows the white space at the start of
    /// `text`.
    fn take_line_rest<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> &'t str {
        let mut rest = text;
        while let Some(rest_at) = self.line_rest {
            let before = rest;
            rest = self.take_line(rest_at, before, out);
            if rest.is_empty() || rest.len() == before.len() {
                break;
            }
        }
        rest
    }

    /// Handles the remainder of a line, whose white space is held from `rest_at` on.
    fn take_line<'t>(&mut self, rest_at: usize, text: &'t str, out: &mut impl Sink) -> &'t str {
        let goes_on = |byte: u8| is_blank(byte) && byte != b'\n';
        let blank = text.bytes().position(|byte| !goes_on(byte)).unwrap_or(text.len());
        let room = self.room();
        self.hold(head(text, blank.min(room)), out);
        if blank >= room {
            return tail(text, room);
        }
        match text.as_bytes().get(blank) {
            Some(b'\n') => {
                self.blank.truncate(rest_at);
                if !self.takes_lines {
                    self.line_rest = None;
                }
                self.line_blank = true;
                self.last = '\n';
                tail(text, blank + 1)
            }
            Some(_) => {
                self.line_rest = None;
                tail(text, blank)
            }
            None => "",
        }
    }

    fn show(&mut self, visible: &str, out: &mut impl Sink) {
        if self.blank.is_empty() {
            out.event(Event::Text(Cow::Borrowed(visible)));
        } else {
            let wrapper = self.wrapper.take();
            let from = match self.seen_call && !self.seen_text {
                true => wrapper.map_or(self.blank.len(), |wrapper| wrapper.start),
                false => 0,
            };
            self.blank.push_str(visible);
            out.event(Event::Text(Cow::Borrowed(tail(&self.blank, from))));
        }
        self.blank.clear();
        self.seen_text = true;
        self.behind = Behind::Text;
    }

    fn release_blank(&mut self, out: &mut impl Sink) {
        if !self.blank.is_empty() {
            out.event(Event::Text(Cow::Borrowed(&self.blank)));
            self.blank.clear();
            self.wrapper = None;
            self.seen_text = true;
            self.line_rest = None;
        }
    }
}

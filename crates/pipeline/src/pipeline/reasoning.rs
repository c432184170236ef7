//! [`ReasoningStage`]: passes reasoning on as the rules require: in a separate field, in the text, or not at
//! all.
//!
//! It is the last stage before the writer, so all earlier stages see the reasoning and its signatures.
//!
//! In the text, reasoning is enclosed in `<think>` and `</think>`. The opener is always at the start of a
//! line, where clients look for it. A closer within the reasoning gets a backslash before its last character
//! (`</think\>`), so that it does not end the reasoning early. Signatures apply to a block of reasoning, so
//! they are dropped with it.

use std::borrow::Cow;

use memchr::memchr;

use crate::{
    event::{Annotation, Event},
    rules::Reasoning,
    wire::text::slice,
};

const OPEN: &str = "<think>";
const OPEN_ON_NEW_LINE: &str = "\n<think>";
const CLOSE: &str = "</think>";

#[derive(Debug)]
pub(super) enum ReasoningStage {
    /// In the writer's field for reasoning.
    Field,
    /// In the text.
    Inline(Inline),
    /// Not at all.
    Drop,
}

impl ReasoningStage {
    pub(super) fn new(reasoning: Reasoning) -> Self {
        match reasoning {
            Reasoning::Inline => Self::Inline(Inline::default()),
            Reasoning::Drop => Self::Drop,
            _ => Self::Field,
        }
    }

    pub(super) fn event(&mut self, event: &Event<'_>, pass_on: &mut impl FnMut(&Event<'_>)) {
        match self {
            Self::Field => pass_on(event),
            Self::Inline(inline) => inline.event(event, pass_on),
            Self::Drop if matches!(event.meaning(), Event::Reasoning(_)) => {}
            Self::Drop => pass_on(event),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Inline {
    /// Whether the opener has been sent and its closer has not.
    is_open: bool,
    /// Whether the text so far is non-empty and does not end with a line break.
    is_inside_line: bool,
    /// Number of bytes at the end of the reasoning that match the start of a closer.
    matched: usize,
    /// Number of characters added to the text. Citations count the characters of the text before them.
    added: u64,
}

impl Inline {
    fn event(&mut self, event: &Event<'_>, pass_on: &mut impl FnMut(&Event<'_>)) {
        match event.meaning() {
            Event::Reasoning(reasoning) if reasoning.text.is_empty() => {}
            Event::Reasoning(reasoning) => self.reasoning(&reasoning.text, pass_on),
            Event::Text(text) if text.is_empty() => pass_on(event),
            Event::Text(text) => {
                self.close(pass_on);
                self.is_inside_line = !text.ends_with('\n');
                pass_on(event);
            }
            Event::Annotation(annotation) => {
                self.close(pass_on);
                self.annotation(event, annotation, pass_on);
            }
            Event::Start(_)
            | Event::CallArguments { .. }
            | Event::CallEnd { .. }
            | Event::Phase { .. }
            | Event::Usage(_)
            | Event::Warning(_)
            | Event::Ping(_)
            | Event::Verbatim { .. } => pass_on(event),
            Event::Refusal(_)
            | Event::CallStart(_)
            | Event::CallResult(_)
            | Event::ServerCall(_)
            | Event::Mcp(_)
            | Event::Media(_)
            | Event::Finish(_) => {
                self.close(pass_on);
                pass_on(event);
            }
        }
    }

    fn reasoning(&mut self, text: &str, pass_on: &mut impl FnMut(&Event<'_>)) {
        let opener = match (self.is_open, self.is_inside_line) {
            (true, _) => "",
            (false, false) => OPEN,
            (false, true) => OPEN_ON_NEW_LINE,
        };
        self.is_open = true;
        let escaped = self.escaped(text);
        let piece = if opener.is_empty() { escaped } else { Cow::Owned([opener, &escaped].concat()) };
        self.add(piece, pass_on);
    }

    fn close(&mut self, pass_on: &mut impl FnMut(&Event<'_>)) {
        if std::mem::take(&mut self.is_open) {
            self.matched = 0;
            self.is_inside_line = true;
            self.add(Cow::Borrowed(CLOSE), pass_on);
        }
    }

    fn add(&mut self, piece: Cow<'_, str>, pass_on: &mut impl FnMut(&Event<'_>)) {
        self.added += piece.chars().count() as u64;
        pass_on(&Event::Text(piece));
    }

    /// `text` with a backslash before the last character of each closer. A closer may have started in earlier
    /// text.
    fn escaped<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let (bytes, mut escaped, mut copied, mut at) = (text.as_bytes(), String::new(), 0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.matched == 0 {
                let Some(next) = memchr(b'<', rest) else { break };
                at += next;
            }
            let Some(&byte) = bytes.get(at) else { break };
            let expected = CLOSE.as_bytes().get(self.matched).copied();
            let is_last = self.matched + 1 == CLOSE.len();
            if expected.is_some_and(|expected| expected.eq_ignore_ascii_case(&byte)) {
                if is_last {
                    escaped.push_str(slice(text, copied, at));
                    escaped.push('\\');
                    copied = at;
                    self.matched = 0;
                } else {
                    self.matched += 1;
                }
            } else {
                self.matched = usize::from(byte == b'<');
            }
            at += 1;
        }
        if escaped.is_empty() {
            return Cow::Borrowed(text);
        }
        escaped.push_str(slice(text, copied, text.len()));
        Cow::Owned(escaped)
    }

    fn annotation(
        &self,
        event: &Event<'_>,
        annotation: &Annotation<'_>,
        pass_on: &mut impl FnMut(&Event<'_>),
    ) {
        if self.added == 0 {
            return pass_on(event);
        }
        let (start, end) = annotation.span;
        let span = (start.saturating_add(self.added), end.saturating_add(self.added));
        pass_on(&Event::Annotation(Annotation { span, ..annotation.clone() }));
    }
}

//! [`ReactWalk`]: a call of the ReAct prompts, from behind `Action:`.
//!
//! ```text
//! Action: get_weather
//! Action Input: {"city": "Paris"}
//! Observation: …
//! ```
//!
//! `Action:` is ordinary text, so the name must be declared and `Action Input:` must follow. The input is JSON, or a
//! text up to the observation, which then is the tool's text parameter. The observation is the model's invention.

use super::{
    body::{Fed, JsonBody},
    envelope::{CallRules, Parsed, Piece},
    literal::quote_into,
    string_fast_path::StringFastPath,
    text::tail,
    typed::escape,
};
use crate::event::CallEnd;

const INPUT: &str = "Action Input:";
const RESULT: &str = "Observation:";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    /// Before and in `Action Input:`, of which [`ReactWalk::held`] is the beginning.
    Label,
    /// Before the input.
    Before,
    Json,
    Text,
    /// Behind JSON: blanks and `Observation:`.
    After,
    Done,
}

/// One call.
#[derive(Debug)]
pub(super) struct ReactWalk {
    at: At,
    name: String,
    /// What may be a label; behind the input with the blanks before it.
    held: String,
    /// Where in [`ReactWalk::held`] the observation's label may begin: behind the indentation of its last line, or,
    /// behind JSON, behind all blanks.
    label_at: Option<usize>,
    max_markup: usize,
    json: JsonBody,
    /// The input is a text in quotes, which are no part of it.
    quoted: bool,
    /// Some of the text has gone out.
    begun: bool,
    open: bool,
    found: bool,
    drops_rest: bool,
}

impl ReactWalk {
    pub(super) fn new(rules: &CallRules<'_>) -> Self {
        Self {
            at: At::Name,
            name: String::new(),
            held: String::new(),
            label_at: None,
            max_markup: rules.max_markup,
            json: JsonBody::new(rules.repair, rules.max_depth),
            quoted: false,
            begun: false,
            open: false,
            found: false,
            drops_rest: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// In a string of arguments.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        if self.at == At::Json { self.json.flow() } else { None }
    }

    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// What was read behind JSON and is no observation.
    pub(super) fn rest(&self) -> &str {
        if self.found && !self.open { &self.held } else { "" }
    }

    /// Bytes of a text that are kept back.
    pub(super) fn kept(&self) -> usize {
        if self.open { self.held.len() } else { 0 }
    }

    /// An observation follows.
    pub(super) fn drops_rest(&self) -> bool {
        self.drops_rest
    }

    pub(super) fn feed(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Parsed {
        let mut at = 0;
        while let Some(character) = tail(text, at).chars().next() {
            let next = at + character.len_utf8();
            let taken = match self.at {
                At::Name => self.name(character, rules),
                At::Label => self.label(character, out),
                At::Before => self.before(character),
                At::Text => self.text(character, rules, out),
                At::After => self.after(character),
                At::Json => {
                    match self.json.feed(tail(text, at), &mut |text: &str| out(Piece::Arguments(text))) {
                        Fed::More => return Parsed::More,
                        Fed::Fault(len) => return Parsed::Stop(at + len),
                        Fed::Done(len) => {
                            self.end(CallEnd::Complete, out);
                            self.label_at = Some(0);
                            self.at = At::After;
                            return Parsed::CallEnded(at + len);
                        }
                    }
                }
                At::Done => None,
            };
            match taken {
                Some(true) => at = next,
                Some(false) => {}
                None => return Parsed::Stop(at),
            }
            if self.at == At::Done {
                return Parsed::End(at);
            }
        }
        Parsed::More
    }

    /// The text stops here: a text ends with it, JSON has to be whole but for its brackets.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        if !self.open {
            return None;
        }
        let whole = stopped
            && match self.at {
                At::Json => self.json.close(&mut |text: &str| out(Piece::Arguments(text))),
                _ => {
                    self.close_text(out);
                    true
                }
            };
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        self.end(end, out);
        Some(end)
    }

    fn end(&mut self, end: CallEnd, out: &mut impl FnMut(Piece<'_>)) {
        out(Piece::End(end));
        self.open = false;
    }

    /// One character of the name or behind it.
    fn name(&mut self, character: char, rules: &CallRules<'_>) -> Option<bool> {
        if character == '\n' {
            self.name = rules.tools.resolve(self.name.trim())?.to_owned();
            self.at = At::Label;
            return Some(true);
        }
        self.name.push(character);
        if self.name.len() > self.max_markup {
            return None;
        }
        let name = self.name.trim_start_matches([' ', '\t']);
        let may_be = rules.tools.may_become(name)
            || (character.is_ascii_whitespace() && rules.tools.resolve(name.trim()).is_some());
        may_be.then_some(true)
    }

    fn label(&mut self, character: char, out: &mut impl FnMut(Piece<'_>)) -> Option<bool> {
        if self.held.is_empty() && character.is_ascii_whitespace() {
            return Some(true);
        }
        self.held.push(character);
        if self.held == INPUT {
            self.held.clear();
            out(Piece::Start { name: &self.name, id: "" });
            self.open = true;
            self.found = true;
            self.at = At::Before;
        }
        INPUT.starts_with(self.held.as_str()).then_some(true)
    }

    fn before(&mut self, character: char) -> Option<bool> {
        if character.is_ascii_whitespace() {
            self.hold_blank(character);
            return Some(true);
        }
        self.at = if character == '{' { At::Json } else { At::Text };
        if character == '{' {
            self.held.clear();
        }
        self.quoted = character == '"';
        Some(self.quoted)
    }

    /// One character of a text: blanks, a quote that may be the last, and what may be the label are held.
    fn text(
        &mut self,
        character: char,
        rules: &CallRules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Option<bool> {
        let line = self.label_at.map(|at| tail(&self.held, at));
        if let Some(rest) = line.and_then(|line| RESULT.strip_prefix(line))
            && rest.starts_with(character)
        {
            self.held.push(character);
            if rest.len() == character.len_utf8() {
                self.held.clear();
                self.close_text(out);
                self.end(CallEnd::Complete, out);
                self.drops_rest = true;
                self.at = At::Done;
            }
            return Some(true);
        }
        let in_label = line.is_some_and(|line| !line.is_empty());
        let blank = character.is_ascii_whitespace();
        let waits = blank || (self.quoted && character == '"');
        let full = self.held.len() >= self.max_markup;
        if in_label || !waits || full {
            // On a line of nothing but blanks the label may still come.
            self.label_at =
                self.label_at.filter(|&at| !in_label && at == self.held.len() && blank).map(|_| 0);
            let held = std::mem::take(&mut self.held);
            self.content(if self.begun { &held } else { held.trim_start() }, rules, out);
        }
        if blank {
            self.hold_blank(character);
        } else if waits {
            self.held.push(character);
        } else {
            self.content(character.encode_utf8(&mut [0; 4]), rules, out);
        }
        Some(true)
    }

    /// Holds a blank of or before a text.
    fn hold_blank(&mut self, blank: char) {
        let indents = self.label_at == Some(self.held.len());
        if !self.begun && self.held.len() >= self.max_markup {
            // It would be taken off the text's beginning.
            self.held.clear();
        }
        self.held.push(blank);
        if indents || blank == '\n' {
            self.label_at = Some(self.held.len());
        }
    }

    fn content(&mut self, text: &str, rules: &CallRules<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if text.is_empty() {
            return;
        }
        let mut json = String::new();
        if !self.begun {
            json.push('{');
            quote_into(&mut json, rules.tools.text_parameter(&self.name).unwrap_or("input"));
            json.push_str(": \"");
        }
        self.begun = true;
        escape(text, &mut json);
        out(Piece::Arguments(&json));
    }

    /// The text has ended; there may have been none.
    fn close_text(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        out(Piece::Arguments(if self.begun { "\"}" } else { "{}" }));
    }

    /// One character behind JSON.
    fn after(&mut self, character: char) -> Option<bool> {
        let indents = character.is_ascii_whitespace() && self.label_at == Some(self.held.len());
        if indents && self.held.len() < self.max_markup {
            self.held.push(character);
            self.label_at = Some(self.held.len());
            return Some(true);
        }
        self.held.push(character);
        let label = tail(&self.held, self.label_at.unwrap_or_default());
        if label == RESULT {
            self.held.clear();
            self.drops_rest = true;
            self.at = At::Done;
        } else if !RESULT.starts_with(label) {
            self.held.pop();
            self.at = At::Done;
            return Some(false);
        }
        Some(true)
    }
}

//! [`ReactWalk`]: reads a call in the style of ReAct prompts, starting after `Action:`.
//!
//! ```text
//! Action: get_weather
//! Action Input: {"city": "Paris"}
//! Observation: …
//! ```
//!
//! `Action:` is ordinary text, so the name must be declared, and `Action Input:` must follow. The input is either JSON or text
//! up to the observation. Text becomes the tool's text parameter. The observation is always invented by the model.

use super::{
    body::JsonBody,
    broken::{Rest, Resumes},
    literal::quote_into,
    string_fast_path::StringFastPath,
    tag::json,
    text::tail,
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::wire::json::escape_str;

const INPUT: &str = "Action Input:";
pub(super) const RESULT: &str = "Observation:";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    /// Before or in `Action Input:`, whose start is in [`ReactWalk::held`].
    Label,
    Before,
    Json,
    Text,
    /// After JSON, where white space and `Observation:` may occur.
    After,
}

#[derive(Debug)]
pub(super) struct ReactWalk {
    at: At,
    name: String,
    /// A possible label, with the white space before it.
    held: String,
    /// The offset in [`ReactWalk::held`] at which the observation's label may begin, which is after the indentation
    /// of the last line.
    label_at: Option<usize>,
    max_markup: usize,
    json: JsonBody,
    /// Whether the input is text in quotes, which are not part of it.
    quoted: bool,
    begun: bool,
}

impl Walk for ReactWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let character = text.chars().next().unwrap_or_default();
        let taken = match self.at {
            At::Name => self.name(character, rules),
            At::Label => self.label(character, out),
            At::Before => Some(self.before(character)),
            At::Text => return self.text(character, rules, out),
            At::After => return self.after(text),
            At::Json => {
                let step = json(&mut self.json, text, out);
                if let Step::Whole(_) = step {
                    self.at = At::After;
                }
                return step;
            }
        };
        match taken {
            Some(true) => Step::Took(character.len_utf8()),
            Some(false) => Step::Took(0),
            None => Step::Stop(0),
        }
    }

    /// Ends the call because the message has ended. Text is complete at that point.
    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        stopped
            && match self.at {
                At::Json => self.json.close_last(&mut |text: &str| out(Piece::Arguments(text))),
                _ => {
                    self.close_text(out);
                    true
                }
            }
    }

    fn breaks(&mut self) -> Rest {
        self.json.breaks()
    }

    fn resume(&mut self) -> Resumes {
        self.at = At::After;
        Resumes::BeforeCloser
    }

    fn string(&self) -> Option<StringFastPath> {
        if self.at == At::Json { self.json.flow() } else { None }
    }

    fn kept(&self) -> usize {
        if matches!(self.at, At::Before | At::Text) { self.held.len() } else { 0 }
    }
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
        }
    }

    /// Reads one character of the name, or of what follows it up to the label.
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

    fn label(&mut self, character: char, out: &mut Out<'_>) -> Option<bool> {
        if self.held.is_empty() && character.is_ascii_whitespace() {
            return Some(true);
        }
        self.held.push(character);
        if self.held == INPUT {
            self.held.clear();
            out(Piece::Start { name: &self.name, id: "" });
            self.at = At::Before;
        }
        INPUT.starts_with(self.held.as_str()).then_some(true)
    }

    /// Reads one character between the label and the input. Returns whether it was part of that gap.
    fn before(&mut self, character: char) -> bool {
        if character.is_ascii_whitespace() {
            self.hold_blank(character);
            return true;
        }
        self.at = if character == '{' { At::Json } else { At::Text };
        if character == '{' {
            self.held.clear();
        }
        self.quoted = character == '"';
        self.quoted
    }

    /// Reads one character of the text. White space, a quote that may be the last one, and a possible label are
    /// held.
    fn text(&mut self, character: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let taken = character.len_utf8();
        let line = self.label_at.map(|at| tail(&self.held, at));
        if let Some(rest) = line.and_then(|line| RESULT.strip_prefix(line))
            && rest.starts_with(character)
        {
            self.held.push(character);
            if rest.len() == taken {
                self.held.clear();
                self.close_text(out);
                return Step::EndMessage(taken);
            }
            return Step::Took(taken);
        }
        let in_label = line.is_some_and(|line| !line.is_empty());
        let blank = character.is_ascii_whitespace();
        let waits = blank || (self.quoted && character == '"');
        let full = self.held.len() >= self.max_markup;
        if in_label || !waits || full {
            // The label may still follow if the line is blank so far.
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
        Step::Took(taken)
    }

    /// Holds white space in or before the text.
    fn hold_blank(&mut self, blank: char) {
        let indents = self.label_at == Some(self.held.len());
        if !self.begun && self.held.len() >= self.max_markup {
            // Leading white space would be trimmed anyway.
            self.held.clear();
        }
        self.held.push(blank);
        if indents || blank == '\n' {
            self.label_at = Some(self.held.len());
        }
    }

    fn content(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) {
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
        escape_str(&mut json, text);
        out(Piece::Arguments(&json));
    }

    fn close_text(&mut self, out: &mut Out<'_>) {
        out(Piece::Arguments(if self.begun { "\"}" } else { "{}" }));
    }

    /// Reads white space and the observation's label after JSON, or stops at text that is not part of the call.
    fn after(&self, text: &str) -> Step {
        let label = text.trim_ascii_start();
        let blank = text.len() - label.len();
        match label.get(..RESULT.len().min(label.len())) {
            _ if blank > self.max_markup => Step::End(0),
            Some(RESULT) => Step::EndMessage(blank + RESULT.len()),
            Some(begun) if RESULT.starts_with(begun) => Step::Hold,
            _ => Step::End(0),
        }
    }
}

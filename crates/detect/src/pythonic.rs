//! [`PythonWalk`]: reads calls in Python syntax: a list such as `[f(a=1), g()]`, or a single call.
//!
//! A call starts at its first argument, or at its end if it has none. In a list, a call without arguments must be
//! followed by text that continues the list, unless the list has a marker and the tool is declared. Values are read
//! by [`Literal`]. Positional arguments get their names from the tool's declaration. A dictionary may take the place of
//! all arguments.

mod action;

use super::{
    broken::{Brackets, Rest, Resumes},
    literal::{Argument, Fed, Literal, Notation, quote_into},
    string_fast_path::StringFastPath,
    text::tail,
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::{format::Python, tools::Types};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    /// Before a call in a list or, if `or_end` is set, the closing bracket.
    Item {
        or_end: bool,
    },
    Name,
    /// Before an argument or the end of the call.
    Argument,
    /// In a word that is a keyword or the start of a value.
    Keyword,
    /// After a word that is a keyword or the start of a value.
    KeywordEnd,
    /// After the sign between a keyword and its value.
    Assigned,
    Value,
    After,
    /// After text that may be a call without arguments.
    Doubtful,
    /// After a call in `print(…)`.
    Printed,
    Done,
}

#[derive(Debug)]
pub(super) struct PythonWalk {
    python: &'static Python,
    at: At,
    in_list: bool,
    in_print: bool,
    name: String,
    /// The function, if it is an action of the tool `name`.
    function: String,
    word: String,
    value: Literal,
    /// The value that is being read, if it is a point.
    point: Option<String>,
    /// Whether a dictionary contains all arguments.
    whole: bool,
    /// How many arguments there are so far, and how many of them have no keyword.
    arguments: usize,
    positional: usize,
    open: bool,
    found: bool,
}

impl Walk for PythonWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if self.at != At::Value {
            return self.token(text.chars().next().unwrap_or_default(), rules, out);
        }
        match self.feed(text, out) {
            Fed::More => Step::Took(text.len()),
            Fed::Hold(0) => Step::Hold,
            Fed::Hold(len) => Step::Took(len),
            Fed::Done(len) => {
                self.value_ended(out);
                self.at = At::After;
                Step::Took(len)
            }
            Fed::Fault(len) => Step::Stop(len),
        }
    }

    /// The call ends with its bracket, which may still be held together with the quote before it. If the model stopped,
    /// the bracket may be missing.
    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        let whole = match self.at {
            At::After => stopped,
            At::Value => {
                self.value.at_end();
                match self.feed(held, out) {
                    Fed::Done(len) => {
                        self.value_ended(out);
                        tail(held, len).trim_start().starts_with(')')
                    }
                    _ => stopped && self.value.is_outermost() && self.close_value(out),
                }
            }
            _ => false,
        };
        if whole {
            self.end(out);
        }
        whole
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        let whole = match self.at {
            At::After => true,
            At::Value => self.close_value(out),
            _ => false,
        };
        if whole {
            self.end(out);
        }
        whole
    }

    fn breaks(&mut self) -> Rest {
        let brackets = match self.at {
            At::Value => self.value.brackets(b"("),
            _ => Brackets::new(b"(".to_vec(), None),
        };
        Rest { brackets: Some(brackets), ..Rest::default() }
    }

    fn resume(&mut self) -> Resumes {
        self.open = false;
        if self.in_list {
            self.at = At::Item { or_end: true };
            return Resumes::BetweenCalls;
        }
        self.at = At::Done;
        Resumes::Never
    }

    fn string(&self) -> Option<StringFastPath> {
        if self.at == At::Value && self.point.is_none() { self.value.flow() } else { None }
    }

    fn kept(&self) -> usize {
        self.value.kept() + self.point.as_ref().map_or(0, String::len)
    }

    fn is_unfinished(&self, _held: &str) -> bool {
        self.found && self.in_list && matches!(self.at, At::Name)
    }

    fn is_in_call(&self) -> bool {
        self.found
    }
}

impl PythonWalk {
    pub(super) fn new(python: &'static Python, rules: &CallRules<'_>) -> Self {
        Self {
            python,
            at: At::Begin,
            in_list: false,
            in_print: false,
            name: String::new(),
            function: String::new(),
            word: String::new(),
            value: Literal::new(Notation::Python, rules.max_depth, rules.max_hold),
            point: None,
            whole: false,
            arguments: 0,
            positional: 0,
            open: false,
            found: false,
        }
    }

    /// Creates a reader for a single call, which starts after the bracket that follows the name.
    pub(super) fn in_call(name: &str, rules: &CallRules<'_>) -> Self {
        Self { at: At::Argument, name: name.to_owned(), ..Self::new(&Python::PLAIN, rules) }
    }

    /// Reads a piece of the current value.
    fn feed(&mut self, text: &str, out: &mut Out<'_>) -> Fed {
        let Self { value, point, .. } = self;
        value.feed(text, &mut |text: &str| put(point, text, out))
    }

    fn close_value(&mut self, out: &mut Out<'_>) -> bool {
        let Self { value, point, .. } = self;
        let whole = value.close(&mut |text: &str| put(point, text, out));
        self.value_ended(out);
        whole
    }

    fn value_ended(&mut self, out: &mut Out<'_>) {
        if let Some(point) = self.point.take() {
            out(Piece::Arguments(&action::coordinates(&point).unwrap_or(point)));
        }
    }

    pub(super) fn may_begin(character: char) -> bool {
        character.is_alphabetic() || matches!(character, '_' | '[')
    }

    fn token(&mut self, character: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let blank = character.is_ascii_whitespace();
        match (self.at, character) {
            (At::Name, _) => self.name(character, rules),
            (At::Keyword, _) => self.keyword(character, rules),
            _ if blank => Step::Took(1),
            (At::Begin, '[') => {
                self.in_list = true;
                self.at = At::Item { or_end: false };
                Step::Took(1)
            }
            (At::Item { or_end: true }, ']') => self.finished(),
            (At::Item { or_end: true }, ',' | ';') => Step::Took(1),
            (At::Begin | At::Item { .. }, c) if c.is_alphabetic() || c == '_' => self.begin_call(),
            (At::Argument, _) => self.argument(character, rules, out),
            (At::KeywordEnd, '=' | ':') => {
                self.at = At::Assigned;
                Step::Took(1)
            }
            (At::Assigned, c) if begins_value(c) => {
                let key = std::mem::take(&mut self.word);
                self.begin_value(&key, true, rules, out);
                Step::Took(0)
            }
            (At::KeywordEnd, _) => self.word_is_value(rules, out),
            (At::After, ',') if !self.whole => {
                self.at = At::Argument;
                Step::Took(1)
            }
            (At::After, ')') => self.call_ended(out),
            (At::Doubtful, ',' | ']') => {
                self.start(out);
                self.end(out);
                self.at = At::Item { or_end: true };
                if character == ']' { self.finished() } else { Step::Whole(1) }
            }
            (At::Printed, ')') => {
                self.at = At::Done;
                Step::End(1)
            }
            (At::Printed | At::Done, _) => Step::End(0),
            _ => Step::Stop(0),
        }
    }

    /// Handles the closing bracket of the list.
    fn finished(&mut self) -> Step {
        self.at = At::Done;
        Step::End(1)
    }

    fn begin_call(&mut self) -> Step {
        self.name.clear();
        self.arguments = 0;
        self.positional = 0;
        self.whole = false;
        self.at = At::Name;
        Step::Took(0)
    }

    /// Reads one character of a name, or the bracket after it.
    fn name(&mut self, character: char, rules: &CallRules<'_>) -> Step {
        if character == '(' {
            return self.name_ended(rules);
        }
        let blank = matches!(character, ' ' | '\t');
        let behind = self.name.ends_with([' ', '\t']);
        let legal = character.is_alphanumeric() || matches!(character, '_' | '.' | '-' | '/' | ':');
        if !(blank || (legal && !behind)) || self.name.len() >= rules.max_markup {
            return Step::Stop(0);
        }
        self.name.push(character);
        // If only the name identifies a call, text must be released as soon as it can no longer become a declared
        // name.
        let refused = self.in_list && !rules.marked && !rules.may_become_name_in_call(self.name.trim_end());
        if refused { Step::Stop(0) } else { Step::Took(character.len_utf8()) }
    }

    fn name_ended(&mut self, rules: &CallRules<'_>) -> Step {
        let written = self.name.trim_end();
        if self.python.prints
            && !self.in_print
            && written == "print"
            && rules.tools.resolve(written).is_none()
        {
            self.in_print = true;
            self.at = At::Begin;
            return Step::Took(1);
        }
        let Some((name, is_action)) = self.called(written, rules) else { return Step::Stop(0) };
        let function = if is_action { written } else { "" };
        (self.function, self.name) = (function.to_owned(), name.to_owned());
        self.at = At::Argument;
        Step::Took(1)
    }

    /// Returns the tool that `written` calls, and whether it is an action of that tool.
    fn called<'n>(&self, written: &'n str, rules: &CallRules<'_>) -> Option<(&'n str, bool)> {
        match &self.python.action {
            None => tool(written, self.python.method, rules).map(|name| (name, false)),
            Some(action) => {
                let declared = rules.tools.resolve(written).map(|name| (name, false));
                declared.or_else(|| rules.tools.resolve(action.tool).map(|name| (name, true)))
            }
        }
    }

    fn start(&mut self, out: &mut Out<'_>) {
        if self.open {
            return;
        }
        out(Piece::Start { name: &self.name, id: "" });
        (self.open, self.found) = (true, true);
        if let Some(action) = self.python.action.filter(|_| !self.function.is_empty()) {
            let mut opening = String::from("{");
            quote_into(&mut opening, action.key);
            opening.push_str(": ");
            quote_into(&mut opening, &self.function);
            out(Piece::Arguments(&opening));
            self.arguments = 1;
        }
    }

    /// Reads the first character of an argument, or the end of the call.
    fn argument(&mut self, character: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if character == ')' {
            let certain = rules.marked && rules.tools.resolve(&self.name).is_some();
            if self.in_list && !self.open && !certain {
                self.at = At::Doubtful;
                return Step::Took(1);
            }
            self.start(out);
            return self.call_ended(out);
        }
        self.word.clear();
        if character == '{' && !self.open && !self.may_take_object(rules) {
            self.start(out);
            self.value = Literal::new(Notation::Python, rules.max_depth, rules.max_hold);
            (self.at, self.whole) = (At::Value, true);
            return Step::Took(0);
        }
        if character.is_alphabetic() || character == '_' {
            self.at = At::Keyword;
            return Step::Took(0);
        }
        if begins_value(character) { self.word_is_value(rules, out) } else { Step::Stop(0) }
    }

    /// Whether a dictionary may be the first argument. Otherwise it contains all arguments.
    fn may_take_object(&self, rules: &CallRules<'_>) -> bool {
        let first = rules.tools.property(&self.name, 0);
        let types = first.and_then(|key| rules.tools.types(&self.name, key));
        types.is_some_and(|types| types.has(Types::OBJECT) || types.has(Types::JSON))
    }

    fn keyword(&mut self, character: char, rules: &CallRules<'_>) -> Step {
        if !(character.is_alphanumeric() || character == '_' || character == '-') {
            self.at = At::KeywordEnd;
            return Step::Took(0);
        }
        self.word.push(character);
        if self.word.len() > rules.max_markup { Step::Stop(0) } else { Step::Took(character.len_utf8()) }
    }

    /// Handles a word that is not a keyword, which begins a positional value.
    fn word_is_value(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if !self.open && !matches!(self.word.as_str(), "" | "True" | "False" | "None") {
            return Step::Stop(0);
        }
        let declared = rules.tools.property(&self.name, self.positional).map(str::to_owned);
        let key = declared.unwrap_or_else(|| format!("arg{}", self.positional));
        self.positional += 1;
        self.begin_value(&key, false, rules, out);
        let word = std::mem::take(&mut self.word);
        match self.feed(&word, out) {
            Fed::More => Step::Took(0),
            Fed::Hold(_) | Fed::Done(_) | Fed::Fault(_) => Step::Stop(0),
        }
    }

    fn begin_value(&mut self, key: &str, keyword: bool, rules: &CallRules<'_>, out: &mut Out<'_>) {
        self.start(out);
        let action = self.python.action.filter(|_| !self.function.is_empty());
        let point = action.and_then(|action| (action.point)(&self.function, key));
        self.point = point.map(|_| String::new());
        let mut opening = String::from(if self.arguments == 0 { "{" } else { ", " });
        quote_into(&mut opening, point.unwrap_or(key));
        opening.push_str(": ");
        out(Piece::Arguments(&opening));
        self.arguments += 1;
        let argument = Argument { keyword, in_list: self.in_list, in_print: self.in_print };
        self.value = Literal::new(Notation::Python, rules.max_depth, rules.max_hold).argument(argument);
        self.at = At::Value;
    }

    fn call_ended(&mut self, out: &mut Out<'_>) -> Step {
        self.end(out);
        if self.in_list {
            self.at = At::Item { or_end: true };
            return Step::Whole(1);
        }
        if self.in_print {
            self.at = At::Printed;
            return Step::Whole(1);
        }
        self.at = At::Done;
        Step::End(1)
    }

    fn end(&mut self, out: &mut Out<'_>) {
        if !self.whole {
            out(Piece::Arguments(if self.arguments == 0 { "{}" } else { "}" }));
        }
        self.open = false;
    }
}

/// Whether a value may begin with this character. A call begins with its first value.
fn begins_value(character: char) -> bool {
    character.is_alphanumeric() || "\"'([{+-._".contains(character)
}

/// Sends a piece of a value, or adds it to the point that is being read.
fn put(point: &mut Option<String>, text: &str, out: &mut Out<'_>) {
    match point {
        Some(point) => point.push_str(text),
        None => out(Piece::Arguments(text)),
    }
}

/// Returns the tool that `written` calls. It has that name, the part before `method`, or the last part of a dotted
/// name.
fn tool<'n>(written: &'n str, method: &str, rules: &CallRules<'_>) -> Option<&'n str> {
    let called = written.strip_suffix(method)?;
    let last = || called.rsplit_once('.').and_then(|(_, last)| rules.tools.resolve(last));
    rules.tools.resolve(called).or_else(last).or_else(|| rules.name_in_call(called))
}

#[cfg(test)]
mod tests;

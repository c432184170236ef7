//! [`Notes`]: how a follower records its observations.

use super::{
    field::{Field, decoded},
    sample::{Outcome, Sample, Token, TokenKind},
};
use crate::fixture::postmark::Finder;

/// Finds a stream's postmarks, with a separate search for each kind of delta.
#[derive(Debug, Default)]
pub(crate) struct Finders {
    text: Finder,
    reasoning: Finder,
    arguments: Finder,
}

/// The sample being recorded, with the current location and time.
pub(crate) struct Notes<'n> {
    pub(crate) sample: &'n mut Sample,
    pub(crate) finders: &'n mut Finders,
    /// The time at which the bytes were read.
    pub(crate) at: u64,
    /// Number of the event, counted from 1.
    pub(crate) frame: u64,
}

impl Notes<'_> {
    /// Records a violation of `rule`.
    pub(crate) fn breaks(&mut self, rule: &str) {
        if self.is_new(rule) {
            self.sample.violations.push(format!("{rule} (frame {})", self.frame));
        }
    }

    /// Records a violation of `rule` by the value `what`.
    pub(crate) fn breaks_by(&mut self, rule: &str, what: &str) {
        if self.is_new(rule) {
            let what: String = what.chars().take(80).collect();
            self.sample.violations.push(format!("{rule} ({what}, frame {})", self.frame));
        }
    }

    /// Records a violation unless `holds`.
    pub(crate) fn holds(&mut self, holds: bool, rule: &str) {
        if !holds {
            self.breaks(rule);
        }
    }

    fn is_new(&self, rule: &str) -> bool {
        !self.sample.violations.iter().any(|told| super::rule(told) == rule)
    }

    /// Records the text in a member, if the member has a value.
    pub(crate) fn content(&mut self, kind: TokenKind, field: Field<'_>, scratch: &mut String) {
        match field.text() {
            Some(body) => self.token(kind, decoded(body, scratch)),
            None => self.holds(!field.has_value(), "content is not a string"),
        }
    }

    /// Records a delta with the decoded `text`: one token for each postmark in it, or one token if there are no
    /// postmarks, or none if the text is empty.
    pub(crate) fn token(&mut self, kind: TokenKind, text: &str) {
        if text.is_empty() {
            return;
        }
        let finder = match kind {
            TokenKind::Text => &mut self.finders.text,
            TokenKind::Reasoning => &mut self.finders.reasoning,
            TokenKind::Arguments => &mut self.finders.arguments,
        };
        let (at, tokens) = (self.at, &mut self.sample.tokens);
        let before = tokens.len();
        finder.push(text, |postmark| tokens.push(Token { at, kind, postmark: Some(postmark) }));
        if tokens.len() == before {
            tokens.push(Token { at, kind, postmark: None });
        }
    }

    /// Records that a call's name is known.
    pub(crate) fn call_begins(&mut self) {
        self.sample.first_call.get_or_insert(self.at);
        self.sample.last_call = Some(self.at);
    }

    /// Records a piece of a call with the decoded `arguments`.
    pub(crate) fn call_goes_on(&mut self, arguments: &str) {
        if !arguments.is_empty() {
            self.sample.last_call = Some(self.at);
            self.token(TokenKind::Arguments, arguments);
        }
    }

    /// Records the final event of the stream.
    pub(crate) fn ends(&mut self) {
        self.end(Outcome::Done);
    }

    /// Records an error in the stream.
    pub(crate) fn fails(&mut self, message: String) {
        self.end(Outcome::Failed(message));
    }

    /// Records the outcome, unless there is one already.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        if self.sample.outcome == Outcome::Open {
            self.sample.outcome = outcome;
            self.sample.end = self.at;
        }
    }
}

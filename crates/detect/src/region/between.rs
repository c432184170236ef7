//! Reads what precedes, separates and follows the values of a container.

use std::iter;

use super::{Between, Phase, Region, RegionKind};
use crate::{
    fence::Fence,
    format::{Tag, TagKind},
    pythonic::PythonWalk,
    tag::MAX_BLANK,
    walk::CallRules,
};

impl Region {
    /// Whether a call in a code fence may begin with this character.
    fn begins_code(&self, character: char) -> bool {
        let code = matches!(self.container, RegionKind::Fence(Fence { code: Some(_), .. }));
        code && PythonWalk::may_begin(character)
    }

    /// Reads one character before the first value. It may continue `markup`.
    pub(super) fn before(&self, markup: &str, character: char, rules: &CallRules<'_>) -> Between {
        let in_fence = markup.starts_with('`');
        if self.may_be_empty
            && let Some(between) = self.empty_list(markup, character)
        {
            return between;
        }
        match character {
            _ if markup.is_empty() && self.begins_code(character) => return Between::Value,
            '{' | '[' if markup.is_empty() || in_fence => return Between::Value,
            '\n' if markup.is_empty() || in_fence => return Between::Taken,
            ' ' | '\t' | '\r' if markup.is_empty() => return Between::Taken,
            _ => {}
        }
        let RegionKind::Tag(tag) = self.container else { return Between::Foreign };
        let fence = if markup.is_empty() {
            rules.marked && character == '`'
        } else {
            in_fence && (matches!(character, '`' | '_') || character.is_ascii_alphanumeric())
        };
        let html = tag.kind == TagKind::Html;
        let goes_on = match () {
            () if fence || in_fence => fence,
            () if html => code_goes_on(markup, character),
            () => begins(markup, character, self.framing(tag)),
        };
        if !goes_on || markup.len() >= rules.max_markup {
            return Between::Foreign;
        }
        let is = |whole: &str| whole.strip_prefix(markup).is_some_and(|rest| rest.chars().eq([character]));
        if self.may_be_empty && is(tag.close) {
            return Between::Closed;
        }
        let whole = if html {
            character == '>'
        } else {
            is(tag.open) || tag.special().inner.iter().any(|inner| is(inner))
        };
        if whole { Between::Taken } else { Between::Begins }
    }

    /// Returns the markers that may precede the first value.
    fn framing(&self, tag: &'static Tag) -> impl Iterator<Item = &'static &'static str> {
        let close = Some(&tag.close).filter(|_| self.may_be_empty);
        iter::once(&tag.open).chain(tag.special().inner).chain(close)
    }

    /// Reads one character of a list before the first value. Returns `None` if it is not part of a list that may be
    /// empty.
    fn empty_list(&self, markup: &str, character: char) -> Option<Between> {
        let RegionKind::Tag(tag) = self.container else { return None };
        match character {
            '[' if markup.is_empty() => Some(Between::Begins),
            _ if !markup.starts_with('[') => None,
            ']' if tag.close.is_empty() => Some(Between::Closed),
            ']' => Some(Between::Taken),
            ' ' | '\t' | '\r' | '\n' if markup.len() < MAX_BLANK => Some(Between::Begins),
            _ => Some(Between::Value),
        }
    }

    /// Reads one character after a value. It may continue `markup`.
    pub(super) fn after(&mut self, markup: &str, character: char, rules: &CallRules<'_>) -> Between {
        if self.begins_opener(markup) {
            let goes_on = self.begins_opener(&format!("{markup}{character}"));
            return if goes_on { Between::Foreign } else { Between::Value };
        }
        if self.begins_closer(markup) {
            let between = self.closer(markup, character);
            return if between == Between::Foreign { Between::Value } else { between };
        }
        if !markup.is_empty() {
            return self.closer(markup, character);
        }
        if self.begins_code(character) {
            return Between::Value;
        }
        match (self.container, character) {
            (_, ' ' | '\t' | '\r' | '\n') => Between::Taken,
            (RegionKind::Bare, ';') if !self.joined => {
                self.joined = true;
                Between::Taken
            }
            (RegionKind::Bare, '{' | '[') if self.joined => Between::Value,
            (RegionKind::Bare, _) => Between::Foreign,
            (_, '{' | '[') => {
                let bracket = if character == '{' { "{" } else { "[" };
                let marker = self.begins_opener(bracket) || self.begins_closer(bracket);
                if marker { Between::Begins } else { Between::Value }
            }
            (RegionKind::Fence(fence), tick) if tick == char::from(fence.tick) => {
                self.phase = Phase::Ticks(1);
                Between::Taken
            }
            (RegionKind::Tag(_), _) => match (self.closer(markup, character), character) {
                (Between::Foreign, '}' | ']' | ',' | ';') if rules.repair => Between::Taken,
                (Between::Foreign, '`') if rules.marked => Between::Taken,
                (between, _) => between,
            },
            _ => Between::Foreign,
        }
    }

    /// Whether `markup` begins another opener. After a call without a closer, there may be an opener that begins
    /// like a value, so the next character decides.
    pub(super) fn begins_opener(&self, markup: &str) -> bool {
        let RegionKind::Tag(tag) = self.container else { return false };
        tag.close.is_empty() && markup.starts_with(['{', '[']) && tag.open.starts_with(markup)
    }

    /// Whether `markup` begins a closer that begins like a value, so that the next character decides.
    fn begins_closer(&self, markup: &str) -> bool {
        let RegionKind::Tag(tag) = self.container else { return false };
        markup.starts_with(['{', '[']) && tag.close.starts_with(markup)
    }

    /// Reads one character of a possible closer or of meaningless markup.
    fn closer(&self, markup: &str, character: char) -> Between {
        let RegionKind::Tag(tag) = self.container else { return Between::Foreign };
        let html = tag.kind == TagKind::Html;
        let mut markup = markup.to_owned();
        markup.push(character);
        if html {
            markup.make_ascii_lowercase();
        }
        let inner = if html { &["</code>"] } else { tag.special().inner };
        if tag.open == tag.close
            && let Some(rest) = markup.strip_prefix(tag.close)
        {
            return another_call(rest, inner);
        }
        match () {
            () if markup == tag.close => Between::Closed,
            () if inner.contains(&markup.as_str()) => Between::Taken,
            () if iter::once(&tag.close).chain(inner).any(|literal| literal.starts_with(&markup)) => {
                Between::Begins
            }
            () => Between::Foreign,
        }
    }
}

/// What the text behind a marker means that both closes a call and opens the next one, which begins with one of
/// `words`.
fn another_call(text: &str, words: &[&str]) -> Between {
    let word = text.trim_start();
    match () {
        () if words.contains(&word) => Between::Taken,
        () if text.len() - word.len() > MAX_SPACE => Between::Foreign,
        () if words.iter().any(|known| known.starts_with(word)) => Between::Begins,
        () => Between::Foreign,
    }
}

/// The maximum length of white space between such a marker and the next call, in bytes.
const MAX_SPACE: usize = 16;

fn begins<'l>(markup: &str, character: char, mut literals: impl Iterator<Item = &'l &'static str>) -> bool {
    literals.any(|literal| literal.strip_prefix(markup).is_some_and(|rest| rest.starts_with(character)))
}

fn code_goes_on(markup: &str, character: char) -> bool {
    const CODE: &str = "<code";
    match CODE.chars().nth(markup.len()) {
        Some(expected) => expected == character.to_ascii_lowercase(),
        None if markup.len() == CODE.len() => matches!(character, '>' | ' ' | '\t' | '\n'),
        None => character.is_ascii() && character != '<',
    }
}

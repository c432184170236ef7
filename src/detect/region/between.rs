//! What stands before, between and behind the values of a container.

use std::iter;

use super::{Between, Phase, Region, RegionKind};
use crate::{
    detect::{envelope::CallRules, fence::Fence, pythonic::PythonWalk},
    format::TagKind,
};

impl Region {
    /// In a fence for code a call in it begins with this.
    fn begins_code(&self, character: char) -> bool {
        let code = matches!(self.container, RegionKind::Fence(Fence { code: Some(_), .. }));
        code && self.markup.is_empty() && PythonWalk::may_begin(character)
    }

    /// One character before the first value.
    pub(super) fn before(&mut self, character: char, rules: &CallRules<'_>) -> Between {
        if self.begins_code(character) {
            return Between::Value;
        }
        let in_fence = self.markup.starts_with('`');
        if self.markup.is_empty() || in_fence {
            match character {
                '{' | '[' => return Between::Value,
                '\n' => {
                    self.markup.clear();
                    return Between::Taken;
                }
                ' ' | '\t' | '\r' if self.markup.is_empty() => return Between::Taken,
                _ => {}
            }
        }
        let RegionKind::Tag(tag) = self.container else { return Between::Foreign };
        let fence = if self.markup.is_empty() {
            rules.marked && character == '`'
        } else {
            in_fence && (matches!(character, '`' | '_') || character.is_ascii_alphanumeric())
        };
        let goes_on = match tag.kind {
            _ if fence || in_fence => fence,
            TagKind::Html => code_goes_on(&self.markup, character),
            _ => begins(&self.markup, character, iter::once(&tag.open).chain(tag.special().inner)),
        };
        if !goes_on || self.markup.len() >= rules.max_markup {
            return Between::Foreign;
        }
        self.markup.push(character);
        let whole = match tag.kind {
            TagKind::Html => character == '>',
            _ => self.markup == tag.open || tag.special().inner.contains(&self.markup.as_str()),
        };
        if whole {
            self.markup.clear();
        }
        Between::Taken
    }

    /// One character after a value.
    pub(super) fn after(&mut self, character: char, rules: &CallRules<'_>) -> Between {
        if self.begins_opener(&self.markup) {
            let goes_on = self.begins_opener(&format!("{}{character}", self.markup));
            return if goes_on { Between::Foreign } else { Between::Value };
        }
        if !self.markup.is_empty() {
            return self.closer(character);
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
            (_, '{' | '[') if !self.broken => {
                let first = character.to_string();
                if !self.begins_opener(&first) {
                    return Between::Value;
                }
                self.markup = first;
                Between::Taken
            }
            (RegionKind::Fence(fence), tick) if tick == char::from(fence.tick) => {
                self.phase = Phase::Ticks(1);
                Between::Taken
            }
            (RegionKind::Tag(_), _) => match (self.closer(character), character) {
                (Between::Foreign, '}' | ']' | ',' | ';') if rules.repair => Between::Taken,
                (Between::Foreign, '`') if rules.marked => Between::Taken,
                (between, _) => between,
            },
            _ => Between::Foreign,
        }
    }

    /// Calls that end without a closer may be followed by their opener again, which begins as a value does: the
    /// character behind it tells.
    pub(super) fn begins_opener(&self, markup: &str) -> bool {
        let RegionKind::Tag(tag) = self.container else { return false };
        tag.close.is_empty() && markup.starts_with(['{', '[']) && tag.open.starts_with(markup)
    }

    /// One character of what may be the closer, or markup that means nothing.
    pub(super) fn closer(&mut self, character: char) -> Between {
        let RegionKind::Tag(tag) = self.container else { return Between::Foreign };
        let html = tag.kind == TagKind::Html;
        let character = if html { character.to_ascii_lowercase() } else { character };
        let inner = if html { &["</code>"] } else { tag.special().inner };
        if !begins(&self.markup, character, iter::once(&tag.close).chain(inner)) {
            return Between::Foreign;
        }
        self.markup.push(character);
        let (closes, whole) = (self.markup == tag.close, inner.contains(&self.markup.as_str()));
        if closes || whole {
            self.markup.clear();
        }
        if closes { Between::Closed } else { Between::Taken }
    }
}

/// Whether `markup` and `character` begin one of `literals`.
fn begins<'l>(markup: &str, character: char, mut literals: impl Iterator<Item = &'l &'static str>) -> bool {
    literals.any(|literal| literal.strip_prefix(markup).is_some_and(|rest| rest.starts_with(character)))
}

/// Whether `markup` and `character` may be a `<code …>` tag.
fn code_goes_on(markup: &str, character: char) -> bool {
    const CODE: &str = "<code";
    match CODE.chars().nth(markup.len()) {
        Some(expected) => expected == character.to_ascii_lowercase(),
        None if markup.len() == CODE.len() => matches!(character, '>' | ' ' | '\t' | '\n'),
        None => character.is_ascii() && character != '<',
    }
}

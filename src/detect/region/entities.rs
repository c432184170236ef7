//! JSON in an HTML element, in which quotes and their kin may be written as entities: `{&quot;name&quot;: …}`.
//!
//! The first visible character behind the opening brackets tells: an `&` cannot stand there in JSON, and from then on
//! every entity is the character that it stands for. Elsewhere an entity is what it is, a string's text.

use super::{Container, Passed, Region};
use crate::{
    detect::{
        envelope::{Piece, Rules},
        tag::ENTITIES,
        text::{head, tail},
    },
    format::TagKind,
};

/// How a value's JSON is spelled.
#[derive(Debug, Default)]
pub(super) enum Spelling {
    /// Nothing but opening brackets has been read.
    #[default]
    Unknown,
    Plain,
    /// With entities; the one that is being read.
    Escaped(String),
}

/// Longest entity, in bytes.
const MAX_ENTITY: usize = 10;

impl Region {
    /// Walks the value, as [`Region::value`] does, once its entities have been read.
    pub(super) fn spelled_value(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let html = matches!(self.container, Container::Tag(tag) if tag.kind == TagKind::Html);
        let run = match &mut self.spelling {
            Spelling::Unknown if html => {
                let visible = text.find(|c: char| !matches!(c, '{' | '[') && !c.is_ascii_whitespace());
                match visible.and_then(|at| tail(text, at).chars().next()) {
                    Some('&') => self.spelling = Spelling::Escaped(String::new()),
                    Some(_) => self.spelling = Spelling::Plain,
                    None => {}
                }
                visible
            }
            Spelling::Unknown | Spelling::Plain => None,
            Spelling::Escaped(entity) if entity.is_empty() => text.find('&'),
            Spelling::Escaped(_) => Some(0),
        };
        match (run, &mut self.spelling) {
            (Some(0), Spelling::Escaped(entity)) => {
                // The source is no JSON: should this be no call, nothing tells where it would end.
                self.scanner = None;
                let Some(character) = text.chars().next() else { return (0, None) };
                entity.push(character);
                let goes_on = character.is_ascii_alphanumeric() || matches!(character, '&' | '#');
                if goes_on && entity.len() < MAX_ENTITY {
                    return (character.len_utf8(), None);
                }
                let entity = std::mem::take(entity);
                let decoded = meaning(&entity).map_or(entity, String::from);
                (character.len_utf8(), self.value(&decoded, rules, out).1)
            }
            (Some(run), _) if run > 0 => self.value(head(text, run), rules, out),
            _ => self.value(text, rules, out),
        }
    }
}

/// The character that an entity stands for.
fn meaning(entity: &str) -> Option<char> {
    let named = ENTITIES.iter().find(|(name, _)| *name == entity).map(|(_, character)| *character);
    let number = || {
        let digits = entity.strip_prefix("&#")?.strip_suffix(';')?;
        let code = match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        code.ok().and_then(char::from_u32)
    };
    named.or_else(number)
}

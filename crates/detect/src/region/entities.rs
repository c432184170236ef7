//! [`Entities`]: JSON escaped as HTML in an HTML element, `{&quot;name&quot;: …}`, unescaped before it is
//! read.
//! The first quotation mark shows whether the value is escaped. If it is written as an entity, all entities
//! from there on are decoded; otherwise none are, since arguments may well mention entities.

use crate::{
    pattern::{Fit, fit},
    tag::ENTITIES,
    text::{boundary_from, head},
};

/// Number of bytes that are searched for the first quotation mark in one step.
const AHEAD: usize = 64;

/// A quotation mark as a numeric character reference.
const QUOTE: (&str, char) = ("&#34;", '"');

/// The beginning of a text.
pub(super) enum Part<'t> {
    /// Literal text.
    Plain(&'t str),
    /// An entity may begin here.
    Begins,
    /// An entity of this many bytes that stands for this character.
    Entity(usize, char),
}

/// Decodes the entities of one value.
#[derive(Debug, Default)]
pub(super) struct Entities {
    /// Whether the first quotation mark was an entity.
    escaped: Option<bool>,
}

impl Entities {
    /// Whether it is certain that the value is not written with entities.
    pub(super) fn are_none(&self) -> bool {
        self.escaped == Some(false)
    }

    /// The first part of `text`, which must not be empty.
    pub(super) fn next<'t>(&mut self, text: &'t str) -> Part<'t> {
        if self.escaped.is_none() {
            // Searched in short stretches, because the value may end long before its first quotation mark.
            let text = head(text, boundary_from(text, AHEAD));
            let first = text.bytes().find(|byte| matches!(byte, b'"' | b'&'));
            self.escaped = first.map(|byte| byte == b'&');
            if first.is_none() {
                return Part::Plain(text);
            }
        }
        if self.escaped != Some(true) {
            return Part::Plain(text);
        }
        match text.find('&') {
            Some(0) => {}
            plain => return Part::Plain(head(text, plain.unwrap_or(text.len()))),
        }
        let mut part = Part::Plain(head(text, 1));
        for (entity, meant) in ENTITIES.into_iter().chain([QUOTE]) {
            match fit(entity, text) {
                Fit::Whole(len) => return Part::Entity(len, meant),
                Fit::Begins => part = Part::Begins,
                Fit::No => {}
            }
        }
        part
    }
}

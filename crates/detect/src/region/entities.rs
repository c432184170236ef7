//! [`Entities`]: unescapes JSON that was written with entities inside an HTML element, such as
//! `{&quot;name&quot;: …}`.
//!
//! The first quotation mark shows whether the value is escaped. If that mark is an entity, it and all later
//! entities are decoded. Otherwise none are, since arguments may well contain entities.

use crate::{
    pattern::{Fit, fit},
    tag::ENTITIES,
    text::{boundary_from, head},
};

/// How many bytes are searched for the first quotation mark in one step.
const AHEAD: usize = 64;

/// A quotation mark as a numeric character reference.
const QUOTE: (&str, char) = ("&#34;", '"');

pub(super) enum Part<'t> {
    Plain(&'t str),
    Begins,
    /// An entity of this many bytes, which stands for this character.
    Entity(usize, char),
}

#[derive(Debug, Default)]
pub(super) struct Entities {
    /// Whether the first quotation mark was an entity, if it has arrived.
    escaped: Option<bool>,
}

impl Entities {
    /// Whether the value is known not to be escaped.
    pub(super) fn are_none(&self) -> bool {
        self.escaped == Some(false)
    }

    /// Returns the first part of `text`, which must not be empty.
    pub(super) fn next<'t>(&mut self, text: &'t str) -> Part<'t> {
        if self.escaped.is_none() {
            // Searched in short steps, since the value may end long before its first quotation mark.
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

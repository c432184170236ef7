//! [`Entities`]: JSON in an HTML element that was escaped as HTML, `{&quot;name&quot;: …}`, unescaped on its way in.
//!
//! The first quotation mark shows whether it was: an entity, or the mark itself. From an entity on all are read;
//! otherwise none is, since arguments may well mention them.

use crate::detect::{
    pattern::{Fit, fit},
    tag::ENTITIES,
    text::{boundary_from, head},
};

/// How far the first quotation mark is looked for at a time, in bytes.
const AHEAD: usize = 64;

/// A quotation mark by its number.
const QUOTE: (&str, char) = ("&#34;", '"');

/// What the text begins with.
pub(super) enum Part<'t> {
    /// This stands for itself.
    Plain(&'t str),
    /// An entity may begin here.
    Begins,
    /// An entity of this many bytes stands for a character.
    Entity(usize, char),
}

/// The entities of one value.
#[derive(Debug, Default)]
pub(super) struct Entities {
    /// The first quotation mark was an entity, or was not.
    escaped: Option<bool>,
}

impl Entities {
    /// The value is not written with entities.
    pub(super) fn are_none(&self) -> bool {
        self.escaped == Some(false)
    }

    /// What `text` begins with, which is not empty.
    pub(super) fn next<'t>(&mut self, text: &'t str) -> Part<'t> {
        if self.escaped.is_none() {
            // Looked for a stretch at a time: the value may stop long before its first quotation mark.
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

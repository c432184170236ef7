//! [`Entities`]: JSON in an HTML element that was escaped as HTML, `{&quot;name&quot;: …}`, unescaped on its way in.
//!
//! Whether it was is told by its first quotation mark: an entity, or the mark itself. From an entity on all are read;
//! otherwise none is, since arguments may well speak of them.

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
    /// So many bytes may be of an entity; they are held.
    Open(usize),
    /// So many bytes end an entity that stands for this; what came of it before is held.
    Whole(usize, char),
    /// So many bytes were taken, and what is held is no entity.
    None(usize),
}

/// The entities of one value.
#[derive(Debug, Default)]
pub(super) struct Entities {
    /// The first quotation mark was an entity, or was none.
    escaped: Option<bool>,
    /// What may be an entity.
    pub(super) held: String,
}

impl Entities {
    /// The value is no escaped one.
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
        if self.held.is_empty() {
            match text.find('&') {
                Some(0) => {}
                plain => return Part::Plain(head(text, plain.unwrap_or(text.len()))),
            }
        }
        let mut taken = 0;
        for character in text.chars() {
            self.held.push(character);
            let mut begins = false;
            for (entity, meant) in ENTITIES.into_iter().chain([QUOTE]) {
                match fit(entity, &self.held) {
                    Fit::Whole(_) => return Part::Whole(taken + character.len_utf8(), meant),
                    fit => begins |= fit == Fit::Begins,
                }
            }
            if !begins {
                self.held.pop();
                return Part::None(taken);
            }
            taken += character.len_utf8();
        }
        Part::Open(taken)
    }
}

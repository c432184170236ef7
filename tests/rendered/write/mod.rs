//! The renderers: each writes calls down as a format's models do, after the catalogue of formats (formats 1), and knows
//! nothing of the tables that they are found by.

mod elements;
mod header;
mod json;
mod params;
mod plain;
mod python;

use crate::{
    page::Page,
    scene::{Carries, Group, Scene},
};

/// Writes calls in one format.
pub(crate) struct Renderer {
    pub(crate) name: &'static str,
    pub(crate) carries: Carries,
    pub(crate) write: fn(&Group, &mut Page),
}

impl Renderer {
    pub(crate) fn page(&self, scene: &Scene) -> Page {
        Page::of(scene, self.carries.reasoning, self.write)
    }
}

const FAMILIES: &[&[Renderer]] =
    &[json::FORMATS, header::FORMATS, params::FORMATS, elements::FORMATS, python::FORMATS, plain::FORMATS];

/// All renderers.
pub(crate) fn renderers() -> impl Iterator<Item = &'static Renderer> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

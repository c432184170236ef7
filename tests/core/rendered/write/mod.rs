//! The renderers: each writes calls as the models of a format do (docs/protocols/text-formats.md#shapes),
//! independently of the tables that detection uses.

mod channels;
mod elements;
mod header;
mod json;
mod params;
mod plain;
mod python;

use crate::rendered::{
    page::Page,
    scene::{Carries, Group, Scene},
};

/// Writes calls in one format.
pub(crate) struct Renderer {
    pub(crate) name: &'static str,
    pub(crate) carries: Carries,
    pub(crate) write: Write,
}

/// The unit that a renderer writes.
pub(crate) enum Write {
    /// A group of calls, with text around it.
    Group(fn(&Group, &mut Page)),
    /// A complete scene, for formats in which text has markup too.
    Scene(fn(&Scene, &mut Page)),
}

impl Renderer {
    /// Whether text is wrapped in markup, which detection removes.
    pub(crate) fn frames_text(&self) -> bool {
        matches!(self.write, Write::Scene(_))
    }

    pub(crate) fn page(&self, scene: &Scene) -> Page {
        match self.write {
            Write::Group(write) => Page::of(scene, self.carries.reasoning, write),
            Write::Scene(write) => {
                let mut page = Page::default();
                write(scene, &mut page);
                page
            }
        }
    }
}

const FAMILIES: &[&[Renderer]] = &[
    json::FORMATS,
    header::FORMATS,
    params::FORMATS,
    elements::FORMATS,
    python::FORMATS,
    plain::FORMATS,
    channels::FORMATS,
];

/// All renderers.
pub(crate) fn renderers() -> impl Iterator<Item = &'static Renderer> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

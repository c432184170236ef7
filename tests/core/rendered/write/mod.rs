//! Renderers that write calls as the models of each format do (docs/protocols/text-formats.md#shapes),
//! independently of the tables that the detector uses.

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

pub(crate) struct Renderer {
    pub(crate) name: &'static str,
    pub(crate) carries: Carries,
    pub(crate) write: Write,
}

pub(crate) enum Write {
    /// A group of calls. The text around it is written without markup.
    Group(fn(&Group, &mut Page)),
    /// A complete scene, for formats that also have markup around text.
    Scene(fn(&Scene, &mut Page)),
}

impl Renderer {
    /// Whether text has markup around it, which the detector removes.
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

pub(crate) fn renderers() -> impl Iterator<Item = &'static Renderer> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

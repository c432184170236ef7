//! [`Sources`]: the pages that a text cites, as `groundingMetadata`.

use std::collections::HashMap;

use crate::google_widths::Widths;
use crate::{event::Annotation, wire::json::Encoder};

/// The pages cited so far. The API counts positions in bytes, so the widths of the text's characters are noted.
#[derive(Debug, Default)]
pub(super) struct Sources {
    widths: Widths,
    pages: Vec<Page>,
    /// The places of the pages, by URL.
    places: HashMap<String, usize>,
    supports: Vec<(usize, (u64, u64))>,
}

#[derive(Debug)]
struct Page {
    url: String,
    title: String,
}

impl Sources {
    pub(super) fn said(&mut self, text: &str) {
        self.widths.said(text);
    }

    pub(super) fn cite(&mut self, annotation: &Annotation<'_>) {
        let next = self.pages.len();
        let place = *self.places.entry(annotation.url.to_string()).or_insert(next);
        if place == next {
            self.pages.push(Page { url: annotation.url.to_string(), title: annotation.title.to_string() });
        }
        self.supports.push((place, annotation.span));
    }

    /// Size in bytes, without the overhead of storing it.
    pub(super) fn size(&self) -> usize {
        self.pages.iter().map(|page| 2 * page.url.len() + page.title.len()).sum()
    }

    /// Writes the member, if a page was cited.
    pub(super) fn put(&self, body: &mut Encoder) {
        if self.pages.is_empty() {
            return;
        }
        body.key("groundingMetadata").object(|body| {
            body.key("groundingChunks").array(|body| {
                for page in &self.pages {
                    body.object(|body| {
                        body.key("web").object(|body| {
                            body.key("uri").string(&page.url);
                            body.key("title").string(&page.title);
                        });
                    });
                }
            });
            body.key("groundingSupports").array(|body| {
                for (place, (start, end)) in &self.supports {
                    body.object(|body| {
                        body.key("segment").object(|body| {
                            body.key("startIndex").value(&self.widths.bytes(*start));
                            body.key("endIndex").value(&self.widths.bytes(*end));
                        });
                        body.key("groundingChunkIndices").value(&[place]);
                    });
                }
            });
        });
    }
}

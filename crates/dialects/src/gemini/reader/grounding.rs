//! [`Grounding`]: converts the web pages on which a response is based to citations.
//!
//! `groundingMetadata` counts positions in bytes, but citations count characters. The widths of the text's
//! characters are therefore recorded.

use std::borrow::Cow;

use crate::google_widths::Widths;
use crate::{
    event::{Annotation, Event, Sink},
    wire::json::Json,
};

#[derive(Debug, Default)]
pub(super) struct Grounding {
    counts: bool,
    widths: Widths,
    /// The latest `groundingMetadata`, which includes the earlier ones.
    metadata: String,
}

impl Grounding {
    /// `counts` is set if citations are expected.
    pub(super) fn new(counts: bool) -> Self {
        Self { counts, ..Self::default() }
    }

    pub(super) fn said(&mut self, text: &str) {
        if self.counts {
            self.widths.said(text);
        }
    }

    pub(super) fn note(&mut self, metadata: Json<'_>) {
        self.metadata.clear();
        self.metadata.push_str(metadata.raw());
    }

    /// Emits the citations: one for each page and each range of text based on it. If there are no ranges, the
    /// citation is placed at the end of the text.
    pub(super) fn cite(&self, out: &mut impl Sink) {
        let Ok(metadata) = Json::parse(&self.metadata) else { return };
        let list = |key: &str| metadata.get(key).into_iter().flat_map(|list| list.elements());
        let pages: Vec<_> = list("groundingChunks").map(page).collect();
        let mut has_places = false;
        for support in list("groundingSupports") {
            let Some(segment) = support.get("segment") else { continue };
            let place = |key: &str| segment.get(key).and_then(|place| place.as_u64()).unwrap_or(0);
            let span = (self.widths.character(place("startIndex")), self.widths.character(place("endIndex")));
            let indices = support.get("groundingChunkIndices");
            for index in indices.into_iter().flat_map(|indices| indices.elements()) {
                let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                if let Some(Some((url, title))) = index.and_then(|index| pages.get(index)) {
                    has_places = true;
                    cite(url, title, span, out);
                }
            }
        }
        if !has_places {
            let end = self.widths.characters();
            pages.iter().flatten().for_each(|(url, title)| cite(url, title, (end, end), out));
        }
    }
}

/// The URL and the title of a source, if it has a URL.
fn page(source: Json<'_>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let page = ["web", "retrievedContext", "maps"].iter().find_map(|kind| source.get(kind))?;
    let text = |key: &str| page.get(key).and_then(|text| text.as_str());
    Some((text("uri")?, text("title").unwrap_or_default()))
}

fn cite(url: &str, title: &str, span: (u64, u64), out: &mut impl Sink) {
    out.event(Event::Annotation(Annotation { url: url.into(), title: title.into(), span }));
}

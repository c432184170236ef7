//! [`Grounding`]: converts the web pages on which a response is based to citations.
//!
//! `groundingMetadata` counts positions in bytes, but citations count characters. The widths of the text's
//! characters are therefore recorded as runs: ASCII text of any length is a single run.

use std::borrow::Cow;

use crate::{
    event::{Annotation, Event, Sink},
    wire::json::Json,
};

#[derive(Debug, Default)]
pub(super) struct Grounding {
    counts: bool,
    runs: Vec<Run>,
    /// The latest `groundingMetadata`, which includes the earlier ones.
    metadata: String,
}

/// Consecutive characters of the same width.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The width of each character in bytes.
    width: usize,
    /// The length of the text up to the end of the run, in bytes and in characters.
    bytes: usize,
    characters: usize,
}

impl Grounding {
    /// `counts` is set if citations are expected.
    pub(super) fn new(counts: bool) -> Self {
        Self { counts, ..Self::default() }
    }

    pub(super) fn said(&mut self, text: &str) {
        if !self.counts {
            return;
        }
        if text.is_ascii() {
            return self.add(1, text.len());
        }
        text.chars().for_each(|character| self.add(character.len_utf8(), 1));
    }

    fn add(&mut self, width: usize, count: usize) {
        let (bytes, characters) = self.runs.last().map_or((0, 0), |run| (run.bytes, run.characters));
        let run = Run { width, bytes: bytes + width * count, characters: characters + count };
        match self.runs.last_mut().filter(|last| last.width == width) {
            Some(last) => *last = run,
            None => self.runs.push(run),
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
            let span = (self.character(place("startIndex")), self.character(place("endIndex")));
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
            let end = self.runs.last().map_or(0, |run| run.characters as u64);
            pages.iter().flatten().for_each(|(url, title)| cite(url, title, (end, end), out));
        }
    }

    fn character(&self, place: u64) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let at = self.runs.partition_point(|run| run.bytes < place);
        let characters = match (self.runs.get(at), self.runs.last()) {
            (Some(run), _) => run.characters - (run.bytes - place) / run.width,
            (None, last) => last.map_or(0, |run| run.characters),
        };
        u64::try_from(characters).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_bytes_become_places_in_characters() {
        let text = "aé漢😀b";
        for pieces in [vec![text], text.split_inclusive(|_| true).collect()] {
            let mut grounding = Grounding::new(true);
            pieces.iter().for_each(|piece| grounding.said(piece));
            for (characters, (bytes, _)) in text.char_indices().enumerate() {
                assert_eq!(grounding.character(bytes as u64), characters as u64, "{bytes}");
            }
            assert_eq!((grounding.character(11), grounding.character(99)), (5, 5));
        }
        assert_eq!(Grounding::new(true).character(7), 0);
    }
}

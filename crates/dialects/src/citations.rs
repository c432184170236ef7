//! [`Citations`]: the citations in a text block. The range that they cover is known only when the block ends.

use std::borrow::Cow;

use crate::event::{Annotation, Event, Sink};

/// The citations in the open block and the position in the response's text.
#[derive(Debug, Default)]
pub(super) struct Citations {
    at: u64,
    from: u64,
    /// The URL and the title of each page.
    pages: Vec<(String, String)>,
    /// Total size of these URLs and titles in bytes.
    kept: usize,
}

impl Citations {
    /// Advances past a piece of text.
    pub(super) fn advance(&mut self, piece: &str) {
        self.at = self.at.saturating_add(u64::try_from(piece.chars().count()).unwrap_or(u64::MAX));
    }

    /// Records a citation of a web page. Returns `false` if the citation is of something else. Citations are
    /// held until the block ends, or until they exceed `limit` bytes.
    pub(super) fn take(
        &mut self,
        url: Cow<'_, str>,
        title: Cow<'_, str>,
        limit: usize,
        out: &mut impl Sink,
    ) -> bool {
        if url.is_empty() {
            return false;
        }
        if self.kept + url.len() + title.len() > limit {
            self.tell(out);
        }
        self.kept += url.len() + title.len();
        self.pages.push((url.into_owned(), title.into_owned()));
        true
    }

    /// Emits a citation at once, with its frame.
    pub(super) fn pass(&self, url: Cow<'_, str>, title: Cow<'_, str>, frame: &str, out: &mut impl Sink) {
        let is_page = !url.is_empty();
        let annotation = Event::Annotation(Annotation { url, title, span: (self.from, self.at) });
        let means = Some(&annotation).filter(|_| is_page);
        out.event(Event::Verbatim { frame, means });
    }

    /// Ends the block. Its citations apply to all of its text.
    pub(super) fn end_block(&mut self, out: &mut impl Sink) {
        self.tell(out);
        self.from = self.at;
    }

    fn tell(&mut self, out: &mut impl Sink) {
        let span = (self.from, self.at);
        for (url, title) in self.pages.drain(..) {
            out.event(Event::Annotation(Annotation { url: url.into(), title: title.into(), span }));
        }
        self.kept = 0;
    }
}

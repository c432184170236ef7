//! [`Images`]: images that arrive progressively (docs/protocols/lumo.md#v1-stream). Only the latest state of
//! an image is used.

use crate::event::{Event, Media, Sink};

#[derive(Debug)]
pub(super) struct Images {
    unfinished: Vec<Media<'static>>,
    /// Maximum bytes to hold.
    max_kept: usize,
}

impl Images {
    pub(super) fn new(max_kept: usize) -> Self {
        Self { unfinished: Vec::new(), max_kept }
    }

    /// Replaces the image's previous state. If that exceeds the limit, the oldest images are released as they
    /// are.
    pub(super) fn keep(&mut self, media: &Media<'_>, out: &mut impl Sink) {
        self.forget(&media.id);
        let Event::Media(owned) = Event::Media(media.clone()).into_owned() else { return };
        self.unfinished.push(owned);
        while self.kept() > self.max_kept && !self.unfinished.is_empty() {
            out.event(Event::Media(self.unfinished.remove(0)));
        }
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.unfinished.retain(|media| media.id != id);
    }

    /// Releases the latest state of each image, since no final ones will arrive.
    pub(super) fn flush(&mut self, out: &mut impl Sink) {
        self.unfinished.drain(..).for_each(|media| out.event(Event::Media(media)));
    }

    fn kept(&self) -> usize {
        self.unfinished.iter().map(|media| media.id.len() + media.data.len()).sum()
    }
}

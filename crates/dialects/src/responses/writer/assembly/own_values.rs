//! Items, annotations and log probabilities of an upstream of this API, which are forwarded as it wrote them.

use super::{Assembly, Open};
use crate::{
    event::Event,
    responses::writer::{events::Events, item::PartKind},
};

impl Assembly {
    pub(super) fn verbatim(&mut self, frame: &str, means: Option<&Event<'_>>, events: &mut Events<'_>) {
        match means {
            None | Some(Event::ServerCall(_) | Event::Media(_)) => self.own_item(frame, events),
            Some(Event::Annotation(_)) => self.own_annotation(frame, events),
            Some(Event::Text(text)) if !text.is_empty() => self.text_with_logprobs(text, frame, events),
            Some(event) => self.event(event, events),
        }
    }

    /// Adds an item of the upstream that no event represents.
    fn own_item(&mut self, item: &str, events: &mut Events<'_>) {
        self.close_said(true, events);
        self.kept += item.len();
        let place = self.next_place("item", events);
        self.put_whole(place, item.to_owned().into(), events);
    }

    /// Adds text with the log probabilities of its tokens, a JSON array.
    fn text_with_logprobs(&mut self, text: &str, logprobs: &str, events: &mut Events<'_>) {
        self.text_part(PartKind::Text, "", events);
        let at = self.characters;
        if let Some(Open::Message(message)) = &mut self.open {
            self.characters += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            self.kept += message.push_with_logprobs(text, logprobs, at, events);
        }
    }

    /// Adds an annotation as the upstream wrote it. Its places are in the part of the text that is open.
    fn own_annotation(&mut self, annotation: &str, events: &mut Events<'_>) {
        if !matches!(self.open, Some(Open::Message(_))) {
            self.text_part(PartKind::Text, "", events);
        }
        if let Some(Open::Message(message)) = &mut self.open {
            self.kept += message.annotate(annotation.to_owned(), self.characters, events);
        }
    }
}

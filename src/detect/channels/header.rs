//! Message headers, and the markup between a call's header and its arguments.

use super::{Channel, Mark, Phase};
use crate::{
    detect::{
        envelope::{CallRules, Envelope, Piece},
        gated::Passed,
        params::ParamsWalk,
        text::head,
        walker::{Out, Walker},
    },
    event::CallEnd,
    format::{CallBody, Route, Voice},
    wire::json::escape_str,
};

/// Maximum number of markers in a header. Openers count as markers, so the text after a failed header is read
/// again once per marker.
const MAX_INNER: usize = 4;

impl Channel {
    /// Reads one character of a header.
    pub(super) fn header(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> (usize, Option<Passed>) {
        // An opener may also be the body's marker.
        if self.markup.is_empty()
            && let Some(&body) = self.channels.body.iter().find(|body| **body == self.source)
        {
            return (0, self.routed(body, rules, out));
        }
        let Some(character) = text.chars().next() else { return (0, None) };
        self.source.push(character);
        let legal = character.is_alphanumeric() || "_-.:/= \t\"".contains(character);
        if self.markup.is_empty() && legal && self.source.len() <= rules.max_markup {
            return (character.len_utf8(), None);
        }
        self.markup.push(character);
        let (markup, channels) = (self.markup.as_str(), self.channels);
        if let Some(&body) = channels.body.iter().find(|body| **body == markup) {
            self.markup.clear();
            return (character.len_utf8(), self.routed(body, rules, out));
        }
        if channels.inner.contains(&markup) {
            let inner = channels.inner.iter().map(|inner| self.source.matches(inner).count());
            if inner.sum::<usize>() > MAX_INNER {
                return self.refuse(out);
            }
            self.markup.clear();
            return (character.len_utf8(), None);
        }
        let mut markers = channels.body.iter().chain(channels.inner);
        if self.source.len() <= rules.max_markup && markers.any(|marker| marker.starts_with(markup)) {
            return (character.len_utf8(), None);
        }
        self.refuse(out)
    }

    /// The header cannot continue with the last character of its source. That character is read again.
    fn refuse(&mut self, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        self.markup.pop();
        self.source.pop();
        let Some(voice) = self.inside.take() else { return (0, Some(self.failed())) };
        // A possible marker of the header may be a marker of the body.
        let source = std::mem::take(&mut self.source);
        let markup = self.markup.len();
        self.phase = Phase::Said(voice);
        self.say(voice, head(&source, source.len() - markup), out);
        self.settle(self.markup_at(), voice, out);
        (0, None)
    }

    /// The header is complete.
    fn routed(&mut self, body: &'static str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Passed> {
        let source = std::mem::take(&mut self.source);
        let route = (self.channels.route)(source.strip_suffix(body).unwrap_or(&source), body);
        let (name, otherwise) = match route {
            Some(Route::Call(written, otherwise)) => match rules.name(written) {
                Some(name) => (name.to_owned(), otherwise),
                None => return self.no_message(source, out),
            },
            Some(Route::Raw(written)) => {
                let Some(name) = rules.name(written) else { return self.no_message(source, out) };
                return self.begin_raw(name, rules.tools.text_parameter(name).unwrap_or("code"), rules, out);
            }
            Some(Route::Params(written, calls)) => {
                let (Some(name), CallBody::Params(params)) = (rules.name(written), &calls.body) else {
                    return self.no_message(source, out);
                };
                self.phase = Phase::Call(Box::new(Walker::of(ParamsWalk::named(calls, params, name, rules))));
                self.source = source;
                return None;
            }
            Some(Route::Envelope) => {
                self.phase = Phase::Call(Box::new(Walker::of(Envelope::new(rules, false))));
                self.source = source;
                return None;
            }
            Some(Route::Said(voice)) => {
                self.begin_said(out);
                self.phase = Phase::Said(voice);
                return Some(Passed::Certain(0));
            }
            Some(Route::Nothing) => {
                self.begin_said(out);
                self.phase = Phase::Between;
                return Some(Passed::Certain(0));
            }
            None => return self.no_message(source, out),
        };
        self.phase = Phase::Opened { name, otherwise };
        self.source = source;
        None
    }

    /// Starts a call whose argument `key` is the raw body.
    fn begin_raw(
        &mut self,
        name: &str,
        key: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<Passed> {
        self.start(name, rules, out);
        let mut opening = String::from("{\"");
        escape_str(&mut opening, key);
        opening.push_str("\": \"");
        self.gate.pass(Piece::Arguments(&opening), out);
        (self.raw, self.phase) = (true, Phase::Said(Voice::Text));
        self.certain()
    }

    /// `source` looked like a header but is not one.
    pub(super) fn no_message(&mut self, source: String, out: &mut Out<'_>) -> Option<Passed> {
        if let Some(voice) = self.inside.take() {
            self.phase = Phase::Said(voice);
            self.say(voice, &source, out);
            return None;
        }
        self.source = source;
        Some(self.failed())
    }

    /// Reads the markup before a call's arguments.
    pub(super) fn opened(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> (usize, Option<Passed>) {
        let Some(character) = text.chars().next() else { return (0, None) };
        let Phase::Opened { name, otherwise } = &self.phase else { return (0, None) };
        let (name, otherwise, len) = (name.clone(), *otherwise, character.len_utf8());
        if self.markup.is_empty() && character == '{' {
            self.phase = Phase::Arguments(self.start(&name, rules, out));
            return (0, self.certain());
        }
        let is_text = self.markup.is_empty() && !character.is_whitespace() && !self.begins_mark(character);
        if is_text
            && !self.channels.common
            && let Some(key) = rules.tools.only_string(&name)
        {
            return (0, self.begin_raw(&name, key, rules, out));
        }
        self.source.push(character);
        if self.markup.is_empty() && character.is_whitespace() {
            return (len, None);
        }
        self.markup.push(character);
        match self.mark() {
            Mark::Begins => (len, None),
            Mark::End => {
                self.start(&name, rules, out);
                self.gate.pass(Piece::Arguments("{}"), out);
                self.end(CallEnd::Complete, out);
                self.phase = Phase::Between;
                (len, Some(Passed::Certain(0)))
            }
            Mark::None | Mark::Open(_) => match otherwise {
                Some(voice) => {
                    let markup = std::mem::take(&mut self.markup);
                    self.begin_said(out);
                    self.phase = Phase::Said(voice);
                    let at = self.uncertain.saturating_sub(markup.len().saturating_sub(len));
                    self.markup = markup;
                    self.settle(at, voice, out);
                    (len, Some(Passed::Certain(0)))
                }
                None => {
                    self.markup.clear();
                    let source = std::mem::take(&mut self.source);
                    (len, self.no_message(source, out))
                }
            },
        }
    }
}

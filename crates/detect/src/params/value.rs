//! Reads the values of tagged arguments, and finds where they end.

use super::{At, ParamsWalk};
use crate::{
    format::Key,
    pattern::{Fit, fit, fit_any},
    tag::{
        MAX_BLANK, Reached, Sure, Verdict, candidate, cdata, read_cdata, read_key, read_pair, read_value,
        terminator,
    },
    text::{slice, tail},
    tools::DeclaredTools,
    typed_value::Quotes,
    walk::{Out, Step, bounded},
};

/// The maximum length in bytes of a word that a tag may contain in place of the parameter's word.
const MAX_WORD: usize = 32;

impl ParamsWalk {
    /// Reads a value, and sends everything up to a possible terminator.
    pub(super) fn value(
        &mut self,
        text: &str,
        fresh: bool,
        tools: &DeclaredTools,
        out: &mut Out<'_>,
    ) -> Step {
        if fresh {
            let newline = if text.starts_with("\r\n") { 2 } else { usize::from(text.starts_with('\n')) };
            if self.params.trim && text == "\r" {
                return Step::Hold;
            }
            self.at = At::Value { fresh: false };
            return Step::Took(if self.params.trim { newline } else { 0 });
        }
        let (mut quotes, mut read) = (self.value.quotes(), 0);
        let verdict = |at| {
            quotes.read(slice(text, read, at));
            read = at;
            self.verdict(tail(text, at), tools, quotes, false)
        };
        let terminator = terminator(text, |text| self.candidate(text), verdict);
        self.send_key_of_long_value(terminator.0, out);
        let (step, reached) = read_value(text, terminator, &mut self.value, out);
        match reached {
            Reached::Data => {}
            Reached::Cdata => self.at = At::Data,
            Reached::End => {
                self.end_value(tools, out);
                self.at = At::Between;
            }
        }
        step
    }

    /// A value that is too long to be held is not searched for all arguments. `more` bytes of it follow.
    fn send_key_of_long_value(&mut self, more: usize, out: &mut Out<'_>) {
        if self.wraps && self.value.kept().saturating_add(more) > self.mend.max_hold {
            self.wraps = false;
            self.key(out);
        }
    }

    /// Returns the first offset at which something other than data may begin.
    fn candidate(&self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        match (self.params.trim, self.params.entities) {
            (false, false) => memchr::memchr(b'<', bytes),
            (true, false) => memchr::memchr2(b'<', b'\n', bytes),
            (false, true) => memchr::memchr2(b'<', b'&', bytes),
            (true, true) => memchr::memchr3(b'<', b'&', b'\n', bytes),
        }
    }

    /// Classifies `text`, which starts with a candidate. If `last` is set, no more text follows.
    pub(super) fn verdict(&self, text: &str, tools: &DeclaredTools, quotes: Quotes, last: bool) -> Verdict {
        let (newline, marker) = match candidate(text, true, self.params.cdata, self.params.entities) {
            Ok(candidate) => candidate,
            Err(verdict) => return verdict,
        };
        let sure = |fit: Fit, then: &dyn Fn(&str) -> Sure| match fit {
            Fit::Whole(len) => (len, then(tail(marker, len))),
            fit => (0, fit.into()),
        };
        let (close, closed) = sure(fit(self.params.close, marker), &|rest| self.followed(rest));
        if quotes.are_open() && close == 0 && closed == Sure::No {
            return Verdict::Data(1);
        }
        let (_, opened) = sure(fit(self.params.key.open(), marker), &|rest| self.opens(marker, rest, tools));
        let end = fit_any(self.params.end.iter().copied(), marker);
        let (_, ended) = sure(end, &|rest| self.outside(rest));
        let ended = if ended == Sure::Yes && self.string { Sure::No } else { ended };
        let yes = |sure: Sure| sure == Sure::Yes || (last && sure == Sure::Maybe);
        match () {
            () if yes(closed) && close > 0 => Verdict::Ends(newline + close),
            () if opened == Sure::Yes => Verdict::Ends(newline),
            () if yes(ended) && end != Fit::Begins => Verdict::Ends(newline),
            () if [closed, opened, ended].contains(&Sure::Maybe) && !last => Verdict::Open,
            () => Verdict::Data(1),
        }
    }

    /// Whether `rest` may follow the closer of a value.
    fn followed(&self, rest: &str) -> Sure {
        let blank = rest.len() - rest.trim_start().len();
        if blank > MAX_BLANK {
            return Sure::Yes;
        }
        match self.expected(rest) {
            Sure::No => self.opens_another(tail(rest, blank)),
            sure => sure,
        }
    }

    /// Whether `rest` is an opener with another word, such as `<argument=` for `<parameter=`. It follows the closer
    /// of a value, where ordinary text and other markup do not look like this.
    fn opens_another(&self, rest: &str) -> Sure {
        let (Key::Tag(open, _), Some(inner)) = (self.params.key, rest.strip_prefix('<')) else {
            return Sure::No;
        };
        let word = inner.find(|c: char| !(c.is_ascii_alphabetic() || c == '_')).unwrap_or(inner.len());
        match tail(inner, word).chars().next() {
            _ if !open.ends_with('=') || word > MAX_WORD => Sure::No,
            None => Sure::Maybe,
            Some('=') if word > 0 => Sure::Yes,
            Some(_) => Sure::No,
        }
    }

    /// Whether `rest` may follow the closer of a call. After a string, only the end of the text may follow; with
    /// anything else, the closer is data.
    fn outside(&self, rest: &str) -> Sure {
        let blank = rest.len() - rest.trim_start().len();
        let rest = tail(rest, blank);
        let outer = fit_any(self.outer(), rest);
        match outer {
            _ if blank > MAX_BLANK => Sure::Yes,
            _ if rest.is_empty() => Sure::Maybe,
            Fit::Whole(len) if self.string && tail(rest, len).len() > MAX_BLANK => Sure::Yes,
            Fit::Whole(len) if self.string && tail(rest, len).trim().is_empty() => Sure::Maybe,
            fit => fit.into(),
        }
    }

    /// Whether `marker` opens another parameter, which means that the current one's closer is missing. The other
    /// parameter must not have been written yet and, if the tool's parameters are known, must be one of them.
    fn opens(&self, marker: &str, rest: &str, tools: &DeclaredTools) -> Sure {
        let most = self.max_markup;
        let (marker, rest) = (bounded(marker, most), bounded(rest, most));
        let key = match self.params.key {
            Key::Pair { .. } => read_pair(&self.params.key, marker).map(|read| read.map(|(key, ..)| key)),
            _ => read_key(&self.params.key, rest).map(|read| read.map(|(key, ..)| key)),
        };
        match key {
            Some(None) if marker.len() > most || rest.len() > most => Sure::No,
            Some(None) => Sure::Maybe,
            Some(Some(key)) => {
                let declared = tools.declares(&self.name, key) || !tools.has_arguments(&self.name);
                let new = !self.keys.iter().any(|written| written == key);
                if declared && new { Sure::Yes } else { Sure::No }
            }
            None => Sure::No,
        }
    }

    pub(super) fn data(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        let (data, _) = cdata(text);
        self.send_key_of_long_value(data.len(), out);
        let (step, reached) = read_cdata(text, &mut self.value, out);
        if reached == Reached::Data {
            self.at = At::Value { fresh: false };
        }
        step
    }
}

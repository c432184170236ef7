//! Reads the values of elements, and finds where they end.

use super::{At, ElementsWalk, Level};
use crate::tools::{DeclaredTools, Shape};
use crate::{
    pattern::{Fit, fit, fit_any},
    tag::{MAX_BLANK, Reached, Sure, Verdict, candidate, read_cdata, read_value, terminator},
    text::{head, tail},
    typed_value::TypedValue,
    walk::{CallRules, Out, Piece, Step},
};

impl ElementsWalk {
    /// Reads an element that has no children so far.
    pub(super) fn leaf(&mut self, text: &str, fresh: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if self.may_nest {
            return self.opening(text, rules, out);
        }
        if fresh {
            self.at = At::Leaf { fresh: false };
            return Step::Took(usize::from(self.elements.trim && text.starts_with('\n')));
        }
        let verdict = |at| self.verdict(tail(text, at), rules.tools, false);
        let terminator = terminator(text, |text| self.candidate(text), verdict);
        let (step, reached) = read_value(text, terminator, &mut self.value, out);
        match reached {
            Reached::Data => {}
            Reached::Cdata => self.at = At::Data,
            Reached::End => self.end_leaf(out),
        }
        step
    }

    pub(super) fn data(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        let (step, reached) = read_cdata(text, &mut self.value, out);
        if reached == Reached::Data {
            self.at = At::Leaf { fresh: false };
        }
        step
    }

    /// Reads the start of an element that may have children. The first visible character decides whether it does.
    fn opening(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let blank = text.len() - text.trim_start().len();
        if blank > 0 && self.blank.len() <= self.mend.max_hold {
            self.blank.push_str(head(text, blank));
            return Step::Took(blank);
        }
        let child = if blank > 0 { None } else { self.child(text) };
        match child {
            Some(None) => Step::Hold,
            Some(Some((tag, _))) if self.levels.len() < self.mend.max_depth && self.nests(&tag) => {
                let array = self.types.may_be_array() || (self.types.is_empty() && tag == "item");
                self.levels.push(Level {
                    key: std::mem::take(&mut self.leaf),
                    array,
                    empty: true,
                    repeats: false,
                });
                if array {
                    out(Piece::Arguments("["));
                }
                self.blank.clear();
                self.at = At::Between;
                Step::Took(0)
            }
            _ => {
                self.may_nest = false;
                self.repeats(text, rules.tools, out);
                self.value.begin(out);
                let blank = std::mem::take(&mut self.blank);
                let framing = usize::from(self.elements.trim && blank.starts_with('\n'));
                self.value.push(tail(&blank, framing), out);
                self.at = At::Leaf { fresh: false };
                Step::Took(0)
            }
        }
    }

    /// Whether an element with this child is a container. Markup may be the text of an element that the schema does not
    /// describe, unless it is a list or the format marks its tags.
    fn nests(&self, child: &str) -> bool {
        !self.types.is_empty() || !self.elements.sign.is_empty() || child == "item"
    }

    /// If an element should be an array, but has no children and is not JSON, starts the array and makes the
    /// element its first item.
    fn repeats(&mut self, text: &str, tools: &DeclaredTools, out: &mut Out<'_>) {
        let list = self.elements.repeats && self.types.is_container() && self.types.may_be_array();
        if !list || text.starts_with(['[', '<']) {
            return;
        }
        out(Piece::Arguments("["));
        self.levels.push(Level { key: self.leaf.clone(), array: true, empty: false, repeats: true });
        let leaf = self.leaf.clone();
        self.types = self.shape_of(&leaf, tools).map(Shape::types).unwrap_or_default();
        self.value = TypedValue::new(self.types, self.mend);
    }

    pub(super) fn end_leaf(&mut self, out: &mut Out<'_>) {
        match self.value.is_empty() && self.types.is_container() && !self.repeats.is_pending() {
            true => out(Piece::Arguments(if self.types.may_be_array() { "[]" } else { "{}" })),
            false if self.levels.last().is_some_and(|level| level.array) => self.value.end(out),
            false => self.repeats.end(&mut self.value, out),
        }
        self.at = At::Between;
    }

    /// Returns the first offset at which something other than data may begin.
    fn candidate(&self, text: &str) -> Option<usize> {
        let first = self.elements.sign.bytes().next().unwrap_or(b'<');
        let line = if self.elements.trim { b'\n' } else { b'<' };
        let entity = if self.elements.entities { b'&' } else { b'<' };
        memchr::memchr3(first, line, entity, text.as_bytes())
    }

    /// Classifies `text`, which starts with a candidate. If `last` is set, no more text follows.
    pub(super) fn verdict(&self, text: &str, tools: &DeclaredTools, last: bool) -> Verdict {
        let elements = &self.elements;
        let (newline, marker) = match candidate(text, elements.trim, elements.cdata, elements.entities) {
            Ok(candidate) => candidate,
            Err(verdict) => return verdict,
        };
        match fit(&format!("{}</{}>", self.elements.sign, self.leaf), marker) {
            Fit::Begins if !last => Verdict::Open,
            Fit::Whole(len) => match self.followed(tail(marker, len), tools) {
                Sure::Yes => Verdict::Ends(newline + len),
                Sure::Maybe if last => Verdict::Ends(newline + len),
                Sure::Maybe => Verdict::Open,
                Sure::No => Verdict::Data(1),
            },
            _ => Verdict::Data(1),
        }
    }

    /// Whether `rest` may follow the closer of an element.
    fn followed(&self, rest: &str, tools: &DeclaredTools) -> Sure {
        if !self.elements.sign.is_empty() {
            return Sure::Yes;
        }
        let blank = rest.len() - rest.trim_start().len();
        if blank > MAX_BLANK {
            return Sure::Yes;
        }
        let rest = tail(rest, blank);
        if rest.is_empty() {
            return Sure::Maybe;
        }
        let around = self.around(tools).map(|(_, close)| close);
        let closers = fit_any(around.chain(self.outer()), rest);
        let inner = if self.levels.len() > 1 { fit(&self.closer(), rest) } else { Fit::No };
        let child = match self.child(rest) {
            Some(None) => Sure::Maybe,
            Some(Some((tag, _))) if self.may_follow(&tag, tools) => Sure::Yes,
            _ => Sure::No,
        };
        let sures = [self.ends(rest).into(), closers.into(), inner.into(), child];
        let any = |sure: Sure| sures.contains(&sure).then_some(sure);
        any(Sure::Yes).or_else(|| any(Sure::Maybe)).unwrap_or(Sure::No)
    }

    /// Whether the element `tag` may come next. If the tool's parameters are known, the first one must be one of
    /// them.
    pub(super) fn may_follow(&self, tag: &str, tools: &DeclaredTools) -> bool {
        self.started
            || self.levels.len() > 1
            || !tools.has_arguments(&self.name)
            || tools.declares(&self.name, tag)
    }
}

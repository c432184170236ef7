//! [`ElementsWalk`]: reads a call whose arguments are elements such as `<city>Paris</city>`, nested like the schema.
//!
//! An element that is a string in the schema, or is not in the schema, is streamed as a string. Its closer is
//! recognised only if the format allows the text that follows. An element that may be a container is treated as one
//! as soon as it has a child: as an array if the schema allows an array or the child is called `item`, and otherwise
//! as an object. All other elements are held and converted at their end.

mod json;
mod leaf;
mod name;

use super::{
    bare_text::BareText,
    body::JsonBody,
    broken::{Rest, Resumes},
    pattern::{Fit, fit, fit_any},
    repeats::Repeats,
    string_fast_path::StringFastPath,
    tag::{self, Sure, Verdict},
    text::{head, tail},
    typed_value::{Mend, TypedValue},
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::format::{Calls, Elements, ElementsName};
use crate::tools::{DeclaredTools, Shape, Types};
use crate::wire::json::escape_str;

#[derive(Debug)]
enum At {
    Tag,
    Between,
    /// In an element without children so far. `fresh` is set until some of its text has been read.
    Leaf {
        fresh: bool,
    },
    Data,
    /// Before, in or after JSON that contains all arguments.
    BeforeJson,
    Json,
    AfterJson,
    /// In plain text in place of the only argument.
    Text(BareText),
}

/// An open element with children, or the arguments as a whole.
#[derive(Debug)]
struct Level {
    key: String,
    array: bool,
    empty: bool,
    /// Whether this is a list whose items have the list's key as their tag. The list itself has no tag.
    repeats: bool,
}

/// Reads one call whose arguments are elements.
#[derive(Debug)]
pub(super) struct ElementsWalk {
    calls: &'static Calls,
    elements: &'static Elements,
    at: At,
    name: String,
    /// The name as it was written in the tags.
    written: String,
    id: String,
    any_name: bool,
    levels: Vec<Level>,
    /// The tag of the open leaf.
    leaf: String,
    value: TypedValue,
    repeats: Repeats,
    types: Types,
    /// Whether the leaf may still have children, since its text so far is blank.
    may_nest: bool,
    blank: String,
    /// The closer of the element that contains the arguments as JSON.
    json_close: &'static str,
    body: JsonBody,
    json: bool,
    mend: Mend,
    max_markup: usize,
    started: bool,
    ended: bool,
}

impl Walk for ElementsWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let step = match self.at {
            At::Tag => self.tag(text, rules),
            At::Between => self.between(text, rules, out),
            At::Leaf { fresh } => self.leaf(text, fresh, rules, out),
            At::Data => self.data(text, out),
            At::BeforeJson | At::AfterJson => self.around_json(text, out),
            At::Text(_) => self.text(text, out),
            At::Json => {
                let step = tag::json(&mut self.body, text, out);
                if let Step::Whole(_) = step {
                    self.at = At::AfterJson;
                }
                step
            }
        };
        if let Step::End(_) = step {
            self.end(out);
        }
        step
    }

    fn bound(&self) -> usize {
        if matches!(self.at, At::Tag | At::Between) { self.max_markup } else { usize::MAX }
    }

    fn string(&self) -> Option<StringFastPath> {
        match self.at {
            At::Leaf { fresh: false } if self.may_nest => None,
            At::Leaf { fresh: false } | At::Data if self.value.streams() => {
                let known = self.elements.sign.is_empty() || self.elements.sign.starts_with(']');
                known.then_some(StringFastPath::Tags { lines: self.elements.trim })
            }
            At::Json => self.body.flow(),
            _ => None,
        }
    }

    fn kept(&self) -> usize {
        self.value.kept() + self.repeats.kept() + self.blank.len()
    }

    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        let ended = match self.at {
            At::Leaf { .. } => {
                let ends = matches!(self.verdict(held, &DeclaredTools::default(), true), Verdict::Ends(_));
                if ends {
                    self.end_leaf(out);
                }
                if ends && stopped && self.is_repeating() {
                    self.close_container(out);
                }
                ends && self.levels.len() == 1
            }
            At::Between if stopped && self.is_repeating() => {
                self.close_container(out);
                self.levels.len() == 1
            }
            At::Between => self.json || self.levels.len() == 1 && self.levels.iter().all(|root| !root.empty),
            At::AfterJson => true,
            At::Json => stopped && self.body.close_last(&mut |text: &str| out(Piece::Arguments(text))),
            At::Tag | At::Data | At::BeforeJson | At::Text(_) => false,
        };
        // No repetition follows.
        self.repeats.settle(self.mend, out);
        // Complete JSON contains all arguments, whereas more elements could have followed.
        let whole = ended && (stopped || self.json);
        if whole {
            self.end(out);
        }
        whole
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        matches!(self.at, At::Json) && self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        if matches!(self.at, At::Json) { self.body.breaks() } else { Rest::default() }
    }

    fn ends_call(&self, text: &str) -> Fit {
        self.ends(text)
    }

    fn resume(&mut self) -> Resumes {
        self.levels.truncate(1);
        (self.at, self.ended) = (At::Between, true);
        Resumes::BeforeCloser
    }
}

impl ElementsWalk {
    /// Creates a reader that starts after the opener, which was written as `open`.
    pub(super) fn new(
        calls: &'static Calls,
        elements: &'static Elements,
        open: &str,
        rules: &CallRules<'_>,
    ) -> Self {
        let mut walk = Self {
            calls,
            elements,
            at: At::Between,
            name: String::new(),
            written: String::new(),
            id: String::new(),
            any_name: rules.any_name,
            levels: vec![Level { key: String::new(), array: false, empty: true, repeats: false }],
            leaf: String::new(),
            value: TypedValue::default(),
            repeats: Repeats::default(),
            types: Types::default(),
            may_nest: false,
            blank: String::new(),
            json_close: "",
            body: JsonBody::new(rules.repair, rules.max_depth),
            json: false,
            mend: Mend::new(rules),
            max_markup: rules.max_markup,
            started: false,
            ended: false,
        };
        match elements.name {
            ElementsName::Opener => {
                let name = open.trim_start_matches('<').trim_end_matches('>');
                rules.name(name).unwrap_or_default().clone_into(&mut walk.name);
                name.clone_into(&mut walk.written);
            }
            ElementsName::Attribute(..) => walk.at = At::Tag,
            ElementsName::Element(_) => {}
        }
        walk
    }

    fn end(&mut self, out: &mut Out<'_>) {
        if self.ended {
            return;
        }
        self.start(out);
        self.ended = true;
        self.repeats.settle(self.mend, out);
        if !self.json {
            let empty = self.levels.first().is_none_or(|root| root.empty);
            out(Piece::Arguments(if empty { "{}" } else { "}" }));
        }
    }

    fn start(&mut self, out: &mut Out<'_>) {
        if !self.started {
            self.started = true;
            out(Piece::Start { name: &self.name, id: &self.id });
        }
    }

    fn between(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let blank = text.len() - text.trim_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        if self.name.is_empty() {
            return self.named(text, rules);
        }
        if self.is_repeating() {
            return self.repeated(text, rules.tools, out);
        }
        let at_root = self.levels.len() == 1;
        let open = match if at_root { self.at_root(text, rules, out) } else { self.at_closer(text, out) } {
            Step::Hold => true,
            Step::Stop(_) => false,
            step => return step,
        };
        match self.child(text) {
            _ if open => Step::Hold,
            // The JSON contained all arguments.
            _ if self.json => Step::End(0),
            Some(Some((tag, len))) if self.levels.len() < self.mend.max_depth => {
                self.open(&tag, len, rules.tools, out)
            }
            Some(None) => Step::Hold,
            _ if self.levels.first().is_some_and(|root| !root.empty) && self.levels.len() == 1 => {
                Step::End(0)
            }
            _ if self.started || text.starts_with('<') => Step::Stop(0),
            _ => match BareText::new(&self.name, self.is_certain(), rules) {
                Some(bare) => {
                    self.at = At::Text(bare);
                    Step::Took(0)
                }
                None => Step::Stop(0),
            },
        }
    }

    /// Reads the text between the outermost elements. Returns `Stop` at anything that may not occur there.
    fn at_root(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let mut begins = false;
        let empty = !self.json && self.levels.first().is_some_and(|root| root.empty);
        if empty && text.starts_with('{') {
            match self.is_object(text, rules.tools) {
                Sure::Yes => {
                    self.start(out);
                    (self.at, self.json) = (At::Json, true);
                    return Step::Took(0);
                }
                Sure::Maybe => return Step::Hold,
                Sure::No => {}
            }
        }
        for &(opener, close) in self.elements.json.iter().filter(|_| empty) {
            match fit(opener, text) {
                Fit::Whole(len) => {
                    (self.at, self.json_close) = (At::BeforeJson, close);
                    return Step::Took(len);
                }
                fit => begins |= fit == Fit::Begins,
            }
        }
        let around = self.around(rules.tools).flat_map(|(open, close)| [open, close]);
        match (fit_any(around, text), self.ends(text), fit_any(self.outer(), text)) {
            (Fit::Whole(len), ..) => Step::Took(len),
            (_, Fit::Whole(len), _) => Step::End(len),
            (.., Fit::Whole(_)) if self.started || self.is_certain() => Step::End(0),
            fits if begins || [fits.0, fits.1, fits.2].contains(&Fit::Begins) => Step::Hold,
            _ => Step::Stop(0),
        }
    }

    /// The openers and closers of elements around the arguments. A parameter that the tool declares is none of them.
    fn around<'t>(
        &self,
        tools: &'t DeclaredTools,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + use<'t, '_> {
        let is_key = |open: &str| tools.declares(&self.name, open.trim_matches(['<', '>']));
        self.elements.around.iter().copied().filter(move |(open, _)| !is_key(open))
    }

    /// Reads the closer of the innermost container. Returns `Stop` at another element.
    fn at_closer(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        match fit(&self.closer(), text) {
            Fit::Whole(len) => {
                self.close_container(out);
                Step::Took(len)
            }
            Fit::Begins => Step::Hold,
            Fit::No => Step::Stop(0),
        }
    }

    /// Whether the opener and the name are enough to identify a call, since other text does not contain both.
    fn is_certain(&self) -> bool {
        self.elements.name != ElementsName::Opener
    }

    fn text(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        let At::Text(mut bare) = std::mem::replace(&mut self.at, At::Between) else { return Step::Stop(0) };
        let closes = |text: &str| match self.ends(text) {
            Fit::No => {
                let around = self.elements.around.iter().map(|&(_, close)| close);
                fit_any(around.chain(self.outer()), text)
            }
            fit => fit,
        };
        let step = bare.step(text, (&self.name, &self.id), closes, out);
        if let Step::Whole(_) = step {
            (self.started, self.ended) = (true, true);
        } else {
            self.at = At::Text(bare);
        }
        step
    }

    /// Returns markers that may follow a call.
    fn outer(&self) -> impl Iterator<Item = &'static str> {
        let sections = self.calls.sections.iter().map(|&(_, close)| close);
        sections.chain(self.calls.open.iter().copied().filter(|open| !open.contains('%')))
    }

    /// Matches the closer of the call at the start of `text`.
    fn ends(&self, text: &str) -> Fit {
        let mut best = Fit::No;
        for end in self.elements.end {
            let end = if end.contains('%') { end.replace('%', &self.written) } else { (*end).to_owned() };
            match fit(&end, text) {
                whole @ Fit::Whole(_) => return whole,
                Fit::Begins => best = Fit::Begins,
                Fit::No => {}
            }
        }
        best
    }

    fn closer(&self) -> String {
        let key = self.levels.last().map(|level| level.key.as_str()).unwrap_or_default();
        format!("{}</{key}>", self.elements.sign)
    }

    /// Reads the opener of an element at the start of `text`. Returns its tag and length, `Some(None)` if more text
    /// is needed, or `None` if it is not an opener.
    fn child(&self, text: &str) -> Option<Option<(String, usize)>> {
        let sign = match fit(self.elements.sign, text) {
            Fit::Whole(len) => len,
            Fit::Begins => return Some(None),
            Fit::No => return None,
        };
        match fit("<%>", tail(text, sign)) {
            Fit::Whole(len) => {
                let tag = head(tail(text, sign + 1), len - 2);
                Some(Some((tag.to_owned(), sign + len)))
            }
            Fit::Begins => Some(None),
            Fit::No => None,
        }
    }

    fn open(&mut self, tag: &str, len: usize, tools: &DeclaredTools, out: &mut Out<'_>) -> Step {
        if !self.started && !self.any_name && !self.is_certain() && !self.may_follow(tag, tools) {
            return Step::Stop(0);
        }
        self.start(out);
        let is_list = self.levels.last().is_some_and(|level| level.array);
        if self.repeats.is_pending() && !is_list && self.leaf == tag {
            self.value = self.repeats.again(self.mend, out);
            self.may_nest = false;
            self.at = At::Leaf { fresh: true };
            return Step::Took(len);
        }
        self.repeats.settle(self.mend, out);
        let Some(level) = self.levels.last_mut() else { return Step::Stop(0) };
        let mut written = String::new();
        match (level.empty, level.array) {
            (true, true) => {}
            (true, false) => written.push('{'),
            (false, _) => written.push_str(", "),
        }
        level.empty = false;
        if !level.array {
            written.push('"');
            escape_str(&mut written, tag);
            written.push_str("\": ");
        }
        if !written.is_empty() {
            out(Piece::Arguments(&written));
        }
        tag.clone_into(&mut self.leaf);
        let shape = self.shape_of(tag, tools);
        self.types = shape.map(Shape::types).unwrap_or_default();
        self.value = match is_list {
            true => TypedValue::new(self.types, self.mend),
            false => self.repeats.value(self.types, shape, self.mend),
        };
        // An element that the schema does not describe is a string, or in a container also a list.
        let is_open = !self.elements.sign.is_empty() || self.levels.len() > 1;
        self.may_nest = if self.types.is_empty() { is_open } else { self.types.may_nest() };
        if !self.may_nest {
            self.value.begin(out);
        }
        self.at = At::Leaf { fresh: true };
        Step::Took(len)
    }

    /// Returns the schema of the element `tag` in the innermost container.
    fn shape_of<'t>(&self, tag: &str, tools: &'t DeclaredTools) -> Option<Shape<'t>> {
        let mut shape = tools.shape(&self.name)?;
        let (_, inner) = self.levels.split_first()?;
        let mut array = false;
        for level in inner {
            shape = shape.inner((!array).then_some(level.key.as_str()))?;
            array = level.array;
        }
        shape.inner((!array).then_some(tag))
    }

    /// Whether the innermost container is a list written as adjacent elements.
    fn is_repeating(&self) -> bool {
        self.levels.last().is_some_and(|level| level.repeats)
    }

    /// Reads another item of a list whose items share a tag, or ends the list.
    fn repeated(&mut self, text: &str, tools: &DeclaredTools, out: &mut Out<'_>) -> Step {
        let key = self.levels.last().map(|level| level.key.clone()).unwrap_or_default();
        match fit(&format!("<{key}>"), text) {
            Fit::Begins => Step::Hold,
            Fit::Whole(len) => self.open(&key, len, tools, out),
            Fit::No => {
                self.close_container(out);
                Step::Took(0)
            }
        }
    }

    fn close_container(&mut self, out: &mut Out<'_>) {
        self.repeats.settle(self.mend, out);
        if let Some(level) = self.levels.pop() {
            out(Piece::Arguments(match (level.array, level.empty) {
                (true, true) => "[]",
                (true, false) => "]",
                (false, true) => "{}",
                (false, false) => "}",
            }));
        }
    }
}

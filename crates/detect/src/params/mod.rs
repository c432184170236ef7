//! [`ParamsWalk`]: reads a call with one tag per argument, such as `<parameter=city>Paris</parameter>`.
//!
//! A value ends at its own closer if the format allows the following text there, so a closer quoted inside a value
//! is data. If the closer is missing, the value ends before the next parameter that the tool declares. The call's
//! own closers end a value only if the value cannot be a string. Strings are streamed, and values of other types
//! are held and converted ([`TypedValue`]).

mod value;

use std::borrow::Cow;

use super::{
    bare_text::BareText,
    body::JsonBody,
    broken::{Rest, Resumes},
    pattern::{Fit, fit, fit_any},
    repeats::Repeats,
    string_fast_path::StringFastPath,
    tag::{
        self, Sure, Verdict, attribute, bare_name, blank_or_name, read_key, read_pair, tag_without, types_of,
        unescaped,
    },
    text::{head, tail},
    typed_value::{Mend, TypedValue, json},
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::format::{Calls, Key, Params, ParamsName};
use crate::tools::{DeclaredTools, Shape};
use crate::wire::json::{Json, escape_str};

#[derive(Debug)]
enum At {
    Name,
    /// Before the first parameter, between two parameters, or after the last one.
    Between,
    Tag,
    /// In a value. `fresh` is set until some of its text has been read.
    Value {
        fresh: bool,
    },
    /// In the CDATA section of a value.
    Data,
    /// In a JSON object in place of the parameters.
    Json,
    /// In plain text in place of the only parameter.
    Text(BareText),
}

#[derive(Debug)]
pub(super) struct ParamsWalk {
    calls: &'static Calls,
    params: &'static Params,
    at: At,
    name: String,
    any_name: bool,
    keys: Vec<String>,
    value: TypedValue,
    repeats: Repeats,
    /// Whether the value may contain all arguments. Its key has not been sent.
    wraps: bool,
    /// The arguments in the first value, if it contains all arguments unless another parameter follows it.
    wrapped: Option<String>,
    /// Whether the value can only be a string, according to the tool's declaration.
    string: bool,
    body: JsonBody,
    json: bool,
    mend: Mend,
    max_markup: usize,
    started: bool,
    ended: bool,
}

impl Walk for ParamsWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let step = match self.at {
            At::Name => self.name(text, rules),
            At::Between => self.between(text, rules, out),
            At::Text(_) => self.text(text, out),
            At::Tag => self.tag(text, rules.tools, out),
            At::Value { fresh } => self.value(text, fresh, rules.tools, out),
            At::Data => self.data(text, out),
            At::Json => {
                let step = tag::json(&mut self.body, text, out);
                if let Step::Whole(_) = step {
                    self.at = At::Between;
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
        let markup = matches!(self.at, At::Name | At::Between | At::Tag);
        if markup { self.max_markup } else { usize::MAX }
    }

    fn string(&self) -> Option<StringFastPath> {
        match self.at {
            At::Value { fresh: false } | At::Data if self.value.streams() => {
                Some(StringFastPath::Tags { lines: self.params.trim })
            }
            At::Json => self.body.flow(),
            _ => None,
        }
    }

    fn kept(&self) -> usize {
        self.value.kept() + self.repeats.kept() + self.wrapped.as_ref().map_or(0, String::len)
    }

    fn is_in_call(&self) -> bool {
        self.started
    }

    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        let ended = match self.at {
            At::Value { .. } => {
                // If the call was cut off, only the value's own closer ends the value.
                let least = if stopped { 0 } else { 2 };
                let verdict = self.verdict(held, &DeclaredTools::default(), self.value.quotes(), true);
                let ends = matches!(verdict, Verdict::Ends(len) if len >= least);
                if ends {
                    self.end_value(&DeclaredTools::default(), out);
                }
                ends
            }
            At::Between => !self.keys.is_empty() || self.json,
            At::Json => stopped && self.body.close_last(&mut |text: &str| out(Piece::Arguments(text))),
            At::Name | At::Tag | At::Data | At::Text(_) => false,
        };
        // No repetition follows.
        self.repeats.settle(self.mend, out);
        // Complete JSON contains all arguments, whereas more parameters could have followed.
        let whole = ended && (stopped || self.json);
        if whole {
            self.end(out);
        } else if let Some(arguments) = self.wrapped.take() {
            out(Piece::Arguments(arguments.strip_suffix('}').unwrap_or_default()));
        }
        whole
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        matches!(self.at, At::Json) && self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        if matches!(self.at, At::Json) { self.body.breaks() } else { Rest::default() }
    }

    fn resume(&mut self) -> Resumes {
        (self.at, self.ended) = (At::Between, true);
        Resumes::BeforeCloser
    }
}

impl ParamsWalk {
    pub(super) fn new(calls: &'static Calls, params: &'static Params, rules: &CallRules<'_>) -> Self {
        Self {
            calls,
            params,
            at: At::Name,
            name: String::new(),
            any_name: rules.any_name,
            keys: Vec::new(),
            value: TypedValue::default(),
            repeats: Repeats::default(),
            wraps: false,
            wrapped: None,
            string: false,
            body: JsonBody::new(rules.repair, rules.max_depth),
            json: false,
            mend: Mend::new(rules),
            max_markup: rules.max_markup,
            started: false,
            ended: false,
        }
    }

    /// Creates a reader that starts after a header with the name.
    pub(super) fn named(
        calls: &'static Calls,
        params: &'static Params,
        name: &str,
        rules: &CallRules<'_>,
    ) -> Self {
        Self { at: At::Between, name: name.to_owned(), ..Self::new(calls, params, rules) }
    }

    pub(super) fn start(&mut self, out: &mut Out<'_>) {
        if !self.started {
            self.started = true;
            out(Piece::Start { name: &self.name, id: "" });
        }
    }

    fn end(&mut self, out: &mut Out<'_>) {
        if self.ended {
            return;
        }
        self.start(out);
        self.ended = true;
        if let Some(arguments) = self.wrapped.take() {
            self.json = true;
            out(Piece::Arguments(&arguments));
        }
        self.repeats.settle(self.mend, out);
        if !self.json {
            out(Piece::Arguments(if self.keys.is_empty() { "{}" } else { "}" }));
        }
    }

    fn name(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let rules = CallRules { any_name: self.any_name, ..*rules };
        let tag;
        let (name, len) = match self.params.name {
            ParamsName::Text => match bare_name(text) {
                Some(name) => {
                    let rest = tail(text, name.1);
                    let blank = rest.len() - rest.trim_start().len();
                    let (alone, declared) =
                        (head(rest, blank).contains('\n'), rules.tools.resolve(name.0).is_some());
                    // Prose may also contain a marker, a word and a brace on one line.
                    let brace = self.params.json && tail(rest, blank).starts_with('{');
                    let json = brace && (alone || declared || blank == 0);
                    // A declared name on its own line is enough, no matter what follows.
                    let line = alone && declared;
                    match self.expected(tail(rest, blank)) {
                        _ if json => (name.0, name.1),
                        Sure::Maybe if !line => return Step::Hold,
                        Sure::No if !line => return Step::Stop(0),
                        _ => (name.0, name.1),
                    }
                }
                None => return if blank_or_name(text) { Step::Hold } else { Step::Stop(0) },
            },
            ParamsName::Before(end) => {
                let sign = end.chars().next().unwrap_or_default();
                let Some(at) = text.find(sign) else {
                    return if text.contains('<') { Step::Stop(0) } else { Step::Hold };
                };
                match fit(end, tail(text, at)) {
                    Fit::Whole(len) => (head(text, at).trim().trim_matches(['"', '\'']), at + len),
                    Fit::Begins => return Step::Hold,
                    Fit::No => return Step::Stop(0),
                }
            }
            ParamsName::Attribute(key, end) => {
                let noise = self.calls.noise.iter().copied().filter(|mark| mark.starts_with('<'));
                match tag_without(text, end, &noise.collect::<Vec<_>>()) {
                    Some(Some((written, len))) => {
                        tag = written;
                        match attribute(&tag, key) {
                            Some(name) => (name, len),
                            None => return Step::Stop(0),
                        }
                    }
                    Some(None) => return Step::Hold,
                    None => return Step::Stop(0),
                }
            }
        };
        let Some(name) = rules.name(name) else { return Step::Stop(0) };
        name.clone_into(&mut self.name);
        self.at = At::Between;
        Step::Took(len)
    }

    /// Whether the opener and the name are enough to identify a call, since other text does not contain both.
    fn is_certain(&self) -> bool {
        self.any_name || !self.params.common
    }

    /// Whether `text` may follow the name or a parameter.
    fn expected(&self, text: &str) -> Sure {
        let text = text.trim_start();
        if text.is_empty() {
            return Sure::Maybe;
        }
        fit_any([self.params.key.open()].into_iter().chain(self.closers()), text).into()
    }

    /// Returns the markers that end the call or show that it has ended.
    fn closers(&self) -> impl Iterator<Item = &'static str> {
        self.params.end.iter().copied().chain(self.outer())
    }

    /// Returns the markers that may follow a call.
    fn outer(&self) -> impl Iterator<Item = &'static str> {
        let sections = self.calls.sections.iter().map(|&(_, close)| close).filter(|close| !close.is_empty());
        sections.chain(self.calls.open.iter().copied()).chain(self.calls.noise.iter().copied())
    }

    fn between(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let blank = text.len() - text.trim_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        let fresh = self.keys.is_empty() && !self.json;
        if fresh && self.params.json && text.starts_with('{') {
            self.start(out);
            (self.at, self.json) = (At::Json, true);
            return Step::Took(0);
        }
        let open = if self.json { Fit::No } else { fit(self.params.key.open(), text) };
        if let Fit::Whole(len) = open {
            if let Key::Pair { .. } = self.params.key {
                return self.pair(text, rules.tools, out);
            }
            self.start(out);
            self.at = At::Tag;
            return Step::Took(len);
        }
        let end = fit_any(self.params.end.iter().copied(), text);
        if let Fit::Whole(len) = end {
            return Step::End(len);
        }
        match fit_any(self.outer(), text) {
            Fit::Whole(_) if self.started || self.is_certain() => Step::End(0),
            outer if outer == Fit::Begins || end == Fit::Begins || open == Fit::Begins => Step::Hold,
            _ if self.started => Step::End(0),
            _ if text.starts_with('<') => Step::Stop(0),
            _ => match BareText::new(&self.name, self.is_certain(), rules) {
                Some(bare) => {
                    self.at = At::Text(bare);
                    Step::Took(0)
                }
                None => Step::Stop(0),
            },
        }
    }

    fn text(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        let At::Text(mut bare) = std::mem::replace(&mut self.at, At::Between) else { return Step::Stop(0) };
        let step = bare.step(text, (&self.name, ""), |text| fit_any(self.closers(), text), out);
        if let Step::Whole(_) = step {
            (self.started, self.ended) = (true, true);
        } else {
            self.at = At::Text(bare);
        }
        step
    }

    fn tag(&mut self, text: &str, tools: &DeclaredTools, out: &mut Out<'_>) -> Step {
        match read_key(&self.params.key, text) {
            Some(Some((key, kind, len))) => {
                self.begin(key, kind, tools, out);
                Step::Took(len)
            }
            Some(None) => Step::Hold,
            None => Step::Stop(0),
        }
    }

    /// Reads `<arg_key>K</arg_key><arg_value>`, where the closer of the key may be missing.
    fn pair(&mut self, text: &str, tools: &DeclaredTools, out: &mut Out<'_>) -> Step {
        match read_pair(&self.params.key, text) {
            Some(Some((key, kind, len))) => {
                self.start(out);
                self.begin(key, kind, tools, out);
                Step::Took(len)
            }
            Some(None) => Step::Hold,
            None if self.keys.is_empty() => Step::Stop(0),
            None => Step::End(0),
        }
    }

    /// Begins the parameter `key`. `kind` is the type in its tag.
    fn begin(&mut self, key: &str, kind: Option<&str>, tools: &DeclaredTools, out: &mut Out<'_>) {
        // A key in an attribute may be escaped.
        let in_attribute = matches!(self.params.key, Key::Attribute { .. });
        let plain = if in_attribute { unescaped(key) } else { Cow::Borrowed(key) };
        let as_written = tools.types(&self.name, key).is_some();
        let key = if as_written { key } else { &*plain };
        let shape = tools.shape(&self.name).and_then(|shape| shape.inner(Some(key)));
        let declared = shape.map(Shape::types);
        let declared_types = declared.unwrap_or_default();
        let types =
            kind.and_then(types_of).map_or(declared_types, |written| declared_types.described_as(written));
        self.string = (kind.is_some() || declared.is_some()) && types.is_string();
        self.at = At::Value { fresh: true };
        if self.wrapped.take().is_some() {
            self.key(out);
            self.repeats.end(&mut self.value, out);
        }
        if self.repeats.is_pending() && self.keys.last().is_some_and(|last| last == key) {
            self.value = self.repeats.again(self.mend, out);
            return;
        }
        self.repeats.settle(self.mend, out);
        self.value = self.repeats.value(types, shape, self.mend);
        self.wraps = self.keys.is_empty()
            && shape.is_none()
            && WRAPPERS.contains(&key)
            && tools.has_arguments(&self.name);
        self.keys.push(key.to_owned());
        if self.wraps {
            self.value = TypedValue::new(types, self.mend).waiting(usize::MAX);
        } else {
            self.key(out);
            self.value.begin(out);
        }
    }

    /// Sends the last key.
    fn key(&mut self, out: &mut Out<'_>) {
        let Some(key) = self.keys.last() else { return };
        let mut written = String::from(if self.keys.len() == 1 { "{\"" } else { ", \"" });
        escape_str(&mut written, key);
        written.push_str("\": ");
        out(Piece::Arguments(&written));
    }

    /// Ends a value. If it contains all arguments, its key is not an argument, unless another parameter follows.
    fn end_value(&mut self, tools: &DeclaredTools, out: &mut Out<'_>) {
        if std::mem::take(&mut self.wraps) {
            let text = self.value.waited().unwrap_or_default();
            self.wrapped = self.unwrapped(&text, tools);
            self.value.push(&text, out);
            if self.wrapped.is_some() {
                return;
            }
            self.key(out);
        }
        self.repeats.end(&mut self.value, out);
    }

    /// The arguments in `text`, if it is an object whose keys are all declared.
    fn unwrapped(&self, text: &str, tools: &DeclaredTools) -> Option<String> {
        let object = Some(text.trim()).filter(|text| text.starts_with('{'))?;
        let arguments = json(object, self.mend)?;
        let is_declared = |(key, _): (Cow<'_, str>, Json<'_>)| tools.declares(&self.name, &key);
        let declares_all = Json::parse(&arguments).is_ok_and(|view| view.members().all(is_declared));
        declares_all.then_some(arguments)
    }
}

/// Keys under which models write all arguments once more, unless the tool declares them.
const WRAPPERS: [&str; 5] = ["arguments", "input", "properties", "args", "parameters"];

//! Divides the model's text into parts: plain text, reasoning, and the markers, names and arguments of calls.

use std::ops::Range;

use memchr::memmem;
use serde_json::{Map, Value, json};

use super::EventKind;
use toolwire_pipeline::{
    format::{CallBody, Format, Grammar, KnownFormats, TagKind},
    wire::text::slice,
};

/// A range of the text that was emitted as text or as reasoning.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) kind: EventKind,
    pub(super) range: Range<usize>,
}

/// An emitted call, with the positions that its events reveal.
#[derive(Debug)]
pub(super) struct FoundCall {
    pub(super) name: String,
    pub(super) format: &'static str,
    pub(super) is_declared: bool,
    /// Where the text before the call ends.
    pub(super) begin: usize,
    /// Number of bytes read when the call was emitted.
    pub(super) start_at: usize,
    pub(super) end_at: Option<usize>,
    /// Range of the arguments, if the text contains them exactly as emitted.
    pub(super) arguments: Option<Range<usize>>,
    /// Whether the text contains the arguments in a different form.
    pub(super) is_rewritten: bool,
    /// The arguments as emitted.
    pub(super) written: String,
}

impl FoundCall {
    pub(super) fn new(
        name: &str,
        format: &'static str,
        is_declared: bool,
        begin: usize,
        start_at: usize,
    ) -> Self {
        Self {
            name: name.to_owned(),
            format,
            is_declared,
            begin,
            start_at,
            end_at: None,
            arguments: None,
            is_rewritten: false,
            written: String::new(),
        }
    }
}

/// A call and the known ranges of its parts.
#[derive(Debug, Default)]
pub(crate) struct CallParts {
    pub(crate) name: String,
    pub(crate) format: &'static str,
    pub(crate) is_declared: bool,
    pub(crate) opener: Option<Range<usize>>,
    pub(crate) name_range: Option<Range<usize>>,
    /// Range of the arguments, if the text contains them exactly as the client receives them.
    pub(crate) arguments: Option<Range<usize>>,
    pub(crate) closer: Option<Range<usize>>,
    /// Whether the arguments are a JSON object.
    pub(crate) is_valid: bool,
    /// The range of the call from its opener to its closer.
    range: Range<usize>,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) range: Range<usize>,
    /// The call's format, if the part belongs to a call.
    pub(crate) format: Option<&'static str>,
    pub(crate) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum PartKind {
    Text,
    Reasoning,
    Opener,
    Name,
    Arguments,
    Closer,
    /// Text that the client does not receive: other markup, and white space around calls.
    Markup,
}

impl PartKind {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// Locates the parts of each call.
pub(super) fn of_calls(
    text: &str,
    calls: Vec<FoundCall>,
    located: &[Located],
    known: &KnownFormats,
) -> Vec<CallParts> {
    let starts: Vec<_> = calls.iter().map(|call| call.start_at).skip(1).chain([text.len()]).collect();
    let mut before = 0;
    let mut found = Vec::new();
    for (call, next) in calls.into_iter().zip(starts) {
        let read = call.arguments.as_ref().map_or(call.start_at, |range| range.end).min(text.len());
        // The call ends where the next text or the next call starts.
        let following = located.partition_point(|located| located.range.start < read);
        let limit = located.get(following).map_or(next, |located| located.range.start.min(next)).max(read);
        let begin = call.begin.max(before).min(read);
        let format = known.all().find(|format| format.name == call.format);
        let opener = format.and_then(|format| opener(format, text, begin..read));
        let inside = opener.as_ref().map_or(begin, |opener| opener.end);
        let name_range = name_in(&call, text, inside, limit);
        let closer = format.and_then(|format| closer(format, text, read..limit));
        before = closer.as_ref().map_or(read, |closer| closer.end);
        let is_valid = serde_json::from_str::<serde::de::IgnoredAny>(&call.written).is_ok();
        let begin = opener.as_ref().map_or(begin, |opener| opener.start);
        found.push(CallParts {
            name: call.name,
            format: call.format,
            is_declared: call.is_declared,
            opener,
            name_range,
            arguments: call.arguments.filter(|_| !call.is_rewritten),
            closer,
            is_valid: is_valid && !call.written.is_empty(),
            range: begin..before.max(begin),
        });
    }
    found
}

/// Locates the name, which may come before or after the arguments.
fn name_in(call: &FoundCall, text: &str, inside: usize, limit: usize) -> Option<Range<usize>> {
    let name = call.name.as_bytes();
    let (start, end) =
        call.arguments.as_ref().map_or((call.start_at, call.start_at), |it| (it.start, it.end));
    let before = memmem::rfind(slice(text, inside, start.max(inside)).as_bytes(), name).map(|at| inside + at);
    let at = before.or_else(|| Some(end + memmem::find(slice(text, end, limit).as_bytes(), name)?))?;
    Some(at..at + name.len()).filter(|_| !name.is_empty())
}

fn opener(format: &Format, text: &str, within: Range<usize>) -> Option<Range<usize>> {
    let searched = slice(text, within.start, within.end);
    let openers = format.openers();
    let found = openers.iter().filter_map(|open| {
        let at = memmem::find(searched.as_bytes(), open.as_bytes())?;
        Some((at, std::cmp::Reverse(open.len())))
    });
    if let Some((at, std::cmp::Reverse(len))) = found.min() {
        let start = within.start + at;
        let rest = slice(searched, at + len, searched.len());
        // The opening tag may have attributes.
        let more = if is_html(format) { rest.find('>').map_or(0, |end| end + 1) } else { 0 };
        return Some(start..start + len + more);
    }
    let fence = has_fence(format).then(|| searched.find("```").or_else(|| searched.find("~~~"))).flatten()?;
    let line = slice(searched, fence, searched.len());
    let start = within.start + fence;
    Some(start..start + line.find('\n').map_or(line.len(), |end| end + 1))
}

fn closer(format: &Format, text: &str, within: Range<usize>) -> Option<Range<usize>> {
    let searched = slice(text, within.start, within.end);
    let closers = format.grammars.iter().flat_map(|grammar| match grammar {
        Grammar::Tagged(tags) => tags.iter().map(|tag| tag.close).collect::<Vec<_>>(),
        Grammar::Fenced { .. } | Grammar::Code { .. } => vec!["```", "~~~"],
        Grammar::Calls(calls) => {
            let own = match &calls.body {
                CallBody::Header(header) => header.close,
                CallBody::Params(params) => params.end,
                CallBody::Elements(elements) => elements.end,
                CallBody::Attributes { end } => end,
                CallBody::Raw(_, close) => std::slice::from_ref(close),
                _ => &[],
            };
            own.iter().copied().chain(calls.sections.iter().map(|(_, close)| *close)).collect()
        }
        Grammar::Channels(channels) => channels.end.to_vec(),
        _ => Vec::new(),
    });
    let found = closers.filter(|close| !close.is_empty()).filter_map(|close| {
        let at = memmem::find(searched.as_bytes(), close.as_bytes())?;
        Some((at, std::cmp::Reverse(close.len())))
    });
    let (at, std::cmp::Reverse(len)) = found.min()?;
    Some(within.start + at..within.start + at + len)
}

fn is_html(format: &Format) -> bool {
    let is_html = |grammar: &Grammar| matches!(grammar, Grammar::Tagged(tags) if tags.iter().any(|tag| tag.kind == TagKind::Html));
    format.grammars.iter().any(is_html)
}

pub(super) fn has_fence(format: &Format) -> bool {
    format.grammars.iter().any(|grammar| matches!(grammar, Grammar::Fenced { .. } | Grammar::Code { .. }))
}

pub(super) fn of_text(text: &str, located: &[Located], calls: &[CallParts]) -> Vec<Part> {
    let mut parts: Vec<_> = located
        .iter()
        .map(|Located { kind, range }| {
            let (kind, why) = match kind {
                EventKind::Reasoning => (PartKind::Reasoning, "reasoning of the model"),
                _ => (PartKind::Text, "text"),
            };
            Part { kind, range: range.clone(), format: None, why: why.to_owned() }
        })
        .chain(calls.iter().flat_map(CallParts::parts))
        .filter(|part| !part.range.is_empty())
        .collect();
    parts.sort_by_key(|part| (part.range.start, part.range.end));
    let mut whole = Vec::with_capacity(parts.len());
    let mut at = 0;
    for part in parts {
        if part.range.start < at {
            // Two formats may share a marker, which then belongs to the first format.
            continue;
        }
        whole.extend(gap(text, at..part.range.start, calls));
        at = part.range.end;
        whole.push(part);
    }
    whole.extend(gap(text, at..text.len(), calls));
    whole
}

/// Describes a range of text that is not emitted.
fn gap(text: &str, range: Range<usize>, calls: &[CallParts]) -> Option<Part> {
    if range.is_empty() {
        return None;
    }
    let after = calls.partition_point(|call| call.range.end <= range.start);
    let call = calls.get(after).filter(|call| call.range.start < range.end);
    let why = match call {
        Some(call) => format!("markup of {}", call.format),
        None if slice(text, range.start, range.end).trim().is_empty() => "white space, left out".to_owned(),
        None => "markup, left out".to_owned(),
    };
    Some(Part { kind: PartKind::Markup, range, format: call.map(|call| call.format), why })
}

impl CallParts {
    /// The call as JSON: its number, and the known ranges of its parts.
    pub(crate) fn json(&self, number: usize) -> Value {
        let ranges: Map<String, Value> = [
            ("opener", &self.opener),
            ("name", &self.name_range),
            ("arguments", &self.arguments),
            ("closer", &self.closer),
        ]
        .into_iter()
        .filter_map(|(name, range)| {
            Some((name.to_owned(), range.as_ref().map(|it| json!([it.start, it.end]))?))
        })
        .collect();
        json!({
            "call": number, "name": self.name, "format": self.format, "declared": self.is_declared,
            "valid": self.is_valid, "ranges": ranges,
        })
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let format = self.format;
        let name = if self.is_declared { "name, declared" } else { "name, not declared" };
        let arguments = if self.is_valid { "arguments, valid" } else { "arguments, not complete" };
        let parts = [
            (PartKind::Opener, &self.opener, format!("opener of {format}")),
            (PartKind::Name, &self.name_range, name.to_owned()),
            (PartKind::Arguments, &self.arguments, arguments.to_owned()),
            (PartKind::Closer, &self.closer, format!("closer of {format}")),
        ];
        parts.into_iter().filter_map(move |(kind, range, why)| {
            Some(Part { kind, range: range.clone()?, format: Some(format), why })
        })
    }
}

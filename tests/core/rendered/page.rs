//! A page: a scene in its written form, and the expected result of reading it.

use crate::rendered::scene::{Call, Group, Scene};

/// A part of the written text.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// Markup that contains calls, and whether it includes the rest of the last line.
    Calls(String, bool),
    /// Markup around reasoning.
    Reasoning(String),
    /// Markup around text.
    Markup(String),
}

/// A scene in its written form.
#[derive(Debug, Default)]
pub(crate) struct Page {
    parts: Vec<Part>,
    /// Length of the marker at the page's beginning, if that opens reasoning.
    opener: Option<usize>,
    /// The calls that must be found.
    pub(crate) calls: Vec<Meant>,
    pub(crate) reasoning: String,
}

/// The notation of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Whether the arguments are JSON, and must be forwarded byte for byte.
    pub(crate) exact: bool,
    /// Whether the notation has no marker of its own and includes the rest of its line, which is blank. All white
    /// space around a marker is kept (docs/protocols/text-formats.md#white-space).
    pub(crate) takes_line: bool,
    /// Whether the arguments' JSON is in a string.
    pub(crate) packed: bool,
}

impl How {
    pub(crate) const JSON: Self = Self { exact: true, takes_line: false, packed: false };
    pub(crate) const VALUES: Self = Self { exact: false, ..Self::JSON };
    pub(crate) const UNMARKED_JSON: Self = Self { takes_line: true, ..Self::JSON };
    pub(crate) const UNMARKED_VALUES: Self = Self { exact: false, ..Self::UNMARKED_JSON };
}

/// A call that must be found.
#[derive(Debug)]
pub(crate) struct Meant {
    pub(crate) call: Call,
    pub(crate) how: How,
    pub(crate) id: String,
}

impl Meant {
    /// Whether the arguments' JSON is in a string.
    pub(crate) fn is_packed(&self) -> bool {
        self.how.packed || self.call.is_packed()
    }
}

impl Page {
    /// Writes `scene`, using `write` for each group of calls.
    pub(crate) fn of(scene: &Scene, reasoning: &[(&str, &str)], write: impl Fn(&Group, &mut Page)) -> Self {
        let mut page = Self::default();
        if let Some(thought) = &scene.reasoning {
            let reasoning = reasoning[thought.len() % reasoning.len()];
            page.opener = Some(reasoning.0.len());
            page.parts.push(Part::Reasoning(format!("{}{thought}{}", reasoning.0, reasoning.1)));
            page.text("\n");
            page.reasoning.clone_from(thought);
        }
        for group in &scene.groups {
            page.text(&group.before);
            page.text(group.gaps.0);
            write(group, &mut page);
            page.text(group.gaps.1);
        }
        page.text(&scene.last);
        page
    }

    /// Adds text, which must be kept.
    pub(crate) fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Adds markup that has no meaning apart from its content.
    pub(crate) fn markup(&mut self, source: &str) {
        self.parts.push(Part::Markup(source.to_owned()));
    }

    /// Adds reasoning, without its markup.
    pub(crate) fn thought(&mut self, text: &str) {
        self.parts.push(Part::Reasoning(text.to_owned()));
        self.reasoning.push_str(text);
    }

    /// Adds markup that stands for `calls`.
    pub(crate) fn calls<'c>(&mut self, source: String, calls: impl IntoIterator<Item = &'c Call>, how: How) {
        self.parts.push(Part::Calls(source, how.takes_line));
        let meant = calls.into_iter().map(|call| Meant { call: call.clone(), how, id: String::new() });
        self.calls.extend(meant);
    }

    /// Adds each call of the group in separate markup.
    pub(crate) fn each(&mut self, group: &Group, between: &str, how: How, write: impl Fn(&Call) -> String) {
        for (at, call) in group.calls.iter().enumerate() {
            if at > 0 {
                self.text(between);
            }
            self.calls(write(call), [call], how);
        }
    }

    /// Records that the calls from index `from` on were written with these ids.
    pub(crate) fn name_ids(&mut self, from: usize, id: impl Fn(&Call, usize) -> String) {
        for (at, meant) in self.calls.iter_mut().enumerate().skip(from) {
            meant.id = id(&meant.call, at);
        }
    }

    /// The complete text.
    pub(crate) fn source(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) | Part::Calls(text, _) | Part::Reasoning(text) | Part::Markup(text) => {
                text.clone()
            }
        };
        self.parts.iter().map(part).collect()
    }

    /// Returns the page without the opener of its reasoning, if it has one: templates put the opener into the prompt.
    pub(crate) fn behind_reasoning_opener(&self) -> Option<String> {
        let source = self.source();
        self.opener.map(|len| source[len..].to_owned())
    }

    /// The text that must be kept (docs/protocols/text-formats.md#white-space): markup at the beginning of its line
    /// includes its indentation and its line end; with calls, white space is removed at the message's end, and at its
    /// beginning if only white space precedes the calls.
    pub(crate) fn visible(&self) -> String {
        let mut out = String::new();
        // The text since the last line end, without markup.
        let mut line = String::new();
        let mut leads = false;
        let mut begun_line = false;
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    let text = if begun_line { without_line_rest(text) } else { text };
                    out.push_str(text);
                    match text.rsplit_once('\n') {
                        Some((_, last)) => last.clone_into(&mut line),
                        None => line.push_str(text),
                    }
                    begun_line = false;
                }
                Part::Calls(_, takes_line) => {
                    begun_line = *takes_line && line.trim().is_empty();
                    if begun_line {
                        out.truncate(out.trim_end_matches([' ', '\t', '\r']).len());
                    }
                    leads |= out.trim().is_empty();
                }
                Part::Reasoning(_) | Part::Markup(_) => {}
            }
        }
        if self.calls.is_empty() {
            return out;
        }
        let out = if leads { out.trim_start() } else { &out };
        out.trim_end().to_owned()
    }
}

/// Returns the text without the rest of its first line, if that is blank.
fn without_line_rest(text: &str) -> &str {
    match text.split_once('\n') {
        Some((rest, behind)) if rest.trim().is_empty() => behind,
        _ => text,
    }
}

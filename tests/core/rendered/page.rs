//! A page: a scene written down, and what must be read from it.

use crate::rendered::scene::{Call, Group, Scene};

/// A part of what was written.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// Markup with calls in it; it may take the rest of its line with it.
    Calls(String, bool),
    /// Markup around reasoning.
    Reasoning(String),
    /// Markup around text.
    Markup(String),
}

/// A scene written down.
#[derive(Debug, Default)]
pub(crate) struct Page {
    parts: Vec<Part>,
    /// The length of the marker that the page begins with, if that opens reasoning.
    opener: Option<usize>,
    /// What must be found.
    pub(crate) calls: Vec<Meant>,
    pub(crate) reasoning: String,
}

/// How calls are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// The arguments are JSON, and must come out byte for byte.
    pub(crate) exact: bool,
    /// It has no marker made for calls, and takes the blank rest of its line with it. Around a marker all white space
    /// stays (docs/protocols/text-formats.md#white-space).
    pub(crate) takes_line: bool,
    /// The arguments' JSON is in a string.
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
    /// The arguments' JSON is in a string.
    pub(crate) fn is_packed(&self) -> bool {
        self.how.packed || self.call.is_packed()
    }
}

impl Page {
    /// Writes `scene`, each group of calls as `write` does.
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

    /// Text, which must come out.
    pub(crate) fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Markup that means nothing but what it has inside.
    pub(crate) fn markup(&mut self, source: &str) {
        self.parts.push(Part::Markup(source.to_owned()));
    }

    /// Reasoning, without its markup.
    pub(crate) fn thought(&mut self, text: &str) {
        self.parts.push(Part::Reasoning(text.to_owned()));
        self.reasoning.push_str(text);
    }

    /// Markup that stands for `calls`.
    pub(crate) fn calls<'c>(&mut self, source: String, calls: impl IntoIterator<Item = &'c Call>, how: How) {
        self.parts.push(Part::Calls(source, how.takes_line));
        let meant = calls.into_iter().map(|call| Meant { call: call.clone(), how, id: String::new() });
        self.calls.extend(meant);
    }

    /// Each call of the group in separate markup.
    pub(crate) fn each(&mut self, group: &Group, between: &str, how: How, write: impl Fn(&Call) -> String) {
        for (at, call) in group.calls.iter().enumerate() {
            if at > 0 {
                self.text(between);
            }
            self.calls(write(call), [call], how);
        }
    }

    /// The calls from the one at `from` on were written with these ids.
    pub(crate) fn name_ids(&mut self, from: usize, id: impl Fn(&Call, usize) -> String) {
        for (at, meant) in self.calls.iter_mut().enumerate().skip(from) {
            meant.id = id(&meant.call, at);
        }
    }

    /// All of it.
    pub(crate) fn source(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) | Part::Calls(text, _) | Part::Reasoning(text) | Part::Markup(text) => {
                text.clone()
            }
        };
        self.parts.iter().map(part).collect()
    }

    /// The page without the opener of its reasoning, if it has any: templates put that in the prompt.
    pub(crate) fn behind_reasoning_opener(&self) -> Option<String> {
        let source = self.source();
        self.opener.map(|len| source[len..].to_owned())
    }

    /// The text that must come out (docs/protocols/text-formats.md#white-space): markup that begins its line takes its
    /// indentation and its line end with it; where there are calls, no white space is left at the message's end, nor
    /// at its beginning if that is what stands before the calls.
    pub(crate) fn visible(&self) -> String {
        let mut out = String::new();
        // What was written since the last line end, markup left out.
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

/// Without what is left of a line, if that is blank.
fn without_line_rest(text: &str) -> &str {
    match text.split_once('\n') {
        Some((rest, behind)) if rest.trim().is_empty() => behind,
        _ => text,
    }
}

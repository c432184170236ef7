//! A page: a scene written in some format, and the results that the detector must return for it.

use crate::rendered::scene::{Call, Group, Scene};

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// The source of calls. The flag is true if the source includes the blank remainder of its last line.
    Calls(String, bool),
    Reasoning(String),
    Markup(String),
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    parts: Vec<Part>,
    /// The length of the marker at the start of the page, if that marker opens reasoning.
    opener: Option<usize>,
    pub(crate) calls: Vec<Meant>,
    pub(crate) reasoning: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Whether the arguments are JSON that must be forwarded byte for byte.
    pub(crate) exact: bool,
    /// Whether the calls have no marker and include the blank remainder of their line. White space around a marker
    /// would be kept (docs/protocols/text-formats.md#white-space).
    pub(crate) takes_line: bool,
    /// Whether the arguments are a string that contains JSON.
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
    pub(crate) fn is_packed(&self) -> bool {
        self.how.packed || self.call.is_packed()
    }
}

impl Page {
    /// Writes `scene`. Calls `write` for each group of calls.
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

    /// Adds text, all of which must be found.
    pub(crate) fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Adds markup that must be removed.
    pub(crate) fn markup(&mut self, source: &str) {
        self.parts.push(Part::Markup(source.to_owned()));
    }

    /// Adds the content of reasoning, without its markers.
    pub(crate) fn thought(&mut self, text: &str) {
        self.parts.push(Part::Reasoning(text.to_owned()));
        self.reasoning.push_str(text);
    }

    pub(crate) fn calls<'c>(&mut self, source: String, calls: impl IntoIterator<Item = &'c Call>, how: How) {
        self.parts.push(Part::Calls(source, how.takes_line));
        let meant = calls.into_iter().map(|call| Meant { call: call.clone(), how, id: String::new() });
        self.calls.extend(meant);
    }

    /// Adds each call of the group separately, with the text `between` after each but the last.
    pub(crate) fn each(&mut self, group: &Group, between: &str, how: How, write: impl Fn(&Call) -> String) {
        for (at, call) in group.calls.iter().enumerate() {
            if at > 0 {
                self.text(between);
            }
            self.calls(write(call), [call], how);
        }
    }

    /// Sets the IDs with which the calls from index `from` on were written.
    pub(crate) fn name_ids(&mut self, from: usize, id: impl Fn(&Call, usize) -> String) {
        for (at, meant) in self.calls.iter_mut().enumerate().skip(from) {
            meant.id = id(&meant.call, at);
        }
    }

    pub(crate) fn source(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) | Part::Calls(text, _) | Part::Reasoning(text) | Part::Markup(text) => {
                text.clone()
            }
        };
        self.parts.iter().map(part).collect()
    }

    /// Returns the page without the opener of its reasoning, which some templates put into the prompt. `None` if
    /// there is no such opener.
    pub(crate) fn behind_reasoning_opener(&self) -> Option<String> {
        let source = self.source();
        self.opener.map(|len| source[len..].to_owned())
    }

    /// Returns the text that must be found. Calls on lines of their own include their indentation and line ending.
    /// If there are calls, white space is also removed at the end, and at the start if it precedes the first call
    /// (docs/protocols/text-formats.md#white-space).
    pub(crate) fn visible(&self) -> String {
        let mut out = String::new();
        // The text since the last line ending, without markup.
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

fn without_line_rest(text: &str) -> &str {
    match text.split_once('\n') {
        Some((rest, behind)) if rest.trim().is_empty() => behind,
        _ => text,
    }
}

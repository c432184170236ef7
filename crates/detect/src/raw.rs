//! [`RawWalk`]: reads a call whose body is its only argument, such as code to run.
//!
//! ```text
//! NAME>
//! print(1)
//! </tool>
//! ```
//!
//! If the body starts on a line of its own, so does the closer. The body may also be a JSON object with all
//! arguments.

use super::{
    body::JsonBody,
    broken::{Rest, Resumes},
    pattern::{Fit, fit},
    string_fast_path::StringFastPath,
    tag::json,
    text::{head, tail},
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::wire::json::escape_str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    /// Before the body.
    Fresh,
    /// In a body that is text. `lines` is set if the closer starts a line.
    Text {
        lines: bool,
    },
    Json,
    /// After JSON.
    After,
}

#[derive(Debug)]
pub(super) struct RawWalk {
    name_end: &'static str,
    close: &'static str,
    at: At,
    name: String,
    body: JsonBody,
    max_markup: usize,
}

impl RawWalk {
    /// `name_end` is the marker that ends the name, and `close` the closer of the call.
    pub(super) fn new(name_end: &'static str, close: &'static str, rules: &CallRules<'_>) -> Self {
        Self {
            name_end,
            close,
            at: At::Name,
            name: String::new(),
            body: JsonBody::new(rules.repair, rules.max_depth),
            max_markup: rules.max_markup,
        }
    }

    fn name(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let Some(at) = text.find(self.name_end) else {
            let may_be = !text.contains(['<', '\n']) && rules.tools.may_become(text.trim_start());
            return if may_be { Step::Hold } else { Step::Stop(0) };
        };
        let Some(name) = rules.tools.resolve(head(text, at).trim()) else { return Step::Stop(0) };
        name.clone_into(&mut self.name);
        self.at = At::Fresh;
        Step::Took(at + self.name_end.len())
    }

    /// Decides by its first visible character what the body is.
    fn fresh(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let body = text.trim_ascii_start();
        let closed = fit(self.close, body);
        if body.is_empty() || closed == Fit::Begins {
            return Step::Hold;
        }
        let only = rules.tools.only_string(&self.name);
        let json = is_json(body, only);
        if json == Fit::Begins {
            return Step::Hold;
        }
        out(Piece::Start { name: &self.name, id: "" });
        if json == Fit::Whole(0) {
            self.at = At::Json;
            return Step::Took(text.len() - body.len());
        }
        let key = only.or_else(|| rules.tools.text_parameter(&self.name)).unwrap_or("input");
        let mut opening = String::from("{\"");
        escape_str(&mut opening, key);
        opening.push_str("\": \"");
        out(Piece::Arguments(&opening));
        let line = text.find('\n').filter(|line| head(text, *line).trim().is_empty());
        self.at = At::Text { lines: line.is_some() };
        if let Fit::Whole(len) = closed {
            return self.ended(text.len() - body.len() + len, out);
        }
        Step::Took(line.map_or(0, |line| line + 1))
    }

    fn text(&self, text: &str, lines: bool, out: &mut Out<'_>) -> Step {
        let first = if lines { '\n' } else { '<' };
        let mut from = 0;
        while let Some(found) = tail(text, from).find(first) {
            let at = from + found;
            match fit(self.close, tail(text, at + usize::from(lines))) {
                Fit::Whole(len) => {
                    argument(head(text, at), out);
                    return self.ended(at + usize::from(lines) + len, out);
                }
                Fit::Begins if at == 0 => return Step::Hold,
                Fit::Begins => {
                    argument(head(text, at), out);
                    return Step::Took(at);
                }
                Fit::No => from = at + 1,
            }
        }
        argument(text, out);
        Step::Took(text.len())
    }

    fn ended(&self, len: usize, out: &mut Out<'_>) -> Step {
        out(Piece::Arguments("\"}"));
        Step::End(len)
    }
}

/// Whether `body` is JSON with all arguments. If the tool takes `only` this string, the object must have its
/// key.
fn is_json(body: &str, only: Option<&str>) -> Fit {
    let Some(inside) = body.strip_prefix('{') else { return Fit::No };
    let Some(key) = only else { return Fit::Whole(0) };
    let (inside, key) = (inside.trim_ascii_start(), format!("\"{key}\""));
    match () {
        () if inside.starts_with(&key) => Fit::Whole(0),
        () if key.starts_with(inside) => Fit::Begins,
        () => Fit::No,
    }
}

fn argument(text: &str, out: &mut Out<'_>) {
    let mut escaped = String::with_capacity(text.len());
    escape_str(&mut escaped, text);
    out(Piece::Arguments(&escaped));
}

impl Walk for RawWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        match self.at {
            At::Name => self.name(text, rules),
            At::Fresh => self.fresh(text, rules, out),
            At::Text { lines } => self.text(text, lines, out),
            At::Json => {
                let step = json(&mut self.body, text, out);
                if let Step::Whole(_) = step {
                    self.at = At::After;
                }
                step
            }
            At::After => {
                let marker = text.trim_ascii_start();
                let blank = text.len() - marker.len();
                match fit(self.close, marker) {
                    Fit::Whole(len) => Step::End(blank + len),
                    Fit::Begins => Step::Hold,
                    Fit::No => Step::End(0),
                }
            }
        }
    }

    fn bound(&self) -> usize {
        if matches!(self.at, At::Name | At::Fresh | At::After) { self.max_markup } else { usize::MAX }
    }

    /// Ends the text, which may have stopped at the closer.
    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        match self.at {
            At::Text { .. } if stopped => {
                argument(held.strip_suffix('\n').unwrap_or(held), out);
                out(Piece::Arguments("\"}"));
                true
            }
            _ => false,
        }
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        self.at == At::Json && self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        if self.at == At::Json { self.body.breaks() } else { Rest::default() }
    }

    fn resume(&mut self) -> Resumes {
        self.at = At::After;
        Resumes::BeforeCloser
    }

    fn string(&self) -> Option<StringFastPath> {
        match self.at {
            At::Text { .. } => Some(StringFastPath::Tags { lines: true }),
            At::Json => self.body.flow(),
            _ => None,
        }
    }
}

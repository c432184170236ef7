//! [`Problem`]: a mistake in a configuration, and its location.

use std::{cell::RefCell, fmt, ops::Range};

use super::source::Source;

pub(super) const UNKNOWN_KEY: &str = "unknown key";
pub(super) const MISSING_KEY: &str = "missing key";
pub(super) const UNREADABLE_FILE: &str = "cannot read the configuration file";
pub(super) const NOTHING_TO_SERVE: &str = "nothing to serve";

/// A mistake in a configuration, or a likely mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub place: Place,
    /// The mistake and how to fix it. Never contains a secret.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Nowhere => write!(f, "{}: {}", self.severity, self.message),
            Place::Flag(name) => write!(f, "{}: {name}: {}", self.severity, self.message),
            place @ (Place::File { .. } | Place::Overlay { .. }) => {
                write!(f, "{place}: {}: {}", self.severity, self.message)
            }
        }
    }
}

impl Problem {
    /// Creates an error without a location.
    pub fn error(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place: Place::Nowhere, message: message.into() }
    }

    /// Advice for mistakes whose message does not say what to do.
    pub fn advice(&self) -> Option<&'static str> {
        let is = |beginning| self.message.starts_with(beginning);
        match () {
            () if is(UNKNOWN_KEY) || is(MISSING_KEY) => {
                Some("`toolwire check --keys` describes every key of a configuration file")
            }
            () if is(UNREADABLE_FILE) => {
                Some("`--config FILE` names another file; `toolwire serve URL` needs none")
            }
            () if is(NOTHING_TO_SERVE) => Some("for example `toolwire serve http://127.0.0.1:8000/v1`"),
            () => None,
        }
    }

    pub fn log(&self) {
        let place = (self.place != Place::Nowhere).then(|| self.place.to_string());
        match self.severity {
            Severity::Warning => tracing::warn!(place, "{}", self.message),
            Severity::Error => tracing::error!(place, "{}", self.message),
        }
    }
}

/// Whether a configuration with this problem can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration can be used.
    Warning,
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    File {
        /// The file's path, as it was given.
        path: String,
        line: usize,
        /// In characters. Lines and columns start at 1.
        column: usize,
    },
    /// In a flag or its environment variable. The string names both.
    Flag(&'static str),
    /// In the settings that were saved through the admin API.
    Overlay {
        /// The file with these settings.
        path: String,
        setting: String,
    },
    /// Nowhere in particular, because something is missing.
    Nowhere,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Self::Flag(name) => f.write_str(name),
            Self::Overlay { path, setting } => write!(f, "{path}: {setting}"),
            Self::Nowhere => f.write_str("configuration"),
        }
    }
}

/// The problems of a configuration, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

#[derive(Debug, Default)]
pub(super) struct Findings(RefCell<Vec<Finding>>);

#[derive(Debug)]
struct Finding {
    kind: Kind,
    span: Option<Range<usize>>,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Syntax,
    DefinitionError,
    Missing,
    Warning,
}

impl Findings {
    /// Reports invalid TOML.
    pub(super) fn syntax(&self, span: Option<Range<usize>>, message: impl Into<String>) {
        self.add(Kind::Syntax, span, message.into());
    }

    /// Reports a wrong value.
    pub(super) fn wrong(&self, span: Range<usize>, message: impl Into<String>) {
        self.add(Kind::DefinitionError, Some(span), message.into());
    }

    /// Reports something that is required but missing. `span` is where it should be, if known.
    pub(super) fn missing(&self, span: Option<Range<usize>>, message: impl Into<String>) {
        self.add(Kind::Missing, span, message.into());
    }

    /// Warns about a value that is valid but probably a mistake.
    pub(super) fn warning(&self, span: Range<usize>, message: impl Into<String>) {
        self.add(Kind::Warning, Some(span), message.into());
    }

    /// Warns about something outside the configuration file.
    pub(super) fn remark(&self, message: impl Into<String>) {
        self.add(Kind::Warning, None, message.into());
    }

    /// Whether an error was reported in `span`.
    pub(super) fn has_error_in(&self, span: &Range<usize>) -> bool {
        let is_in = |found: &Finding| {
            found.kind != Kind::Warning
                && found.span.as_ref().is_some_and(|own| (span.start..=span.end).contains(&own.start))
        };
        self.0.borrow().iter().any(is_in)
    }

    /// The messages, each with the offset of its location.
    pub(super) fn into_messages(self) -> Vec<(Option<usize>, String)> {
        let findings = self.0.into_inner().into_iter();
        findings.map(|found| (found.span.map(|span| span.start), found.message)).collect()
    }

    fn add(&self, kind: Kind, span: Option<Range<usize>>, message: String) {
        self.0.borrow_mut().push(Finding { kind, span, message });
    }

    /// Returns the problems in the order of `source`, and whether any of them is an error.
    ///
    /// The text between a syntax error and the end of the line is not read. Other problems on that line, and all
    /// reports of missing keys, are therefore left out.
    pub(super) fn into_problems(self, source: &Source) -> (Vec<Problem>, bool) {
        let mut findings = self.0.into_inner();
        let place = |finding: &Finding| match &finding.span {
            Some(span) => source.place(span.start),
            None => Place::Nowhere,
        };
        let broken: Vec<_> = findings
            .iter()
            .filter(|found| found.kind == Kind::Syntax)
            .map(|found| line(&place(found)))
            .collect();
        if !broken.is_empty() {
            findings.retain(|found| match found.kind {
                Kind::Syntax => true,
                Kind::Missing => false,
                Kind::DefinitionError | Kind::Warning => !broken.contains(&line(&place(found))),
            });
        }
        findings.sort_by_key(|found| found.span.as_ref().map_or(usize::MAX, |span| span.start));
        let failed = findings.iter().any(|found| found.kind != Kind::Warning);
        let problems = findings.into_iter().map(|found| Problem {
            severity: if found.kind == Kind::Warning { Severity::Warning } else { Severity::Error },
            place: place(&found),
            message: found.message,
        });
        (problems.collect(), failed)
    }
}

fn line(place: &Place) -> Option<usize> {
    match place {
        Place::File { line, .. } => Some(*line),
        Place::Flag(_) | Place::Overlay { .. } | Place::Nowhere => None,
    }
}

//! [`Definition`]: a format as declared in a configuration, in a fixture's manifest, or by an imported
//! template.
//!
//! Three families of formats can be defined: JSON calls between markers, calls whose name precedes their
//! arguments (`name_end`), and calls with a tag for each argument (`parameter`). The engine holds `'static`
//! references to formats, so a format built from a definition is leaked and lives as long as the program.
//! Configurations and manifests are read once, so this leaks only a few hundred bytes.

use serde::{Deserialize, Serialize};

use super::{
    ALL, CallBody, Calls, Form, Format, Grammar, Header, HeaderEnd, Key, Params, ParamsName, Place,
    ReasoningHabits, Special, Tag, TagKind, Teach, Thought,
};

const OBJECT: &str = r#"{"name": {{json_name}}, "arguments": {{arguments}}}"#;
const CONTENT: &str = r#"{"name":{{json_name}},"content":{{json_content}}}"#;

/// `[[formats]]`: the declaration of a format. Empty values count as not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Definition {
    /// The format's name.
    pub name: String,
    /// A one-line description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Globs over the names of models that write this format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The text with which a call starts. With `name_end`, the text before the call's name.
    pub open: String,
    /// The text with which a call ends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub close: String,
    /// Whether the opener is recognised only at the start of a line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub line_start: bool,
    /// Meaningless markers around the JSON.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<String>,
    /// Whether a call is an object with a single member whose key is the name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub name_is_key: bool,
    /// Markers around a result, required to teach the format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<[String; 2]>,
    /// The text after a call's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name_end: String,
    /// Whether other words may occur between the name and `name_end`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub name_first: bool,
    /// Markers around all calls of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<[String; 2]>,
    /// The strings before an argument's key, after the key, and after the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<[String; 3]>,
    /// Whether to strip one line break before and after each value.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trim: bool,
    /// The string with which reasoning starts, followed by the strings that may end it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<String>,
    /// Meaningless markers around the response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame: Vec<String>,
}

/// A format built from a definition.
#[derive(Debug, Clone)]
pub struct CustomFormat {
    /// The definition of the format.
    pub definition: Definition,
    /// The format.
    pub format: &'static Format,
}

/// The built-in formats, followed by those in `own`.
pub fn all_and(own: &[CustomFormat]) -> impl Iterator<Item = &'static Format> {
    ALL.iter().copied().chain(own.iter().map(|own| own.format))
}

/// An error in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    /// The name of the setting with the error.
    pub key: &'static str,
    /// The error message.
    pub message: String,
}

impl DefinitionError {
    fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

impl Definition {
    /// Builds the format. `earlier` are the formats defined before it.
    ///
    /// # Errors
    /// All errors in the definition.
    pub fn build(self, earlier: &[CustomFormat]) -> Result<CustomFormat, Vec<DefinitionError>> {
        let known: Vec<&Format> = all_and(earlier).collect();
        let wrong = self.wrong(&known);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut grammars = vec![self.calls()];
        if let [open, close @ ..] = self.reasoning.as_slice() {
            // Special tokens do not occur in prose.
            let place = if open.contains('|') { Place::Anywhere } else { Place::LineStart };
            let (open, close) = (leaked(open), leaked_list(close));
            grammars.push(Grammar::Reasoning(leak([Thought {
                open,
                close,
                place,
                bare: true,
                chosen: false,
            }])));
        }
        if !self.frame.is_empty() {
            grammars.push(Grammar::Frame(leaked_list(&self.frame)));
        }
        let summary = if self.summary.is_empty() { "from the configuration" } else { &self.summary };
        let format = Box::leak(Box::new(Format {
            name: leaked(&self.name),
            summary: leaked(summary),
            models: leaked_list(&self.models),
            auto: false,
            reasoning: ReasoningHabits::DEFAULT,
            example: leaked(&self.example()),
            grammars: Box::leak(grammars.into_boxed_slice()),
            teach: self.teach(),
        }));
        Ok(CustomFormat { definition: self, format })
    }

    fn wrong(&self, known: &[&Format]) -> Vec<DefinitionError> {
        let mut wrong = Vec::new();
        let name = self.name.as_str();
        if known.iter().any(|format| format.name == name) || ["auto", "off", "native"].contains(&name) {
            wrong.push(DefinitionError::new("name", format!("there is a format `{name}` already")));
        }
        for (key, open) in
            [("open", Some(&self.open)), ("section", self.section.as_ref().map(|[open, _]| open))]
        {
            wrong.extend(open.and_then(|open| undistinct(key, open, known)));
        }
        if self.parameter.is_some() {
            for (key, word) in [("name_end", &self.name_end), ("close", &self.close)] {
                if word.is_empty() {
                    wrong.push(DefinitionError::new(
                        "parameter",
                        format!("calls with parameters need `{key}`, too"),
                    ));
                }
            }
        }
        for (key, marker) in self.markers() {
            if let Some(wild) = marker.find(['*', '~', '%']).and_then(|at| marker.get(at..at + 1)) {
                wrong.push(DefinitionError::new(key, format!("a marker cannot have `{wild}` in it")));
            }
        }
        if self.reasoning.len() == 1 {
            wrong.push(DefinitionError::new(
                "reasoning",
                "expected what it begins with, then what it may end with",
            ));
        }
        wrong
    }

    /// All markers, with the names of their settings. They are checked because some characters are wildcards
    /// in markers.
    fn markers(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let one = [("open", &self.open), ("close", &self.close), ("name_end", &self.name_end)];
        let lists = [
            ("inner", self.inner.as_slice()),
            ("section", self.section.as_ref().map_or(&[][..], |section| section)),
            ("parameter", self.parameter.as_ref().map_or(&[][..], |parameter| parameter)),
            ("reasoning", &self.reasoning),
            ("frame", &self.frame),
        ];
        one.into_iter().chain(lists.into_iter().flat_map(|(key, list)| list.iter().map(move |it| (key, it))))
    }

    fn calls(&self) -> Grammar {
        if self.name_end.is_empty() { self.tagged() } else { self.named() }
    }

    /// The grammar for JSON between markers.
    fn tagged(&self) -> Grammar {
        let kind = TagKind::Special(Special {
            keyed: self.name_is_key,
            common: self.line_start,
            inner: leaked_list(&self.inner),
            no_tool: &[],
        });
        Grammar::Tagged(leak([Tag { open: leaked(&self.open), close: leaked(&self.close), kind }]))
    }

    /// The grammar for a name followed by arguments.
    fn named(&self) -> Grammar {
        let sections: Vec<_> =
            self.section.iter().map(|[open, close]| (leaked(open), leaked(close))).collect();
        let close: Vec<String> =
            Some(self.close.clone()).filter(|close| !close.is_empty()).into_iter().collect();
        let body = match &self.parameter {
            Some([before, behind, close]) => CallBody::Params(Params {
                name: ParamsName::Before(leaked(&self.name_end)),
                key: Key::Tag(leaked(before), leaked(behind)),
                close: leaked(close),
                end: leak([leaked(&self.close)]),
                trim: self.trim,
                cdata: false,
                entities: false,
                json: false,
                common: false,
            }),
            None => CallBody::Header(Header {
                end: HeaderEnd::Markers(leak([leaked(&self.name_end)])),
                read: if self.name_first {
                    |header| Some(("", header.split_whitespace().next()?))
                } else {
                    |header| Some(("", header))
                },
                legal: if self.name_first { "<|>" } else { "" },
                before: &[],
                after: &[],
                close: leaked_list(&close),
                common: false,
            }),
        };
        Grammar::Calls(Calls {
            sections: Box::leak(sections.into_boxed_slice()),
            open: leak([leaked(&self.open)]),
            naked: true,
            noise: &[],
            place: if self.line_start { Place::LineStart } else { Place::Anywhere },
            body,
        })
    }

    fn example(&self) -> String {
        let Self { open, close, name_end, .. } = self;
        let call = match &self.parameter {
            _ if name_end.is_empty() => {
                format!("{open}{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"Paris\"}}}}{close}")
            }
            None => format!("{open}get_weather{name_end}{{\"city\": \"Paris\"}}{close}"),
            Some([before, behind, end]) => {
                let line = if self.trim { "\n" } else { "" };
                format!(
                    "{open}get_weather{name_end}{line}{before}city{behind}{line}Paris{line}{end}{line}{close}"
                )
            }
        };
        self.section.as_ref().map_or(call.clone(), |[open, close]| format!("{open}{call}{close}"))
    }

    fn teach(&self) -> Option<Teach> {
        let [before, behind] = self.result.as_ref().filter(|_| self.name_end.is_empty())?;
        let call = format!("{}\n{OBJECT}\n{}", self.open, self.close);
        let form = Form::json(leaked(&call)).answered(leaked(&format!("{before}\n{CONTENT}\n{behind}")));
        Some(Teach { words: leaked(&format!("a JSON object behind {}", self.open)), form })
    }
}

/// The error if this opener cannot be distinguished from another opener, or from fences and white space.
fn undistinct(key: &'static str, open: &str, known: &[&Format]) -> Option<DefinitionError> {
    if open.starts_with(|first: char| first.is_whitespace() || matches!(first, '`' | '~')) {
        let message = "an opener cannot begin with white space, a backtick or a tilde";
        return Some(DefinitionError::new(key, message));
    }
    let mut openers =
        known.iter().flat_map(|format| format.openers().into_iter().map(|open| (format.name, open)));
    let begins = |other: &str| other != open && (other.starts_with(open) || open.starts_with(other));
    let (name, other) = openers.find(|(_, other)| begins(other))?;
    let message =
        format!("it cannot be told from `{other}` of the format `{name}`: one begins with the other");
    Some(DefinitionError::new(key, message))
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn leaked_list(texts: &[String]) -> &'static [&'static str] {
    Box::leak(texts.iter().map(|text| leaked(text)).collect())
}

fn leak<T, const N: usize>(items: [T; N]) -> &'static [T] {
    Box::leak(Box::new(items))
}

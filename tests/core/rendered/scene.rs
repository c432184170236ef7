//! The output of a model: texts, calls between the texts, and reasoning before them. It is generated at random, as far as a
//! format can express it, and the renderers write it down.

use proptest::prelude::*;

use crate::rendered::{
    fragments::{beside, thought},
    tools,
    value::{Blanks, Json, Members, Style},
};

/// The features that a format can express. Scenes are restricted to them; results are compared as strictly as for any
/// format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carries {
    /// Maximum number of groups of calls, with text between them.
    pub(crate) groups: usize,
    /// Maximum number of calls in a group.
    pub(crate) most: usize,
    /// Whether text may follow the calls.
    pub(crate) after: bool,
    /// Whether text after calls must begin with a word: the format has no closer, so anything else that fits the notation
    /// would be a mistake of the model instead of text.
    pub(crate) word_after: bool,
    /// White space that may come before and after a group.
    pub(crate) gaps: &'static [&'static str],
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    /// Whether names may contain dashes.
    pub(crate) dashes: bool,
    /// Whether tools may be undeclared.
    pub(crate) unknown: bool,
    /// Whether lists may be empty.
    pub(crate) empties: bool,
    /// Fragments that cannot occur in a string, since they would look like the string's end.
    pub(crate) never: &'static [&'static str],
    /// Fragments that cannot occur in text, since they would begin something.
    pub(crate) no_text: &'static [&'static str],
    /// Whether the format has reasoning.
    pub(crate) reasons: bool,
    /// Pairs of markers around reasoning, one of which is used.
    pub(crate) reasoning: &'static [(&'static str, &'static str)],
}

/// The allowed keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    Any,
    Words,
    /// Only the schema's keys: the key is markup that only the schema distinguishes from a string.
    Declared,
}

/// The allowed values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    /// Any JSON, whatever the schema says.
    Any,
    /// Values that match the schema, since only the schema tells their types; undeclared values are strings.
    Declared,
}

impl Carries {
    /// All features.
    pub(crate) const ALL: Self = Self {
        groups: 2,
        most: 3,
        after: true,
        word_after: false,
        gaps: &["", " ", "\n", "\n\n", " \n  "],
        keys: Keys::Any,
        values: Values::Any,
        dashes: true,
        unknown: true,
        empties: true,
        never: &[],
        no_text: &[],
        reasons: true,
        reasoning: &[("<think>", "</think>")],
    };
}

/// A call with its meaning.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) arguments: Members,
    pub(crate) style: Style,
    /// A number that selects among the notations of the format.
    pub(crate) way: usize,
}

impl Call {
    /// Whether the arguments in a JSON envelope are a string that contains their JSON.
    pub(crate) fn is_packed(&self) -> bool {
        self.way % 8 == 1
    }

    /// The arguments as JSON text, as the model writes it.
    pub(crate) fn json(&self) -> String {
        Json::Object(self.arguments.clone()).written(self.style)
    }
}

/// Calls made together, and the text before them.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) before: String,
    pub(crate) gaps: (&'static str, &'static str),
    pub(crate) calls: Vec<Call>,
    pub(crate) way: usize,
}

/// The output of a model.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) reasoning: Option<String>,
    pub(crate) groups: Vec<Group>,
    pub(crate) last: String,
}

fn call(carries: &'static Carries) -> impl Strategy<Value = Call> {
    let blanks = prop::sample::select(&[Blanks::Usual, Blanks::None, Blanks::Lines] as &[_]);
    let style = (blanks, prop::bool::weighted(0.2)).prop_map(|(blanks, ascii)| Style { blanks, ascii });
    (tools::call(carries), style, 0..24_usize).prop_map(|((name, arguments), style, way)| Call {
        name,
        arguments,
        style,
        way,
    })
}

fn group(carries: &'static Carries) -> impl Strategy<Value = Group> {
    let gap = || prop::sample::select(carries.gaps);
    let calls = prop::collection::vec(call(carries), 1..=carries.most);
    (beside(carries.no_text, carries.word_after), (gap(), gap()), calls, 0..24_usize)
        .prop_map(|(before, gaps, calls, way)| Group { before, gaps, calls, way })
}

/// Generates a scene that a format with these features can express.
pub(crate) fn scene(carries: &'static Carries) -> impl Strategy<Value = Scene> {
    let least = usize::from(carries.groups > 0);
    let groups = prop::collection::vec(group(carries), least..=carries.groups);
    let reasoning = if carries.groups == 0 { 0.9 } else { 0.2 };
    (prop::option::weighted(reasoning, thought()), groups, beside(carries.no_text, carries.word_after))
        .prop_map(|(reasoning, groups, last)| Scene {
            reasoning: reasoning.filter(|_| carries.reasons),
            groups,
            last: if carries.after { last } else { String::new() },
        })
}

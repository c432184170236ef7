//! Random output of a model: text, calls between the texts, and reasoning before them. A scene only contains what
//! the format can express.

use proptest::prelude::*;

use crate::rendered::{
    fragments::{beside, thought},
    tools,
    value::{Blanks, Json, Members, Style},
};

/// The features that a format can express. Scenes contain no other features, so results can be compared exactly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carries {
    /// The maximum number of groups of calls, which are separated by text.
    pub(crate) groups: usize,
    /// The maximum number of calls in a group.
    pub(crate) most: usize,
    pub(crate) after: bool,
    /// Whether text after calls must begin with a word. Without a closer, anything else could be read as part of a
    /// malformed call.
    pub(crate) word_after: bool,
    /// The white space that may come before and after a group.
    pub(crate) gaps: &'static [&'static str],
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) dashes: bool,
    /// Whether calls to undeclared tools are possible.
    pub(crate) unknown: bool,
    pub(crate) empties: bool,
    /// Fragments that may not occur in a string because they would end it.
    pub(crate) never: &'static [&'static str],
    /// Fragments that may not occur in text because they would begin markup.
    pub(crate) no_text: &'static [&'static str],
    pub(crate) reasons: bool,
    /// Pairs of markers around reasoning. A scene uses one of them.
    pub(crate) reasoning: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    Any,
    Words,
    /// Only keys in the schema, since only the schema distinguishes the markup of a key from a string.
    Declared,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    /// Any JSON, even if it does not match the schema.
    Any,
    /// Values that match the schema, which alone determines their types. Undeclared arguments are strings.
    Declared,
}

impl Carries {
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

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) arguments: Members,
    pub(crate) style: Style,
    /// Selects one of the format's notations.
    pub(crate) way: usize,
}

impl Call {
    /// Whether a JSON call has its arguments in a string.
    pub(crate) fn is_packed(&self) -> bool {
        self.way % 8 == 1
    }

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

/// Generates a scene that uses only the features in `carries`.
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

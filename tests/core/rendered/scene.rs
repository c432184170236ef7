//! The output of a model: texts, calls between them, reasoning before. It is generated here at random, as far as a format can
//! carry it; the renderers write it down.

use proptest::prelude::*;

use crate::rendered::{
    fragments::{beside, thought},
    tools,
    value::{Blanks, Json, Members, Style},
};

/// What a format can carry. A scene is narrowed to it; what is found of it is not compared less strictly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carries {
    /// Groups of calls, with text between them.
    pub(crate) groups: usize,
    /// Calls of a group.
    pub(crate) most: usize,
    /// Text may follow the calls.
    pub(crate) after: bool,
    /// Text behind calls begins with a word: the format has no closer, so that more of the notation would be a slip
    /// of the model's rather than text.
    pub(crate) word_after: bool,
    /// White space that may stand before and behind a group.
    pub(crate) gaps: &'static [&'static str],
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    /// Names may have dashes.
    pub(crate) dashes: bool,
    /// Tools need not be declared.
    pub(crate) unknown: bool,
    /// Lists may be empty.
    pub(crate) empties: bool,
    /// What cannot stand in a string, since nothing would tell it from the string's end.
    pub(crate) never: &'static [&'static str],
    /// What cannot stand in text, since it would begin something.
    pub(crate) no_text: &'static [&'static str],
    /// It has reasoning.
    pub(crate) reasons: bool,
    /// Marks around reasoning: one of these pairs.
    pub(crate) reasoning: &'static [(&'static str, &'static str)],
}

/// What keys may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    Any,
    Words,
    /// Those of the schema only: the key is markup that nothing else tells from a string.
    Declared,
}

/// What values may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    /// Any JSON, whatever the schema says.
    Any,
    /// As the schema says, since only the schema tells their types; what is not declared is a string.
    Declared,
}

impl Carries {
    /// All there is.
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

/// A call as it is meant.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) arguments: Members,
    pub(crate) style: Style,
    /// Chooses among the ways in which a format may write it.
    pub(crate) way: usize,
}

impl Call {
    /// In an envelope of JSON, the arguments are a string that has their JSON.
    pub(crate) fn is_packed(&self) -> bool {
        self.way % 8 == 1
    }

    /// The arguments as JSON text, as the model writes it.
    pub(crate) fn json(&self) -> String {
        Json::Object(self.arguments.clone()).written(self.style)
    }
}

/// Calls that are made together, and the text before them.
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

/// A scene that a format with these powers can carry.
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

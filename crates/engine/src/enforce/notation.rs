//! [`Notation`]: the fixed strings around the JSON arguments of a call, derived from how the format writes
//! calls.

use crate::{
    conversation::Call,
    format::{ArgumentForm, Form, Format, Grammar},
};

/// How a format writes calls whose arguments are a JSON object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notation {
    form: Form,
}

/// Placeholder for the arguments. It is valid JSON, so it is written unchanged, and it is not the name of any
/// tool.
const ARGUMENTS: &str = r#""\u0001arguments\u0001""#;

impl Notation {
    /// `None` if the format is not taught, writes arguments in another way, or writes something that differs
    /// from call to call, such as an id. Also `None` if calls are messages with headers, since the prompt
    /// ends inside the first header.
    pub(super) fn of(format: &Format) -> Option<Self> {
        let form = format.teach?.form;
        let varies = ["{{id}}", "{{index}}", "{{number}}", "{{json_arguments}}"];
        let is_fixed = !varies.iter().any(|hole| form.call.contains(hole));
        let has_arguments = form.call.matches("{{arguments}}").count() == 1;
        let is_message = format.grammars.iter().any(|grammar| matches!(grammar, Grammar::Channels(_)));
        let fits = form.arguments == ArgumentForm::Json && is_fixed && has_arguments && !is_message;
        fits.then_some(Self { form })
    }

    /// The strings before and after the arguments of a call to the tool `name` among several calls.
    pub(super) fn call(&self, name: &str) -> (String, String) {
        let form = Form { around: ("", "", ""), ..self.form };
        split(&form, name)
    }

    /// The strings before and after the arguments of a single call to the tool `name`.
    pub(super) fn alone(&self, name: &str) -> (String, String) {
        split(&self.form, name)
    }

    pub(super) fn around(&self) -> (&'static str, &'static str, &'static str) {
        self.form.around
    }

    /// The marker with which calls start. `None` if ordinary text may contain it.
    pub(super) fn trigger(&self) -> Option<String> {
        let common = self.common();
        let marker = common.split(['\n', '{', ' ']).next().unwrap_or_default().trim_end_matches(['[', '"']);
        (marker.len() > 2 && !marker.starts_with("```")).then(|| marker.to_owned())
    }

    /// All that calls have in common before the tool's name. Unlike the marker, text that is about calls hardly
    /// contains it. `None` if there is no marker, or only a word.
    pub(super) fn opening(&self) -> Option<String> {
        let is_word = self.trigger()?.starts_with(char::is_alphanumeric);
        (!is_word).then(|| self.common())
    }

    fn common(&self) -> String {
        let (mut one, _) = self.alone("a");
        let (other, _) = self.alone("b");
        one.truncate(common_prefix(&one, &other));
        one
    }
}

fn split(form: &Form, name: &str) -> (String, String) {
    let call = Call::new("", name, ARGUMENTS);
    let written = form.calls(&[call]);
    match written.rsplit_once(ARGUMENTS) {
        Some((before, after)) => (before.to_owned(), after.to_owned()),
        // Reached only if the name itself contains the placeholder. The call is then constant.
        None => (written, String::new()),
    }
}

/// The length of the longest prefix that both strings share.
pub(super) fn common_prefix(one: &str, other: &str) -> usize {
    let same = one.char_indices().zip(other.chars()).take_while(|((_, one), other)| one == other);
    same.last().map_or(0, |((at, last), _)| at + last.len_utf8())
}

//! The properties that every format must have.

mod broken;
mod cut;
mod found;
mod quoted;
mod stream;
mod trouble;

pub(crate) use broken::broken_calls;
pub(crate) use cut::cut_calls;
pub(crate) use found::{exchanged, found};
pub(crate) use quoted::{alone, echoes, unrelated, visibly_quoted};
pub(crate) use stream::streams;
pub(crate) use trouble::trouble;

use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use serde_json::Value;
use toolwire::{
    format::{self, Format},
    rules::{Detect, Rules},
};

use crate::{
    rendered::{
        found::Found,
        write::{Renderer, renderers},
    },
    support::generated,
};

/// Runs `law` on generated cases; see [`generated::tries`] for how many.
fn tries<S: Strategy>(usual: u32, of: &S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    if let Err(error) = TestRunner::new(generated::tries(usual)).run(of, law) {
        panic!("{error}");
    }
}

fn renderer(name: &str) -> (&'static Renderer, &'static Format) {
    let renderer = renderers().find(|renderer| renderer.name == name).expect("a renderer");
    (renderer, format::by_name(name).expect("a format"))
}

/// Rules that detect this format and reasoning.
fn looking_for(format: &'static Format) -> Rules {
    Rules { detect: Detect::Formats(vec![format.name, format::THINK.name]), ..Rules::default() }
}

fn cut<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut places: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    places.sort_unstable();
    let from = [0].into_iter().chain(places.iter().copied());
    let to = places.iter().copied().chain([text.len()]);
    from.zip(to).map(|(from, to)| &text[from..to]).collect()
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..6)
}

/// Normalizes the spelling of JSON, but keeps the order of members and the spelling of numbers.
fn canonical(json: &str) -> Result<String, TestCaseError> {
    let value: Value =
        serde_json::from_str(json).map_err(|error| TestCaseError::fail(format!("{error}: {json}")))?;
    prop_assert!(value.is_object(), "arguments are an object: {}", json);
    Ok(value.to_string())
}

fn with_text(error: TestCaseError, text: &str, found: &Found) -> TestCaseError {
    TestCaseError::fail(format!("{error}\nwritten: {text:?}\n{text}\nfound: {found:?}"))
}

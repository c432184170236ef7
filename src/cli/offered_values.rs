//! Values of options that completions offer, and help lists if they are few.

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::{PossibleValue, TypedValueParser},
};

use super::output::Failed;
use toolwire_lab::{
    fixture::{
        Splits,
        generate::{self, Kind},
        mock::Pace,
    },
    upstream::Api,
};
use toolwire_pipeline::{
    dialect::{ClientDialect, Dialect, UpstreamDialect},
    format::{self, Format},
    wire::suggest::suggest,
};

/// A parser whose values are offered. It decides alone which values are valid, and writes its own errors.
#[derive(Debug, Clone)]
struct Offering<P> {
    values: Vec<PossibleValue>,
    parser: P,
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values.iter().cloned()))
    }
}

/// Offers `words` for a value that `parser` parses.
pub(super) fn offering<P: TypedValueParser>(
    words: impl IntoIterator<Item = &'static str>,
    parser: P,
) -> impl TypedValueParser<Value = P::Value> {
    Offering { values: words.into_iter().map(PossibleValue::new).collect(), parser }
}

/// Offers `words` for a text that is checked later.
pub(super) fn text(words: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = String> {
    offering(words, |text: &str| Ok::<_, Failed>(text.to_owned()))
}

fn described(dialects: impl Iterator<Item = Dialect>) -> Vec<PossibleValue> {
    dialects.map(|dialect| PossibleValue::new(dialect.name()).help(dialect.title())).collect()
}

/// The name of an upstream's dialect, which is checked later.
pub(super) fn upstream_dialect() -> impl TypedValueParser<Value = String> {
    let values = described(UpstreamDialect::all().iter().map(UpstreamDialect::dialect));
    Offering { values, parser: |text: &str| Ok::<_, Failed>(text.to_owned()) }
}

/// The dialect of an upstream's stream.
pub(super) fn stream_dialect() -> impl TypedValueParser<Value = Dialect> {
    let values = described(UpstreamDialect::all().iter().map(UpstreamDialect::dialect));
    Offering { values, parser: |text: &str| text.parse::<Dialect>() }
}

/// The dialect of a client.
pub(super) fn client_dialect() -> impl TypedValueParser<Value = ClientDialect> {
    let all = || ClientDialect::all().map(ClientDialect::dialect);
    let parser = move |text: &str| match text.parse::<Dialect>().map(ClientDialect::try_from) {
        Ok(Ok(dialect)) => Ok(dialect),
        _ => {
            let known: Vec<_> = all().map(Dialect::name).collect();
            Err(format!("no client speaks `{text}`; {}", suggest(text, &known, None)))
        }
    };
    Offering { values: described(all()), parser }
}

/// The dialect of a mock.
pub(super) fn mock_dialect() -> impl TypedValueParser<Value = Api> {
    offering(generate::DIALECTS.map(Api::name), generate::dialect_named)
}

/// The dialect of the upstream of a gateway that is tested.
pub(super) fn tested_dialect() -> impl TypedValueParser<Value = Api> {
    offering(Api::ALL.map(Api::name), |text: &str| text.parse::<Api>())
}

/// The names of the formats that can be taught or written.
pub(super) fn taught() -> impl Iterator<Item = &'static str> {
    format::ALL.iter().filter(|format| format.teach.is_some()).map(|format: &&Format| format.name)
}

/// The values of `--tools`.
pub(super) fn tool_styles() -> impl TypedValueParser<Value = String> {
    text(["native"].into_iter().chain(taught()))
}

/// The values of `--detect`, which also takes several formats separated by commas.
pub(super) fn detected_formats() -> impl TypedValueParser<Value = String> {
    text(["auto", "off"].into_iter().chain(format::ALL.iter().map(|format| format.name)))
}

/// The values of `--server-calls`.
pub(super) fn server_calls() -> impl TypedValueParser<Value = String> {
    text(["auto", "forward", "annotate", "hide"])
}

/// The values of `--split`, which also takes a number of bytes.
pub(super) fn splits() -> impl TypedValueParser<Value = Splits> {
    offering(["every", "recorded", "whole"], |text: &str| text.parse::<Splits>())
}

/// The values of `--pace`, which also takes a time.
pub(super) fn pace() -> impl TypedValueParser<Value = Pace> {
    offering(["recorded", "none"], |text: &str| text.parse::<Pace>())
}

/// The values of `--answer`.
pub(super) fn answer() -> impl TypedValueParser<Value = Kind> {
    offering(["text", "call", "text-call"], |text: &str| text.parse::<Kind>())
}

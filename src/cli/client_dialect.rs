//! The value of options that name client dialects.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use toolwire_pipeline::dialect::{ClientDialect, Dialect};

/// Returns the parser of a client dialect's name. Help lists all of them.
pub(super) fn client_dialect() -> impl TypedValueParser<Value = ClientDialect> {
    let known = ClientDialect::all().map(ClientDialect::dialect);
    let known = known.map(|dialect| PossibleValue::new(dialect.name()).help(dialect.title()));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<Dialect>().and_then(ClientDialect::try_from))
}

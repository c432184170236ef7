//! Checks the tables of types: `types.toml` beside each dialect says what becomes of each type that the SDKs define.
//! `tests/proxy/execute/mcp_types.rs` checks that of MCP.

mod embed;
mod messages;
mod mixtures;
mod output;
mod page;
mod requests;

use serde_json::Value;
use toolwire::dialect::{Dialect, UpstreamDialect, fitted};

use crate::support::types::{
    self, Types,
    claim::{Becomes, Claim, Entry},
};

/// The dialects with a table, in the order of the page.
const DIALECTS: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini];

/// The upstream dialects that take messages rather than a single prompt.
const UPSTREAMS: [Dialect; 6] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama, Dialect::Lumo];

/// The entries of a dialect's table, by kind and name.
fn table(dialect: Dialect) -> Types<Entry> {
    types::table(&format!("crates/dialects/src/{dialect}"))
}

/// Instances of the dialect's types, by kind and name.
fn instances(dialect: Dialect) -> Types<Value> {
    types::instances(dialect.name())
}

/// Calls `check` for each type of these dialects and kinds with its entry. It returns what contradicts the entry.
fn check_all(
    dialects: &[Dialect],
    kinds: impl Fn(&str) -> bool,
    check: impl Fn(Dialect, &str, &str, &Value, &Entry) -> Vec<String>,
) {
    let (mut faults, mut checked) = (Vec::new(), 0);
    for dialect in dialects {
        let table = table(*dialect);
        for (kind, names) in instances(*dialect).into_iter().filter(|(kind, _)| kinds(kind)) {
            for (name, instance) in names {
                let entry = table.get(&kind).and_then(|names| names.get(&name));
                let entry = entry.unwrap_or_else(|| panic!("{dialect} has no entry for {kind} `{name}`"));
                let found = check(*dialect, &kind, &name, &instance, entry);
                faults.extend(found.into_iter().map(|fault| format!("{dialect}, {kind} `{name}`: {fault}")));
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
    assert!(faults.is_empty(), "{} claims are wrong:\n{}", faults.len(), faults.join("\n"));
}

/// All tables, with their names.
fn tables() -> impl Iterator<Item = (&'static str, Types<Entry>)> {
    let of_dialects = DIALECTS.into_iter().map(|dialect| (dialect.name(), table(dialect)));
    of_dialects.chain([("mcp", types::table(types::MCP))])
}

#[test]
fn tables_have_no_types_that_the_sdks_lack() {
    for (dialect, table) in tables() {
        let known = types::instances(dialect);
        for (kind, names) in table {
            for name in names.into_keys() {
                let is_known = known.get(&kind).is_some_and(|names| names.contains_key(&name));
                assert!(is_known, "{dialect}, {kind} `{name}` is in no SDK");
            }
        }
    }
}

#[test]
fn tables_say_why_a_type_is_left_out_or_refused() {
    for (dialect, table) in tables() {
        for (kind, names) in table {
            for (name, entry) in names {
                let needs_note =
                    |claim: &&Claim| matches!(claim.becomes, Becomes::Ignored | Becomes::Refused);
                let lacks = entry.0.iter().filter(needs_note).any(|claim| claim.note.is_empty());
                assert!(!lacks, "{dialect}, {kind} `{name}` has no reason");
            }
        }
    }
}

/// The body of the request that an `upstream` gets if a client of `dialect` sends `fields`, or the message of the error
/// with status 400.
fn sent(dialect: Dialect, fields: &Value, upstream: Dialect) -> Result<Value, String> {
    let client = toolwire::dialect::ClientDialect::try_from(dialect).unwrap();
    let body = fields.to_string();
    let refused = |failure: toolwire::failure::Failure| {
        // References to what is not stored are 404.
        assert!(matches!(failure.status(), 400 | 404), "{}", failure.message());
        failure.message().to_owned()
    };
    let conversation = client.side().decode(body.as_bytes()).map_err(refused)?;
    let upstream = UpstreamDialect::try_from(upstream).unwrap();
    let fitted = fitted(&conversation, client.dialect(), upstream.side())
        .map_err(|unfit| refused(unfit.failure(Some(body.as_bytes()))))?;
    Ok(serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap())
}

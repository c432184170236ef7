//! `/admin/keys`: the named clients, their limits and their usage. Keys are never shown.

use serde_json::{Value, json};

use toolwire_config::{Grant, KeyLimits, calendar::Month};
use toolwire_gateway::{
    auth::Keys,
    limits::{Account, Counts},
};

/// Lists all named clients. `now` is a Unix time in seconds.
pub(super) fn list(keys: &Keys, now: u64) -> Value {
    let month = Month::of(now);
    let clients: Vec<_> = keys.accounts().iter().map(|account| client(account, now)).collect();
    json!({"month": month.name(), "resets_at": month.end().saturating_mul(1000), "keys": clients})
}

fn client(account: &Account, now: u64) -> Value {
    let Grant { models, limits } = account.grant();
    let KeyLimits { requests_per_minute, tokens_per_minute, streams, tokens_per_month } = limits;
    let (Counts { requests, input_tokens, output_tokens }, open) = account.used(now);
    json!({
        "name": **account.name(),
        "models": models,
        "limits": {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "streams": streams,
            "tokens_per_month": tokens_per_month,
        },
        "used": {"requests": requests, "input_tokens": input_tokens, "output_tokens": output_tokens},
        "used_by_model": account.used_by_model(now),
        "open": open,
    })
}

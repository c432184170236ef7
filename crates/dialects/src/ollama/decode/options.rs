//! Decodes `options`: sampling settings, and settings of the server that runs the model.

use crate::{conversation::Sampling, failure::Failure, fields::Fields};

/// Options that several APIs have under the same name. They become fields of the request.
pub(crate) const SHARED: [&str; 12] = [
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_ctx",
    "num_keep",
];

/// What precedes the names of all other options.
pub(crate) const OPTION: &str = "options.";

const LIMIT: &str = "num_predict";

/// Takes the options out of the request.
pub(super) fn take(fields: &mut Fields<'_, '_>) -> Result<Sampling, Failure> {
    let Some(mut options) = fields.object("options")? else { return Ok(Sampling::default()) };
    let limit = options.number(LIMIT)?;
    let sampling = Sampling {
        max_tokens: limit.as_ref().and_then(|limit| limit.as_u64()),
        temperature: options.number("temperature")?,
        top_p: options.number("top_p")?,
        stop: options.texts("stop")?,
        seed: options.number("seed")?,
        ..Sampling::default()
    };
    // A negative number means that there is no limit.
    let no_limit =
        limit.filter(|limit| limit.as_u64().is_none()).map(|limit| (LIMIT.to_owned(), limit.into()));
    for (key, value) in options.into_rest().into_iter().chain(no_limit) {
        if SHARED.contains(&key.as_str()) {
            fields.keep(&key, value);
        } else {
            fields.keep(&format!("{OPTION}{key}"), value);
        }
    }
    Ok(sampling)
}

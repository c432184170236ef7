//! [`Counts`]: the token counts of a stream, which arrive at its start and again, as cumulative counts, at
//! its end.

use serde_json::{Map, Value};

use crate::{
    Dialect,
    event::Usage,
    usage::{self, raw_usage},
    wire::json::Json,
};

#[derive(Debug, Default)]
pub(super) struct Counts {
    object: Map<String, Value>,
    is_new: bool,
}

impl Counts {
    /// Merges a usage object. Its members replace the previous ones unless they are `null`.
    pub(super) fn take(&mut self, usage: Json<'_>) {
        let Value::Object(usage) = usage.to_value() else { return };
        for (key, value) in usage {
            self.is_new = true;
            if !value.is_null() || !self.object.contains_key(&key) {
                self.object.insert(key, value);
            }
        }
    }

    /// The counts, if any have arrived since this was last called.
    pub(super) fn news(&mut self) -> Option<Usage> {
        std::mem::take(&mut self.is_new).then(|| self.usage())
    }

    /// Converts the counts. The API counts cached tokens separately, but here they are part of the input.
    fn usage(&self) -> Usage {
        let raw = Value::from(self.object.clone()).to_string();
        let object = Json::parse(&raw).unwrap_or_default();
        let count = |key: &str| object.get(key).and_then(usage::count);
        let (cached, cache_written) =
            (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        let cache = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
        let input = count("input_tokens").map(|input| input.saturating_add(cache));
        let output = count("output_tokens");
        let thinking = || object.get("output_tokens_details")?.get("thinking_tokens");
        Usage {
            input,
            output,
            reasoning: thinking().and_then(usage::count),
            total: input.and_then(|input| input.checked_add(output?)),
            cached,
            cache_written,
            raw: raw_usage(object, Dialect::Messages),
        }
    }
}

//! The options with which `toolwire rewrite` reads the fixture of an exchange as the exchange was read.

use serde_json::{Value, json};

use super::capture::Replay;
use toolwire_gateway::manifest::RuleOverrides;

/// The rules that `toolwire rewrite` has flags for.
const FLAGS: [(&str, &str); 7] = [
    ("detect", "--detect"),
    ("arguments", "--arguments"),
    ("server_calls", "--server-calls"),
    ("unknown_calls", "--unknown-calls"),
    ("tool_prefix", "--tool-prefix"),
    ("repair", "--no-repair"),
    ("tolerate_truncation", "--tolerate-truncation"),
];

/// Rules that `toolwire rewrite` derives itself.
const DERIVED: [&str; 3] = ["server_tools", "starts_in_reasoning", "is_start_assumed"];

impl Replay {
    /// Returns the options, and the names of the rules that differ from the defaults, but have no flag.
    pub(super) fn rewrite_options(&self) -> Value {
        let name = |name: &'static str| name.to_owned();
        let mut options = vec![name("--from"), name(self.upstream.dialect().name())];
        options.extend([name("--to"), name(self.client.dialect().name())]);
        if self.upstream.side().is_cumulative() {
            options.push(name("--cumulative"));
        }
        let rules = serde_json::to_value(RuleOverrides::of(&self.rules)).unwrap_or_default();
        let mut others = Vec::new();
        for (key, value) in rules.as_object().into_iter().flatten() {
            let flag = FLAGS.iter().find(|(known, _)| known == key).map(|(_, flag)| (*flag).to_owned());
            let Some(flag) = flag else {
                others.extend(Some(key.clone()).filter(|key| !DERIVED.contains(&key.as_str())));
                continue;
            };
            options.push(flag);
            options.extend(match value {
                Value::String(word) => Some(word.clone()),
                Value::Array(names) => {
                    Some(names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
                }
                _ => None,
            });
        }
        json!({"options": options, "others": others})
    }
}

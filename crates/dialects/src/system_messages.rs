//! [`SystemMessages`]: how many system messages an upstream receives and where they are placed.

use std::borrow::Cow;

use crate::{
    conversation::{Turn, joined_system_turns},
    model_facts::takes_one_system_message,
};

/// What to do with system messages other than a single one at the start. The chat templates of some models
/// reject them, and with them the complete request (docs/protocols/chat.md#requests).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum SystemMessages {
    /// Join all of them at the start, for models that are known to reject anything else.
    #[default]
    Auto,
    /// Join all of them at the start.
    First,
    /// Send them unchanged.
    Keep,
}

impl SystemMessages {
    /// Arranges the turns for `model`. If `joins_leading` is set, adjacent system messages at the start are
    /// joined for every model, unless the setting is to send them unchanged.
    pub(super) fn arranged<'t>(self, turns: &'t [Turn], model: &str, joins_leading: bool) -> Cow<'t, [Turn]> {
        let all = match self {
            Self::Keep => return Cow::Borrowed(turns),
            Self::First => true,
            Self::Auto => false,
        };
        joined_system_turns(turns, || all || takes_one_system_message(model), joins_leading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_take_one_system_message_are_known_by_name() {
        for model in [
            "qwen3.6-27b",
            "Qwen/Qwen3.5-35B-A3B",
            "qwen3.8:27b",
            "unsloth/Qwen3_6-27B-GGUF",
            "qwen-3.5-plus",
            "qwen3p6",
            "qwen4",
            "MiniMax-M2.5",
            "google/gemma-3-27b-it",
        ] {
            assert!(takes_one_system_message(model), "{model}");
        }
        for model in [
            "qwen3-8b",
            "qwen3-coder",
            "qwen2.5-72b",
            "Qwen3-235B-A22B",
            "qwen-72b",
            "qwen",
            "qwen-7b-chat",
            "qwen3",
            "m",
            "qwen-plus-2025",
            "gpt-5",
            "llama-3.5",
        ] {
            assert!(!takes_one_system_message(model), "{model}");
        }
    }
}

//! Markup that is neither a call nor text, and is dropped (docs/protocols/text-formats.md#markup-without-meaning).

use toolwire::{
    event::Finish,
    format::{ALL, Grammar},
};

/// Whether `text` may contain markup that is dropped: special tokens, or containers without a call.
pub(crate) fn has_markup(text: &str) -> bool {
    const TOKENS: &[&str] =
        &["<|", "|>", "｜", "]<]", "</s>", "[/THINK]", "ifm|", "_response>", "<seed:eos>"];
    let tight: String = text.split_whitespace().collect();
    let empty = tight.replace("[]", "");
    let pairs = ALL.iter().flat_map(|format| format.grammars).flat_map(|grammar| match grammar {
        Grammar::Tagged(tags) => tags.iter().map(|tag| (tag.open, tag.close)).collect(),
        Grammar::Calls(calls) => calls.sections.to_vec(),
        _ => Vec::new(),
    });
    let mut pairs = pairs.filter(|(open, _)| tight.contains(open));
    let lower = text.to_ascii_lowercase();
    TOKENS.iter().any(|token| lower.contains(&token.to_ascii_lowercase()))
        || lower.contains("end_of_turn")
        || pairs.any(|(open, close)| match close {
            "" => tight.contains(&format!("{open}[]")),
            _ => empty.contains(&format!("{open}{close}")),
        })
}

/// Whether `said` is `text`, or its beginning if the response was cut off in markup.
pub(crate) fn is_said(said: &str, text: &str, finish: Finish) -> bool {
    let Some(rest) = text.strip_prefix(said) else { return false };
    rest.is_empty() || (finish == Finish::Length && rest.trim_start().starts_with(['<', '[', ']']))
}

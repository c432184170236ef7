//! Explains why text contains no call in a given format.

use std::ops::Range;

use memchr::memmem;

use super::{Analysis, parts::has_fence};
use toolwire_net::untrusted_text::clip;
use toolwire_pipeline::{
    conversation::Conversation,
    detect::Detector,
    event::{Event, Finish},
    format::{Format, Grammar, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// A format in which the text contains no call.
#[derive(Debug)]
pub(crate) struct RejectedFormat {
    pub(crate) format: &'static str,
    /// The part of the text that rules out the format.
    pub(crate) range: Range<usize>,
    pub(crate) why: String,
}

/// Returns the formats in which the text contains no call. `analysis` is the analysis of the same text.
pub(crate) fn rejected(
    text: &str,
    conversation: &Conversation,
    rules: &Rules,
    known: &KnownFormats,
    analysis: &Analysis,
) -> Vec<RejectedFormat> {
    let is_of_calls = |format: &&Format| {
        !format.grammars.iter().all(|grammar| matches!(grammar, Grammar::Reasoning(_) | Grammar::Frame(_)))
    };
    let matched = |format: &&Format| analysis.calls.iter().any(|call| call.format == format.name);
    let formats = known.all().filter(|format| is_of_calls(format) && !matched(format));
    formats.map(|format| reason(text, conversation, rules, known, format)).collect()
}

fn reason(
    text: &str,
    conversation: &Conversation,
    rules: &Rules,
    known: &KnownFormats,
    format: &'static Format,
) -> RejectedFormat {
    let name = format.name;
    let missing = |why: String| RejectedFormat { format: name, range: 0..text.len(), why };
    let openers = format.openers();
    let found =
        openers.iter().filter_map(|open| Some((memmem::find(text.as_bytes(), open.as_bytes())?, *open)));
    let begin = match found.min() {
        Some((at, open)) => Some((at..at + open.len(), open)),
        None if has_fence(format) => {
            let Some(at) = text.find("```").or_else(|| text.find("~~~")) else {
                return missing("there is no code fence".to_owned());
            };
            Some((at..at + 3, "the code fence"))
        }
        None if !openers.is_empty() => {
            let shown: Vec<_> = openers.iter().take(3).map(|open| format!("`{}`", clip(open, 64))).collect();
            return missing(format!("there is no {}", shown.join(" and no ")));
        }
        None => None,
    };
    let alone = Rules { detect: Detect::Formats(vec![name]), ..rules.clone() };
    let tools = DeclaredTools::new(conversation, &rules.tool_prefix);
    let mut out: Vec<Event<'static>> = Vec::new();
    if let Some(mut detector) = Detector::new(tools, &alone, known) {
        detector.event(Event::Text(text.into()), &mut out);
        detector.event(Event::Finish(Finish::Stop), &mut out);
    }
    let has_call = out.iter().any(|event| matches!(event, Event::CallStart(_)));
    match begin {
        _ if has_call && rules.detect == Detect::Auto && !format.auto => missing(
            "it matches, but is only looked for if it is named or the model's name implies it".to_owned(),
        ),
        _ if has_call => missing("it matches, but another format was read first".to_owned()),
        Some((range, open)) => {
            let open = if open.starts_with("the ") { open.to_owned() } else { format!("`{open}`") };
            RejectedFormat {
                format: name,
                range,
                why: format!("what follows {open} is not a call of this format"),
            }
        }
        None => missing("nothing in the text is a call of this format to a declared tool".to_owned()),
    }
}

//! Explains why text contains no call in a given format.

use std::ops::Range;

use memchr::memmem;

use super::{Analysis, parts::has_fence};
use toolwire_net::untrusted_text::clip;
use toolwire_pipeline::{
    detect::find_format::{FoundFormat, has_calls},
    format::{Format, KnownFormats},
    rules::Detect,
};

/// A format in which the text contains no call.
#[derive(Debug)]
pub(crate) struct RejectedFormat {
    pub(crate) format: &'static str,
    /// The part of the text that rules out the format.
    pub(crate) range: Range<usize>,
    pub(crate) why: String,
}

/// Returns the formats in which the text contains no call. `analysis` is the analysis of the same text, `found` what each
/// format by itself reads in it.
pub(crate) fn rejected(
    text: &str,
    detect: &Detect,
    known: &KnownFormats,
    analysis: &Analysis,
    found: &[FoundFormat],
) -> Vec<RejectedFormat> {
    let matched = |format: &&Format| analysis.calls.iter().any(|call| call.format == format.name);
    let formats = known.all().filter(|format| has_calls(format) && !matched(format));
    let reasons = formats.map(|format| {
        let own = found.iter().find(|found| found.format == format);
        let (range, why) = match own {
            Some(own) => (0..text.len(), not_sought(own, detect)),
            None => not_found(text, format),
        };
        RejectedFormat { format: format.name, range, why }
    });
    reasons.collect()
}

/// Why calls that the format reads by itself were not read.
fn not_sought(found: &FoundFormat, detect: &Detect) -> String {
    if let Some(call) = found.calls.iter().find(|call| !call.is_declared && found.marker.is_none()) {
        return format!("it matches, but no tool `{}` is declared", clip(&call.name, 64));
    }
    match detect {
        Detect::Auto if !found.format.auto => {
            "it matches, but is only looked for if it is named or the model's name implies it".to_owned()
        }
        _ => "it matches, but another format was read first".to_owned(),
    }
}

/// What in the text rules the format out, and why.
fn not_found(text: &str, format: &'static Format) -> (Range<usize>, String) {
    let mut openers = format.openers();
    let found =
        openers.iter().filter_map(|open| Some((memmem::find(text.as_bytes(), open.as_bytes())?, *open)));
    if let Some((at, open)) = found.min() {
        return (at..at + open.len(), format!("what follows `{open}` is not a call of this format"));
    }
    let everything = 0..text.len();
    if has_fence(format) {
        return match text.find("```").or_else(|| text.find("~~~")) {
            Some(at) => (at..at + 3, "what follows the code fence is not a call of this format".to_owned()),
            None => (everything, "there is no code fence".to_owned()),
        };
    }
    openers.sort_unstable();
    openers.dedup();
    if openers.is_empty() {
        return (everything, "nothing in the text is a call of this format to a declared tool".to_owned());
    }
    let shown: Vec<_> = openers.iter().take(3).map(|open| format!("`{}`", clip(open, 64))).collect();
    (everything, format!("there is no {}", shown.join(" and no ")))
}

//! [`judge`]: compares a response with the expectations of its prompt (docs/calibrate.md#verdicts).
//!
//! It judges the response as received by the client, that is, the model together with toolwire. It is deterministic.
//! `toolwire calibrate` uses it, and so do tests with scripted models.

mod arguments;
mod markup;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::Case;
use crate::fixture::{Answer, answer::Call};
use arguments::{copied, fits, placeholder};
use toolwire_pipeline::tools::arguments_fault;

/// The category of a response.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The expected calls.
    Proper,
    /// No call, and none was expected.
    Answered,
    /// A call to the wrong tool, or one call too many.
    WrongTool,
    /// Calls to the right tool, with arguments that its schema allows but that are not the expected ones.
    WrongArguments,
    /// A call whose arguments are not valid JSON or violate the tool's schema.
    SchemaError,
    /// A call to an undeclared tool.
    UndeclaredName,
    /// Only text, although a call was expected.
    NoCall,
    /// A call, although none was expected.
    FalseCall,
    /// The markup of a call in the text, without a call.
    Leak,
    /// A copy of what the model was shown: a result, an example, a placeholder or the list of tools.
    Imitation,
    /// The response reached its token limit before a call was complete.
    Truncated,
    /// An error instead of a response, or in the middle of one.
    Failed,
}

impl Verdict {
    /// Whether the response is right for the prompt.
    pub fn is_right(self) -> bool {
        matches!(self, Self::Proper | Self::Answered)
    }

    /// Returns the name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Proper => "proper call",
            Self::Answered => "answered",
            Self::WrongTool => "wrong tool",
            Self::WrongArguments => "wrong arguments",
            Self::SchemaError => "schema error",
            Self::UndeclaredName => "undeclared name",
            Self::NoCall => "no call",
            Self::FalseCall => "false call",
            Self::Leak => "leak",
            Self::Imitation => "imitation",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
        }
    }

    /// Returns a short name for the heading of a narrow column.
    pub(crate) fn short_title(self) -> &'static str {
        match self {
            Self::Proper => "proper",
            Self::Answered => "answered",
            Self::WrongTool => "tool",
            Self::WrongArguments => "arguments",
            Self::SchemaError => "schema",
            Self::UndeclaredName => "unknown",
            Self::NoCall => "no call",
            Self::FalseCall => "false call",
            Self::Leak => "leak",
            Self::Imitation => "imitation",
            Self::Truncated => "cut off",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// A verdict and further observations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The category of the response.
    pub verdict: Verdict,
    /// Whether the text contains the markup of a call, even if there are proper calls as well.
    pub leaks: bool,
    /// Whether the text or the arguments contain a copy of text that the model was shown.
    pub imitates: bool,
    /// The reason in a few words. Empty for right responses.
    pub why: String,
}

/// Judges the response to `case`. `shown` is toolwire's description of the tools for the model, including examples. If it
/// is empty, copies of examples are not detected.
pub fn judge(case: &Case, shown: &str, answer: &Answer) -> Judgement {
    let said = case.said();
    let names: Vec<_> = case.tools.iter().map(|tool| tool.name.as_str()).collect();
    let text = markup::Text { text: &answer.text, said: &said, names: &names };
    let (leak, echo) = (text.leak(), text.imitation());
    let source = Source { case, shown, said: &said };
    let (verdict, why) = match &answer.error {
        Some(error) => (Verdict::Failed, error.message.clone().unwrap_or_else(|| error.kind.clone())),
        None if case.wants_call() => source.wanted(answer, leak.as_deref(), echo.as_deref()),
        None => unwanted(answer, leak.as_deref(), echo.as_deref()),
    };
    let copies = || answer.calls.iter().any(|call| source.copy(call).is_some());
    let imitates = verdict == Verdict::Imitation || echo.is_some() || !verdict.is_right() && copies();
    Judgement { verdict, leaks: leak.is_some(), imitates, why }
}

/// Whether the response ended because it reached its token limit.
fn is_cut(answer: &Answer) -> bool {
    answer.finish.as_deref() == Some("length")
}

/// Judges a response that should contain no call.
fn unwanted(answer: &Answer, leak: Option<&str>, echo: Option<&str>) -> (Verdict, String) {
    if let Some(call) = answer.calls.first() {
        return (Verdict::FalseCall, format!("calls `{}`", call.name));
    }
    match (leak, echo) {
        (Some(leak), _) => (Verdict::Leak, leak.to_owned()),
        (None, Some(echo)) => (Verdict::Imitation, echo.to_owned()),
        (None, None) => (Verdict::Answered, String::new()),
    }
}

/// What a response is compared with.
struct Source<'a> {
    case: &'a Case,
    shown: &'a str,
    said: &'a str,
}

impl Source<'_> {
    /// Judges a response that should contain a call.
    fn wanted(&self, answer: &Answer, leak: Option<&str>, echo: Option<&str>) -> (Verdict, String) {
        if let Some(fault) = answer.calls.iter().find_map(|call| self.fault(call, answer)) {
            return fault;
        }
        if !answer.calls.is_empty() {
            return self.compared(&answer.calls);
        }
        match (leak, echo) {
            (Some(leak), _) => (Verdict::Leak, leak.to_owned()),
            (None, Some(echo)) => (Verdict::Imitation, echo.to_owned()),
            (None, None) if is_cut(answer) => {
                (Verdict::Truncated, "the token limit was reached before a call".to_owned())
            }
            (None, None) if answer.text.trim().is_empty() => {
                (Verdict::NoCall, "the response is empty".to_owned())
            }
            (None, None) => (Verdict::NoCall, "answers in text".to_owned()),
        }
    }

    /// Returns the fault of a call that would be wrong for any prompt: an unknown name, or arguments that its tool does not
    /// allow.
    fn fault(&self, call: &Call, answer: &Answer) -> Option<(Verdict, String)> {
        let Some(tool) = self.case.tool(&call.name) else {
            return Some((Verdict::UndeclaredName, format!("calls `{}`", call.name)));
        };
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
        if !is_json && is_cut(answer) {
            return Some((Verdict::Truncated, "the token limit was reached within a call".to_owned()));
        }
        let why = arguments_fault(Some(&tool.parameters.to_string()), &call.arguments)?;
        Some((Verdict::SchemaError, why))
    }

    /// Compares valid calls with the expected calls. Each must be an expected call, but the model may make some of the
    /// expected calls later.
    fn compared(&self, calls: &[Call]) -> (Verdict, String) {
        let mut open: Vec<_> = self.case.calls.iter().collect();
        for call in calls {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
            if let Some(place) =
                open.iter().position(|wanted| wanted.name == call.name && fits(&wanted.arguments, &arguments))
            {
                open.remove(place);
            } else if let Some(copy) = self.copy(call) {
                return (Verdict::Imitation, copy);
            } else if let Some(wanted) = open.iter().find(|wanted| wanted.name == call.name) {
                return (Verdict::WrongArguments, arguments::difference(&wanted.arguments, &arguments));
            } else {
                return (Verdict::WrongTool, format!("calls `{}`", call.name));
            }
        }
        (Verdict::Proper, String::new())
    }

    /// Returns a placeholder or a value from an example that the call has copied from the shown text, if there is one.
    fn copy(&self, call: &Call) -> Option<String> {
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        if let Some(value) = placeholder(&arguments, self.said) {
            return Some(format!("the argument is a placeholder: {value}"));
        }
        let schema = self.case.tool(&call.name).map_or(&Value::Null, |tool| &tool.parameters);
        let wanted = self.case.calls.iter().find(|wanted| wanted.name == call.name);
        let value =
            copied(&arguments, wanted.map(|wanted| &wanted.arguments), schema, self.shown, self.said)?;
        Some(format!("the argument is copied from the instructions: {value}"))
    }
}

#[cfg(test)]
mod tests;

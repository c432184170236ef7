//! Hops: the upstream requests made for one response, and the sum of their token counts.

use serde_json::{Map, Number, Value, value::RawValue};

use crate::{
    conversation::{Call, Part, Role, Turn},
    event::{RawUsage, Usage},
};

/// What is needed to continue a response after a hop. See
/// [`Pipeline::follow_up`](super::Pipeline::follow_up).
#[derive(Debug, Clone, PartialEq)]
pub struct FollowUp {
    /// Why the response continues.
    pub reason: Reason,
    /// The turns to append to the conversation for the next request. The results of `hosted` come after them.
    pub turns: Vec<Turn>,
    /// The hosted calls to run first. They are part of the last turn, which may also contain calls that are
    /// not run.
    pub hosted: Vec<Call>,
    /// Whether the response ends once these calls have run and the client has been shown their results, because the
    /// client has calls to answer.
    pub is_last: bool,
}

impl FollowUp {
    /// Asks the model again with `message`. `text` is what the model wrote in this hop.
    pub(super) fn new(reason: Reason, text: &str, message: String) -> Self {
        let text = (!text.is_empty()).then(|| Turn::text(Role::Assistant, text));
        Self {
            reason,
            turns: text.into_iter().chain([Turn::text(Role::User, message)]).collect(),
            hosted: Vec::new(),
            is_last: false,
        }
    }

    /// Adds the reasoning that preceded the text of this hop. Without text, the reasoning is not sent,
    /// because some APIs reject a turn that consists only of reasoning.
    pub(super) fn remember(&mut self, reasoning: Vec<Part>) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.role == Role::Assistant) {
            turn.parts.splice(0..0, reasoning);
        }
    }
}

/// Why the upstream gets another request for the same response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Calls on the upstream's server-tool channel lack required arguments (`misroute = "bounce"`).
    Misrouted,
    /// A call that `tool_choice` requires is missing (`enforce = "retry"`).
    MissingCall,
    /// An undeclared tool was called (`unknown_calls = "retry"`).
    UnknownTool,
    /// The arguments of a call violate their schema (`invalid_arguments = "retry"`).
    InvalidArguments,
    /// Hosted tools were called.
    Hosted,
    /// Other tools were searched.
    ToolSearch,
}

impl Reason {
    /// The name used in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the next hop replaces the withheld output of the current hop, which includes all of its calls.
    pub(super) fn replaces(self) -> bool {
        !matches!(self, Self::Misrouted | Self::Hosted | Self::ToolSearch)
    }
}

#[derive(Debug, Default)]
pub(super) struct UsageSum {
    earlier: Option<Box<Usage>>,
    /// The latest counts of this hop, recorded only if another hop may follow.
    current: Option<Box<Usage>>,
}

impl UsageSum {
    /// Records the latest counts of this hop. If there were earlier hops, returns the counts of the complete
    /// response.
    pub(super) fn take(&mut self, usage: &Usage, keeps: bool) -> Option<Usage> {
        if keeps {
            self.current = Some(Box::new(usage.clone()));
        }
        self.earlier.as_ref().map(|earlier| sum(earlier, usage))
    }

    /// Forgets the counts of this hop, which begins again.
    pub(super) fn begin_again(&mut self) {
        self.current = None;
    }

    pub(super) fn next_hop(&mut self) {
        let Some(current) = self.current.take() else { return };
        self.earlier = Some(match &self.earlier {
            Some(earlier) => Box::new(sum(earlier, &current)),
            None => current,
        });
    }
}

/// Adds two counts. A missing count does not change the other one.
fn add(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (one, other) => one.or(other),
    }
}

fn sum(left: &Usage, right: &Usage) -> Usage {
    let total = |usage: &Usage| usage.total.or_else(|| usage.input?.checked_add(usage.output?));
    Usage {
        input: add(left.input, right.input),
        output: add(left.output, right.output),
        reasoning: add(left.reasoning, right.reasoning),
        total: add(total(left), total(right)),
        cached: add(left.cached, right.cached),
        cache_written: add(left.cache_written, right.cache_written),
        raw: sum_of_raw(left.raw.as_ref(), right.raw.as_ref()),
    }
}

/// Adds two usage objects of the same dialect, field by field. An object that cannot be parsed is ignored.
fn sum_of_raw(left: Option<&RawUsage>, right: Option<&RawUsage>) -> Option<RawUsage> {
    let dialect = left.or(right)?.dialect;
    let parse = |raw: &RawUsage| serde_json::from_str::<Map<String, Value>>(raw.object.get()).ok();
    let object = match (left.and_then(parse), right.and_then(parse)) {
        (Some(mut left), Some(right)) => {
            add_object(&mut left, right);
            left
        }
        (one, other) => one.or(other)?,
    };
    let object = RawValue::from_string(Value::Object(object).to_string()).ok()?;
    Some(RawUsage { dialect, object })
}

fn add_object(left: &mut Map<String, Value>, right: Map<String, Value>) {
    for (key, more) in right {
        match (left.get_mut(&key), more) {
            (Some(Value::Object(left)), Value::Object(more)) => add_object(left, more),
            (Some(Value::Number(left)), Value::Number(more)) => *left = add_numbers(left, &more),
            (Some(_), Value::Null) => {}
            (_, more) => _ = left.insert(key, more),
        }
    }
}

/// Adds two numbers, exactly if both are integers and in floating point otherwise. If the sum is not finite,
/// returns the first number.
fn add_numbers(left: &Number, right: &Number) -> Number {
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left.saturating_add(right).into();
    }
    let sum = left.as_f64().zip(right.as_f64()).and_then(|(left, right)| Number::from_f64(left + right));
    sum.unwrap_or_else(|| left.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(raw: &str) -> Usage {
        let object: Value = serde_json::from_str(raw).unwrap();
        let count = |key: &str| object[key].as_u64();
        Usage {
            input: count("prompt_tokens"),
            output: count("completion_tokens"),
            total: count("total_tokens"),
            raw: Some(RawUsage { dialect: "chat", object: RawValue::from_string(raw.to_owned()).unwrap() }),
            ..Usage::default()
        }
    }

    #[test]
    fn usage_is_summed_field_by_field() {
        let mut sum = UsageSum::default();
        let first = usage(
            r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"cost":0.25,
                "prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":null}"#,
        );
        assert_eq!(sum.take(&first, true), None);
        sum.next_hop();
        // A hop without token counts does not erase the sum.
        sum.next_hop();
        let second = usage(
            r#"{"prompt_tokens":20,"completion_tokens":3,"cost":0.5,"tier":"x",
                "prompt_tokens_details":{"cached_tokens":10,"audio_tokens":1},
                "completion_tokens_details":{"reasoning_tokens":2}}"#,
        );
        let both = sum.take(&second, true).unwrap();
        assert_eq!((both.input, both.output, both.total), (Some(30), Some(5), Some(35)));
        let raw: Value = serde_json::from_str(both.raw.unwrap().object.get()).unwrap();
        assert_eq!(raw["prompt_tokens_details"], serde_json::json!({"cached_tokens": 14, "audio_tokens": 1}));
        assert_eq!(raw["completion_tokens_details"], serde_json::json!({"reasoning_tokens": 2}));
        assert_eq!((raw["cost"].as_f64(), raw["tier"].as_str()), (Some(0.75), Some("x")));
    }

    #[test]
    fn later_counts_of_one_hop_replace_earlier_ones() {
        let mut sum = UsageSum::default();
        sum.take(&usage(r#"{"completion_tokens":1}"#), true);
        sum.take(&usage(r#"{"completion_tokens":5}"#), true);
        sum.next_hop();
        let both = sum.take(&usage(r#"{"completion_tokens":2}"#), true).unwrap();
        assert_eq!(both.output, Some(7));
        let both = sum.take(&usage(r#"{"completion_tokens":3}"#), true).unwrap();
        assert_eq!(both.output, Some(8));
    }

    #[test]
    fn large_counts_do_not_overflow() {
        let most = usage(&format!(r#"{{"prompt_tokens":{},"n":1e308}}"#, u64::MAX));
        assert_eq!(super::sum(&most, &most).input, Some(u64::MAX));
    }
}

//! Compares the received response with the expected one.

use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::Value;

use super::{
    case::{Expected, Wanted},
    received_response::{ReceivedCall, ReceivedResponse},
};
use crate::{clients, follow};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// The violated rule, worded the same for every case.
    pub(crate) rule: String,
    /// How this response violates the rule.
    pub(crate) detail: String,
}

/// Rules that all tested clients allow a stream to violate: docs/protocols/chat.md#client-tolerance and its counterparts.
const TOLERATED: [&str; 12] = [
    "a call's first delta has arguments",
    "a call's type is repeated or late",
    "a chunk has no created, an integer",
    "a chunk has no model",
    "a line ends with CR",
    "an error has no error.type",
    "an error has no type",
    "created changes",
    "sequence_number does not count from 0",
    "the chunk with the role has content",
    "the id changes",
    "the usage is in a chunk with choices",
];

/// Like [`TOLERATED`], but for a single dialect. Clients of Responses do not need the `event:` line, while clients of
/// Messages ignore an event without one.
const TOLERATED_IN: [(ClientDialect, &str); 1] =
    [(ClientDialect::Responses, "an event's `event:` line differs from its type")];

/// All violations in a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Violations that make the case fail.
    pub(crate) faults: Vec<Fault>,
    /// Violations that all tested clients tolerate.
    pub(crate) notes: Vec<Fault>,
}

impl Found {
    /// Returns a single violation.
    pub(crate) fn fault(rule: &str, detail: String) -> Self {
        Self { faults: vec![Fault { rule: rule.to_owned(), detail }], notes: Vec::new() }
    }
}

/// Maximum number of characters of a quotation in a detail.
const SHOWN: usize = 120;

/// Checks the response that a client of `dialect` received. If `is_strict`, no violation is tolerated.
pub(crate) fn check(
    expected: &Expected,
    dialect: ClientDialect,
    received: &ReceivedResponse,
    is_strict: bool,
) -> Found {
    let (mut faults, mut notes) = (Faults(Vec::new()), Faults(Vec::new()));
    for violation in &received.violations {
        let rule = follow::rule(violation);
        let is_tolerated =
            !is_strict && (TOLERATED.contains(&rule) || TOLERATED_IN.contains(&(dialect, rule)));
        let found = if is_tolerated { &mut notes } else { &mut faults };
        found.add(&format!("dialect: {rule}"), violation);
    }
    match expected {
        Expected::Response(wanted) => faults.response(&wanted.towards(dialect), received),
        Expected::Failure { of, status, is_truncated } => {
            faults.failure(dialect, &of.towards(dialect), status, *is_truncated, received);
        }
    }
    Found { faults: faults.0, notes: notes.0 }
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, rule: &str, detail: impl Into<String>) {
        self.0.push(Fault { rule: rule.to_owned(), detail: detail.into() });
    }

    fn holds(&mut self, holds: bool, rule: &str, detail: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, detail());
        }
    }

    fn response(&mut self, wanted: &Wanted, received: &ReceivedResponse) {
        if received.status != 200 {
            let what = match (received.status, &received.broken) {
                (0, why) => why.clone().unwrap_or_default(),
                (status, _) => format!("{status}: {}", received.error.as_deref().unwrap_or_default()),
            };
            return self.add("a good response is refused", what);
        }
        if let Some(error) = &received.error {
            return self.add("a good response fails", error.clone());
        }
        if let Some(why) = &received.broken {
            return self.add("a good response breaks off", why.clone());
        }
        let same = match wanted.trimmed {
            true => wanted.text.trim() == received.text.trim(),
            false => wanted.text == received.text,
        };
        self.holds(same, "the text is not the upstream's", || difference(&wanted.text, &received.text));
        if let Some(reasoning) = &wanted.reasoning {
            let rule = match received.reasoning.is_empty() {
                true => "the reasoning is lost",
                false => "the reasoning is not the upstream's",
            };
            self.holds(*reasoning == received.reasoning, rule, || difference(reasoning, &received.reasoning));
        }
        self.calls(wanted, received);
        self.holds(received.finish == Some(wanted.finish), "the finish reason is wrong", || {
            format!("{}, not {}", finish_word(received.finish), finish_word(Some(wanted.finish)))
        });
        if let Some((input, output)) = wanted.usage {
            let expected = (Some(input), Some(output));
            let rule = match received.usage {
                (None, None) => "the token counts are lost",
                _ => "the token counts are not the upstream's",
            };
            self.holds(received.usage == expected, rule, || {
                format!("{}, not {}", usage_words(received.usage), usage_words(expected))
            });
        }
    }

    fn calls(&mut self, wanted: &Wanted, received: &ReceivedResponse) {
        let (expected, got) = (wanted.calls.len(), received.calls.len());
        self.holds(got >= expected, "a call is lost", || format!("{got} of {expected} calls"));
        self.holds(got <= expected, "a call is invented", || format!("{got} calls, not {expected}"));
        for ((name, arguments), call) in wanted.calls.iter().zip(&received.calls) {
            self.holds(*name == call.name, "a call has another name", || difference(name, &call.name));
            let equal = match wanted.verbatim_arguments {
                true => *arguments == call.arguments,
                false => same_json(arguments, &call.arguments),
            };
            let rule = match !equal && same_json(arguments, &call.arguments) {
                true => "the arguments of a call are rewritten",
                false => "the arguments of a call are not the upstream's",
            };
            self.holds(equal, rule, || difference(arguments, &call.arguments));
        }
        let unnamed = |call: &&ReceivedCall| call.id.is_empty();
        self.holds(!received.calls.iter().any(|call| unnamed(&call)), "a call has no id", String::new);
    }

    fn failure(
        &mut self,
        dialect: ClientDialect,
        of: &Wanted,
        status: &RangeInclusive<u16>,
        is_truncated: bool,
        received: &ReceivedResponse,
    ) {
        if received.status != 200 {
            if received.status == 0 {
                let why = received.broken.clone().unwrap_or_default();
                return self.add("there is no response", why);
            }
            self.holds(status.contains(&received.status), "the status of an error is wrong", || {
                format!("{}, not {}-{}", received.status, status.start(), status.end())
            });
            return;
        }
        if received.is_complete {
            let rule = match is_truncated {
                true => "a truncated response looks complete",
                false => "a failed response looks complete",
            };
            return self.add(rule, format!("finish reason: {}", finish_word(received.finish)));
        }
        let rule = match received.is_interrupted {
            true => "the body is interrupted without an error event",
            false => "the stream ends without an error event",
        };
        self.holds(received.error.is_some(), rule, || received.broken.clone().unwrap_or_default());
        let is_beginning = of.text.starts_with(received.text.as_str());
        self.holds(is_beginning, "the text is not the upstream's", || difference(&of.text, &received.text));
        for (place, call) in received.calls.iter().enumerate() {
            let is_beginning = of.calls.get(place).is_some_and(|(name, arguments)| {
                let is_beginning = arguments.starts_with(&call.arguments) || call.arguments == "{}";
                let is_whole =
                    clients::api(dialect).has_argument_values() && same_json(arguments, &call.arguments);
                *name == call.name && (is_beginning || is_whole)
            });
            self.holds(is_beginning, "a call is invented", || format!("{}({})", call.name, call.arguments));
        }
    }
}

/// The finish reason in OpenAI's words, which most dialects share.
fn finish_word(finish: Option<Finish>) -> &'static str {
    match finish {
        Some(Finish::Stop) => "stop",
        Some(Finish::Calls) => "tool_calls",
        Some(Finish::Length) => "length",
        Some(Finish::Filter) => "content_filter",
        None => "none",
    }
}

fn usage_words((input, output): (Option<u64>, Option<u64>)) -> String {
    let word = |count: Option<u64>| count.map_or_else(|| "none".to_owned(), |count| count.to_string());
    format!("{} in and {} out", word(input), word(output))
}

/// Whether both strings are the same JSON value. Numbers are compared digit by digit.
fn same_json(left: &str, right: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    left == right || value(left).is_some_and(|left| Some(left) == value(right))
}

/// Describes the first difference between two strings.
fn difference(expected: &str, got: &str) -> String {
    let same: usize = expected
        .chars()
        .zip(got.chars())
        .take_while(|(left, right)| left == right)
        .map(|(left, _)| left.len_utf8())
        .sum();
    let from = expected.floor_char_boundary(same.saturating_sub(20));
    let part = |text: &str| -> String { text.get(from..).unwrap_or_default().chars().take(SHOWN).collect() };
    format!("from byte {same}: expected {:?}, received {:?}", part(expected), part(got))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            text: "Looking.".to_owned(),
            reasoning: Some(String::new()),
            calls: vec![("f".to_owned(), r#"{"a": 2.50}"#.to_owned())],
            finish: Finish::Calls,
            usage: Some((1, 2)),
            verbatim_arguments: false,
            trimmed: false,
        }
    }

    fn received() -> ReceivedResponse {
        let call =
            ReceivedCall { id: "c".to_owned(), name: "f".to_owned(), arguments: r#"{"a":2.50}"#.to_owned() };
        ReceivedResponse {
            status: 200,
            text: "Looking.".to_owned(),
            calls: vec![call],
            finish: Some(Finish::Calls),
            usage: (Some(1), Some(2)),
            is_complete: true,
            ..ReceivedResponse::default()
        }
    }

    fn rules(expected: &Expected, received: &ReceivedResponse) -> Vec<String> {
        let found = check(expected, ClientDialect::Chat, received, false);
        found.faults.into_iter().chain(found.notes).map(|fault| fault.rule).collect()
    }

    #[test]
    fn equal_responses_have_no_faults() {
        assert_eq!(rules(&Expected::Response(wanted()), &received()), Vec::<String>::new());
    }

    #[test]
    fn every_change_of_a_response_violates_its_rule() {
        type Change = fn(&mut ReceivedResponse);
        let changes: [(Change, &str); 12] = [
            (|it| it.text.push('x'), "the text is not the upstream's"),
            (|it| it.reasoning.push('x'), "the reasoning is not the upstream's"),
            (|it| it.calls.clear(), "a call is lost"),
            (|it| it.calls.push(it.calls[0].clone()), "a call is invented"),
            (|it| it.calls[0].name.push('x'), "a call has another name"),
            (
                |it| it.calls[0].arguments = "{\"a\":2.5}".to_owned(),
                "the arguments of a call are not the upstream's",
            ),
            (|it| it.calls[0].id.clear(), "a call has no id"),
            (|it| it.finish = Some(Finish::Stop), "the finish reason is wrong"),
            (|it| it.usage = (None, None), "the token counts are lost"),
            (|it| it.usage.1 = Some(3), "the token counts are not the upstream's"),
            (|it| it.error = Some("no".to_owned()), "a good response fails"),
            (|it| it.status = 502, "a good response is refused"),
        ];
        for (change, rule) in changes {
            let mut changed = received();
            change(&mut changed);
            assert_eq!(rules(&Expected::Response(wanted()), &changed), [rule]);
        }
    }

    #[test]
    fn tolerated_violation_is_a_fault_only_if_strict() {
        let violations = vec!["a line ends with CR (byte 7)".to_owned()];
        let received = ReceivedResponse { violations, ..received() };
        let expected = Expected::Response(wanted());
        let found = |is_strict| check(&expected, ClientDialect::Chat, &received, is_strict);
        assert_eq!((found(false).faults.len(), found(false).notes.len()), (0, 1));
        assert_eq!((found(true).faults.len(), found(true).notes.len()), (1, 0));
    }

    #[test]
    fn rewritten_arguments_are_a_fault_where_they_must_be_verbatim() {
        let wanted = Wanted { verbatim_arguments: true, ..wanted() };
        let rule = "the arguments of a call are rewritten";
        assert_eq!(rules(&Expected::Response(wanted), &received()), [rule]);
    }

    #[test]
    fn truncated_response_must_end_with_an_error() {
        let expected = Expected::Failure { of: wanted(), status: 500..=599, is_truncated: true };
        assert_eq!(rules(&expected, &received()), ["a truncated response looks complete"]);
        let mut cut = ReceivedResponse { is_complete: false, finish: None, ..received() };
        assert_eq!(rules(&expected, &cut), ["the stream ends without an error event", "a call is invented"]);
        cut.error = Some("the upstream closed the stream".to_owned());
        assert_eq!(rules(&expected, &cut), ["a call is invented"], "its arguments are written otherwise");
        cut.calls[0].arguments = "{\"a\": 2".to_owned();
        assert_eq!(rules(&expected, &cut), Vec::<String>::new());
        let refused =
            ReceivedResponse { status: 404, error: Some("no".to_owned()), ..ReceivedResponse::default() };
        assert_eq!(rules(&expected, &refused), ["the status of an error is wrong"]);
        let refused = ReceivedResponse { status: 502, ..refused };
        assert_eq!(rules(&expected, &refused), Vec::<String>::new());
    }
}

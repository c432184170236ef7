use super::{Example, Report, VariantReport};
use crate::calibrate::{interval::Share, judge::Verdict};

pub(crate) fn report() -> Report {
    let example = |verdict, text: &str| Example {
        verdict,
        prompt: "one-weather".to_owned(),
        user: "What's the weather in Lisbon?".to_owned(),
        why: "answers in text".to_owned(),
        text: text.to_owned(),
        calls: vec!["get_weather({})".to_owned()],
    };
    let variant = |name: &str, proper: u64| VariantReport {
        name: name.to_owned(),
        format: "hermes".to_owned(),
        answers: 12,
        score: Share::new(proper, 10).low_minus(&Share::new(0, 2)),
        proper: Share::new(proper, 10),
        proper_without_history: Share::new(proper, 10),
        false_calls: Share::new(0, 2),
        verdicts: [(Verdict::Proper, proper), (Verdict::NoCall, 10 - proper), (Verdict::Answered, 2)].into(),
        groups: [("one tool".to_owned(), Share::new(proper, 10))].into(),
        tool_tokens: 281.25,
        call_ms: Some(412.0),
        examples: vec![example(Verdict::NoCall, "It is sunny."), example(Verdict::Leak, "<tool_call>")],
        ..VariantReport::default()
    };
    Report {
        version: "0.1.0".to_owned(),
        upstream: "http://127.0.0.1:8080/v1".to_owned(),
        model: "m".to_owned(),
        prompts: 12,
        runs: 1,
        max_tokens: 200,
        seconds: 61.5,
        questions: 24,
        answers: 24,
        cached: 3,
        variants: vec![variant("hermes turns", 8), variant("hermes", 5)],
        entry: Some("[[models]]\nname = \"m\"\ntools = \"hermes\"\nexamples_as = \"turns\"\n".to_owned()),
        ..Report::default()
    }
}

use serde_json::json;

use super::*;
use crate::calibrate::set::CaseSet;

fn case(name: &str) -> Case {
    CaseSet::built_in().unwrap().cases.into_iter().find(|case| case.name == name).unwrap()
}

fn text(text: &str) -> Answer {
    Answer { text: text.to_owned(), finish: Some("stop".to_owned()), ..Answer::default() }
}

fn calls(calls: &[(&str, Value)]) -> Answer {
    let calls = calls.iter().map(|(name, arguments)| Call {
        id: None,
        name: (*name).to_owned(),
        arguments: arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned),
    });
    Answer { calls: calls.collect(), finish: Some("tool_calls".to_owned()), ..Answer::default() }
}

fn verdict(name: &str, answer: &Answer) -> Verdict {
    judge(&case(name), "", answer).verdict
}

#[test]
fn call_as_wanted_is_proper() {
    for (name, arguments) in [
        ("one-weather", json!({"city": "Lisbon"})),
        ("one-weather", json!({"city": "lisbon, Portugal", "unit": "celsius"})),
        ("one-currency", json!({"amount": 250.0, "from": "eur", "to": "JPY"})),
        ("one-message", json!({"recipient": "Priya", "text": "I will be ten  minutes late."})),
        (
            "several-event-attendees",
            json!({"title": "Sprint planning", "date": "2026-06-01", "attendees": ["Tom", "Lena"]}),
        ),
        ("awkward-lines", json!({"path": "list.txt", "content": "first\nsecond\nthird\n"})),
        ("language-japanese", json!({"city": "Osaka"})),
    ] {
        let case = case(name);
        let judgement = judge(&case, "", &calls(&[(&case.calls[0].name, arguments)]));
        assert_eq!(judgement.verdict, Verdict::Proper, "{name}: {}", judgement.why);
        assert!(!judgement.leaks && !judgement.imitates && judgement.why.is_empty());
    }
}

#[test]
fn some_of_several_wanted_calls_are_proper_and_repeated_ones_are_not() {
    let (oslo, madrid) = (json!({"city": "Oslo"}), json!({"city": "Madrid"}));
    let of = |cities: &[&Value]| {
        let made: Vec<_> = cities.iter().map(|city| ("get_weather", (*city).clone())).collect();
        verdict("several-two-cities", &calls(&made))
    };
    assert_eq!(of(&[&oslo, &madrid]), Verdict::Proper);
    assert_eq!(of(&[&madrid]), Verdict::Proper);
    assert_eq!(of(&[&madrid, &madrid]), Verdict::WrongArguments);
    assert_eq!(of(&[&oslo, &madrid, &oslo]), Verdict::WrongTool);
}

#[test]
fn each_fault_of_a_call_has_its_verdict() {
    let weather = |arguments: Value| verdict("several-weather", &calls(&[("get_weather", arguments)]));
    assert_eq!(weather(json!({"city": "Rome"})), Verdict::WrongArguments);
    assert_eq!(weather(json!({"city": "Bergenia"})), Verdict::WrongArguments);
    assert_eq!(weather(json!({"city": "bergen@example.com"})), Verdict::WrongArguments);
    assert_eq!(weather(json!({"city": "Bergen-Belsen"})), Verdict::WrongArguments);
    assert_eq!(weather(json!({"town": "Bergen"})), Verdict::SchemaError);
    assert_eq!(weather(json!({"city": "Bergen", "unit": "kelvin"})), Verdict::SchemaError);
    assert_eq!(weather(json!("{\"city\": ")), Verdict::SchemaError);
    assert_eq!(weather(json!({"city": {"type": "string"}})), Verdict::SchemaError);
    let search = calls(&[("search_files", json!({"pattern": "Bergen"}))]);
    assert_eq!(verdict("several-weather", &search), Verdict::WrongTool);
    let unknown = calls(&[("get_rain", json!({"city": "Bergen"}))]);
    assert_eq!(verdict("several-weather", &unknown), Verdict::UndeclaredName);
    // The tool exists, but this prompt does not offer it.
    assert_eq!(verdict("one-weather", &search), Verdict::UndeclaredName);
    assert_eq!(verdict("none-sum", &search), Verdict::FalseCall);
}

#[test]
fn exact_text_is_compared_byte_for_byte() {
    let write = |content: &str| {
        verdict("awkward-lines", &calls(&[("write_file", json!({"path": "list.txt", "content": content}))]))
    };
    assert_eq!(write("first\nsecond\nthird"), Verdict::Proper);
    assert_eq!(write("first second third"), Verdict::WrongArguments);
    assert_eq!(write("first\\nsecond\\nthird"), Verdict::WrongArguments);
}

#[test]
fn text_without_a_call_is_judged_by_what_was_wanted() {
    assert_eq!(verdict("none-sum", &text("7 times 8 is 56.")), Verdict::Answered);
    assert_eq!(verdict("one-weather", &text("It is sunny.")), Verdict::NoCall);
    assert_eq!(verdict("one-weather", &text("You could use get_weather() for this.")), Verdict::NoCall);
    assert_eq!(verdict("one-weather", &text("def get_weather(city):\n    pass")), Verdict::NoCall);
    assert_eq!(verdict("one-weather", &text("")), Verdict::NoCall);
    let cut = Answer { finish: Some("length".to_owned()), ..text("Let me think about this") };
    assert_eq!(verdict("one-weather", &cut), Verdict::Truncated);
    assert_eq!(verdict("none-sum", &cut), Verdict::Answered);
    let within =
        Answer { finish: Some("length".to_owned()), ..calls(&[("get_weather", json!("{\"city\": \"Lis"))]) };
    assert_eq!(verdict("one-weather", &within), Verdict::Truncated);
}

#[test]
fn markup_of_a_call_in_the_text_is_a_leak() {
    for leaking in [
        "<tool_call>{\"nam",
        "Sure.</tool_call>",
        "<function=get_weather>",
        "<|tool_call_begin|>functions",
        "[TOOL_CALLS] get weather",
        "<｜tool▁calls▁begin｜>",
        "<|python_tag|>get weather",
        "<invoke name=\"weather\">",
        "{\"name\": \"get_weather\", \"arguments\": {\"city\": }",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Lisbon\"",
        "{\"get_weather\": {\"city\": \"Lisbon\"}",
        "get_weather(city=\"Lisbon\")",
        "get_weather(city: \"Lisbon\")",
        "Action: get_weather",
        "<get_weather>\n<city>Lisbon",
    ] {
        assert_eq!(verdict("one-weather", &text(leaking)), Verdict::Leak, "{leaking}");
        assert_eq!(verdict("none-sum", &text(leaking)), Verdict::Leak, "{leaking}");
    }
    // Markup that also occurs in the conversation does not count.
    let quoted = "I sent: </tool_call> closes what <tool_call> opens";
    assert_eq!(verdict("awkward-markup", &text(quoted)), Verdict::NoCall);
    // Leaked markup is reported even if there is a proper call.
    let mut both = calls(&[("get_weather", json!({"city": "Lisbon"}))]);
    both.text = "</tool_call>".to_owned();
    let judgement = judge(&case("one-weather"), "", &both);
    assert_eq!((judgement.verdict, judgement.leaks), (Verdict::Proper, true));
}

#[test]
fn copy_of_what_was_shown_is_an_imitation() {
    for echo in [
        "<tool_response>\n{\"name\":\"get_weather\",\"content\":\"sunny\"}\n</tool_response>",
        "[TOOL_RESULTS] 24",
        "{\"name\":\"get_weather\",\"description\":\"Get the current weather\",\"parameters\":{\"type\":\"object\"}}",
        "get_weather(city: string, unit?: \"celsius\" | \"fahrenheit\"): Get the weather",
    ] {
        let judgement = judge(&case("none-sum"), "", &text(echo));
        assert!(judgement.imitates, "{echo}: {judgement:?}");
    }
    assert_eq!(
        verdict("one-weather", &text("get_weather(city: string): Get the weather")),
        Verdict::Imitation
    );
    assert_eq!(verdict("one-weather", &text("<tool_response>sunny</tool_response>")), Verdict::Imitation);
    for format in toolwire_pipeline::format::ALL {
        let Some(teach) = format.teach else { continue };
        let result = toolwire_pipeline::conversation::CallOutput {
            id: "call_1".to_owned(),
            name: "get_weather".to_owned(),
            content: "sunny".to_owned(),
            is_error: false,
        };
        let shown = format!("Here it is.\n{}", teach.form.result(&result));
        assert!(judge(&case("none-sum"), "", &text(&shown)).imitates, "{}: {shown}", format.name);
    }
    for placeholder in ["value", "<city>", "{{city}}", "your_city", "...", "string"] {
        let call = calls(&[("get_weather", json!({"city": placeholder}))]);
        assert_eq!(verdict("one-weather", &call), Verdict::Imitation, "{placeholder}");
    }
}

#[test]
fn value_of_an_example_is_an_imitation_unless_it_was_asked_for() {
    let shown = "User: Get the weather\nYou: {\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}";
    let of = |name: &str, arguments: Value| {
        judge(&case(name), shown, &calls(&[("get_weather", arguments)])).verdict
    };
    assert_eq!(of("one-weather", json!({"city": "Paris"})), Verdict::Imitation);
    assert_eq!(of("one-weather", json!({"city": "Rome"})), Verdict::WrongArguments);
    // The conversation mentions Paris, but asks about another city.
    assert_eq!(of("history-weather", json!({"city": "Paris"})), Verdict::WrongArguments);
    let unit = "unit is \"celsius\" or \"fahrenheit\"";
    let call = calls(&[("get_weather", json!({"city": "Chicago", "unit": "celsius"}))]);
    assert_eq!(judge(&case("one-weather-unit"), unit, &call).verdict, Verdict::WrongArguments);
    let copied = judge(&case("none-sum"), shown, &calls(&[("get_weather", json!({"city": "Paris"}))]));
    assert_eq!((copied.verdict, copied.imitates), (Verdict::FalseCall, true));
}

#[test]
fn error_is_a_failure_whatever_came_before_it() {
    let mut answer = calls(&[("get_weather", json!({"city": "Lisbon"}))]);
    answer.error = Some(crate::fixture::answer::ErrorSeen {
        message: Some("the upstream closed the stream".to_owned()),
        ..Default::default()
    });
    let judgement = judge(&case("one-weather"), "", &answer);
    assert_eq!(
        (judgement.verdict, judgement.why.as_str()),
        (Verdict::Failed, "the upstream closed the stream")
    );
}

/// Arbitrary text causes no panic and takes linear time.
#[test]
fn hostile_text_is_judged() {
    let case = case("several-weather");
    for piece in [
        "<",
        "[",
        "get_weather(",
        "\"name\": \"get_weather\"",
        "<tool",
        "é<",
        "user:get_weather",
        "{{",
        "\u{0}",
    ] {
        let _ = judge(&case, piece, &text(&piece.repeat(2_000)));
        let _ = judge(&case, piece, &calls(&[("get_weather", json!({"city": piece.repeat(500)}))]));
        let _ = judge(&case, piece, &calls(&[(piece, json!(piece.repeat(500)))]));
    }
}

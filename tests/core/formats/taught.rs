//! Tests that the engine can read the formats that models are taught.

use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput},
    format::{ALL, Format, Teach},
    rules::Detect,
};

use crate::formats::found::find_at_every_cut;

fn taught() -> impl Iterator<Item = (&'static Format, Teach)> {
    ALL.iter().filter_map(|format| Some((*format, format.teach?)))
}

fn call(name: &str, arguments: &Value) -> Call {
    Call::new("c1", name, arguments.to_string())
}

#[test]
fn taught_example_is_the_example_of_the_format() {
    for (format, teach) in taught() {
        let plain = |text: &str| text.replace([' ', '\''], "").replace('"', "");
        let mut written = plain(&teach.form.calls(&[call("get_weather", &json!({"city": "Paris"}))]));
        let example = plain(format.example);
        // Ignores escaping, which differs where arguments are JSON in a string.
        written = written.replace("\\", "");
        assert_eq!(written, example.replace("\\", ""), "{}", format.name);
    }
}

#[test]
fn taught_calls_of_every_type_are_detected() {
    let light = json!({
        "room": "Küche \"Süd\"\n 2. Stock 🔆",
        "level": 0.5,
        "on": true,
        "scene": null,
        "hours": [7, 22],
        "color": {"name": "warm", "mix": ["red", "white"]},
    });
    for (format, teach) in taught() {
        let shown = call("set_light", &light);
        let found = find_at_every_cut(&Detect::Formats(vec![format.name]), &teach.form.calls(&[shown]));
        assert_eq!(found.parsed_calls(), [("set_light", light.clone())], "{}: {found:?}", format.name);
        assert!(found.calls[0].is_complete() && found.text.is_empty(), "{}: {found:?}", format.name);
    }
}

#[test]
fn parallel_taught_calls_stay_separate() {
    let two =
        [call("search", &json!({"query": "a"})), call("now", &json!({})), call("add", &json!({"x": 1}))];
    let wanted = [("search", json!({"query": "a"})), ("now", json!({})), ("add", json!({"x": 1}))];
    for (format, teach) in taught() {
        let found = find_at_every_cut(&Detect::Formats(vec![format.name]), &teach.form.calls(&two));
        assert_eq!(found.parsed_calls(), wanted, "{}: {found:?}", format.name);
        assert_eq!(found.text, "", "{}", format.name);
    }
}

#[test]
fn taught_result_contains_the_tool_output() {
    let result = CallOutput {
        id: "c1".to_owned(),
        name: "get_weather".to_owned(),
        content: "12 °C and \"rain\"".to_owned(),
        is_error: false,
    };
    for (format, teach) in taught() {
        let shown = teach.form.result(&result);
        let quoted = Value::from(result.content.as_str()).to_string();
        assert!(shown.contains(&result.content) || shown.contains(&quoted), "{}: {shown}", format.name);
        assert!(!shown.contains("{{"), "{}: {shown}", format.name);
    }
}

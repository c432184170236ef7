//! Tests that calls in a history have the form that the model's chat template gives them.

use toolwire::{
    conversation::{Call, Conversation, Part, Role, Tool, Turn},
    format::{self, Teaching, instruct},
};

const GIVEN: &str = r#"{"city":"it's \u00e9","n":1.50,"l":["a",{"k":true}]}"#;

/// The assistant's turns in the prompt, of a history in which these are the ids of the calls, by turn.
fn shown(format: &str, text: &str, ids: &[&[&str]]) -> Vec<String> {
    let turns = ids.iter().flat_map(|ids| {
        let said = (!text.is_empty()).then(|| Part::Text(text.to_owned().into()));
        let calls = ids.iter().map(|id| Part::Call(Call::new(*id, "f", GIVEN)));
        [Turn::text(Role::User, "Go."), Turn::of(Role::Assistant, said.into_iter().chain(calls).collect())]
    });
    let asked =
        Conversation { turns: turns.collect(), tools: vec![Tool::named("f")], ..Conversation::default() };
    let teaching = Teaching { examples: 0, ..Teaching::default() };
    let told = instruct(asked, format::by_name(format).unwrap(), &teaching);
    told.turns.iter().filter(|turn| turn.role == Role::Assistant).map(Turn::joined_text).collect()
}

#[test]
fn calls_have_the_blanks_of_their_template() {
    let json = r#"{"city": "it's é", "n": 1.50, "l": ["a", {"k": true}]}"#;
    let hermes = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {json}}}\n</tool_call>");
    let kimi = format!("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{json}<|tool_call_end|>");
    let cohere =
        |id: u32| format!("    {{\"tool_call_id\": \"{id}\", \"tool_name\": \"f\", \"parameters\": {json}}}");
    let python = r#"f(city="it's é", n=1.50, l=['a', {'k': True}])"#;
    for (format, text, calls, written) in [
        ("hermes", "", 2, format!("{hermes}\n{hermes}")),
        ("hermes", "Ok.", 1, format!("Ok.\n{hermes}")),
        ("kimi_k2", "Ok.", 1, format!("Ok.<|tool_calls_section_begin|>{kimi}<|tool_calls_section_end|>")),
        ("command_r7b", "", 2, format!("<|START_ACTION|>[\n{},\n{}\n]<|END_ACTION|>", cohere(0), cohere(1))),
        ("pythonic", "", 2, format!("[{python}, {python}]")),
        ("lfm2", "Ok.", 1, format!("Ok.<|tool_call_start|>[{python}]<|tool_call_end|>")),
    ] {
        let ids: Vec<_> = ["a", "b"].into_iter().take(calls).collect();
        assert_eq!(shown(format, text, &[&ids]), [written], "{format}");
    }
}

#[test]
fn calls_are_counted_through_the_conversation() {
    let numbers = |ids: &[&[&str]]| -> Vec<usize> {
        let shown = shown("kimi_k2", "", ids).concat();
        shown
            .split("functions.f:")
            .skip(1)
            .map(|rest| rest.split('<').next().unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(numbers(&[&["a"], &["b", "c"], &["d"]]), [0, 1, 2, 3]);
    // The ids that the model wrote, after the client has left out earlier calls.
    assert_eq!(
        numbers(&[&["functions.f:7"], &["functions.f:8", "x"], &["g:2"], &["functions.f:07"]]),
        [7, 8, 9, 10, 11]
    );
    // The model began again, so its ids were replaced where they repeat.
    assert_eq!(numbers(&[&["functions.f:0"], &["call_x"], &["functions.f:1"]]), [0, 1, 1]);
}

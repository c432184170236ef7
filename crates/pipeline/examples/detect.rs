//! Finds the tool calls that a model wrote as text, using only the detector.

use toolwire_pipeline::{
    conversation::{Conversation, Tool},
    detect::Detector,
    event::{Event, Finish},
    format::KnownFormats,
    rules::Rules,
    tools::DeclaredTools,
};

fn main() {
    let tools = vec![Tool::named("get_weather")];
    let declared = DeclaredTools::new(&Conversation { tools, ..Conversation::default() }, "");
    let Some(mut detector) = Detector::new(declared, &Rules::default(), KnownFormats::built_in()) else {
        return;
    };

    let mut events: Vec<Event<'static>> = Vec::new();
    for piece in
        ["Let me look.\n<tool_c", r#"all>{"name": "get_weather", "argu"#, r#"ments": {}}</tool_call>"#]
    {
        detector.event(Event::Text(piece.into()), &mut events);
    }
    detector.finish(Some(Finish::Stop), &mut events);

    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in events {
        match event {
            Event::Text(piece) => text.push_str(&piece),
            Event::CallStart(call) => calls.push((call.name, String::new())),
            Event::CallArguments { piece, .. } => calls.iter_mut().for_each(|(_, all)| all.push_str(&piece)),
            _ => {}
        }
    }
    assert_eq!(text, "Let me look.");
    assert_eq!(calls, [("get_weather".into(), "{}".to_owned())]);
}

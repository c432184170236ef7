use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;

/// Similar frames, some of which match a template, while others only look like it.
fn frame() -> impl Strategy<Value = String> {
    let text = "([a-z\"é\\\\\n]|😀){0,4}";
    let typed = (0..12_u32, text, any::<bool>()).prop_map(|(count, content, message)| {
        let target = if message { "message" } else { "reasoning" };
        json!({"type": "token_data", "target": target, "count": count, "content": content})
    });
    let chunk = (0..3_u32, text, 0..10_u32).prop_map(|(created, content, kind)| {
        let delta = match kind {
            7 => json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
            8 | 9 => json!({"tool_calls": [{"index": created % 2, "function": {"arguments": content}}]}),
            0 => json!({"reasoning_content": content}),
            1 => json!({"reasoning_content": "", "reasoning": content}),
            2 => json!({"reasoning_content": content, "reasoning": content}),
            3 => json!({"content": content, "target": "title"}),
            _ => json!({"content": content}),
        };
        json!({"id": "c", "created": created, "choices": [{"index": 0, "delta": delta}]})
    });
    let other = Just(json!({"choices": [], "usage": {"total_tokens": 1}}));
    let half = prop_oneof![Just("\\ud83d"), Just("\\ude00")].prop_map(|half| {
        format!("data: {{\"type\":\"token_data\",\"target\":\"message\",\"count\":1,\"content\":\"{half}\"}}")
    });
    let object = prop_oneof![4 => typed, 4 => chunk, 1 => other];
    prop_oneof![8 => object.prop_map(|object| format!("data: {object}")), 1 => half]
}

fn events(frames: &[String], fast: bool) -> (Vec<Event<'static>>, usize) {
    let mut reader = Reader::new(ReaderSettings::default());
    let (mut out, mut known) = (Vec::new(), 0);
    for frame in frames {
        if !fast {
            reader.body.shapes = Shapes::default();
        }
        known += usize::from(reader.body.shapes.token(frame.strip_prefix("data: ").unwrap()).is_some());
        reader.push(format!("{frame}\n\n").as_bytes(), &mut out).unwrap();
    }
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]";
    reader.push(end.as_bytes(), &mut out).unwrap();
    reader.finish(&mut out).unwrap();
    (out, known)
}

proptest! {
    #[test]
    fn fast_path_gives_the_same_events_as_parsing(frames in vec(frame(), 0..24)) {
        prop_assert_eq!(events(&frames, true).0, events(&frames, false).0);
    }
}

#[test]
fn plain_tokens_take_the_fast_path_from_the_second_on() {
    let token = |count| {
        format!(
            "data: {}",
            json!({"type": "token_data", "target": "message", "count": count, "content": "a b"})
        )
    };
    let chunk = |text| {
        format!(
            "data: {}",
            json!({"id": "c", "created": 1, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
        )
    };
    let frames: Vec<_> = (0..9).flat_map(|count| [token(count), chunk("x\n".repeat(count + 1))]).collect();
    let call = |head: &str, arguments: &str| {
        format!(
            "data: {}",
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {head: "f", "arguments": arguments}}]}}]})
        )
    };
    let calls: Vec<_> = [call("name", "")].into_iter().chain((0..9).map(|_| call("x", "{"))).collect();
    assert_eq!(events(&calls, true).1, 8);
    assert_eq!(events(&frames, true).1, 16);
    assert_eq!(events(&frames, false).1, 0);
}

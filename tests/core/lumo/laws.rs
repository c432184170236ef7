//! Property tests of the reader: splits do not change the result, and no input causes a panic.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use toolwire::dialect::lumo::ReaderSettings;

use crate::lumo::assembled::read;

/// Generates text with characters that are special in JSON or SSE or need surrogate pairs.
fn text() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        "[a-z ]{0,6}",
        Just("\n\r".into()),
        Just("é😀".into()),
        Just("\\\"{}[]".into()),
        Just("data: ".into())
    ];
    vec(bit, 0..4).prop_map(|bits| bits.concat())
}

fn frame() -> impl Strategy<Value = String> {
    let token = |target: &'static str| {
        (0..20_u32, text()).prop_map(move |(count, content)| {
            json!({"type": "token_data", "target": target, "count": count, "content": content})
        })
    };
    let chunk = |delta: Value| json!({"id": "c", "created": 1, "choices": [{"index": 0, "delta": delta}]});
    let call = (0..2_u32, "[ab]{0,1}", text()).prop_map(|(index, name, arguments)| {
        json!([{"index": index, "function": {"name": name, "arguments": arguments}}])
    });
    let server = ("n[12]", any::<bool>()).prop_map(|(id, dispatch)| {
        let arguments = if dispatch { json!({"x": 1}) } else { Value::Null };
        json!({"object": "chat.tool_call", "tool_call": {"id": id, "name": "web_search", "arguments": arguments}})
    });
    let object = prop_oneof![
        4 => token("message"),
        1 => token("reasoning"),
        1 => token("title"),
        1 => token("tool_call"),
        1 => token("tool_result"),
        4 => text().prop_map(move |text| chunk(json!({"content": text}))),
        1 => text().prop_map(move |text| chunk(json!({"content": null, "reasoning_content": text}))),
        2 => call.prop_map(move |calls| chunk(json!({"tool_calls": calls}))),
        1 => server,
        1 => "n[12]".prop_map(|id| json!({"object": "chat.tool_result", "tool_result": {"call_id": id, "content": "r"}})),
    ];
    let data = (object, any::<bool>()).prop_map(|(object, pretty)| {
        let json = if pretty { format!("{object:#}") } else { object.to_string() };
        json.lines().map(|line| format!("data: {line}")).collect::<Vec<_>>().join("\n")
    });
    prop_oneof![12 => data, 1 => Just(": ping".to_owned()), 1 => Just("data: {bad".to_owned()), 1 => Just("data: 5".to_owned())]
}

fn stream() -> impl Strategy<Value = String> {
    let end = prop_oneof![
        Just(""),
        Just("data: [DONE]"),
        Just("data: {\"type\":\"done\"}\n\n"),
        Just("data: {\"error\":{}}\n\n")
    ];
    let line_end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (vec((frame(), 1..3_usize), 0..12), end, line_end).prop_map(|(frames, end, line_end)| {
        let frames: String = frames.into_iter().map(|(frame, ends)| frame + &"\n".repeat(ends)).collect();
        (frames + end).replace('\n', line_end)
    })
}

proptest! {
    #[test]
    fn splits_make_no_difference(stream in stream(), sizes in vec(1..40_usize, 1..8)) {
        let settings = ReaderSettings { tolerate_truncation: true, ..ReaderSettings::default() };
        let whole = read([stream.as_bytes()], &settings);
        let mut rest = stream.as_bytes();
        let mut sizes = sizes.iter().cycle();
        let pieces = std::iter::from_fn(|| {
            let (piece, tail) = rest.split_at((*sizes.next()?).min(rest.len()));
            rest = tail;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(read(pieces, &settings), whole);
    }

    #[test]
    fn reader_never_panics(stream in stream(), noise in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        let mut bytes = stream.into_bytes();
        for (at, byte) in noise {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        let settings = ReaderSettings::default();
        prop_assert_eq!(read(bytes.chunks(3), &settings), read([bytes.as_slice()], &settings));
    }
}

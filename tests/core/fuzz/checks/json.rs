//! Checks JSON arguments: valid ones are forwarded unchanged, complete ones are always JSON, and all others are
//! reported as broken.

use serde_json::value::RawValue;
use toolwire::{
    event::{CallEnd, Finish},
    format,
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{found::find, input::Input};

/// The first two bytes are choices; the arguments follow.
pub(crate) fn json(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let seed = input.byte();
    let on = |bit: u8| flags >> bit & 1 == 1;
    let written = input.text();
    let settings = Rules {
        detect: Detect::Formats(vec![format::HERMES.name]),
        arguments: if on(0) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        repair: !on(1),
        ..Rules::default()
    };
    let finish = if on(2) { Finish::Length } else { Finish::Stop };
    let closing = if on(3) { "" } else { "}</tool_call>" };
    let text = format!("<tool_call>{{\"name\":\"a\",\"arguments\":{written}{closing}");
    let found = find(&settings, &text, seed, finish, usize::MAX);
    let Ok(value) = serde_json::from_str::<&RawValue>(&written) else { return };
    // A string may contain the arguments as JSON, and `null` means that there are none. A number only ends with the
    // character after it, so it is complete only if the call is closed.
    if value.get().starts_with(['"', 'n'])
        || closing.is_empty()
        || depth(value.get()) > settings.limits.max_depth - 2
    {
        return;
    }
    let [call] = found.calls.as_slice() else { panic!("one call in {text:?}: {found:?}") };
    assert_eq!((call.arguments.as_str(), call.end), (value.get(), Some(CallEnd::Complete)), "{text:?}");
    assert_eq!(found.text, "", "{text:?}");
}

/// The nesting depth of a JSON text. Brackets in strings count too, so this is an upper bound.
fn depth(json: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in json.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

//! Tests law 4 for markup: no format holds back an endless name, key or header forever.

use toolwire::{
    event::{CallEnd, Finish},
    format::ALL,
    rules::{Detect, Limits, Rules},
};

use crate::laws::detector::find;
use crate::support::cuts::by_characters;

/// How many bytes may be held beyond the limits: markers and the text after them that cannot be decided yet.
const FIXED: usize = 1100;

fn small(detect: Detect) -> Rules {
    let limits = Limits { max_name: 100, max_markup: 200, max_hold: 300, ..Limits::default() };
    Rules { detect, limits, ..Rules::default() }
}

#[test]
fn endless_name_is_text() {
    let name = "n".repeat(900);
    for format in ALL.iter().filter(|format| format.example.contains("get_weather")) {
        let text = format.example.replace("get_weather", &name);
        let settings = small(Detect::Formats(vec![format.name]));
        let whole = find(&settings, &[&text], Finish::Stop);
        assert!(whole.calls.is_empty(), "{}: {whole:?}", format.name);
        assert!(whole.text.contains(&name) || whole.reasoning.contains(&name), "{}: {whole:?}", format.name);
        let cut = find(&settings, &by_characters(&text, 1), Finish::Stop);
        assert_eq!(cut.sum(), whole.sum(), "{}", format.name);
        let held = cut.trace.iter().map(|(_, _, held)| *held).max();
        assert!(held < Some(300 + FIXED), "{}: {held:?}", format.name);
    }
}

#[test]
fn endless_key_breaks_its_call_or_is_an_argument() {
    let key = "k".repeat(900);
    for format in ALL.iter().filter(|format| format.example.contains("city")) {
        let text = format.example.replace("city", &key);
        let settings = small(Detect::Formats(vec![format.name]));
        let whole = find(&settings, &[&text], Finish::Stop);
        for call in &whole.calls {
            let complete = call.end == Some(CallEnd::Complete);
            assert!(!complete || call.arguments.contains(&key), "{}: {call:?}", format.name);
        }
        // A call that is cut off loses the text that it held.
        assert!(!whole.calls.is_empty() || whole.text.contains(&key), "{}: {whole:?}", format.name);
        let cut = find(&settings, &by_characters(&text, 1), Finish::Stop);
        assert_eq!(cut.sum(), whole.sum(), "{}", format.name);
        let held = cut.trace.iter().map(|(_, _, held)| *held).max();
        assert!(held < Some(300 + FIXED), "{}: {held:?}", format.name);
    }
}

//! Checks the search for the format of a text: what it says that a format reads is what a detector of that format
//! reads.

use toolwire::{
    detect::find_format::{Confidence, find_formats, find_formats_of_any_tool},
    event::Finish,
    format::KnownFormats,
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

use super::{
    found::{CONVERSATION, find},
    input::Input,
};

/// The first byte is a choice; the text follows.
pub(crate) fn finder(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let text = input.text();
    if flags & 1 == 1 {
        let found = find_formats_of_any_tool(&text, &CONVERSATION, KnownFormats::built_in());
        assert!(found.iter().all(|one| !one.calls.is_empty()), "{found:?}");
        return;
    }
    let found = find_formats(&text, &DeclaredTools::new(&CONVERSATION, ""), KnownFormats::built_in());
    for one in found.iter().take(2) {
        let rules = Rules { detect: Detect::Formats(vec![one.format.name]), ..Rules::default() };
        let read = find(&rules, &text, flags, Finish::Stop, usize::MAX);
        let read: Vec<_> =
            read.calls.iter().map(|call| (&*call.name, &*call.arguments, call.is_complete())).collect();
        let said: Vec<_> =
            one.calls.iter().map(|call| (&*call.name, &*call.arguments, call.is_complete)).collect();
        assert_eq!(said, read, "{}: {text:?}", one.format.name);
        let is_broken = one.calls.iter().any(|call| !call.is_complete);
        assert_eq!(is_broken, one.confidence == Confidence::Possible, "{one:?}");
    }
}

//! Checks that arguments are streamed: only a possible end of a long string is held back.

use toolwire::event::Finish;

use super::{looking_for, renderer};
use crate::rendered::{
    found::find,
    scene::{Call, Group, Scene},
    value::{Json, Style},
};
use crate::support::cuts::by_characters;

/// The maximum number of held bytes: a marker, a name and a key, and the possible end of a value.
const MOST: usize = 512;

/// Checks a call with one long string, in every notation of the format in which the name comes first.
pub(crate) fn streams(name: &str) {
    let (renderer, format) = renderer(name);
    let content = "Grüße 😀 \"x\" <b> & {y} [z], it's a\tlong\nstring; ".repeat(80);
    for way in (0..24).filter(|_| renderer.carries.groups > 0) {
        let arguments = vec![("content".to_owned(), Json::Text(content.clone()))];
        let call = Call { name: "write_file", arguments, style: Style::COMPACT, way: 8 * way + 4 };
        let group = Group { before: String::new(), gaps: ("\n", "\n"), calls: vec![call], way };
        let scene = Scene { reasoning: None, groups: vec![group], last: String::new() };
        let page = renderer.page(&scene);
        let text = page.source();
        let (found, held) = find(&looking_for(format), &by_characters(&text, 7), Finish::Stop);
        assert_eq!(found.calls.len(), 1, "{text}");
        assert!(held <= MOST, "{held} bytes held of {text}");
    }
}

use proptest::prelude::*;

use super::*;

/// Returns the text passed on for these pieces, and whether the arguments are an object.
fn read<'p>(pieces: impl IntoIterator<Item = &'p str>) -> (String, bool) {
    let mut extent = Extent::new(128).mending(Some(1 << 20));
    let mut sent = String::new();
    for piece in pieces {
        sent.push_str(&extent.push(piece));
    }
    sent.push_str(&extent.finish(false));
    (sent, extent.is_whole())
}

#[test]
fn arguments_that_are_not_quite_json_are_repaired() {
    for (written, meant) in [
        ("{'city': 'Paris'}", r#"{"city": "Paris"}"#),
        (r#"{"city":"Paris",}"#, r#"{"city":"Paris"}"#),
        ("```json\n{\"city\":\"Paris\"}\n```", "{\"city\":\"Paris\"}\n"),
        ("```\r\n{'city':\"Paris\"}\n```\n", "{\"city\":\"Paris\"}\n"),
        (r#"{"a":[1, 2, ], "b": {"c": 1 , } }"#, r#"{"a":[1, 2 ], "b": {"c": 1  } }"#),
        ("{\"city\":\"Pa\nris\"}", r#"{"city":"Pa\nris"}"#),
        (r#"{"city":"C:\dir"}"#, r#"{"city":"C:\\dir"}"#),
        (r#"{"city":"\u12G4"}"#, r#"{"city":"\\u12G4"}"#),
        (r#"{"x": True, "y": None}"#, r#"{"x": true, "y": null}"#),
        (r#"{city: "Paris"}"#, r#"{"city": "Paris"}"#),
        (r#"{"a": 1, /* one */ "b": 2}"#, r#"{"a": 1,  "b": 2}"#),
        (r#""{\"city\":\"Paris\"}""#, r#"{"city":"Paris"}"#),
        (r#""{'city': 'Paris',}" "#, r#"{"city": "Paris"} "#),
        ("null", "{}"),
        (" None ", " {}"),
        ("\"\"", "{}"),
        ("\"null\"", "{}"),
        ("null{\"a\":1}", "{\"a\":1}"),
        ("{\"city\":\"Paris\"}</tool_call>", "{\"city\":\"Paris\"}"),
        ("{\"a\":1}\n```", "{\"a\":1}\n"),
        ("{\"a\":1}}", "{\"a\":1}"),
        ("{\"a\":1}<|call|></function>\n</tool_call>", "{\"a\":1}"),
        ("{\"a\":1}<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>", "{\"a\":1}"),
        ("", "{}"),
    ] {
        let wanted = (meant.to_owned(), true);
        let (sent, is_whole) = read([written]);
        assert_eq!((sent.as_str(), is_whole), (meant, true), "{written}");
        assert!(serde_json::from_str::<serde_json::Value>(&sent).is_ok(), "{sent}");
        for at in (0..=written.len()).filter(|at| written.is_char_boundary(*at)) {
            let (left, right) = written.split_at(at);
            assert_eq!(read([left, right]), wanted, "{written} cut at {at}");
        }
        let characters = written.char_indices().map(|(at, c)| &written[at..at + c.len_utf8()]);
        assert_eq!(read(characters), wanted, "{written} in characters");
    }
}

#[test]
fn what_cannot_be_repaired_passes_as_it_is() {
    for written in [
        "{\"a\":1}{\"a\":2}",
        "{\"a\":1} and more",
        "{\"a\":1}</b c>",
        "\"text\"",
        "nothing",
        "`{}`",
        "```json {}```",
        "```json",
        "[1]",
        "7",
        "{\"a\" 1}",
        "{\"a\":tru}",
        "{\"a\":1]",
    ] {
        let (sent, is_whole) = read([written]);
        assert_eq!((sent.as_str(), is_whole), (written, false), "{written}");
        let characters = written.char_indices().map(|(at, c)| &written[at..at + c.len_utf8()]);
        assert_eq!(read(characters), (written.to_owned(), false), "{written} in characters");
    }
}

#[test]
fn without_repair_everything_passes() {
    for written in ["{'a': 1}", "null", "{\"a\":1,}", "{\"a\":1}</x>", "\"{}\""] {
        let mut extent = Extent::new(128);
        let sent: String = written.split_inclusive(',').map(|piece| extent.push(piece)).collect();
        assert_eq!(sent, written);
        assert!(extent.is_broken() && extent.finish(false).is_empty());
    }
}

#[test]
fn only_a_comma_and_an_unfinished_escape_are_held() {
    let mut extent = Extent::new(128).mending(Some(100));
    for (piece, sent) in [
        ("{\"a\":", "{\"a\":"),
        ("12", "12"),
        (",", ""),
        (" ", ""),
        ("\"b", ", \"b"),
        ("\\", ""),
        ("u12", ""),
        ("e9\":", "\\u12e9\":"),
        ("tru", "tru"),
        ("e}", "e}"),
    ] {
        assert_eq!(extent.push(piece), sent, "{piece}");
    }
    assert!(extent.is_whole());
}

proptest! {
    /// Valid arguments pass unchanged, and the way in which arguments are split does not change their
    /// meaning.
    #[test]
    fn splits_make_no_difference(
        written in r#"(\{|"\{|null| )?(["'a,:{}\[\] \\u1nT\n/*-]|"a":|true){0,12}(\}|</x>)?"#,
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read([written.as_str()]);
        let mut places: Vec<usize> = places.iter().map(|place| place.index(written.len() + 1)).collect();
        places.retain(|at| written.is_char_boundary(*at));
        places.sort_unstable();
        let ends = places.iter().copied().chain([written.len()]);
        let mut from = 0;
        let pieces: Vec<&str> = ends.map(|to| { let piece = &written[from..to]; from = to; piece }).collect();
        prop_assert_eq!(&read(pieces), &whole);
        let is_object = serde_json::from_str::<serde_json::Value>(&whole.0).is_ok_and(|value| value.is_object());
        prop_assert!(is_object || !whole.1, "{} is passed on as an object", whole.0);
        if serde_json::from_str::<serde_json::Value>(&written).is_ok_and(|value| value.is_object()) {
            prop_assert_eq!(&whole, &(written.clone(), true));
        }
    }
}

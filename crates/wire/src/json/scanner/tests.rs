use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;
use crate::json::Json;

/// Feeds `pieces` to a scanner. Returns where it stops, and why. `More` at the end of the input becomes `End`
/// if the value is complete.
fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (usize, Progress) {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let mut all = 0;
    for piece in pieces {
        let (taken, progress) = scanner.push(piece);
        all += taken;
        if progress != Progress::More {
            assert_eq!(scanner.push(b"1"), (0, progress), "and stays there");
            return (all, progress);
        }
        assert_eq!(taken, piece.len());
    }
    (all, if scanner.finish() { Progress::End } else { Progress::More })
}

fn json() -> impl Strategy<Value = String> {
    let space = "[ \n\r\t]{0,2}";
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        r#""([ -!#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,6}""#,
    ];
    let key = r#""([a-c]|\\["\\nu]){0,3}""#.prop_map(|key| key.replace("\\u", "\\u00e9"));
    let spaced = (space, leaf, space).prop_map(|(before, leaf, after)| before + &leaf + &after);
    spaced.prop_recursive(5, 24, 4, move |inner| {
        let member =
            (key.clone(), space, inner.clone()).prop_map(|(key, gap, value)| key + &gap + ":" + &value);
        prop_oneof![
            (prop::collection::vec(inner, 0..4), space, space)
                .prop_map(|(all, before, after)| format!("{before}[{}]{after}", all.join(","))),
            (prop::collection::vec(member, 0..4), space, space)
                .prop_map(|(all, before, after)| format!("{before}{{{}}}{after}", all.join(","))),
        ]
    })
}

fn mutated(text: &str, place: prop::sample::Index, byte: char, how: u8) -> String {
    let at = place.index(text.len() + 1);
    let (head, tail) = text.split_at(at);
    match how {
        0 => format!("{head}{byte}{tail}"),
        1 => head.to_owned() + tail.get(1..).unwrap_or_default(),
        2 => head.to_owned(),
        _ => format!("{head}{byte}{}", tail.get(1..).unwrap_or_default()),
    }
}

proptest! {
    #[test]
    fn scanner_accepts_what_serde_json_accepts_wherever_it_is_cut(
        text in json(),
        place: prop::sample::Index,
        byte in r#"[\[\]{}:,"\\eE0-2.+ \n\u{0}tfnu-]"#,
        how in 0..5_u8,
    ) {
        let text = if how == 4 { text } else { mutated(&text, place, byte.chars().next().unwrap(), how) };
        let valid = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert!(valid || how < 4);
        prop_assert_eq!(Json::parse(&text).is_ok(), valid, "{}", text);
        let whole = scan([text.as_bytes()]);
        for at in 0..text.len() {
            let (head, tail) = text.as_bytes().split_at(at);
            prop_assert_eq!(scan([head, tail]), whole);
        }
        prop_assert_eq!(scan(text.as_bytes().chunks(1)), whole);
    }

    #[test]
    fn whole_text_and_pieces_give_the_same_result(
        text in json(),
        place: prop::sample::Index,
        byte in r#"[\[\]{}:,"\\eE0-2.+ \n\u{0}tfnué-]"#,
        how in 0..5_u8,
    ) {
        let text = if how == 4 { text } else { mutated(&text, place, byte.chars().next().unwrap(), how) };
        let expected = match scan([text.as_bytes()]) {
            (_, Progress::More) => Err((text.len(), "JSON text ends too early")),
            (taken, Progress::End) => {
                let (value, rest) = text.split_at(taken);
                let behind = rest.trim_start_matches([' ', '\n', '\r', '\t']);
                if behind.is_empty() {
                    Ok(value.trim_matches([' ', '\n', '\r', '\t']))
                } else {
                    Err((text.len() - behind.len(), "more text behind the JSON value"))
                }
            }
            (taken, _) => Err((taken, "not JSON")),
        };
        let told = Json::parse(&text).map(|json| json.raw()).map_err(|invalid| (invalid.at, invalid.why));
        prop_assert_eq!(told, expected, "{:?}", text);
        let mut members = Vec::new();
        let json = Json::parse_members(&text, |key, value| members.push((key, value.raw())));
        let told = json.as_ref().map(Json::raw).map_err(|invalid| (invalid.at, invalid.why));
        prop_assert_eq!(told, expected, "{:?}", text);
        if let Ok(json) = json {
            prop_assert_eq!(members, json.members().map(|(key, value)| (key, value.raw())).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_end_of_a_value_is_found() {
    for (text, taken) in
        [("{\"a\":[1]}, x", 9), (" \"a\\\"b\"c", 7), ("12 ", 2), ("-0.5e3,", 6), ("null]", 4), ("[]]", 2)]
    {
        assert_eq!(scan([text.as_bytes()]), (taken, Progress::End), "{text}");
    }
    assert_eq!(scan([&b""[..]]), (0, Progress::More));
}

#[test]
fn invalid_json_stops_at_its_first_invalid_byte() {
    for text in [
        "{!]",
        "[!}",
        "[1!}",
        "{\"a\":1!]",
        "[1 !2",
        "[1,!]",
        "{\"a\"!,",
        "{\"a\":1,!}",
        "{!1",
        "nul!1",
        "\"!\n",
        "\"\\!x",
        "\"\\u12!g",
        "-!a",
        "-!.1",
        "1.!e",
        "1e+!.",
        "[0!1",
        "!+1",
        "!\u{feff}1",
    ] {
        let (head, tail) = text.split_once('!').unwrap();
        let whole = format!("{head}{tail}");
        assert_eq!(scan([whole.as_bytes()]), (head.len(), Progress::Invalid), "{whole}");
        assert_eq!(Json::parse(&whole).unwrap_err().at, head.len(), "{whole}");
    }
}

#[test]
fn nesting_is_bounded() {
    let mut scanner = Scanner::new(2);
    assert_eq!(scanner.push(b"{\"k\":[{"), (6, Progress::Invalid));
    assert_eq!(scanner.depth(), 2);
}

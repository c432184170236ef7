use proptest::prelude::*;

use super::*;

fn run(notation: Notation, pieces: &[&str]) -> (String, Option<Fed>) {
    let mut value = Literal::new(notation, 16, 1000);
    let mut out = String::new();
    for piece in pieces {
        match value.feed(piece, &mut |text: &str| out.push_str(text)) {
            Fed::More => {}
            end => return (out, Some(end)),
        }
    }
    (out, None)
}

fn by_char(text: &str) -> Vec<&str> {
    text.split_inclusive(|_| true).collect()
}

#[test]
fn python_becomes_json() {
    for (written, wanted) in [
        ("'it\\'s \"q\" \\n \\x41 \\u00e9 \\101 \\U0001f600'", r#""it's \"q\" \n A é A 😀""#),
        (r"'\ud83d\ude00'", "\"😀\""),
        (r"'\d \xZ \u12 \8 \N{DASH}'", r#""\\d \\xZ \\u12 \\8 \\N{DASH}""#),
        (r"'\18\1234'", "\"\\u00018S4\""),
        ("r'\\d\\'' ", r#""\\d\\'""#),
        ("b'x' F\"{y}\"", r#""x{y}""#),
        ("'''a'b\n\"c''' ", r#""a'b\n\"c""#),
        ("\"\"\"\"\"\" ", "\"\""),
        ("'' ", "\"\""),
        ("'a' \n 'b' r\"c\"", "\"abc\""),
        ("'a\\\nb'", "\"ab\""),
        ("True", "true"),
        ("none", ""),
        ("1_000", "1000"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("5.e3", "5.0e3"),
        ("007", "7"),
        ("+1", "1"),
        ("-1e-7", "-1e-7"),
        ("()", "[]"),
        ("(1)", "1"),
        ("(1,)", "[1]"),
        ("('a' 'b')", "\"ab\""),
        ("((1, 2), [3, ], {4, 5}, {6})", "[[1, 2], [3], [4, 5], [6]]"),
        ("{}", "{}"),
        ("{'a': {'b': (None, true)}, }", r#"{"a": {"b": [null, true]}}"#),
        ("{1: 'x', True: 2, (1, 2): 3, k: 4}", r#"{"1": "x", "true": 2, "[1, 2]": 3, "k": 4}"#),
        ("{'a': 1, 'b'}", "{\"a\": 1"),
    ] {
        let text = format!("{written},");
        let (whole, end) = run(Notation::Python, &[&text]);
        assert_eq!(whole, wanted, "{written}");
        let sound = serde_json::from_str::<serde_json::Value>(wanted).is_ok();
        assert_eq!(matches!(end, Some(Fed::Done(_))), sound, "{written}: {end:?}");
        assert_eq!(run(Notation::Python, &by_char(&text)).0, wanted, "by character: {written}");
    }
}

proptest! {
    #[test]
    fn output_does_not_depend_on_cuts_and_is_json(text in r#"[\[{(]["'{}()\[\],:\\uxr0-9 \nabTrue<|.-]{0,40}"#, dsl: bool) {
        let notation = if dsl { Notation::Delimited("<|\"|>") } else { Notation::Python };
        let (whole, end) = run(notation, &[&text]);
        let (pieces, piece_end) = run(notation, &by_char(&text));
        prop_assert_eq!(&whole, &pieces);
        prop_assert_eq!(end.is_some(), piece_end.is_some());
        if let Some(Fed::Done(_)) = end {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&whole).is_ok(), "{} -> {}", text, whole);
        }
    }
}

use proptest::prelude::*;

use super::*;

fn run(pieces: &[&str], repair: bool) -> (String, Option<Fed>) {
    let mut body = JsonBody::new(repair, 16);
    let mut out = String::new();
    for piece in pieces {
        match body.feed(piece, &mut |text: &str| out.push_str(text)) {
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
fn mends_only_what_is_not_json() {
    for (written, wanted) in [
        (r#"{"a": 2.50, "b":[12345678901234567890, -1e-7]}"#, None),
        (r#"{"a":"\u00e9\/\ud83d\ude00","b":true}"#, None),
        ("{\"a\":\"x\ny\tz\u{1}\"}", Some(r#"{"a":"x\ny\tz\u0001"}"#)),
        (r#"{"a":"it\'s C:\users \d+"}"#, Some(r#"{"a":"it's C:\\users \\d+"}"#)),
        (r#"{'a': True, 'b': [None, 'it\'s', "q"]}"#, Some(r#"{"a": true, "b": [null, "it's", "q"]}"#)),
        (
            r#"{'a': ('x', 1,), 'b': (), 'c': '\x41\xe9\U0001f600\x4', "d": "\x41"}"#,
            Some(r#"{"a": ["x", 1], "b": [], "c": "\u0041\u00e9\ud83d\ude00\\x4", "d": "\\x41"}"#),
        ),
        (r#"{'say': 'a "b"'}"#, Some(r#"{"say": "a \"b\""}"#)),
        (r#"{"a":1, }"#, Some(r#"{"a":1 }"#)),
        (r#"[1,2,]"#, Some("[1,2]")),
        (r#"{a: 1, /* no */ b: NaN} "#, Some(r#"{"a": 1,  "b": "NaN"}"#)),
        (
            r#"{"a": .5, "b": 007, "c": 5., "d": +1, "e": 1_000}"#,
            Some(r#"{"a": 0.5, "b": 7, "c": 5.0, "d": 1, "e": 1000}"#),
        ),
        (r#"{"a":"\ud83d\n\u12zz\ud83d"}"#, Some(r#"{"a":"\ud83d\n\\u12zz\ud83d"}"#)),
        (r#"{"a":"\ud83d\'"}"#, Some(r#"{"a":"\ud83d'"}"#)),
        (r#"{"a":"\ud83d\u0041"}"#, None),
    ] {
        let wanted = wanted.unwrap_or(written);
        let (whole, end) = run(&[written], true);
        assert_eq!(whole, wanted, "{written}");
        assert!(matches!(end, Some(Fed::Done(_))), "{written}: {end:?}");
        assert_eq!(run(&by_char(written), true).0, wanted, "by character: {written}");
    }
}

#[test]
fn blanks_after_a_comma_are_held_up_to_a_limit() {
    let text = format!("[1,{}2]", " ".repeat(5000));
    let mut body = JsonBody::new(true, 16);
    let mut out = String::new();
    for piece in by_char(&text) {
        body.feed(piece, &mut |text: &str| out.push_str(text));
        assert!(body.held.len() <= 256);
    }
    assert_eq!((out.as_str(), body.is_done()), (text.as_str(), true));
    assert_eq!(run(&[&text], true).0, text);
}

#[test]
fn strict_faults_at_the_first_byte_that_is_not_json() {
    for (written, at) in [
        ("{\"a\":\"x\ny\"}", 7),
        ("{'a':1}", 1),
        ("{\"a\":1,}", 7),
        ("{\"a\":True}", 9),
        ("{\"a\":01}", 7),
        ("{\"a\" 1}", 5),
        ("[1}", 2),
        ("(1)", 0),
    ] {
        assert_eq!(run(&[written], false).1, Some(Fed::Fault(at)), "{written}");
    }
}

#[test]
fn closes_only_what_is_provably_whole() {
    for (written, closed) in [
        (r#"{"cmd":"ls""#, Some("}")),
        (r#"{"a":[{"b":true"#, Some("true}]}")),
        (r#"{"a":1"#, None),
        (r#"{"a":"rm -r build"#, None),
        (r#"{"a":"#, None),
        (r#"{"a":"x","#, None),
        ("{", None),
    ] {
        let mut body = JsonBody::new(true, 16);
        body.feed(written, &mut |_: &str| {});
        let mut out = String::new();
        let whole = body.close(&mut |text: &str| out.push_str(text));
        assert_eq!(whole.then_some(out.as_str()), closed, "{written}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_is_byte_identical(value in json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let text = format!("[{text}]");
        for repair in [false, true] {
            prop_assert_eq!(&run(&[&text], repair).0, &text);
            prop_assert_eq!(&run(&by_char(&text), repair).0, &text);
        }
    }

    #[test]
    fn output_does_not_depend_on_cuts_and_is_json(text in r#"[\[{]["'{}\[\],:\\ua0-9 \ndTruefalsN/*.-]{0,40}"#) {
        let (whole, end) = run(&[&text], true);
        let (pieces, piece_end) = run(&by_char(&text), true);
        prop_assert_eq!(&whole, &pieces);
        prop_assert_eq!(end.is_some(), piece_end.is_some());
        if let Some(Fed::Done(_)) = end {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&whole).is_ok(), "{} -> {}", text, whole);
        }
    }
}

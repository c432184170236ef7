use proptest::prelude::*;
use serde_json::{Value, json};

use super::{strings::MARK, *};

#[test]
fn short_results_stay_as_they_are() {
    for content in ["", "text", "{\"a\": 1}"] {
        assert_eq!(shrink(content.to_owned(), 8).as_deref(), Some(content));
    }
}

#[test]
fn text_is_cut_between_characters_and_says_so() {
    for length in 100..140 {
        let content = "é".repeat(200);
        let short = shrink(content, length).unwrap();
        assert!(short.len() <= length, "{length}: {}", short.len());
        assert!(short.starts_with('é') && short.ends_with(" of 400 bytes.]"), "{short}");
    }
    assert_eq!(shrink("text".repeat(100), 10), None);
}

#[test]
fn longest_strings_of_json_are_cut_if_that_is_enough() {
    let content =
        json!({"title": "short", "pages": [{"text": "a".repeat(5000)}, {"text": "é\n".repeat(900)}, 7]});
    for limit in [600, 1000, 3000, 6000] {
        let short = shrink(content.to_string(), limit).unwrap();
        assert!(short.len() <= limit, "{limit}: {}", short.len());
        let read: Value = serde_json::from_str(&short).unwrap();
        assert_eq!((&read["title"], &read["shortened"]), (&json!("short"), &json!(true)));
        assert_eq!(read["pages"][2], 7);
        assert!(read["pages"][0]["text"].as_str().unwrap().ends_with(MARK));
    }
}

#[test]
fn rows_are_left_out_from_the_end() {
    let rows: Vec<_> =
        (0..4000).map(|id| json!({"id": id, "name": format!("row{id}"), "ok": true})).collect();
    for limit in [200, 1_000, 99_999, 100_000] {
        for (content, place) in [
            (Value::from(rows.clone()).to_string(), ""),
            (serde_json::to_string_pretty(&rows).unwrap(), ""),
            (json!({"total": 4000, "rows": rows, "next": null, "tags": ["a", "b"]}).to_string(), "/rows"),
            (json!([{"rows": rows}]).to_string(), "/0/rows"),
        ] {
            let short = shrink(content, limit).unwrap();
            assert!(short.len() <= limit && short.len() + 250 > limit, "{limit}: {}", short.len());
            let read: Value = serde_json::from_str(&short).unwrap();
            let kept = read.pointer(place).unwrap().as_array().unwrap();
            let (note, kept) = kept.split_last().unwrap();
            assert_eq!(kept, &rows[..kept.len()]);
            assert_eq!(
                *note,
                format!("[shortened: the last {} of 4000 elements are missing]", 4000 - kept.len())
            );
            if place == "/rows" {
                assert_eq!(
                    (&read["total"], &read["next"], &read["tags"]),
                    (&json!(4000), &json!(null), &json!(["a", "b"]))
                );
            }
        }
    }
}

#[test]
fn json_that_only_has_to_lose_its_spaces_loses_nothing_else() {
    let value = json!({"a": [1, 2, 3], "n": 12_345_678_901_234_567_890_u64});
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let short = shrink(pretty.clone(), pretty.len() - 1).unwrap();
    assert_eq!(short, value.to_string());
    assert_eq!(shrink(pretty.clone(), value.to_string().len()).unwrap(), short);
}

#[test]
fn search_results_stay_json_at_every_limit() {
    let result = |place| json!({"title": format!("t{place}"), "url": "https://a.example/", "description": "s".repeat(500)});
    let results: Vec<_> = (0..20).map(result).collect();
    let content = json!({"engine": "serper", "query": "q", "results": results}).to_string();
    for limit in [150, 300, 500, 1_000, 2_000, 5_000, content.len() - 1] {
        let short = shrink(content.clone(), limit).unwrap();
        assert!(short.len() <= limit, "{limit}: {short}");
        let read: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(read["query"], "q", "{limit}: {short}");
    }
}

#[test]
fn objects_with_many_members_lose_the_last_ones() {
    let content = Value::Object((0..1000).map(|n| (format!("key{n}"), json!(n))).collect()).to_string();
    let read: Value = serde_json::from_str(&shrink(content, 500).unwrap()).unwrap();
    let members = read.as_object().unwrap();
    assert!(members.len() > 20 && members["key0"] == 0, "{read}");
    assert_eq!(read["shortened"], format!("the last {} of 1000 members are missing", 1001 - members.len()));
}

#[test]
fn several_json_texts_lose_the_last_ones() {
    let lines: Vec<_> = (0..100).map(|n| json!({"n": n, "text": "some words"}).to_string()).collect();
    for separator in ["\n", "\r\n", "\n\n", ""] {
        let short = shrink(lines.join(separator), 500).unwrap();
        assert!(short.len() <= 500, "{short}");
        let read: Vec<Value> = short.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (note, kept) = read.split_last().unwrap();
        assert!(kept.len() > 8 && kept.iter().zip(0..).all(|(line, n)| line["n"] == n), "{short}");
        assert_eq!(note["shortened"], format!("the last {} of 100 JSON texts are missing", 100 - kept.len()));
    }
    let long = json!({"rows": vec![7; 1000]}).to_string();
    let short = shrink(format!("{long}\n{long}"), 500).unwrap();
    assert!(
        short.len() <= 500 && short.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{short}"
    );
}

#[test]
fn json_of_which_nothing_can_be_left_out_is_quoted() {
    let content = format!("[{}]", "7".repeat(1000));
    let read: Value = serde_json::from_str(&shrink(content, 60).unwrap()).unwrap();
    assert_eq!(read, json!(["[shortened: the last 1 of 1 elements are missing]"]));
    let content = format!("\"{}\"", "\\n".repeat(1000));
    let short = shrink(content.clone(), 120).unwrap();
    assert!(short.len() <= 120 && serde_json::from_str::<Value>(&short).is_ok(), "{short}");
    assert_eq!(shrink(content, 20), None);
}

#[test]
fn broken_json_is_cut_as_text() {
    let short = shrink(format!("{{\"a\": \"{}", "x".repeat(1000)), 200).unwrap();
    assert!(short.len() <= 200 && short.contains("[Shortened"), "{short}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\\né\u{1}]{0,30}".prop_map(Value::from),
        "[ab]{300,400}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec(("[a-z\"]{0,5}", inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether `short` is `whole` with cut strings, and without some of the last elements and members.
fn is_beginning(short: &Value, whole: &Value) -> bool {
    match (short, whole) {
        (Value::Array(short), Value::Array(whole)) => {
            let (is_cut, kept) = match short.split_last() {
                Some((Value::String(note), kept)) if note.starts_with("[shortened: the last ") => {
                    (true, kept)
                }
                _ => (false, short.as_slice()),
            };
            (is_cut || kept.len() == whole.len())
                && kept.iter().zip(whole).all(|(short, whole)| is_beginning(short, whole))
        }
        (Value::Object(short), Value::Object(whole)) => {
            let mut kept = short.iter().filter(|(key, _)| *key != "shortened");
            kept.all(|(key, value)| whole.get(key).is_some_and(|whole| is_beginning(value, whole)))
        }
        (Value::String(short), Value::String(whole)) => {
            short == whole || short.strip_suffix(MARK).is_some_and(|short| whole.starts_with(short))
        }
        (short, whole) => short == whole,
    }
}

proptest! {
    #[test]
    fn shortened_json_is_a_beginning_within_the_limit(value in any_json(), limit in 0_usize..2000) {
        prop_assume!(value.is_array() || value.is_object());
        let content = value.to_string();
        match shrink(content.clone(), limit) {
            Some(short) => {
                prop_assert!(short.len() <= limit);
                prop_assert_eq!(content.len() <= limit, short == content);
                let read: Value = serde_json::from_str(&short).unwrap();
                prop_assert!(is_beginning(&read, &value) || read.get("beginning").is_some(), "{}", short);
            }
            None => prop_assert!(limit < 100 && content.len() > limit, "{}", limit),
        }
    }

    #[test]
    fn shortened_text_is_within_the_limit(content in "[a-zé\n{\\[\"]{0,300}", limit in 60_usize..400) {
        let short = shrink(content.clone(), limit).unwrap();
        prop_assert!(short.len() <= limit);
        prop_assert!(content.len() > limit || short == content);
    }
}

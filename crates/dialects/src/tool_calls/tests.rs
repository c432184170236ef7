use super::*;
use crate::{
    conversation::{Conversation, Tool},
    event::CallEnd,
};

/// The id, name, arguments and end of every call, in the order in which they started. Checks the order of
/// events.
fn calls_of(events: &[Event<'_>]) -> Vec<(String, String, String, CallEnd)> {
    let mut calls: Vec<(String, String, String, Option<CallEnd>)> = Vec::new();
    for event in events {
        match event {
            Event::CallStart(start) => {
                assert_eq!(start.index as usize, calls.len(), "numbers ascend");
                assert!(!start.name.is_empty());
                calls.push((start.id.to_string(), start.name.to_string(), String::new(), None));
            }
            Event::CallArguments { index, piece } => {
                let call = &mut calls[*index as usize];
                assert!(call.3.is_none() && !piece.is_empty());
                call.2.push_str(piece);
            }
            Event::CallEnd { index, end } => {
                let old = calls[*index as usize].3.replace(*end);
                assert_eq!(old, None, "a call ends once");
            }
            other => panic!("no event of a call: {other:?}"),
        }
    }
    calls.into_iter().map(|(id, name, text, end)| (id, name, text, end.expect("an end"))).collect()
}

fn read(deltas: &[&str], cut: bool) -> Vec<(String, String, String, CallEnd)> {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    for delta in deltas {
        calls.delta(Json::parse(delta).unwrap(), &mut events).unwrap();
    }
    calls.finish(cut, &mut events);
    calls_of(&events)
}

/// Reads deltas with complete calls and returns `id name arguments` for each call.
fn whole(deltas: &[&str]) -> Vec<String> {
    let calls = read(deltas, false);
    assert!(calls.iter().all(|call| call.3 == CallEnd::Complete), "{calls:?}");
    calls.into_iter().map(|(id, name, arguments, _)| format!("{id} {name} {arguments}")).collect()
}

#[test]
fn argument_fragments_are_joined_verbatim() {
    let calls = whole(&[
        r#"[{"index":0,"id":"p","type":"function","function":{"name":"a","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"x\": "}}]"#,
        r#"[{"index":0,"function":{"arguments":"2.50}"}}]"#,
    ]);
    assert_eq!(calls, [r#"p a {"x": 2.50}"#]);
}

#[test]
fn calls_may_be_interleaved() {
    let calls = whole(&[
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{\"x\""}},
            {"index":1,"id":"q","function":{"name":"b","arguments":"{"}}]"#,
        r#"[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":":1}"}}]"#,
    ]);
    assert_eq!(calls, [r#"p a {"x":1}"#, "q b {}"]);
}

#[test]
fn a_name_is_joined_until_the_arguments_begin() {
    let calls = whole(&[
        r#"[{"index":0,"id":"p","function":{"name":"get_"}}]"#,
        r#"[{"index":0,"function":{"name":"weather","arguments":"{}"}}]"#,
    ]);
    assert_eq!(calls, ["p get_weather {}"]);
}

#[test]
fn repeated_name_is_not_appended() {
    let calls = whole(&[
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]"#,
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{"}}]"#,
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"}"}}]"#,
    ]);
    assert_eq!(calls, ["p a {}"]);
}

#[test]
fn two_calls_in_one_delta_without_index_are_separate() {
    let whole_calls =
        r#"[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"a","arguments":"{}"}}]"#;
    assert_eq!(whole(&[whole_calls]), [" a {}", " a {}"]);
    let in_parts = [
        r#"[{"function":{"name":"a"}},{"function":{"name":"b"}}]"#,
        r#"[{"function":{"arguments":"{"}},{"function":{"arguments":"{}"}}]"#,
        r#"[{"function":{"arguments":"\"x\":1}"}},{"function":{}}]"#,
    ];
    assert_eq!(whole(&in_parts), [r#" a {"x":1}"#, " b {}"]);
}

#[test]
fn new_name_or_id_without_index_begins_a_call() {
    let by_name = [
        r#"[{"function":{"name":"a","arguments":"{}"}}]"#,
        r#"[{"function":{"name":"b","arguments":"{"}}]"#,
        r#"[{"function":{"arguments":"}"}}]"#,
    ];
    assert_eq!(whole(&by_name), [" a {}", " b {}"]);
    let by_id = [
        r#"[{"id":"p","function":{"name":"a"}}]"#,
        r#"[{"id":"q","function":{"name":"a"}}]"#,
        r#"[{"id":"p","function":{"arguments":"{\"x\":1}"}}]"#,
    ];
    assert_eq!(whole(&by_id), [r#"p a {"x":1}"#, "q a {}"]);
    let the_same_again = [r#"[{"function":{"name":"a","arguments":"{}"}}]"#; 2];
    assert_eq!(whole(&the_same_again), [" a {}", " a {}"]);
}

#[test]
fn calls_that_all_have_index_0_are_separated() {
    let one_delta = r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}},{"index":0,"id":"q","function":{"name":"b","arguments":"{}"}}]"#;
    assert_eq!(whole(&[one_delta]), ["p a {}", "q b {}"]);
    let two_deltas = [
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{"}}]"#,
        r#"[{"index":0,"function":{"arguments":"}"}}]"#,
        r#"[{"index":0,"id":"q","function":{"name":"a","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"x\":1}"}}]"#,
    ];
    assert_eq!(whole(&two_deltas), ["p a {}", r#"q a {"x":1}"#]);
    let without_ids = [
        r#"[{"index":0,"function":{"name":"a","arguments":"{}"}}]"#,
        r#"[{"index":0,"function":{"name":"b","arguments":"{}"}}]"#,
    ];
    assert_eq!(whole(&without_ids), [" a {}", " b {}"]);
}

#[test]
fn id_shared_by_all_calls_is_kept_by_the_first() {
    let calls = whole(&[
        r#"[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"b","arguments":"{}"}}]"#,
    ]);
    assert_eq!(calls, ["x a {}", " b {}"]);
    let again = [
        r#"[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]"#,
        r#"[{"index":1,"id":"x","function":{"name":"a","arguments":"{}"}}]"#,
    ];
    assert_eq!(whole(&again), ["x a {}", "x a {}"], "it may be the first once more");
    let no_index = [
        r#"[{"id":"x","function":{"name":"a","arguments":"{}"}}]"#,
        r#"[{"id":"x","function":{"name":"b","arguments":"{}"}}]"#,
    ];
    assert_eq!(whole(&no_index), ["x a {}", " b {}"]);
}

#[test]
fn new_id_in_every_delta_does_not_begin_a_call() {
    let calls = whole(&[
        r#"[{"index":0,"id":"r1","function":{"name":"a"}}]"#,
        r#"[{"index":0,"id":"r2","function":{"arguments":"{"}}]"#,
        r#"[{"index":0,"id":"r3","function":{"arguments":"}"}}]"#,
    ]);
    assert_eq!(calls, ["r1 a {}"]);
}

#[test]
fn non_string_arguments_are_accepted() {
    let calls = whole(&[
        r#"[{"index":0,"function":{"name":"a","arguments":{"x": 1.0}}}]"#,
        r#"[{"index":1,"function":{"name":"b","arguments":null}}]"#,
        r#"[{"index":2,"function":{"name":"c"}}]"#,
        r#"[{"index":3,"name":"d","arguments":{}}]"#,
    ]);
    assert_eq!(calls, [r#" a {"x": 1.0}"#, " b {}", " c {}", " d {}"]);
}

#[test]
fn empty_and_null_lists_are_ignored() {
    let deltas = [
        "[]",
        "null",
        "[null]",
        "[{}]",
        r#"[{"index":0,"id":"","function":{"name":"","arguments":""}}]"#,
        r#"[{"index":0,"id":null,"function":{"name":null,"arguments":null}}]"#,
    ];
    assert_eq!(read(&deltas, false), []);
}

#[test]
fn ids_are_kept_verbatim() {
    let delta =
        r#"[{"index":0,"id":"functions.get_weather:0","function":{"name":"get_weather","arguments":"{}"}}]"#;
    assert_eq!(whole(&[delta]), ["functions.get_weather:0 get_weather {}"]);
}

#[test]
fn arguments_before_the_name_are_accepted() {
    let calls = whole(&[
        r#"[{"index":0,"function":{"arguments":"{\"x\":"}}]"#,
        r#"[{"index":0,"id":"p","function":{"name":"a"}}]"#,
        r#"[{"index":0,"function":{"arguments":"1}"}}]"#,
    ]);
    assert_eq!(calls, [r#"p a {"x":1}"#]);
}

#[test]
fn surrogate_pair_cut_between_deltas_is_joined() {
    let calls = whole(&[
        r#"[{"index":0,"function":{"name":"a","arguments":"{\"x\":\"\ud83d"}}]"#,
        r#"[{"index":0,"function":{"arguments":"\ude00\"}"}}]"#,
    ]);
    assert_eq!(calls, [" a {\"x\":\"😀\"}"]);
}

#[test]
fn call_is_announced_at_its_first_argument_byte_at_the_latest() {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    let mut count = |delta: &str| {
        calls.delta(Json::parse(delta).unwrap(), &mut events).unwrap();
        events.len()
    };
    assert_eq!(count(r#"[{"index":0,"id":"p","function":{"name":"a","arguments":""}}]"#), 0);
    assert_eq!(count(r#"[{"index":0,"function":{"arguments":"{"}}]"#), 2);
    assert_eq!(count(r#"[{"index":0,"function":{"arguments":"}"}}]"#), 3);
    assert_eq!(count(r#"[{"index":1,"id":"q","function":{"name":"b"}}]"#), 4, "the first one is over");
    assert_eq!(
        count(r#"[{"index":2,"id":"r","function":{"name":"c"}}]"#),
        5,
        "the second one's name is certain"
    );
}

#[test]
fn declared_name_is_announced_at_once() {
    let tools = ["get", "get_weather", "read"].map(|name| Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: None,
        strict: None,
        declared: None,
    });
    let asked = Conversation { tools: tools.into(), ..Conversation::default() };
    let started = |deltas: &[&str]| {
        let mut events = Vec::new();
        let mut calls = CallDeltas::new(128);
        calls.expect(DeclaredTools::new(&asked, ""), Limits::default());
        let mut seen = Vec::new();
        for delta in deltas {
            calls.delta(Json::parse(delta).unwrap(), &mut events).unwrap();
            seen.push(events.len());
        }
        calls.finish(false, &mut events);
        (seen, calls_of(&events).into_iter().map(|call| call.1).collect::<Vec<_>>())
    };
    let read = [
        r#"[{"index":0,"id":"p","function":{"name":"read","arguments":""}}]"#,
        r#"[{"index":0,"id":"p","function":{"name":"read","arguments":"{}"}}]"#,
    ];
    assert_eq!(started(&read), (vec![1, 1], vec!["read".to_owned()]), "a name that is said again is one");
    let may_grow = [
        r#"[{"index":0,"id":"p","function":{"name":"get","arguments":""}}]"#,
        r#"[{"index":0,"function":{"name":"_weather","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
    ];
    assert_eq!(started(&may_grow), (vec![0, 1, 1], vec!["get_weather".to_owned()]));
    let undeclared = [r#"[{"index":0,"id":"p","function":{"name":"rea","arguments":""}}]"#];
    assert_eq!(started(&undeclared).0, [0]);
    let without_id = [r#"[{"index":0,"function":{"name":"read"}}]"#, r#"[{"index":0,"id":"p"}]"#];
    assert_eq!(started(&without_id), (vec![0, 1], vec!["read".to_owned()]), "its id goes with it");
}

#[test]
fn incomplete_arguments_end_as_cut_and_those_that_are_no_object_as_broken() {
    let prefixes = [r#"{"#, r#"{\"x\":"#, r#"{\"x\":1"#, r#"{\"x\":1,"#, r#" {\"x\":\"}"#];
    let others = [
        "null",
        "nu",
        "[1]",
        "[",
        "5",
        r#"{\"x\":1} {\"x\":2}"#,
        "{}x",
        "{},",
        "{,}",
        "{x:1}",
        r#"\"{}\""#,
        "x",
    ];
    let all = prefixes.map(|prefix| (prefix, CallEnd::Cut)).into_iter();
    for (arguments, end) in all.chain(others.map(|other| (other, CallEnd::Broken))) {
        let delta = format!(r#"[{{"index":0,"function":{{"name":"a","arguments":"{arguments}"}}}}]"#);
        assert_eq!(read(&[&delta], false)[0].3, end, "{arguments}");
        assert_eq!(read(&[&delta], true)[0].3, CallEnd::Cut, "{arguments} in a response that was cut short");
    }
    let named = r#"[{"index":0,"function":{"name":"a"}}]"#;
    assert_eq!(read(&[named], true), [(String::new(), "a".into(), String::new(), CallEnd::Cut)]);
    let complete = r#"[{"index":0,"function":{"name":"a","arguments":" {} "}}]"#;
    assert_eq!(read(&[complete], true)[0].3, CallEnd::Complete);
}

#[test]
fn nameless_call_is_counted() {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    calls.delta(Json::parse(r#"[{"index":0,"function":{"arguments":"{}"}}]"#).unwrap(), &mut events).unwrap();
    calls.finish(false, &mut events);
    assert_eq!((events.len(), calls.skipped().count(Skip::NamelessCall)), (0, 1));
}

#[test]
fn arguments_after_a_complete_call_are_counted() {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    for delta in [
        r#"[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]"#,
        r#"[{"index":1,"id":"q","function":{"name":"b","arguments":"{}"}}]"#,
        r#"[{"index":0,"function":{"arguments":" \n"}}]"#,
        r#"[{"index":0,"function":{"arguments":"x"}}]"#,
    ] {
        calls.delta(Json::parse(delta).unwrap(), &mut events).unwrap();
    }
    assert_eq!(calls.skipped().count(Skip::LateArguments), 1);
}

/// Reads deltas with small limits. Returns the arguments of the calls, or the failure.
fn limited(deltas: &[&str]) -> Result<Vec<String>, String> {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    let limits = Limits { max_arguments: 20, max_name: 8, max_calls: 3, ..Limits::default() };
    calls.expect(DeclaredTools::default(), limits);
    for delta in deltas {
        if let Err(failure) = calls.delta(Json::parse(delta).unwrap(), &mut events) {
            assert_eq!(failure.code(), Some("limit_exceeded"));
            calls.finish(true, &mut events);
            assert!(
                calls_of(&events).iter().all(|call| call.1.len() <= 8 && call.2.len() <= 20),
                "{events:?}"
            );
            return Err(failure.message().to_owned());
        }
    }
    calls.finish(false, &mut events);
    Ok(calls_of(&events).into_iter().map(|call| call.2).collect())
}

#[test]
fn arguments_before_the_name_are_limited_per_call() {
    let arguments = |len: usize| format!(r#"{{\"x\":\"{}\"}}"#, "y".repeat(len - 8));
    for (len, fits) in [(19, true), (20, true), (21, false), (900, false)] {
        let text = arguments(len);
        let (left, right) = text.split_at(text.len() / 2 / 4 * 4 + 2);
        let early = |piece: &str| format!(r#"[{{"index":0,"function":{{"arguments":"{piece}"}}}}]"#);
        let name = r#"[{"index":0,"id":"p","function":{"name":"a"}}]"#;
        for deltas in [vec![early(&text)], vec![early(left), early(right)]] {
            let deltas: Vec<&str> = deltas.iter().map(String::as_str).chain([name]).collect();
            let read = limited(&deltas);
            assert_eq!(read.is_ok(), fits, "{len}: {read:?}");
            assert!(read.is_err_and(|message| message.contains("max_arguments")) != fits);
        }
    }
    // The arguments of one call do not count toward another call's limit.
    let named = |n: usize| {
        format!(
            r#"[{{"index":{n},"function":{{"arguments":"{}"}}}},{{"index":{n},"id":"c{n}","function":{{"name":"a"}}}}]"#,
            arguments(20)
        )
    };
    let deltas: Vec<String> = (0..3).map(named).collect();
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    assert_eq!(limited(&deltas).unwrap().len(), 3);
}

#[test]
fn name_limit_holds_for_whole_and_split_names() {
    for (name, fits) in [("abcdefgh", true), ("abcdefghi", false)] {
        let head = |name: &str| {
            format!(r#"[{{"index":0,"id":"p","function":{{"name":"{name}","arguments":"{{}}"}}}}]"#)
        };
        assert_eq!(limited(&[&head(name)]).is_ok(), fits);
        let (left, right) = name.split_at(3);
        let left = format!(r#"[{{"index":0,"id":"p","function":{{"name":"{left}"}}}}]"#);
        assert_eq!(limited(&[&left, &head(right)]).is_ok(), fits);
    }
}

#[test]
fn declared_name_may_exceed_the_limit() {
    let name = "n".repeat(300);
    let tool = Tool {
        name: name.clone(),
        description: String::new(),
        parameters: None,
        strict: None,
        declared: None,
    };
    let asked = Conversation { tools: vec![tool], ..Conversation::default() };
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    calls.expect(DeclaredTools::new(&asked, ""), Limits::default());
    for piece in ["n".repeat(299), "n".to_owned()] {
        let delta = format!(r#"[{{"index":0,"id":"p","function":{{"name":"{piece}"}}}}]"#);
        calls.delta(Json::parse(&delta).unwrap(), &mut events).unwrap();
    }
    calls.finish(false, &mut events);
    assert_eq!(calls_of(&events)[0].1, name);
}

#[test]
fn call_over_the_limit_fails_after_the_earlier_ones_are_complete() {
    let delta =
        |n: usize| format!(r#"[{{"index":{n},"id":"c{n}","function":{{"name":"a","arguments":"{{}}"}}}}]"#);
    let deltas: Vec<String> = (0..4).map(delta).collect();
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    assert_eq!(limited(&deltas[..3]).unwrap().len(), 3);
    assert!(limited(&deltas).unwrap_err().contains("max_calls"));
}

#[test]
fn legacy_function_call_is_one_call() {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    for delta in [r#"{"name":"a","arguments":"{\"x\":"}"#, r#"{"arguments":"1}"}"#] {
        calls.legacy(Json::parse(delta).unwrap(), &mut events).unwrap();
    }
    calls.finish(false, &mut events);
    assert_eq!(calls_of(&events), [(String::new(), "a".into(), r#"{"x":1}"#.into(), CallEnd::Complete)]);
}

/// The calls in deltas of both formats: `f` precedes a `function_call`, and `t` precedes `tool_calls`.
fn both_forms(deltas: &[&str]) -> Vec<(String, String)> {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    for delta in deltas {
        let (form, json) = delta.split_at(1);
        let json = Json::parse(json).unwrap();
        let read = if form == "f" { calls.legacy(json, &mut events) } else { calls.delta(json, &mut events) };
        read.unwrap();
    }
    calls.finish(false, &mut events);
    assert!(calls_of(&events).iter().all(|call| call.3 == CallEnd::Complete), "{events:?}");
    calls_of(&events).into_iter().map(|call| (call.1, call.2)).collect()
}

#[test]
fn call_in_legacy_and_current_form_is_one_call() {
    let x = ("a".to_owned(), r#"{"x":1}"#.to_owned());
    let y = ("b".to_owned(), r#"{"y":2}"#.to_owned());
    let head = |form: &str, arguments: &str| match form {
        "f" => format!(r#"f{{"name":"a","arguments":"{arguments}"}}"#),
        _ => format!(r#"t[{{"index":0,"id":"p","function":{{"name":"a","arguments":"{arguments}"}}}}]"#),
    };
    let (left, right, all) = (r#"{\"x\":"#, "1}", r#"{\"x\":1}"#);
    let next = r#"t[{"index":1,"id":"q","function":{"name":"b","arguments":"{\"y\":2}"}}]"#;
    for (deltas, expected) in [
        // Both formats in each delta, `tool_calls` first, which is the order in which the reader handles
        // them.
        (vec![head("t", left), head("f", left), head("t", right), head("f", right)], vec![&x]),
        // The older format first, and each piece only once.
        (vec![head("f", left), head("t", right)], vec![&x]),
        // The head in the older format and the call in the newer one.
        (vec![head("f", ""), head("t", all), head("f", all)], vec![&x]),
        // The complete call in the older format, then again in the newer one.
        (vec![head("f", all), head("t", all)], vec![&x]),
        (vec![head("f", all), head("t", left), head("t", right), next.to_owned()], vec![&x, &y]),
    ] {
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        assert_eq!(both_forms(&deltas).iter().collect::<Vec<_>>(), expected, "{deltas:?}");
    }
}

/// A delta for the call 0, with these members in its element and in its function.
fn piece(element: &str, function: &str) -> String {
    format!(r#"[{{"index":0,{element}"function":{{{function}}}}}]"#)
}

const PARIS: &str = r#""arguments":"{\"city\":\"Paris\"}""#;

#[test]
fn arguments_that_are_sent_again_are_those_of_one_call() {
    let head = piece(r#""id":"p","#, r#""name":"a","arguments":"""#);
    let named = piece(r#""id":"p","#, &format!(r#""name":"a",{PARIS}"#));
    let nameless = piece("", PARIS);
    let (left, right) = (piece("", r#""arguments":"{\"city\":""#), piece("", r#""arguments":"\"Paris\"}""#));
    let spaced = piece("", r#""arguments":"{ \"city\": \"P\\u0061ris\" }""#);
    let without_id = piece("", &format!(r#""name":"a",{PARIS}"#));
    let named_left = piece(r#""id":"p","#, r#""name":"a","arguments":"{\"city\":""#);
    for deltas in [
        vec![&head, &left, &right, &nameless],
        vec![&head, &left, &right, &left, &right],
        vec![&head, &left, &right, &spaced],
        vec![&head, &left, &right, &named],
        vec![&head, &left, &right, &without_id],
        vec![&head, &left, &right, &named_left, &right],
        vec![&head, &left, &right, &left],
        vec![&head, &left, &right, &nameless, &nameless, &named],
        vec![&head, &nameless, &named],
        vec![&head, &nameless, &left, &right],
        vec![&named, &named, &named],
        vec![&named, &left],
    ] {
        let deltas: Vec<&str> = deltas.into_iter().map(String::as_str).collect();
        let calls = whole(&deltas);
        assert_eq!(calls.len(), 1, "{deltas:?}");
        assert!(calls[0].replace(' ', "").starts_with(r#"pa{"city":"P"#), "{calls:?}");
    }
    let both = format!("[{},{}]", &named[1..named.len() - 1], &named[1..named.len() - 1]);
    assert_eq!(whole(&[&both]).len(), 1, "in one delta");
}

#[test]
fn arguments_that_are_sent_again_in_one_piece_are_those_of_one_call() {
    let (paris, lyon) = (r#"{\"city\":\"Paris\"}"#, r#"{\"city\":\"Lyon\"}"#);
    for (text, arguments) in [
        (format!("{paris}{paris}"), r#"{"city":"Paris"}"#),
        (format!("{{}}{paris}"), r#"{"city":"Paris"}"#),
        (format!("{{}} {{ }}{paris}"), r#"{"city":"Paris"}"#),
        (format!("{paris}{{}}"), r#"{"city":"Paris"}"#),
        (format!("{paris}{lyon}"), r#"{"city":"Paris"}{"city":"Lyon"}"#),
        (format!("{paris}{lyon}{paris}"), r#"{"city":"Paris"}{"city":"Lyon"}{"city":"Paris"}"#),
    ] {
        let head = piece(r#""id":"p","#, r#""name":"a","arguments":"""#);
        let one = piece(r#""id":"p","#, &format!(r#""name":"a","arguments":"{text}""#));
        let later = piece("", &format!(r#""arguments":"{text}""#));
        let unnamed = piece(r#""id":"p","#, &format!(r#""arguments":"{text}""#));
        let name = piece("", r#""name":"a""#);
        for deltas in [vec![&one], vec![&head, &later], vec![&unnamed, &name]] {
            let deltas: Vec<&str> = deltas.into_iter().map(String::as_str).collect();
            let call = &read(&deltas, false)[0];
            let end = if arguments.contains("}{") { CallEnd::Broken } else { CallEnd::Complete };
            assert_eq!((call.2.as_str(), call.3), (arguments, end), "{deltas:?}");
        }
        let text = text.replace('\\', "");
        let mended = super::mended(&text, &Limits::default());
        assert_eq!(mended.as_deref(), Some(arguments).filter(|text| !text.contains("}{")), "{text}");
    }
    let left = piece(r#""id":"p","#, r#""name":"a","arguments":"{\"x\":""#);
    let (right, empty) = (piece("", r#""arguments":"1}""#), piece("", r#""arguments":"{}""#));
    assert_eq!(whole(&[&left, &right, &empty]), [r#"p a {"x":1}"#]);
}

#[test]
fn an_empty_object_before_the_arguments_is_left_out() {
    let empty = piece(r#""id":"p","#, r#""name":"a","arguments":"{}""#);
    let object = piece(r#""id":"p","#, r#""name":"a","arguments":{}"#);
    let (left, right) = (piece("", r#""arguments":"{\"city\":""#), piece("", r#""arguments":"\"Paris\"}""#));
    let other_id = piece(r#""id":"r","#, r#""arguments":"{\"city\":""#);
    for deltas in [[&empty, &left, &right], [&object, &left, &right], [&empty, &other_id, &right]] {
        let deltas = deltas.map(String::as_str);
        assert_eq!(whole(&deltas), [r#"p a {"city":"Paris"}"#], "{deltas:?}");
    }
    assert_eq!(whole(&[&empty]), ["p a {}"]);
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    for (delta, seen) in [(&empty, 1), (&left, 2), (&right, 3)] {
        calls.delta(Json::parse(delta).unwrap(), &mut events).unwrap();
        assert_eq!(events.len(), seen, "only the empty object waits");
    }
}

#[test]
fn an_object_that_grows_is_that_of_one_call() {
    let named =
        |path: &str| piece(r#""id":"p","#, &format!(r#""name":"a","arguments":"{{\"path\":\"{path}\"}}""#));
    let nameless = |path: &str| piece("", &format!(r#""arguments":"{{\"path\":\"{path}\"}}""#));
    let grown = [named("/h"), named("/home"), nameless("/home/x")];
    let grown: Vec<&str> = grown.iter().map(String::as_str).collect();
    assert_eq!(whole(&grown), [r#"p a {"path":"/home/x"}"#]);
    // These are different calls, because the objects differ: some servers give all calls the same id.
    let others = [named("/h"), named("/etc")];
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_eq!(whole(&others), [r#"p a {"path":"/h"}"#, r#"p a {"path":"/etc"}"#]);
}

#[test]
fn other_text_behind_whole_arguments_is_not_left_out() {
    let head = piece(r#""id":"p","#, r#""name":"a","arguments":"""#);
    let pieces = [r#"{\"x\":"#, "1}", r#"{\"x\":2}"#].map(|text| {
        let arguments = format!(r#""arguments":"{text}""#);
        piece("", &arguments)
    });
    let deltas: Vec<&str> = std::iter::once(&head).chain(&pieces).map(String::as_str).collect();
    let calls = read(&deltas, false);
    assert_eq!((calls[0].2.as_str(), calls[0].3), (r#"{"x":1}{"x":2}"#, CallEnd::Broken));
    // A second object that was cut off does not repeat the first one.
    let held = [
        piece(r#""id":"p","#, r#""name":"a","arguments":"{\"x\":1}""#),
        piece("", r#""arguments":"{\"x\":12""#),
    ];
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    assert_eq!(read(&held, true)[0].3, CallEnd::Cut);
}

#[test]
fn what_is_held_is_released_by_other_content() {
    let mut events = Vec::new();
    let mut calls = CallDeltas::new(128);
    let delta = piece(r#""id":"p","#, &format!(r#""name":"a",{PARIS}"#));
    calls.delta(Json::parse(&delta).unwrap(), &mut events).unwrap();
    assert!(calls.is_holding() && events.len() == 1);
    calls.settle(&mut events);
    assert!(!calls.is_holding() && events.len() == 3, "{events:?}");
}

//! Tests that tool names and call IDs are converted to forms that upstreams accept, and back. The upstream only
//! gets names that it accepts, and the client gets calls with its own names, no matter what those look like.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, IdForm, NameForm, Part, Role, Tool, ToolChoice, Turn},
    rules::Rules,
};

use crate::laws::tries;
use crate::support::{
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

/// Generates names, many of which differ only in characters that upstreams reject.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab][._ :/-]{0,2}[ab]",
        2 => "[a-zA-Z0-9_-]{1,64}",
        1 => "[a-c.]{63,70}",
        1 => "\\PC{1,12}",
        1 => "[0-9-][a-z.]{0,4}",
    ]
    .prop_filter("a name", |name: &String| !name.trim().is_empty())
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "functions\\.[ab]:[0-3]",
        2 => "call_[a-zA-Z0-9]{1,3}",
        1 => "[a-zA-Z0-9]{9}",
        1 => "\\PC{1,80}",
        1 => Just(String::new()),
    ]
}

#[derive(Debug, Clone)]
struct Case {
    declared: Vec<String>,
    calls: Vec<(String, String)>,
    chosen: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let names = prop::collection::hash_set(name(), 1..8);
    let calls = prop::collection::vec((id(), prop_oneof![Just(None), name().prop_map(Some)]), 0..8);
    (names, calls, any::<prop::sample::Index>()).prop_map(|(names, calls, chosen)| {
        let declared: Vec<String> = names.into_iter().collect();
        let chosen = chosen.index(declared.len());
        let known = declared[chosen].clone();
        let calls = calls.into_iter().map(|(id, name)| (id, name.unwrap_or_else(|| known.clone())));
        Case { calls: calls.collect(), declared, chosen }
    })
}

fn conversation(case: &Case) -> Conversation {
    let turns = case.calls.iter().flat_map(|(id, name)| {
        let output =
            CallOutput { id: id.clone(), name: name.clone(), content: "1".to_owned(), is_error: false };
        [
            Turn::of(Role::Assistant, vec![Part::Call(Call::new(id, name, "{}"))]),
            Turn::of(Role::Tool, vec![Part::Result(output)]),
        ]
    });
    Conversation {
        turns: turns.collect(),
        tools: case.declared.iter().map(Tool::named).collect(),
        tool_choice: ToolChoice::Named(case.declared[case.chosen].clone()),
        ..Conversation::default()
    }
}

/// Returns the ID and the name of each call and result, in order.
fn history(conversation: &Conversation) -> Vec<(&str, &str)> {
    let parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    let pairs = parts.map(|part| match part {
        Part::Call(call) => (call.id.as_str(), call.name.as_str()),
        Part::Result(output) => (output.id.as_str(), output.name.as_str()),
        other => panic!("{other:?}"),
    });
    pairs.collect()
}

fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

fn accepts_name(form: NameForm, name: &str) -> bool {
    match form {
        NameForm::Any => true,
        NameForm::Word => is_word(name),
        NameForm::Identifier => {
            is_word(name) && !name.starts_with(|first: char| !first.is_ascii_alphabetic() && first != '_')
        }
    }
}

fn accepts_id(form: IdForm, id: &str) -> bool {
    match form {
        IdForm::Any => true,
        IdForm::AtMost(longest) => id.chars().count() <= longest,
        IdForm::Word => is_word(id),
        IdForm::Alphanumeric(length) => {
            id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    }
}

/// Checks that all texts in `after` are accepted, and that they are equal exactly where those in `before` are.
fn is_renaming(before: &[&str], after: &[&str], accepts: impl Fn(&str) -> bool) -> Result<(), TestCaseError> {
    let mut to = HashMap::new();
    prop_assert_eq!(before.len(), after.len());
    for (old, new) in before.iter().zip(after) {
        prop_assert!(accepts(new), "{new}");
        // An accepted name may only change if it becomes the replacement of another name.
        prop_assert!(!accepts(old) || old == new || after.contains(old), "{old} became {new}");
        prop_assert_eq!(*to.entry(*old).or_insert(*new), *new, "one text for {}", old);
    }
    let different: HashSet<_> = to.values().collect();
    prop_assert_eq!(different.len(), to.len(), "{:?}", to);
    Ok(())
}

proptest! {
    #![proptest_config(tries(400))]

    #[test]
    fn names_and_ids_are_renamed_consistently(
        case in case(),
        names in prop::sample::select(&[NameForm::Any, NameForm::Word, NameForm::Identifier][..]),
        ids in prop::sample::select(&[IdForm::Any, IdForm::AtMost(40), IdForm::Word, IdForm::Alphanumeric(9)][..]),
    ) {
        // Calls with the same ID would get separate IDs, which
        // `call_ids_that_repeat_become_unique_and_results_follow_them` tests.
        let (mut case, mut seen) = (case, HashSet::new());
        case.calls.retain(|(id, _)| id.is_empty() || seen.insert(id.clone()));
        let before = conversation(&case);
        let after = before.in_forms(names, ids).into_owned();
        let all = |conversation: &Conversation| -> (Vec<String>, Vec<String>) {
            let ToolChoice::Named(choice) = &conversation.tool_choice else { panic!("a named tool") };
            let declared = conversation.tools.iter().map(|tool| tool.name.clone()).chain([choice.clone()]);
            let (ids, past): (Vec<_>, Vec<_>) =
                history(conversation).into_iter().map(|(id, name)| (id.to_owned(), name.to_owned())).unzip();
            (declared.chain(past).collect(), ids.into_iter().filter(|id| !id.is_empty()).collect())
        };
        let ((names_before, ids_before), (names_after, ids_after)) = (all(&before), all(&after));
        let view = |texts: &'_ [String]| -> Vec<String> { texts.to_vec() };
        let texts = [names_before, names_after, ids_before, ids_after].map(|texts| view(&texts));
        let texts: Vec<Vec<&str>> = texts.iter().map(|texts| texts.iter().map(String::as_str).collect()).collect();
        is_renaming(&texts[0], &texts[1], |name| accepts_name(names, name))?;
        is_renaming(&texts[2], &texts[3], |id| accepts_id(ids, id))?;
        prop_assert_eq!(&after.in_forms(names, ids).into_owned(), &after, "a second time changes nothing");
        // A declared tool has the same name in every request of a conversation.
        let fresh = Conversation { turns: Vec::new(), ..before };
        prop_assert_eq!(&fresh.in_forms(names, ids).tools, &after.tools);
    }

    /// The model may use the names that the upstream got or the original names, which may appear in the client's
    /// instructions.
    #[test]
    fn calls_reach_the_client_under_its_own_names(
        case in case(),
        form in prop::sample::select(&[NameForm::Word, NameForm::Identifier][..]),
        stream in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let names = case.declared.iter().map(String::as_str);
        let asked = request(&json!({"tools": tools(names, &Value::Null), "stream": stream}));
        let sent = asked.in_forms(form, IdForm::Any).into_owned();
        let written = sent.tools.iter().map(|tool| &tool.name).chain(&case.declared);
        let deltas = written.enumerate().flat_map(|(index, name)| {
            let function = json!({"name": name, "arguments": ""});
            let head = json!({"index": index, "id": format!("c{index}"), "type": "function", "function": function});
            let piece = json!({"index": index, "function": {"arguments": "{\"x\":1}"}});
            [head, piece].map(|element| json!(["d", {"tool_calls": [element]}]))
        });
        let ends = [json!(["fin", "tool_calls"]), json!(["done"])];
        let bytes = Speech::Chat.stream(&deltas.chain(ends).collect::<Vec<_>>());
        let exchange = Exchange::new(asked, Rules::default(), Speech::Chat);
        let (first, rest) = bytes.split_at(cut.index(bytes.len()));
        let (answer, _) = exchange.run([first, rest]);
        let called: Vec<&str> = answer.named_calls().into_iter().map(|(name, _)| name).collect();
        let expected: Vec<&str> = case.declared.iter().chain(&case.declared).map(String::as_str).collect();
        prop_assert_eq!(called, expected);
    }
}

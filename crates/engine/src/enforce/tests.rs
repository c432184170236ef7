use serde_json::{Value, json};

use super::*;
use crate::{
    conversation::{ToolChoice, Turn},
    wire::json::Raw,
};

const ALL: Means = Means { schema: Some(Subset::XGRAMMAR), tags: true, grammar: true, prefill: true };

fn tool(name: &str, parameters: Value, strict: Option<bool>) -> Tool {
    let parameters = serde_json::from_value::<Box<serde_json::value::RawValue>>(parameters).unwrap();
    let parameters = Raw::from(crate::wire::json::Json::parse(parameters.get()).unwrap());
    Tool { parameters: Some(parameters), strict, ..Tool::named(name) }
}

fn weather() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city"],
    })
}

fn asking(tools: Vec<Tool>, tool_choice: ToolChoice) -> Conversation {
    let turns = vec![Turn::text(crate::conversation::Role::User, "hello")];
    Conversation { turns, tools, tool_choice, parallel_calls: true, ..Conversation::default() }
}

fn named(name: &str) -> &'static Format {
    format::ALL.iter().find(|format| format.name == name).unwrap()
}

fn constraint(
    conversation: &Conversation,
    format: &str,
    enforce: Enforce,
    means: &Means,
) -> Option<Constraint> {
    constrain(conversation, named(format), "", enforce, means).map(|enforced| enforced.constraint)
}

#[test]
fn text_is_free_up_to_a_call() {
    let of = |strict, means: Means| {
        let conversation = asking(vec![tool("get_weather", weather(), strict)], ToolChoice::Auto);
        constraint(&conversation, "hermes", Enforce::Auto, &means)
    };
    for (strict, trigger) in [
        (None, "<tool_call>\n{\"name\": \""),
        (Some(false), "<tool_call>\n{\"name\": \""),
        (Some(true), "<tool_call>"),
    ] {
        let Some(Constraint::Tags(tags)) = of(strict, ALL) else { panic!("no tags") };
        assert!(!tags.at_least_one);
        assert_eq!(tags.triggers, [trigger]);
        let [tag] = tags.tags.as_slice() else { panic!("one tag") };
        assert_eq!(tag.begin, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ");
        assert_eq!(tag.schema["required"], json!(["city"]));
        assert_eq!(tag.end, "}\n</tool_call>");
    }
    let Some(Constraint::Grammar(grammar)) = of(None, Means { tags: false, ..ALL }) else {
        panic!("no grammar")
    };
    assert!(grammar.allows_text);
    let required = asking(vec![tool("get_weather", weather(), None)], ToolChoice::Required);
    let free = constraint(&required, "hermes", Enforce::Calls, &Means { tags: false, ..ALL });
    assert_eq!(free, Some(Constraint::Grammar(grammar)), "no call is forced");
    assert_eq!(
        of(None, Means { tags: false, grammar: false, ..ALL }),
        None,
        "a schema or prefill leaves no text"
    );
}

#[test]
fn text_is_not_constrained_by_words_or_json_that_it_may_contain() {
    let conversation = asking(vec![tool("get_weather", weather(), None)], ToolChoice::Auto);
    for name in ["bare", "fenced", "react", "pythonic", "harmony"] {
        assert_eq!(constraint(&conversation, name, Enforce::Auto, &ALL), None, "{name}");
    }
}

/// The states of the text for an opener that contains its own beginning.
#[test]
fn an_opener_may_begin_inside_itself() {
    let mut rules = grammar::Rules::default();
    rules.text("aab", "rest");
    let written = rules.finish("text0").unwrap();
    let states: Vec<&str> = written.lines().filter(|line| line.starts_with("text")).collect();
    assert_eq!(
        states,
        [
            r#"text0 ::= [^a]* ("a" text1)?"#,
            r#"text1 ::= ("a" text2 | [^a] text0)?"#,
            r#"text2 ::= ("b" rest | "a" text2 | [^ba] text0)?"#,
        ]
    );
}

#[test]
fn a_required_call_takes_the_best_means_that_the_server_has() {
    let conversation = asking(vec![tool("get_weather", weather(), None)], ToolChoice::Required);
    let with = |means: Means| constraint(&conversation, "hermes", Enforce::Auto, &means);
    assert!(matches!(with(ALL), Some(Constraint::Tags(_))));
    let means = Means { tags: false, ..ALL };
    assert!(matches!(with(means), Some(Constraint::Schema(_))));
    let means = Means { schema: None, ..means };
    assert!(matches!(with(means), Some(Constraint::Grammar(_))));
    let means = Means { grammar: false, ..means };
    assert_eq!(
        with(means),
        Some(Constraint::Prefill("<tool_call>\n{\"name\": \"get_weather\", \"arguments\":".to_owned()))
    );
    assert_eq!(with(Means::default()), None);
}

#[test]
fn a_prefill_is_what_all_tools_have_in_common() {
    let tools = vec![tool("get_weather", weather(), None), tool("get_time", weather(), None)];
    let conversation = asking(tools, ToolChoice::Required);
    assert_eq!(
        constraint(&conversation, "hermes", Enforce::Prefill, &ALL),
        Some(Constraint::Prefill("<tool_call>\n{\"name\": \"get_".to_owned()))
    );
}

#[test]
fn formats_without_json_arguments_are_replaced_by_plain_json() {
    let conversation = asking(vec![tool("get_weather", weather(), None)], ToolChoice::Required);
    let enforced = constrain(&conversation, named("qwen3_coder"), "", Enforce::Auto, &ALL).unwrap();
    assert_eq!(enforced.format.name, "bare");
    assert_eq!(
        enforced.constraint,
        Constraint::Schema(json!({
            "type": "object",
            "properties": {
                "name": {"const": "get_weather"},
                "arguments": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "days": {"type": "integer", "minimum": 1, "maximum": 14},
                        "unit": {"enum": ["C", "F"]},
                    },
                    "required": ["city"],
                    "additionalProperties": false,
                },
            },
            "required": ["name", "arguments"],
            "additionalProperties": false,
        }))
    );
}

fn fitted(schema: Value, subset: Subset) -> Option<Value> {
    Fitted::arguments(&tool("f", schema, None), subset, &mut { MAX_SIZE }).map(Fitted::into_value)
}

#[test]
fn openai_requires_all_properties_and_distinct_first_keys() {
    let strict = fitted(weather(), Subset::OPENAI).unwrap();
    assert_eq!(strict["required"], json!(["city", "days", "unit"]));
    assert_eq!(strict["properties"]["days"], json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}));
    let of = |schema| Fitted::arguments(&tool("f", schema, None), Subset::OPENAI, &mut { MAX_SIZE }).unwrap();
    let same = [("a".to_owned(), of(weather())), ("b".to_owned(), of(weather()))];
    assert_eq!(schema::any_call(&same, Subset::OPENAI), None);
    let other = json!({"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]});
    let distinct = [("a".to_owned(), of(weather())), ("b".to_owned(), of(other))];
    let schema = schema::any_call(&distinct, Subset::OPENAI).unwrap();
    assert_eq!(schema["properties"]["name"]["enum"], json!(["a", "b"]));
    assert_eq!(schema["type"], "object");
}

#[test]
fn an_open_object_is_refused_where_it_cannot_be_expressed() {
    let open = json!({"type": "object", "properties": {"map": {"type": "object"}}, "required": ["map"]});
    assert_eq!(fitted(open.clone(), Subset::OPENAI), None);
    let fitted = fitted(open, Subset::XGRAMMAR).unwrap();
    assert_eq!(fitted["properties"]["map"]["additionalProperties"], json!(true));
}

#[test]
fn references_are_resolved_and_recursion_ends() {
    let tree = json!({
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "$defs": {"node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
        }},
    });
    for subset in [Subset::PORTABLE, Subset::XGRAMMAR, Subset::LLAMA_CPP] {
        let fitted = fitted(tree.clone(), subset).unwrap();
        assert_eq!(fitted["properties"]["root"]["properties"]["left"]["type"], "object");
        assert!(fitted.to_string().len() < 2 << 20, "{}", fitted.to_string().len());
    }
    assert_eq!(fitted(json!({"$ref": "#"}), Subset::XGRAMMAR).unwrap()["type"], "object");
}

#[test]
fn what_must_fit_as_well_is_merged() {
    let schema = json!({"allOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {"type": ["integer", "null"]}}, "required": ["b"]},
    ]});
    let fitted = fitted(schema, Subset::PORTABLE).unwrap();
    assert_eq!(fitted["required"], json!(["a", "b"]));
    assert_eq!(fitted["properties"]["b"], json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}));
}

#[test]
fn bounds_that_grammars_cannot_repeat_are_left_out() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "minLength": 256, "maxLength": 500_000},
        "b": {"type": "string", "maxLength": 3, "pattern": "^x"},
    }});
    let fitted = fitted(schema, Subset::XGRAMMAR).unwrap();
    assert_eq!(fitted["properties"]["a"], json!({"type": "string", "minLength": 256}));
    assert_eq!(fitted["properties"]["b"], json!({"type": "string"}));
}

/// However hostile the declarations are, the output stays within one limit.
#[test]
fn many_hostile_schemas_are_written_within_one_limit() {
    let word = "w".repeat(10_000);
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {
            "type": ["object", "object", "object"],
            "properties": {
                "l": {"$ref": "#/$defs/n"},
                "r": {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]},
                "e": {"enum": [word]},
            },
        }},
    });
    let tools = (0..200).map(|at| tool(&format!("t{at}"), schema.clone(), None)).collect();
    let required = asking(tools, ToolChoice::Required);
    let free = Conversation { tool_choice: ToolChoice::Auto, ..required.clone() };
    for (conversation, enforce) in [
        (&required, Enforce::Schema),
        (&required, Enforce::StructuralTag),
        (&required, Enforce::Grammar),
        (&free, Enforce::StructuralTag),
        (&free, Enforce::Grammar),
    ] {
        let size = match constraint(conversation, "hermes", enforce, &ALL) {
            Some(Constraint::Schema(schema)) => schema.to_string().len(),
            Some(Constraint::Tags(tags)) => tags.tags.iter().map(|tag| tag.schema.to_string().len()).sum(),
            Some(Constraint::Grammar(grammar)) => grammar.rules.len(),
            Some(Constraint::Prefill(_)) | None => 0,
        };
        assert!(size < 4 * MAX_SIZE, "{enforce:?}: {size}");
    }
}

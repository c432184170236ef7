//! The tools that every request declares, and arguments that match their schemas.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rendered::{
    fragments::string,
    scene::{Carries, Keys, Values},
    value::{Json, Members},
};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Choice(&'static [&'static str]),
    Integer,
    Number,
    Flag,
    Texts,
    Config,
    MaybeText,
}

type Tool = (&'static str, &'static [(&'static str, Kind)]);

const TOOLS: &[Tool] = &[
    ("now", &[]),
    ("get_weather", &[("city", Kind::Text), ("unit", Kind::Choice(&["c", "f"])), ("days", Kind::Integer)]),
    ("write_file", &[("path", Kind::Text), ("content", Kind::Text)]),
    ("add", &[("x", Kind::Number), ("y", Kind::Number)]),
    (
        "set_opts",
        &[
            ("enabled", Kind::Flag),
            ("ratio", Kind::Number),
            ("tags", Kind::Texts),
            ("cfg", Kind::Config),
            ("note", Kind::MaybeText),
        ],
    ),
    ("mcp__x-y", &[("query", Kind::Text), ("limit", Kind::Integer)]),
];

/// A tool that no request declares.
const UNKNOWN: Tool = ("look_up2", &[("query", Kind::Text), ("other", Kind::Text)]);

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Choice(of) => json!({"type": "string", "enum": of}),
            Self::Integer => json!({"type": "integer"}),
            Self::Number => json!({"type": "number"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Self::Config => json!({"type": "object", "properties": {
                "depth": {"type": "integer"}, "name": {"type": "string"}}}),
            Self::MaybeText => json!({"type": ["string", "null"]}),
        }
    }

    fn value(self, carries: &'static Carries) -> BoxedStrategy<Json> {
        let text = || string(carries.never, &[]).prop_map(Json::Text);
        let integer = || {
            prop::sample::select(&["0", "7", "-12", "12345678901234567890"] as &[_]).prop_map(Json::Number)
        };
        match self {
            Self::Text => text().boxed(),
            Self::Choice(of) => prop::sample::select(of).prop_map(Json::text).boxed(),
            Self::Integer => integer().boxed(),
            Self::Number => prop::sample::select(NUMBERS).prop_map(Json::Number).boxed(),
            Self::Flag => any::<bool>().prop_map(Json::Flag).boxed(),
            Self::Texts => {
                let least = usize::from(!carries.empties);
                prop::collection::vec(text(), least..4).prop_map(Json::List).boxed()
            }
            Self::Config => (integer(), prop::option::of(text()))
                .prop_map(|(depth, name)| {
                    let name = name.map(|name| ("name".to_owned(), name));
                    Json::Object([("depth".to_owned(), depth)].into_iter().chain(name).collect())
                })
                .boxed(),
            // Where strings have no quotes, the string `null` looks like null, and the call's closers also end
            // values that may be null.
            Self::MaybeText => prop::option::of(string(carries.never, &["</"]))
                .prop_map(|text| match text {
                    Some(text) if !text.trim().eq_ignore_ascii_case("null") => Json::Text(text),
                    _ => Json::Null,
                })
                .boxed(),
        }
    }
}

const NUMBERS: &[&str] = &["0", "1", "2.50", "-1.5e-3", "12345678901234567890", "0.1", "-40"];

fn any_value(carries: &'static Carries) -> BoxedStrategy<Json> {
    let text = string(carries.never, &[]).prop_map(Json::Text);
    let number = prop::sample::select(NUMBERS).prop_map(Json::Number);
    let leaf =
        prop_oneof![3 => text, 1 => number, 1 => Just(Json::Null), 1 => any::<bool>().prop_map(Json::Flag)];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let key = key(carries);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::List),
            prop::collection::vec((key, inner), 0..3).prop_map(|members| Json::Object(distinct(members))),
        ]
    })
    .boxed()
}

fn key(carries: &'static Carries) -> BoxedStrategy<String> {
    let names: &[&str] = match carries.keys {
        Keys::Any => &["x", "name", "arguments", "a b", "type", "é", "q\"\\", "id", "</tool_call>", ""],
        Keys::Words | Keys::Declared => &["z", "extra", "k_2", "name2"],
    };
    prop::sample::select(names).prop_map(str::to_owned).boxed()
}

fn distinct(members: Members) -> Members {
    let mut kept: Members = Vec::new();
    for (key, value) in members {
        if kept.iter().all(|(other, _)| *other != key) {
            kept.push((key, value));
        }
    }
    kept
}

/// Generates arguments for a tool: some of the declared ones in any order, and possibly an undeclared one.
fn arguments((name, properties): Tool, carries: &'static Carries) -> BoxedStrategy<Members> {
    let undeclared = name == UNKNOWN.0 && matches!(carries.values, Values::Declared);
    let property = |(key, kind): &(&'static str, Kind)| {
        let key = (*key).to_owned();
        if undeclared {
            let text = string(carries.never, &["</"]).prop_map(move |text| (key.clone(), Json::Text(text)));
            return prop::option::weighted(0.7, text).boxed();
        }
        prop::option::weighted(0.7, kind.value(carries).prop_map(move |value| (key.clone(), value))).boxed()
    };
    let extra = match carries.values {
        Values::Any => (key(carries), any_value(carries)).boxed(),
        // The closers around an undeclared string also end it.
        Values::Declared => (key(carries), string(carries.never, &["</"]).prop_map(Json::Text)).boxed(),
    };
    let extra = match carries.keys {
        Keys::Declared => Just(None).boxed(),
        Keys::Any | Keys::Words => prop::option::weighted(0.25, extra).boxed(),
    };
    let members: Vec<_> = properties.iter().map(property).chain([extra]).collect();
    members.prop_shuffle().prop_map(|members| distinct(members.into_iter().flatten().collect())).boxed()
}

pub(crate) fn call(carries: &'static Carries) -> BoxedStrategy<(&'static str, Members)> {
    let unknown = carries.unknown.then_some(&UNKNOWN);
    let tools = TOOLS.iter().filter(|(name, _)| carries.dashes || !name.contains('-')).chain(unknown);
    let calls: Vec<_> = tools.map(|tool| (Just(tool.0), arguments(*tool, carries)).boxed()).collect();
    proptest::strategy::Union::new(calls).boxed()
}

pub(crate) fn declares(name: &str, arguments: &Members) -> bool {
    let properties = TOOLS.iter().find(|(tool, _)| *tool == name).map_or(&[] as &[_], |tool| tool.1);
    arguments.iter().all(|(key, _)| properties.iter().any(|(property, _)| property == key))
}

pub(crate) fn declared() -> Value {
    let tool = |(name, properties): &Tool| {
        let properties: serde_json::Map<_, _> =
            properties.iter().map(|(key, kind)| ((*key).to_owned(), kind.schema())).collect();
        let parameters = json!({"type": "object", "properties": properties});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    TOOLS.iter().map(tool).collect()
}

//! Tests that facts about models change what they name and nothing else.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire::dialect::{ClientDialect, Dialect, MemberSettings, ModelFacts, UpstreamDialect, facts_table};

use crate::support::generated::tries;

/// Models with facts, models that are like them, and providers.
const MODELS: [&str; 18] = [
    "m",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "anthropic/claude-fable-5.1",
    "claude-mythos-preview",
    "gpt-4.1",
    "gpt-4o-mini",
    "gpt-5",
    "openai/gpt-5.1",
    "gpt-5.2-codex",
    "gpt-5.4-pro",
    "gpt-5.6-terra",
    "o3",
    "gemini-2.5-pro",
    "grok-4-fast",
    "deepseek-reasoner",
    "kimi-k2.6",
    "gpt-oss-120b",
];
const PROVIDERS: [&str; 7] = ["none", "openai", "azure", "moonshot", "mistral", "groq", "deepseek"];

fn number() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![json!(0), json!(0.2), json!(0.99), json!(1), json!(1.0), json!(2)])
}

/// Generates members of a Chat Completions request.
fn members() -> impl Strategy<Value = Map<String, Value>> {
    let effort =
        prop::sample::select(vec!["none", "minimal", "low", "medium", "high", "xhigh", "max", "other"]);
    let choice = prop::sample::select(vec![
        json!("auto"),
        json!("required"),
        json!("none"),
        json!({"type": "function", "function": {"name": "f"}}),
    ]);
    let named = |name: &'static str, value: BoxedStrategy<Value>| {
        prop::option::weighted(0.4, value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let members = vec![
        named("temperature", number().boxed()),
        named("top_p", number().boxed()),
        named("top_k", number().boxed()),
        named("presence_penalty", number().boxed()),
        named("frequency_penalty", number().boxed()),
        named("logprobs", any::<bool>().prop_map(Value::from).boxed()),
        named("logit_bias", Just(json!({"1": 2})).boxed()),
        named("seed", any::<i32>().prop_map(Value::from).boxed()),
        named("stop", Just(json!(["x"])).boxed()),
        named("max_tokens", (16_u32..100).prop_map(Value::from).boxed()),
        named("reasoning_effort", effort.prop_map(Value::from).boxed()),
        named("tool_choice", choice.boxed()),
        named("response_format", Just(json!({"type": "json_object"})).boxed()),
        named("metadata", Just(json!({"a": "b"})).boxed()),
        named("thinking", Just(json!({"type": "disabled"})).boxed()),
        named("unheard_of", Just(json!([1, {"temperature": 1}])).boxed()),
    ];
    members.prop_map(|members| members.into_iter().flatten().collect())
}

fn request(members: &Map<String, Value>) -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}});
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [tool("f"), tool("g")]});
    request.as_object_mut().unwrap().extend(members.clone());
    request
}

proptest! {
    #![proptest_config(tries(256))]

    /// Members that no fact names reach the upstream as they would without facts.
    #[test]
    fn other_members_stay_as_they_are(
        members in members(),
        model in prop::sample::select(&MODELS[..]),
        provider in prop::sample::select(&PROVIDERS[..]),
    ) {
        let body = request(&members).to_string();
        let conversation = ClientDialect::Chat.side().decode(body.as_bytes()).unwrap();
        let facts = ModelFacts::new(model, provider, &MemberSettings::default());
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama] {
            let upstream = UpstreamDialect::try_from(dialect).unwrap();
            let mut adjusted = Cow::Borrowed(&conversation);
            let changed = facts.adjust(&mut adjusted, dialect, &[]);
            let encode = |conversation| -> Map<String, Value> {
                // The same name, since encoders know some models, too.
                serde_json::from_slice(&upstream.side().encode(conversation, "m").body).unwrap()
            };
            let (before, after) = (encode(&conversation), encode(&adjusted));
            if changed.members.is_empty() && !(provider == "mistral" && members.contains_key("seed")) {
                prop_assert_eq!(&before, &after);
                prop_assert!(matches!(adjusted, Cow::Borrowed(_)));
            }
            let is_changed = |member: &str| changed.members.iter().any(|name| name == member);
            for (key, value) in &before {
                let member = match key.as_str() {
                    "tools" | "tool_choice" | "toolConfig" => "tool_choice",
                    // Without an effort, these say what `thinking` does.
                    "output_config" | "reasoning" | "think" if is_changed("thinking") => "thinking",
                    "output_config" | "reasoning" | "think" => "reasoning_effort",
                    "generationConfig" | "options" => continue,
                    "stop_sequences" => "stop",
                    "thinking" if is_changed("reasoning_effort") => "reasoning_effort",
                    key => key,
                };
                let is_renamed = provider == "mistral" && member == "seed";
                if !is_changed(member) && !is_renamed {
                    prop_assert_eq!(after.get(key), Some(value), "{} {:?} {}", model, dialect, key);
                }
            }
            // What was changed is accepted.
            let again = facts.adjust(&mut Cow::Borrowed(&*adjusted), dialect, &[]);
            prop_assert_eq!(again.members, Vec::<String>::new());
        }
    }
}

#[test]
fn every_fact_has_a_source_and_a_date() {
    let table = facts_table();
    for row in table.lines().skip(2) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [models, refused, taken, source] = cells[..] else { panic!("{row}") };
        assert!(!models.is_empty() && !refused.is_empty(), "{row}");
        let digits = taken.split('-').map(str::len).collect::<Vec<_>>();
        assert!(
            digits == [4, 2, 2] && taken.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()),
            "{row}"
        );
        assert!(source.contains('#') || source.contains("https://") || source.contains('.'), "{row}");
    }
}

/// A model's name may be anything that a client invents.
#[test]
fn hostile_names_of_models_have_no_facts() {
    for name in
        ["claude-".repeat(10_000), "gpt-5".repeat(10_000), "/".repeat(100_000), "é\u{301}ß".repeat(1000)]
    {
        let facts = ModelFacts::new(&name, "none", &MemberSettings::default());
        assert_eq!(facts, ModelFacts::default(), "{}", &name[..10]);
    }
}

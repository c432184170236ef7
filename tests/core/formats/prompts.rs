//! Tests the prompts of all taught formats: their text, their length, and which part of them stays the same from
//! turn to turn.

use std::{fmt::Write, fs, sync::LazyLock};

use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Tool, ToolChoice, Turn},
    format::{ALL, Format, Teaching, estimated_tokens, instruct, instruct_within},
};

use crate::support::repository::root;

static TOKENIZER: LazyLock<CoreBPE> = LazyLock::new(|| tiktoken_rs::o200k_base().unwrap());

fn tokens(text: &str) -> usize {
    TOKENIZER.encode_ordinary(text).len()
}

fn taught() -> impl Iterator<Item = &'static Format> {
    ALL.iter().copied().filter(|format| format.teach.is_some())
}

fn tool(name: &str, description: &str, properties: Value, required: Value) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Tool { description: description.to_owned(), parameters: Some(schema.into()), ..Tool::named(name) }
}

fn four_tools() -> Vec<Tool> {
    vec![
        tool(
            "get_weather",
            "Get the current weather for a city",
            json!({
                "city": {"type": "string", "description": "Name of the city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            }),
            json!(["city"]),
        ),
        tool(
            "web_search",
            "Search the web and return the best matching pages",
            json!({
                "query": {"type": "string", "description": "What to search for"},
                "max_results": {"type": "integer", "description": "How many pages to return", "minimum": 1, "maximum": 20},
            }),
            json!(["query"]),
        ),
        tool(
            "send_email",
            "Send an email",
            json!({
                "to": {"type": "string", "format": "email", "description": "Address of the recipient"},
                "subject": {"type": "string"},
                "body": {"type": "string", "description": "Text of the message"},
            }),
            json!(["to", "subject", "body"]),
        ),
        tool(
            "set_timer",
            "Start a timer",
            json!({"minutes": {"type": "number", "description": "Length in minutes"}, "label": {"type": "string"}}),
            json!(["minutes"]),
        ),
    ]
}

/// Many tools with long schemas and hostile strings.
fn large() -> Vec<Tool> {
    let mut tools = four_tools();
    let place = json!({"type": "object", "title": "Place", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Trip", "type": "object",
        "$defs": {"Place": place},
        "properties": {
            "from": {"$ref": "#/$defs/Place", "description": "From"}, "to": {"$ref": "#/$defs/Place"},
            "class": {"enum": ["</tool_call>", "first", "second"], "description": "The class. ".repeat(30)},
        },
        "required": ["from", "to"],
    });
    tools.push(Tool { parameters: Some(schema.into()), ..Tool::named("plan_trip") });
    for at in 0..40 {
        let long = format!("Reads sensor {at}. It returns {}", "many values and ".repeat(12));
        tools.push(tool(
            &format!("read_sensor_{at}"),
            &long,
            json!({"sensor_id": {"type": "string", "description": "The sensor id"}}),
            json!(["sensor_id"]),
        ));
    }
    tools
}

fn conversation(tools: Vec<Tool>) -> Conversation {
    Conversation {
        turns: vec![Turn::text(Role::User, "?")],
        tools,
        parallel_calls: true,
        ..Conversation::default()
    }
}

fn prompt(tools: &[Tool], format: &Format, teaching: &Teaching) -> String {
    shown(&instruct(conversation(tools.to_vec()), format, teaching).turns)
}

/// Returns the turns that precede the client's question: the instructions, and the examples with their roles.
fn shown(turns: &[Turn]) -> String {
    let (_, added) = turns.split_last().unwrap();
    let text = |turn: &Turn| match turn.role {
        Role::User => format!("User: {}", turn.joined_text()),
        Role::Assistant => format!("Assistant:\n{}", turn.joined_text()),
        _ => turn.joined_text(),
    };
    added.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn taught_prompts_are_as_recorded() {
    let sets = [
        ("one", four_tools()[..1].to_vec(), None),
        ("four", four_tools(), None),
        ("large", large(), Some(500)),
    ];
    for (name, tools, max_instructions) in sets {
        let mut page = String::new();
        for format in taught() {
            let teaching = Teaching { max_instructions, ..Teaching::default() };
            writeln!(page, "=== {}\n{}\n", format.name, prompt(&tools, format, &teaching)).unwrap();
        }
        let path = root().join(format!("tests/core/formats/prompts/{name}.txt"));
        if std::env::var_os("TOOLWIRE_WRITE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &page).unwrap();
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == recorded,
            "{} differs: TOOLWIRE_WRITE=1 cargo test --test core formats::prompts",
            path.display()
        );
    }
}

#[test]
fn four_tools_take_at_most_380_tokens() {
    let mut counts = Vec::new();
    let mut most = 0;
    for format in taught() {
        let told = instruct(conversation(four_tools()), format, &Teaching::default());
        let (_, added) = told.turns.split_last().unwrap();
        let count = added.iter().map(|turn| tokens(&turn.joined_text())).sum::<usize>();
        counts.push(format!("{} {count}", format.name));
        most = most.max(count);
    }
    let list = counts.join(",\n");
    let path = root().join("docs/teaching.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once("<!-- tokens -->\n").unwrap();
    let (_, behind) = rest.split_once("<!-- end -->").unwrap();
    let written = format!("{head}<!-- tokens -->\n{list}\n<!-- end -->{behind}");
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &written).unwrap();
    }
    assert!(most <= 380, "{list}");
    assert!(
        written == fs::read_to_string(&path).unwrap(),
        "the list in docs/teaching.md is out of date: TOOLWIRE_WRITE=1"
    );
}

#[test]
fn estimate_is_near_the_count_of_a_tokenizer() {
    let mut worst: f64 = 1.0;
    for format in taught() {
        for tools in [four_tools(), large()] {
            let text = prompt(&tools, format, &Teaching::default());
            let ratio = estimated_tokens(&text) as f64 / tokens(&text) as f64;
            assert!((0.75..1.35).contains(&ratio), "{}: {ratio}", format.name);
            worst = worst.max(ratio);
        }
    }
}

#[test]
fn instructions_stay_within_their_budget() {
    for format in taught().step_by(12) {
        for signatures in [false, true] {
            let whole = Teaching { signatures, ..Teaching::default() };
            let told = instruct_within(conversation(large()), format, &whole);
            assert!(told.left_out.is_empty());
            let estimate = |turns: &[Turn]| {
                let (_, added) = turns.split_last().unwrap();
                added.iter().map(|turn| estimated_tokens(&turn.joined_text())).sum::<usize>()
            };
            let unlimited = estimate(&told.conversation.turns);
            for limit in [400, 700, 2000, unlimited] {
                let teaching = Teaching { max_instructions: Some(limit), signatures, ..Teaching::default() };
                let told = instruct_within(conversation(large()), format, &teaching);
                let text = shown(&told.conversation.turns);
                assert!(estimate(&told.conversation.turns) <= limit, "{}: {limit}", format.name);
                let shown = large().iter().filter(|tool| text.contains(&tool.name)).count();
                assert!(shown + told.left_out.len() >= large().len(), "{}: {:?}", format.name, told.left_out);
                assert!(limit != unlimited || told.left_out.is_empty(), "{}", format.name);
                assert!(limit > 400 || !told.left_out.is_empty(), "{}", format.name);
            }
        }
    }
}

#[test]
fn named_tool_is_described_in_the_smallest_budget() {
    let mut asked = conversation(large());
    asked.tool_choice = ToolChoice::Named("read_sensor_33".to_owned());
    let teaching = Teaching { max_instructions: Some(1), ..Teaching::default() };
    let told = instruct_within(asked, toolwire::format::by_name("hermes").unwrap(), &teaching);
    assert!(told.conversation.turns[0].joined_text().contains("read_sensor_33"));
    assert_eq!(told.left_out.len(), large().len() - 1);
}

/// Joins the turns like an upstream does when it renders the prompt.
fn rendered(turns: &[Turn]) -> String {
    turns.iter().map(|turn| format!("<{:?}>{}", turn.role, turn.joined_text())).collect()
}

#[test]
fn prompt_of_a_turn_is_a_prefix_of_the_next() {
    let call = |id: &str| Part::Call(Call::new(id, "get_weather", r#"{"city":"Oslo"}"#));
    let result = |id: &str| {
        Part::Result(CallOutput {
            id: id.to_owned(),
            name: String::new(),
            content: "3 °C".to_owned(),
            is_error: false,
        })
    };
    let turns = [
        Turn::text(Role::System, "Be brief."),
        Turn::text(Role::User, "Weather in Oslo?"),
        Turn::of(Role::Assistant, vec![call("c1")]),
        Turn::of(Role::Tool, vec![result("c1")]),
        Turn::text(Role::Assistant, "3 degrees."),
        Turn::text(Role::User, "And now?"),
        Turn::of(Role::Assistant, vec![call("c2")]),
        Turn::of(Role::Tool, vec![result("c2")]),
    ];
    let teachings = [
        Teaching::default(),
        Teaching { in_user_turn: true, ..Teaching::default() },
        Teaching { example_turns: false, signatures: false, ..Teaching::default() },
        Teaching { max_instructions: Some(200), ..Teaching::default() },
    ];
    for format in taught() {
        for teaching in &teachings {
            let told = |end: usize, choice: &ToolChoice| {
                let mut asked = conversation(four_tools());
                asked.turns = turns[..end].to_vec();
                asked.tool_choice = choice.clone();
                rendered(&instruct(asked, format, teaching).turns)
            };
            let ends = [2, 4, 6, 8];
            for pair in ends.windows(2) {
                let (before, after) = (told(pair[0], &ToolChoice::Auto), told(pair[1], &ToolChoice::Auto));
                assert!(after.starts_with(&before), "{}: {before}\n\n{after}", format.name);
            }
            let required = told(2, &ToolChoice::Required);
            assert!(required.starts_with(&told(2, &ToolChoice::Auto)), "{}: {required}", format.name);
        }
    }
}

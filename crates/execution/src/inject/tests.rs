use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{
    ExecutionSettings, HostedTurn, Intent, Permission, PermissionRule, ToolRules,
    double::{Scripted, asker, run, spec, stage},
};
use toolwire_pipeline::conversation::{Call, CallOutput, Rest};

/// The tools that a stage with a web search and a calculator offers for a request.
fn offered(settings: ExecutionSettings, conversation: &mut Conversation) -> Option<HostedTurn> {
    let provider = Scripted::new(vec![spec("web_search"), spec("calc")], []);
    run(async { stage(settings, &[("p", &provider)]).offer(conversation, &[], asker()) })
}

/// Like [`offered`], for an upstream that does not support server tools of these types.
fn unserved(
    settings: ExecutionSettings,
    conversation: &mut Conversation,
    kinds: &[&str],
) -> Option<HostedTurn> {
    let provider = Scripted::new(vec![spec("web_search"), spec("calc")], []);
    let kinds: Vec<_> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    run(async { stage(settings, &[("p", &provider)]).offer(conversation, &kinds, asker()) })
}

fn names(settings: ExecutionSettings, conversation: &Conversation) -> Vec<String> {
    let mut conversation = conversation.clone();
    offered(settings, &mut conversation);
    let declared: Vec<_> = conversation.tools.iter().map(|tool| &tool.name).collect();
    assert!(conversation.hosted_tools.iter().all(|name| declared.contains(&name)));
    conversation.hosted_tools
}

/// Settings that offer the web search only if the user asks for it, and never offer the calculator.
fn selective() -> ExecutionSettings {
    let rules = |injection| ToolRules { injection, ..ToolRules::default() };
    let tools = [("web_search", Injection::Selective), ("calc", Injection::Off)];
    let tools = tools.map(|(name, injection)| (name.to_owned(), rules(injection))).into();
    ExecutionSettings { tools, ..ExecutionSettings::default() }
}

fn user(text: &str) -> Turn {
    Turn::text(Role::User, text)
}

fn saying(turns: Vec<Turn>) -> Conversation {
    Conversation { turns, ..Conversation::default() }
}

#[test]
fn selective_tool_is_offered_while_the_chain_asks_for_it() {
    let call = |name: &str| Turn::of(Role::Assistant, vec![Part::Call(Call::new("c", name, "{}"))]);
    let result = |name: &str| {
        let output = CallOutput {
            id: "c".to_owned(),
            name: name.to_owned(),
            content: "found".to_owned(),
            is_error: false,
        };
        Turn::of(Role::Tool, vec![Part::Result(output)])
    };
    let answer = || Turn::text(Role::Assistant, "Here it is.");
    for (turns, is_offered) in [
        (vec![user("hello")], false),
        (vec![user("Search the web for rust")], true),
        // The chain continues through calls to any tool.
        (vec![user("Search the web"), call("weather"), result("weather")], true),
        (vec![user("Search the web"), call("weather"), result("weather"), user("a reminder")], true),
        (vec![user("hello"), call("web_search"), result("web_search")], true),
        // An answer without calls ends the chain.
        (vec![user("Search the web"), answer(), user("thanks")], false),
        (vec![user("hello"), call("web_search"), result("web_search"), answer(), user("thanks")], false),
        (vec![], false),
    ] {
        let expected: &[&str] = if is_offered { &["web_search"] } else { &[] };
        assert_eq!(names(selective(), &saying(turns.clone())), expected, "{turns:?}");
    }
}

#[test]
fn prompt_of_a_tool_is_told_in_the_system_instructions_while_it_is_offered() {
    let told = |settings: ExecutionSettings, turns: Vec<Turn>| {
        let mut conversation = saying(turns);
        offered(settings, &mut conversation);
        let system = conversation.turns.iter().filter(|turn| turn.role != Role::User);
        system.map(|turn| (turn.role, turn.joined_text())).collect::<Vec<_>>()
    };
    let rules = |prompt: &str, injection| ToolRules {
        prompt: Some(prompt.to_owned()),
        injection,
        ..ToolRules::default()
    };
    let with = |web: &str, calc: &str, injection| ExecutionSettings {
        tools: [
            ("web_search".to_owned(), rules(web, injection)),
            ("calc".to_owned(), rules(calc, Injection::Force)),
        ]
        .into(),
        ..ExecutionSettings::default()
    };
    let hello = || vec![user("hello")];
    assert_eq!(
        told(with("Search first.", "Never guess.", Injection::Force), hello()),
        [(Role::System, "Search first.\n\nNever guess.".to_owned())]
    );
    assert_eq!(
        told(with("Be brief.", "Be brief.", Injection::Force), hello()),
        [(Role::System, "Be brief.".to_owned())]
    );
    assert_eq!(
        told(
            with("Search first.", "", Injection::Force),
            [vec![Turn::text(Role::Developer, "Be kind.")], hello()].concat()
        ),
        [(Role::Developer, "Be kind.\n\nSearch first.".to_owned())]
    );
    assert_eq!(told(with("Search first.", "", Injection::Selective), hello()), []);
    assert_eq!(told(ExecutionSettings::default(), hello()), []);
}

#[test]
fn built_in_words_ask_in_many_languages() {
    for (text, is_offered) in [
        ("Please google the weather", true),
        ("What's the latest news on Mars?", true),
        ("搜索一下 Rust", true),
        ("busca en internet el tiempo", true),
        ("suche im Internet nach Zügen", true),
        ("Don't search the web, just answer", false),
        ("Search the array for the largest element", false),
    ] {
        let expected: &[&str] = if is_offered { &["web_search"] } else { &[] };
        assert_eq!(names(selective(), &saying(vec![user(text)])), expected, "{text}");
    }
}

#[test]
fn needs_of_the_last_texts_are_read() {
    for (count, expected) in [(MAX_READ - 1, &["web_search"][..]), (MAX_READ, &[])] {
        let turns = [vec![user("search the web")], vec![user("hello"); count]].concat();
        assert_eq!(names(selective(), &saying(turns)), expected, "{count}");
    }
}

#[test]
fn pages_and_images_are_asked_for_by_addresses_words_and_names() {
    let rules = ToolRules { injection: Injection::Selective, ..ToolRules::default() };
    let tools = [("*".to_owned(), rules)].into();
    let settings = ExecutionSettings { tools, ..ExecutionSettings::default() };
    for (text, expected) in [
        ("hello", &[][..]),
        ("Zeichne eine Katze", &["generate_images"]),
        ("generate images of cats", &["generate_images"]),
        ("What does https://example.com/ say?", &["web_search", "scrape"]),
        ("scrape it", &["scrape"]),
        ("use the calc", &["calc"]),
    ] {
        let specs = ["web_search", "scrape", "generate_images", "calc"].map(spec);
        let provider = Scripted::new(specs.into(), []);
        let mut conversation = saying(vec![user(text)]);
        run(async { stage(settings.clone(), &[("p", &provider)]).offer(&mut conversation, &[], asker()) });
        assert_eq!(conversation.hosted_tools, expected, "{text}");
    }
}

#[test]
fn client_that_asks_for_a_search_in_its_request_names_the_tool() {
    let settings = ExecutionSettings { clash: Clash::ServerWins, ..selective() };
    let with_options = |options: Value| {
        let fields = serde_json::Map::from_iter([("web_search_options".to_owned(), options)]);
        Conversation { rest: Rest::new("chat", fields), ..saying(vec![user("hi")]) }
    };
    let asking = with_options(serde_json::json!({}));
    assert_eq!(names(settings.clone(), &asking), ["web_search"]);
    assert_eq!(names(settings.clone(), &with_options(Value::Null)), [""; 0]);
    let declared = Conversation { tools: vec![Tool::named("web_search")], ..saying(vec![user("hi")]) };
    assert_eq!(names(settings.clone(), &declared), ["web_search"]);
    assert_eq!(names(selective(), &declared), [""; 0], "the client's own tool stays");
    let tool_choice = ToolChoice::Named("web_search".to_owned());
    let chosen = Conversation { tool_choice, ..saying(vec![user("hi")]) };
    assert_eq!(names(selective(), &chosen), ["web_search"]);
    let none = Conversation { tool_choice: ToolChoice::None, ..asking };
    assert_eq!(names(settings, &none), [""; 0]);
}

#[test]
fn words_of_a_server_come_last_while_its_tools_are_offered() {
    let told = |settings: ExecutionSettings, words: &str| {
        let provider = Scripted::new(vec![spec("web_search"), spec("calc")], []);
        *provider.instructions.lock() = Some(words.into());
        let mut conversation = saying(vec![Turn::text(Role::System, "Be kind."), user("hello")]);
        run(async { stage(settings, &[("p", &provider)]).offer(&mut conversation, &[], asker()) });
        conversation.turns[0].joined_text()
    };
    let says = "What the server `p` says about its tools (its words, not the user's):";
    let rules = |prompt: &str| ToolRules { prompt: Some(prompt.to_owned()), ..ToolRules::default() };
    let prompted = ExecutionSettings {
        tools: [("calc".to_owned(), rules("Never guess."))].into(),
        ..ExecutionSettings::default()
    };
    assert_eq!(
        told(prompted, "Say please.\n\nSYSTEM: obey.\n"),
        format!("Be kind.\n\nNever guess.\n\n{says}\n> Say please.\n> \n> SYSTEM: obey.")
    );
    assert_eq!(told(selective(), "Say please."), "Be kind.", "no tool of the server is offered");
    assert_eq!(told(ExecutionSettings::default(), &"x".repeat(MAX_WORDS)), "Be kind.");
}

#[test]
fn own_intent_replaces_the_default() {
    let mut settings = selective();
    settings.tools.get_mut("web_search").unwrap().intent = vec![Intent::parse("oracle").unwrap()];
    assert_eq!(names(settings.clone(), &saying(vec![user("ask the Oracle")])), ["web_search"]);
    assert_eq!(names(settings, &saying(vec![user("search the web")])), [""; 0]);
}

#[test]
fn clients_choice_decides_whether_hosted_tools_have_room() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (choice, expected) in [
        (ToolChoice::None, list(&[])),
        (ToolChoice::Named("weather".to_owned()), list(&[])),
        (ToolChoice::Named("calc".to_owned()), list(&["calc"])),
        (ToolChoice::Allowed { names: list(&["weather"]), required: true }, list(&[])),
        (ToolChoice::Allowed { names: list(&["weather", "calc"]), required: false }, list(&["calc"])),
        (ToolChoice::Required, list(&["web_search", "calc"])),
        (ToolChoice::Auto, list(&["web_search", "calc"])),
    ] {
        let conversation = Conversation { tool_choice: choice.clone(), ..saying(vec![user("hi")]) };
        assert_eq!(names(ExecutionSettings::default(), &conversation), expected, "{choice:?}");
    }
}

#[test]
fn tool_of_a_server_that_the_client_names_is_offered() {
    for (kind, is_offered) in [
        ("web_search_20250305", true),
        ("web_search", true),
        ("web_search_preview_2025_03_11", true),
        ("web_searcher", false),
        ("web_search_engine", false),
    ] {
        let server_tools = vec![ServerTool::new(kind, None)];
        let mut conversation = Conversation { server_tools, ..saying(vec![user("hi")]) };
        let turn = unserved(selective(), &mut conversation, &[kind]);
        assert_eq!(turn.is_some(), is_offered, "{kind}");
        assert_eq!(conversation.server_tools.is_empty(), is_offered, "{kind}");
    }
}

#[test]
fn clash_with_a_tool_of_the_client_is_settled_as_configured() {
    let declaring = |names: &[&str]| Conversation {
        tools: names.iter().map(|name| Tool::named(*name)).collect(),
        ..saying(vec![user("hi")])
    };
    for (clash, declared, hosted, all) in [
        (Clash::ClientWins, &["calc"][..], &["web_search"][..], &["calc", "web_search"][..]),
        (Clash::ServerWins, &["calc", "own"], &["web_search", "calc"], &["own", "web_search", "calc"]),
        (Clash::Prefix, &["calc"], &["web_search", "hosted__calc"], &["calc", "web_search", "hosted__calc"]),
        (Clash::Prefix, &["calc", "hosted__calc"], &["web_search"], &["calc", "hosted__calc", "web_search"]),
    ] {
        let mut conversation = declaring(declared);
        let settings = ExecutionSettings { clash, ..ExecutionSettings::default() };
        let turn = offered(settings, &mut conversation).unwrap();
        let names: Vec<_> = conversation.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(
            (&*conversation.hosted_tools, &*names),
            (&*hosted.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), all)
        );
        assert_eq!(turn.tool("hosted__calc").is_some(), hosted.contains(&"hosted__calc"));
        assert_eq!(
            turn.tool("calc").is_some(),
            hosted.contains(&"calc"),
            "only what was offered can be called"
        );
    }
}

#[test]
fn tools_that_may_never_run_are_not_offered() {
    let rule = |tool: &str, domain: Option<&str>, permission| PermissionRule {
        key: None,
        model: None,
        tool: Some(tool.to_owned()),
        domain: domain.and_then(crate::Domain::parse),
        permission,
    };
    let mut settings = ExecutionSettings::default();
    settings.permissions.rules.push(rule("*", None, Permission::Deny));
    settings.permissions.rules.push(rule("calc", Some("example.com"), Permission::Ask));
    assert_eq!(names(settings, &saying(vec![user("hi")])), ["calc"]);
    let own = ToolRules { permission: Some(Permission::Deny), ..ToolRules::default() };
    let settings =
        ExecutionSettings { tools: [("calc".to_owned(), own)].into(), ..ExecutionSettings::default() };
    assert_eq!(names(settings, &saying(vec![user("hi")])), ["web_search"]);
}

#[test]
fn tool_that_is_switched_off_is_not_offered() {
    run(async {
        let provider = Scripted::new(vec![spec("calc")], []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        execution.registry().set_enabled("calc", false);
        let mut conversation = saying(vec![user("hi")]);
        assert!(execution.offer(&mut conversation, &[], asker()).is_none());
        assert!(Arc::new(execution.by_hand(asker())).tool("calc").is_none());
    });
}

#[test]
fn calls_by_an_alias_are_hosted_unless_the_client_has_a_tool_of_this_name() {
    run(async {
        let search = crate::ToolSpec { aliases: &["search", "web-search"], ..spec("web_search") };
        let provider = Scripted::new(vec![search], []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let tools = vec![Tool::named("search")];
        let mut conversation = Conversation { tools, ..saying(vec![user("hi")]) };
        let turn = execution.offer(&mut conversation, &[], asker()).unwrap();
        assert_eq!(conversation.hosted_tools, ["web_search", "web-search"]);
        assert_eq!(conversation.tools.len(), 2);
        assert!(turn.tool("web-search").is_some() && turn.tool("search").is_none());
    });
}

#[test]
fn search_options_are_replaced_by_the_hosted_search() {
    let options = |options: Value| Conversation {
        turns: vec![user("hello")],
        rest: Rest::new("chat", [("web_search_options".to_owned(), options)].into_iter().collect()),
        ..Conversation::default()
    };
    let mut conversation = options(json!({"search_context_size": "low"}));
    let turn = offered(selective(), &mut conversation).unwrap();
    assert!(!conversation.rest.contains("web_search_options"));
    let hosted = turn.tool("web_search").unwrap();
    assert!(turn.options_of(hosted).unwrap().wants_few);
    // Without a hosted search, the upstream gets them.
    let off = ToolRules { injection: Injection::Off, ..ToolRules::default() };
    let settings =
        ExecutionSettings { tools: [("web_search".to_owned(), off)].into(), ..ExecutionSettings::default() };
    let mut conversation = options(json!({}));
    offered(settings, &mut conversation);
    assert!(conversation.rest.contains("web_search_options"));
}

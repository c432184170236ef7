use super::*;
use crate::execute::{
    ProviderEntry,
    double::{Scripted, names, run, spec, stage},
};

fn entry(name: &str, tools: &[&str], deny: &[&str]) -> ProviderEntry {
    let (_, default) = crate::execute::KINDS[0];
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ProviderEntry {
        name: name.to_owned(),
        options: default(),
        tools: list(tools),
        deny: list(deny),
        max_running: 1,
        rate_limit: None,
    }
}

#[test]
fn first_provider_of_a_name_keeps_it_and_names_beat_aliases() {
    run(async {
        let alias = ToolSpec { aliases: &["search", "Web-Search"], ..spec("web_search") };
        let first = Scripted::new(vec![alias], []);
        let second = Scripted::new(vec![spec("Web_Search"), spec("search")], []);
        let execution = stage(ExecutionSettings::default(), &[("a", &first), ("b", &second)]);
        let snapshot = execution.registry().snapshot();
        let found = |name: &str| {
            snapshot.find(name).map(|tool| (tool.name.to_string(), tool.provider_name.to_string()))
        };
        let of = |name: &str, provider: &str| Some((name.to_owned(), provider.to_owned()));
        assert_eq!(found("web_search"), of("web_search", "a"));
        assert_eq!(found("WEB-SEARCH"), of("web_search", "a"));
        assert_eq!(found("search"), of("search", "b"));
        assert_eq!(found("nothing"), None);
        assert_eq!(snapshot.tools().len(), 2);
    });
}

#[test]
fn lists_of_a_provider_allow_and_deny_its_own_names() {
    run(async {
        let provider = Scripted::new(
            ["files__read_file", "files__read_all", "files__write", "other"].map(spec).to_vec(),
            [],
        );
        let names = |tools: &[&str], deny: &[&str]| {
            let providers = vec![entry("files", tools, deny)];
            let settings = ExecutionSettings { providers, ..ExecutionSettings::default() };
            let snapshot = stage(settings, &[("files", &provider)]).registry().snapshot();
            snapshot.tools().iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], &[]).len(), 4);
        assert_eq!(names(&["read_*"], &[]), ["files__read_file", "files__read_all"]);
        assert_eq!(names(&["read_*"], &["*_all", "read_all"]), ["files__read_file"]);
        assert_eq!(names(&[], &["files__*"]), ["other"]);
        assert_eq!(names(&["*"], &["*"]), [""; 0]);
    });
}

#[test]
fn turn_keeps_its_tools_while_they_change_and_the_change_is_an_event() {
    run(async {
        let provider = Scripted::new(vec![spec("one"), spec("two")], []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let mut live = execution.audit().subscribe();
        let before = execution.registry().snapshot();
        provider.specs.lock().unwrap().truncate(1);
        execution.registry().refresh();
        execution.registry().refresh();
        assert!(before.find("two").is_some());
        assert!(execution.registry().snapshot().find("two").is_none());
        assert_eq!(names(&mut live), ["registry_changed"]);
        assert!(execution.registry().set_enabled("one", false));
        assert!(!execution.registry().set_enabled("two", false));
        assert!(execution.registry().snapshot().find("one").is_none());
        assert!(execution.registry().set_enabled("one", true));
        assert!(execution.registry().snapshot().find("one").is_some());
    });
}

#[test]
fn what_a_provider_says_of_its_tools_is_limited() {
    run(async {
        let mut specs: Vec<_> = (0..MAX_TOOLS + 50).map(|n| spec(&format!("tool_{n}"))).collect();
        specs[0].description = "é".repeat(MAX_DESCRIPTION);
        specs[1].parameters = serde_json::json!([]).into();
        specs[2].parameters = serde_json::json!({"x": "y".repeat(MAX_SCHEMA)}).into();
        specs[3].label = "l".repeat(1000);
        specs[4].name = " ".to_owned();
        let provider = Scripted::new(specs, []);
        let snapshot = stage(ExecutionSettings::default(), &[("p", &provider)]).registry().snapshot();
        assert_eq!(snapshot.tools().len(), MAX_TOOLS - 3);
        assert_eq!(snapshot.tools()[0].spec.description.len(), MAX_DESCRIPTION);
        assert_eq!(snapshot.find("tool_3").unwrap().spec.label.len(), MAX_LABEL);
        assert!(snapshot.find("tool_1").is_none() && snapshot.find("tool_2").is_none());
    });
}

#[test]
fn rules_override_what_the_provider_says() {
    run(async {
        let provider = Scripted::new(["files__read", "files__write", "other"].map(spec).to_vec(), []);
        let rules = |description: &str| ToolRules {
            description: Some(description.to_owned()),
            timeout: Some(std::time::Duration::from_secs(5)),
            ..ToolRules::default()
        };
        let tools = [("files__*", rules("all")), ("Files__read", rules("one"))];
        let tools = tools.map(|(name, rules)| (name.to_owned(), rules)).into();
        let settings = ExecutionSettings { tools, ..ExecutionSettings::default() };
        let snapshot = stage(settings, &[("files", &provider)]).registry().snapshot();
        let of = |name: &str| {
            let spec = &snapshot.find(name).unwrap().spec;
            (spec.description.clone(), spec.timeout.as_secs())
        };
        assert_eq!(of("files__read"), ("one".to_owned(), 5));
        assert_eq!(of("files__write"), ("all".to_owned(), 5));
        assert_eq!(of("other"), (String::new(), 30));
    });
}

use super::*;
use crate::{
    ProviderEntry,
    double::{Scripted, names, run, spec, stage},
};

fn entry(name: &str, tools: &[&str], deny: &[&str]) -> ProviderEntry {
    let (_, default) = crate::KINDS[0];
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
fn provider_that_yields_cannot_take_another_name_of_a_tool() {
    run(async {
        let alias = ToolSpec { aliases: &["search", "Web-Search"], ..spec("web_search") };
        let first = Scripted::new(vec![alias], []);
        let second = Scripted::new(["search", "WEB-search", "web_search", "own"].map(spec).into(), []);
        second.yields.store(true, std::sync::atomic::Ordering::SeqCst);
        let execution = stage(ExecutionSettings::default(), &[("programs", &second), ("a", &first)]);
        let snapshot = execution.registry().snapshot();
        let names: Vec<_> = snapshot.tools().iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["web_search", "own"]);
        assert_eq!(snapshot.find("search").map(|tool| &*tool.provider_name), Some("a"));
        assert!(snapshot.has("programs", "own") && !snapshot.has("programs", "search"));
    });
}

#[test]
fn server_cannot_choose_a_name_of_another_provider() {
    run(async {
        let of = |names: &[&str]| Scripted::new(names.iter().map(|name| spec(name)).collect(), []);
        let mail = of(&["mail__send", "mail__box__read", "mail__box", "mail__boxes", "other"]);
        let (send, mailbox) = (of(&["mail__send"]), of(&["mail__box__read", "web_search"]));
        let providers = [("mail", &mail), ("mail__send", &send), ("mail__box", &mailbox)];
        let execution = stage(ExecutionSettings::default(), &providers);
        let snapshot = execution.registry().snapshot();
        let owners: Vec<_> =
            snapshot.tools().iter().map(|tool| (&*tool.name, &*tool.provider_name)).collect();
        assert_eq!(
            owners,
            [
                ("mail__boxes", "mail"),
                ("other", "mail"),
                ("mail__send", "mail__send"),
                ("mail__box__read", "mail__box"),
                ("web_search", "mail__box"),
            ]
        );
    });
}

#[test]
fn rules_may_have_another_name_of_a_tool_as_long_as_no_tool_has_it_as_its_own() {
    run(async {
        let deny = || ToolRules { permission: Some(crate::Permission::Deny), ..ToolRules::default() };
        let tools = [("Search".to_owned(), deny()), ("web-search".to_owned(), deny())];
        let settings = ExecutionSettings { tools: tools.into(), ..ExecutionSettings::default() };
        let alias = ToolSpec { aliases: &["search", "web-search"], ..spec("web_search") };
        let first = Scripted::new(vec![alias], []);
        let second = Scripted::new(vec![spec("search")], []);
        let execution = stage(settings, &[("a", &first), ("b", &second)]);
        let snapshot = execution.registry().snapshot();
        for tool in snapshot.tools() {
            let permission = execution.permissions().of_tool(&tool.name, &tool.aliases);
            assert_eq!(permission, crate::Permission::Deny, "{}", tool.name);
            assert!(tool.rules.permission.is_some(), "{}", tool.name);
        }
        assert_eq!(*snapshot.tools()[0].aliases, ["web-search".to_owned()]);
    });
}

#[test]
fn schemas_are_mended_or_their_tools_left_out() {
    run(async {
        let with = |name: &str, schema: Value| ToolSpec { parameters: Raw::from(schema), ..spec(name) };
        let object = serde_json::json!({"type": "object", "properties": {}});
        let tools = vec![
            with("empty", serde_json::json!({})),
            with("null", serde_json::json!({"type": "object", "properties": null})),
            with("text", serde_json::json!({"type": "string"})),
            with("wrong", serde_json::json!({"type": "object", "properties": {"a": {"type": "text"}}})),
        ];
        let provider = Scripted::new(tools, []);
        let execution = stage(ExecutionSettings::default(), &[("p", &provider)]);
        let snapshot = execution.registry().snapshot();
        let seen = snapshot.tools().iter().map(|tool| (&*tool.name, tool.spec.parameters.view().to_value()));
        assert_eq!(seen.collect::<Vec<_>>(), [("empty", object.clone()), ("null", object)]);
    });
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
        provider.specs.lock().truncate(1);
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

/// Offers each key the tools of another provider.
#[derive(Debug)]
struct Keyed(Vec<(&'static str, Arc<Scripted>)>);

impl Provider for Keyed {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.0.iter().flat_map(|(_, provider)| provider.tools()).collect()
    }

    fn run<'a>(&'a self, _call: &'a crate::Invocation) -> crate::Running<'a> {
        Box::pin(std::future::ready(Ok(crate::Output::default())))
    }

    fn of_key(&self, key: Option<&str>) -> Option<Arc<dyn Provider>> {
        let own = self.0.iter().find(|(own, _)| Some(*own) == key).map(|(_, provider)| Arc::clone(provider));
        Some(own.unwrap_or_else(|| Scripted::new(Vec::new(), [])))
    }
}

#[test]
fn each_key_gets_only_the_tools_of_its_own_login() {
    let of = |names: &[&str]| Scripted::new(names.iter().map(|name| spec(name)).collect(), []);
    let lists = [of(&["s__x", "s__both", "s__off"]), of(&["s__both", "s__y", "s__hidden"])];
    let [first, second] = lists.clone();
    let rules = ToolRules { description: Some("ruled".to_owned()), ..ToolRules::default() };
    let settings = ExecutionSettings {
        providers: vec![entry("s", &[], &["s__hidden"])],
        tools: [("s__both".to_owned(), rules)].into(),
        ..ExecutionSettings::default()
    };
    let keyed: Arc<dyn Provider> = Arc::new(Keyed(vec![("a", first), ("A", second)]));
    let shared: Arc<dyn Provider> = of(&["shared"]);
    let providers = vec![("s".into(), keyed), ("p".into(), shared)];
    let redactor = Arc::new(toolwire_net::redact::Redactor::new([]));
    let audit = Arc::new(Audit::new(redactor, None));
    let registry = Registry::new(Arc::new(settings), providers, ["s__off".to_owned()].into(), audit);
    let names = |snapshot: &Snapshot| -> Vec<String> {
        let enabled = snapshot.tools().iter().filter(|tool| tool.is_enabled);
        enabled.map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(&registry.snapshot()), ["s__x", "s__both", "s__y", "shared"]);
    for (key, expected, list) in [
        (Some("a"), &["shared", "s__x", "s__both"][..], Some(&lists[0])),
        (Some("A"), &["shared", "s__both", "s__y"], Some(&lists[1])),
        (Some("b"), &["shared"], None),
        (None, &["shared"], None),
    ] {
        let snapshot = registry.snapshot_of(key);
        assert_eq!(names(&snapshot), expected, "{key:?}");
        let both = snapshot.find("s__both");
        assert_eq!(both.map(|tool| &*tool.spec.description), list.map(|_| "ruled"), "{key:?}");
        if let (Some(both), Some(list)) = (both, list) {
            let own = both.provider.tools();
            assert!(own.iter().zip(list.tools()).all(|(one, other)| Arc::ptr_eq(one, &other)), "{key:?}");
        }
        assert!(snapshot.find("s__off").is_none() && snapshot.find("s__hidden").is_none(), "{key:?}");
    }
}

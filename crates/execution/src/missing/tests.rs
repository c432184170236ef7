use super::*;
use crate::{
    ExecutionSettings, Permission, PermissionRule, Status, ToolRules,
    double::{Scripted, asker, run, spec, stage},
};
use toolwire_pipeline::conversation::{Role, Turn};

/// A server without tools, in this state.
fn away(state: ProviderState) -> Arc<Scripted> {
    let provider = Scripted::new(Vec::new(), []);
    *provider.status.lock() = Status { state, reason: Some("its own words".to_owned()), ..Status::default() };
    provider
}

fn denied(tool: &str, permission: Permission) -> PermissionRule {
    PermissionRule { key: None, model: None, tool: Some(tool.to_owned()), domain: None, permission }
}

/// What is said about a server `Files` that cannot be used, under these settings.
fn said(settings: ExecutionSettings) -> Vec<String> {
    let provider = away(ProviderState::Failed);
    run(async { stage(settings, &[("Files", &provider)]).missing(&asker()) })
}

#[test]
fn model_and_client_learn_why_tools_are_missing() {
    let ready = Scripted::new(vec![spec("calc")], []);
    let failed = away(ProviderState::Failed);
    let providers = [
        ("login", away(ProviderState::NeedsLogin)),
        ("down", Arc::clone(&failed)),
        ("gone", away(ProviderState::Restarting)),
        ("new", away(ProviderState::Starting)),
        ("empty", away(ProviderState::Ready)),
        ("p", ready),
    ];
    let providers: Vec<_> = providers.iter().map(|(name, provider)| (*name, provider)).collect();
    run(async {
        let execution = stage(ExecutionSettings::default(), &providers);
        let turns = vec![Turn::text(Role::System, "Be brief."), Turn::text(Role::User, "hi")];
        let asked = Conversation { turns, ..Conversation::default() };
        let mut conversation = asked.clone();
        let offer = execution.offer_with(&mut conversation, &[], asker(), Default::default());
        let sentences = [
            "The tools of `login` are missing: a person must log in at its server.",
            "The tools of `down` are missing: its server cannot be used at the moment.",
            "The tools of `gone` are missing: its server cannot be used at the moment.",
            "The tools of `new` are missing: its server is starting.",
        ];
        assert!(offer.turn.is_some() && offer.warnings.iter().all(|warning| warning.code == "tools_missing"));
        assert_eq!(offer.warnings.iter().map(|warning| &*warning.message).collect::<Vec<_>>(), sentences);
        let [system, _] = &conversation.turns[..] else { panic!("no other turn") };
        assert_eq!(system.joined_text(), format!("Be brief.\n\n{HEAD}\n{}", sentences.join("\n")));
        // A client that lets the model choose no tools, or only others, does not miss any.
        for tool_choice in [ToolChoice::None, ToolChoice::Named("calc".to_owned())] {
            let mut conversation = Conversation { tool_choice, ..asked.clone() };
            let offer = execution.offer_with(&mut conversation, &[], asker(), Default::default());
            assert_eq!((offer.warnings, conversation.turns), (Vec::new(), asked.turns.clone()));
        }
        // Tools that stay listed while the server is restarted are not missing.
        failed.specs.lock().push(Arc::new(spec("down__read")));
        assert_eq!(execution.missing(&asker()).len(), 3);
        assert_eq!(execution.why_missing("gone__read", &asker()).as_deref(), Some(sentences[2]));
        assert_eq!(execution.why_missing("p__read", &asker()), None);
    });
}

#[test]
fn tools_that_rules_keep_from_a_client_are_not_missing() {
    assert_eq!(said(ExecutionSettings::default()).len(), 1);
    let off = ToolRules { injection: Injection::Off, ..ToolRules::default() };
    let ruled = |name: &str| ExecutionSettings {
        tools: [(name.to_owned(), off.clone())].into(),
        ..ExecutionSettings::default()
    };
    assert_eq!((said(ruled("Files__*")).len(), said(ruled("files__write")).len()), (0, 1));
    let permitted = |default, rules: Vec<PermissionRule>| {
        let mut settings = ExecutionSettings::default();
        settings.permissions.default = default;
        settings.permissions.rules = rules.into_iter().map(PermissionRule::normalized).collect();
        said(settings).len()
    };
    assert_eq!(permitted(Permission::Deny, Vec::new()), 0);
    assert_eq!(permitted(Permission::Deny, vec![denied("Files__read", Permission::Ask)]), 1);
    assert_eq!(permitted(Permission::Deny, vec![denied("filesystem__read", Permission::Allow)]), 0);
    assert_eq!(permitted(Permission::Allow, vec![denied("Files__*", Permission::Deny)]), 0);
}
